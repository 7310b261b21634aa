//! A cart: its token, and a method for each op on it.

use boxoffice_core::{
    answer::{CartView, Held},
    command::{BestWish, Payment, Shipping, WantedLine},
    id::{CartId, CartToken, Entity, Id},
    payment::OnDecline,
    seat::Seat,
    time::Timestamp,
};
use boxoffice_wire::{Op, body, reply::OrderView, repr};
use smol_str::SmolStr;

use crate::{
    client::Client,
    error::{Error, Reply},
    live::LiveCart,
    request_id::random_u64,
    watch::Watch,
};

/// One buyer's cart. The client makes the cart's token. Keep the token to come back to the cart, and keep it secret, because
/// it is the only credential that the cart needs. To let someone else pay for a cart, give them its token.
#[derive(Clone, Debug)]
pub struct Cart {
    client: Client,
    token: CartToken,
    id: CartId,
    customer: Option<Id>,
}

impl Cart {
    /// A new cart in any shard. Sends nothing. The first hold opens the cart.
    pub fn new(client: &Client) -> Cart {
        Cart::with_token(client, CartToken(random_u128()))
    }

    /// A new cart in the shard of `entity`. Pass the first entity that the cart will hold something of, so that fewer
    /// nodes take part in each hold.
    pub fn beside(client: &Client, entity: &Entity) -> Cart {
        Cart::with_token(client, CartToken::beside(entity, random_u128()))
    }

    /// The cart with this token.
    pub fn with_token(client: &Client, token: CartToken) -> Cart {
        Cart { client: client.clone(), token, id: token.cart(), customer: None }
    }

    /// The cart with this token as text. `None` if the text is not a token.
    pub fn with_token_text(client: &Client, token: &str) -> Option<Cart> {
        repr::cart_token(token).map(|token| Cart::with_token(client, token))
    }

    /// The cart's id, which is not secret.
    pub fn id(&self) -> CartId {
        self.id
    }

    /// The cart's token. It is secret.
    pub fn token(&self) -> CartToken {
        self.token
    }

    /// The token as text: 32 hexadecimal digits.
    pub fn token_text(&self) -> String {
        repr::cart_token_text(self.token)
    }

    /// The same cart for this customer. Holds name the customer, if the cart does not have one yet.
    pub fn with_customer(&self, customer: &Id) -> Cart {
        Cart { customer: Some(customer.clone()), ..self.clone() }
    }

    /// The same cart for one command under this request id. See [`Client::with_request_id`].
    pub fn with_request_id(&self, request_id: impl AsRef<str>) -> Cart {
        Cart { client: self.client.with_request_id(request_id), ..self.clone() }
    }

    /// The same cart with another deadline for its requests.
    pub fn with_deadline(&self, deadline: std::time::Duration) -> Cart {
        Cart { client: self.client.with_deadline(deadline), ..self.clone() }
    }

    /// The same cart of a buyer who waits this long after asking for a hold. See
    /// [`crate::ClientConfig::patience`].
    pub fn with_patience(&self, patience: std::time::Duration) -> Cart {
        Cart { client: self.client.with_patience(patience), ..self.clone() }
    }

    /// `cart.open`: opens the cart. Only needed to name the customer or a time to live before the first hold.
    pub async fn open(&self, customer: Option<Id>, ttl_ms: Option<u64>) -> Result<Reply<CartView>, Error> {
        let body = body::CartOpen { token: self.token, cart: None, customer, ttl_ms };
        self.client.change_of(&self.entity(), Op::CartOpen, &body).await
    }

    /// `cart.get`: the cart's lines and deadline.
    pub async fn get(&self) -> Result<Reply<CartView>, Error> {
        self.client.read_of(&self.entity(), Op::CartGet, &self.token_body()).await
    }

    /// `cart.hold_seats`: holds these seats, all or none.
    ///
    /// # Errors
    /// `seats_taken` names every seat that is taken.
    pub async fn hold_seats(&self, session: &Id, seats: impl IntoIterator<Item = Seat>) -> Result<Reply<Held>, Error> {
        self.hold(session, seats, false).await
    }

    /// `cart.hold_seats` with `best_effort`: holds those of the seats that are free, at least one.
    pub async fn hold_seats_best_effort(
        &self,
        session: &Id,
        seats: impl IntoIterator<Item = Seat>,
    ) -> Result<Reply<Held>, Error> {
        self.hold(session, seats, true).await
    }

    async fn hold(
        &self,
        session: &Id,
        seats: impl IntoIterator<Item = Seat>,
        best_effort: bool,
    ) -> Result<Reply<Held>, Error> {
        let (token, customer, session) = (self.token, self.customer.clone(), session.clone());
        let seats = seats.into_iter().collect();
        let body = body::HoldSeats { token, cart: None, customer, session, seats, best_effort };
        self.client.change_of(&self.entity(), Op::CartHoldSeats, &body).await
    }

    /// `cart.hold_best`: holds the best adjacent seats.
    ///
    /// # Errors
    /// `no_adjacent_seats` if there are not enough adjacent seats.
    pub async fn hold_best(&self, session: &Id, wish: BestWish) -> Result<Reply<Held>, Error> {
        let BestWish { count, category, section, accessible, split } = wish;
        let (token, customer, session) = (self.token, self.customer.clone(), session.clone());
        let body = body::HoldBest { token, cart: None, customer, session, count, category, section, accessible, split };
        self.client.change_of(&self.entity(), Op::CartHoldBest, &body).await
    }

    /// `cart.hold_places`: holds places in an area of a session.
    ///
    /// # Errors
    /// `not_enough_places` says how many are free.
    pub async fn hold_places(&self, session: &Id, area: &Id, quantity: u32) -> Result<Reply<Held>, Error> {
        let body = body::HoldPlaces {
            token: self.token,
            cart: None,
            customer: self.customer.clone(),
            session: session.clone(),
            area: area.clone(),
            quantity: quantity.into(),
        };
        self.client.change_of(&self.entity(), Op::CartHoldPlaces, &body).await
    }

    /// `cart.hold_stock`: holds units of a product. They are added to the line of that product, if the cart has one.
    ///
    /// # Errors
    /// `out_of_stock` says how many are free.
    pub async fn hold_stock(&self, product: &Id, quantity: u32) -> Result<Reply<Held>, Error> {
        let body = body::HoldStock {
            token: self.token,
            cart: None,
            customer: self.customer.clone(),
            product: product.clone(),
            quantity: quantity.into(),
        };
        self.client.change_of(&self.entity(), Op::CartHoldStock, &body).await
    }

    /// `cart.hold_slot`: holds the time `[begin, end)` of a resource.
    ///
    /// # Errors
    /// `slot_taken` names the conflicts.
    pub async fn hold_slot(&self, resource: &Id, begin: Timestamp, end: Timestamp) -> Result<Reply<Held>, Error> {
        self.hold_slot_with_details(resource, begin, end, "").await
    }

    /// `cart.hold_slot` with details of the booking. Needs a node that speaks protocol 1.1.
    ///
    /// # Errors
    /// `slot_taken` names the conflicts.
    pub async fn hold_slot_with_details(
        &self,
        resource: &Id,
        begin: Timestamp,
        end: Timestamp,
        details: impl AsRef<str>,
    ) -> Result<Reply<Held>, Error> {
        let (customer, resource, details) = (self.customer.clone(), resource.clone(), SmolStr::new(details));
        let body = body::HoldSlot { token: self.token, cart: None, customer, resource, begin, end, details };
        self.client.change_of(&self.entity(), Op::CartHoldSlot, &body).await
    }

    /// `cart.hold_all`: holds several lines, all or none. They may be of different sessions, products and resources.
    ///
    /// # Errors
    /// The refusal names every line that was refused.
    pub async fn hold_all(&self, lines: impl IntoIterator<Item = WantedLine>) -> Result<Reply<Held>, Error> {
        let lines = lines.into_iter().map(body::Line::from).collect();
        let body = body::HoldAll { token: self.token, cart: None, customer: self.customer.clone(), lines };
        self.client.change_of(&self.entity(), Op::CartHoldAll, &body).await
    }

    /// `cart.set_quantity`: changes a line to this many units or places in total. 0 ends the line.
    ///
    /// # Errors
    /// If not enough are free, the old quantity stays.
    pub async fn set_quantity(&self, line: u32, quantity: u32) -> Result<Reply<CartView>, Error> {
        let body = body::SetQuantity { token: self.token, cart: None, line, quantity: quantity.into() };
        self.client.change_of(&self.entity(), Op::CartSetQuantity, &body).await
    }

    /// `cart.release`: releases a line, or these seats of it.
    pub async fn release(&self, line: u32, seats: Option<Vec<Seat>>) -> Result<Reply<CartView>, Error> {
        self.client
            .change_of(&self.entity(), Op::CartRelease, &body::Release { token: self.token, cart: None, line, seats })
            .await
    }

    /// `cart.cancel`: releases everything and ends the cart.
    pub async fn cancel(&self) -> Result<Reply<CartView>, Error> {
        self.client.change_of(&self.entity(), Op::CartCancel, &self.token_body()).await
    }

    /// `cart.checkout_cancel`: ends the attempt to pay that is under way, and leaves the cart active. Needs a node that speaks
    /// protocol 1.5.
    ///
    /// # Errors
    /// `cart_not_active` if the order is decided already.
    pub async fn cancel_checkout(&self) -> Result<Reply<CartView>, Error> {
        self.client.change_of(&self.entity(), Op::CartCheckoutCancel, &self.token_body()).await
    }

    /// `cart.checkout`: buys what the cart holds.
    pub async fn checkout(&self, payment: Payment, customer: Option<Id>) -> Result<Reply<OrderView>, Error> {
        self.checkout_to(payment, customer, None).await
    }

    /// `cart.checkout`: buys what the cart holds, with a shipping address.
    ///
    /// # Errors
    /// Every repeat of a request that got `payment_declined` or `amount_mismatch` gets the same answer. Use a new
    /// request id to try another card. `payment_pending` means that the outcome is not known yet. Repeat the request
    /// with the same request id.
    pub async fn checkout_to(
        &self,
        payment: Payment,
        customer: Option<Id>,
        shipping: Option<Shipping>,
    ) -> Result<Reply<OrderView>, Error> {
        self.checkout_expecting(payment, customer, shipping, None).await
    }

    /// `cart.checkout`: buys what the cart holds, if that is what the buyer has seen. `expect` is the total that the
    /// buyer has seen, or the [`CartView::lines_version`].
    ///
    /// # Errors
    /// `cart_differs` with both figures if the cart has changed.
    pub async fn checkout_expecting(
        &self,
        payment: Payment,
        customer: Option<Id>,
        shipping: Option<Shipping>,
        expect: Option<body::Figure>,
    ) -> Result<Reply<OrderView>, Error> {
        let customer = customer.or_else(|| self.customer.clone());
        let (payment, shipping) = (payment.into(), shipping.map(body::ShippingBody::from));
        let body = body::Checkout { token: self.token, cart: None, payment, customer, shipping, expect };
        self.client.change_of(&self.entity(), Op::CartCheckout, &body).await
    }

    /// `watch`: follows the cart's lines, its deadline and its end. The watch starts with the first [`Watch::next`].
    pub fn watch(&self) -> Watch<LiveCart> {
        Watch::new(self.client.clone(), self.entity(), Some(self.token), None)
    }

    fn entity(&self) -> Entity {
        Entity::Cart(self.id)
    }

    fn token_body(&self) -> body::CartOnly {
        body::CartOnly { token: self.token, cart: None }
    }
}

fn random_u128() -> u128 {
    u128::from(random_u64()) << 64 | u128::from(random_u64())
}

/// A payment that was made elsewhere: the method, and the payer's reference.
pub fn recorded(method: impl AsRef<str>, transaction_id: impl AsRef<str>) -> Payment {
    Payment::Recorded { method: method.as_ref().into(), transaction_id: transaction_id.as_ref().into() }
}

/// A payment through the node's payment gateway: the token that the buyer got from the gateway, and what happens to the
/// cart if the payment is declined.
pub fn gateway(source: impl AsRef<str>, on_decline: Option<OnDecline>) -> Payment {
    Payment::Gateway { source: source.as_ref().into(), on_decline }
}
