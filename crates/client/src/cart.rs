//! A cart: its token, and a method for each op on it.

use boxoffice_core::{
    command::Payment,
    id::{CartId, CartToken, Entity, Id},
    payment::OnDecline,
    portion::Note,
    seat::Seat,
    time::Timestamp,
};
use boxoffice_wire::{body, repr, view::CartView};

use crate::{
    client::Client,
    error::{Error, Reply},
    live::LiveCart,
    op_request::OpRequest,
    request_id::random_u64,
    watch::Watch,
};

/// A wish for the best free seats of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestWish {
    /// 1 to 20.
    pub count: u16,
    /// Only of this category.
    pub category: Option<Id>,
    /// Only in this section.
    pub section: Option<Id>,
    /// Exactly how many of them are accessible.
    pub accessible: u16,
    /// If no run is long enough, take several.
    pub split: bool,
}

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
        self.request(body::CartOpen { customer, ttl_ms, ..body::CartOpen::of(self.token) }).await
    }

    /// `cart.get`: the cart's lines and deadline.
    pub async fn get(&self) -> Result<Reply<CartView>, Error> {
        self.client.ask_of(&self.entity(), &body::CartGet(body::CartOnly::of(self.token))).await
    }

    /// `cart.hold_seats`: holds these seats, all or none.
    ///
    /// # Errors
    /// `seats_taken` names every seat that is taken.
    pub fn hold_seats(&self, session: &Id, seats: impl IntoIterator<Item = Seat>) -> OpRequest<body::HoldSeats> {
        let body = body::HoldSeats::of(self.token, session.clone(), seats.into_iter().collect());
        self.request(body::HoldSeats { customer: self.customer.clone(), ..body })
    }

    /// `cart.hold_best`: holds the best adjacent seats.
    ///
    /// # Errors
    /// `no_adjacent_seats` if there are not enough adjacent seats.
    pub fn hold_best(&self, session: &Id, wish: BestWish) -> OpRequest<body::HoldBest> {
        let BestWish { count, category, section, accessible, split } = wish;
        let (customer, body) = (self.customer.clone(), body::HoldBest::of(self.token, session.clone(), count));
        self.request(body::HoldBest { customer, category, section, accessible, split, ..body })
    }

    /// `cart.hold_places`: holds places in an area of a session.
    ///
    /// # Errors
    /// `not_enough_places` says how many are free.
    pub fn hold_places(&self, session: &Id, area: &Id, quantity: u32) -> OpRequest<body::HoldPlaces> {
        let body = body::HoldPlaces::of(self.token, session.clone(), area.clone(), quantity.into());
        self.request(body::HoldPlaces { customer: self.customer.clone(), ..body })
    }

    /// `cart.hold_stock`: holds units of a product. They are added to the line of that product, if the cart has one.
    ///
    /// # Errors
    /// `out_of_stock` says how many are free.
    pub fn hold_stock(&self, product: &Id, quantity: u32) -> OpRequest<body::HoldStock> {
        let body = body::HoldStock::of(self.token, product.clone(), quantity.into());
        self.request(body::HoldStock { customer: self.customer.clone(), ..body })
    }

    /// `cart.hold_slot`: holds the time `[begin, end)` of a resource.
    ///
    /// # Errors
    /// `slot_taken` names the conflicts.
    pub fn hold_slot(&self, resource: &Id, begin: Timestamp, end: Timestamp) -> OpRequest<body::HoldSlot> {
        let body = body::HoldSlot::of(self.token, resource.clone(), begin, end);
        self.request(body::HoldSlot { customer: self.customer.clone(), ..body })
    }

    /// `cart.hold_all`: holds several lines, all or none. They may be of different sessions, products and resources.
    ///
    /// # Errors
    /// The refusal names every line that was refused.
    pub fn hold_all(&self, lines: impl IntoIterator<Item = body::Line>) -> OpRequest<body::HoldAll> {
        let body = body::HoldAll::of(self.token, lines.into_iter().collect());
        self.request(body::HoldAll { customer: self.customer.clone(), ..body })
    }

    /// `cart.set_quantity`: changes a line to this many units or places in total. 0 ends the line.
    ///
    /// # Errors
    /// If not enough are free, the old quantity stays.
    pub fn set_quantity(&self, line: u32, quantity: u32) -> OpRequest<body::SetQuantity> {
        self.request(body::SetQuantity::of(self.token, line, quantity.into()))
    }

    /// `cart.set_note`: changes the note of a line. An empty one ends it. Needs a node that speaks protocol 1.5.
    pub fn set_note(&self, line: u32, note: impl AsRef<str>) -> OpRequest<body::SetNote> {
        self.request(body::SetNote::of(self.token, line, Note::as_said(note.as_ref())))
    }

    /// `cart.release`: releases a line, or these seats of it.
    pub fn release(&self, line: u32, seats: Option<Vec<Seat>>) -> OpRequest<body::Release> {
        self.request(body::Release { seats, ..body::Release::of(self.token, line) })
    }

    /// `cart.cancel`: releases everything and ends the cart.
    pub fn cancel(&self) -> OpRequest<body::CartCancel> {
        self.request(body::CartCancel(body::CartOnly::of(self.token)))
    }

    /// `cart.checkout_cancel`: ends the attempt to pay that is under way, and leaves the cart active. Needs a node that speaks
    /// protocol 1.5.
    ///
    /// # Errors
    /// `cart_not_active` if the order is decided already.
    pub fn cancel_checkout(&self) -> OpRequest<body::CartCheckoutCancel> {
        self.request(body::CartCheckoutCancel(body::CartOnly::of(self.token)))
    }

    /// `cart.checkout`: buys what the cart holds.
    ///
    /// # Errors
    /// Every repeat of a request that got `payment_declined` or `amount_mismatch` gets the same answer. Use a new
    /// request id to try another card. `payment_pending` means that the outcome is not known yet. Repeat the request
    /// with the same request id.
    pub fn checkout(&self, payment: Payment, customer: Option<Id>) -> OpRequest<body::Checkout> {
        let customer = customer.or_else(|| self.customer.clone());
        let body = body::Checkout::of(self.token, payment.into());
        self.request(body::Checkout { customer, ..body })
    }

    /// `watch`: follows the cart's lines, its deadline and its end. The watch starts with the first [`Watch::next`].
    pub fn watch(&self) -> Watch<LiveCart> {
        Watch::new(self.client.clone(), self.entity(), Some(self.token), None)
    }

    fn entity(&self) -> Entity {
        Entity::Cart(self.id)
    }

    fn request<B>(&self, body: B) -> OpRequest<B> {
        OpRequest::new(&self.client, self.entity(), body)
    }
}

macro_rules! noted {
    ($($hold:ident),+) => {$(
        impl OpRequest<body::$hold> {
            /// A note at the line. Needs a node that speaks protocol 1.4.
            pub fn note(self, note: impl AsRef<str>) -> Self {
                self.with(|body| body.note = Note::as_said(note.as_ref()))
            }
        }
    )+};
}

noted!(HoldSeats, HoldBest, HoldPlaces, HoldStock, HoldSlot);

macro_rules! offered {
    ($($hold:ident),+) => {$(
        impl OpRequest<body::$hold> {
            /// The price type of all of them, or of each in their order. Needs a node that speaks protocol 1.6.
            pub fn types(self, types: impl IntoIterator<Item = Id>) -> Self {
                self.with(|body| body.types = types.into_iter().collect())
            }

            /// The offer to buy under. Needs a node that speaks protocol 1.6.
            pub fn offer(self, offer: Id) -> Self {
                self.with(|body| body.offer = Some(offer))
            }

            /// A code that the buyer has. Needs a node that speaks protocol 1.6.
            pub fn code(self, code: Option<&Id>) -> Self {
                self.with(|body| body.code = code.cloned())
            }
        }
    )+};
}

offered!(HoldSeats, HoldBest, HoldPlaces);

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
