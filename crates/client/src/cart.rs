//! A cart: the token that opens it, and what can be done with it.

use boxoffice_core::{
    answer::{CartView, Held},
    command::{BestWish, Payment, Want, WantedLine},
    id::{CartId, CartToken, Id},
    seat::Seat,
};
use boxoffice_wire::{Op, body, form, reply::OrderView};

use crate::{
    client::Client,
    error::{Error, Reply},
    request_id::random_u64,
};

/// One buyer's cart. Its token is made here and is all there is to keep: whoever has it owns the cart.
#[derive(Clone, Debug)]
pub struct Cart {
    client: Client,
    token: CartToken,
    id: CartId,
}

impl Cart {
    /// A new cart. Nothing is sent yet: the first hold opens it.
    pub fn new(client: &Client) -> Cart {
        Cart::with_token(client, CartToken(u128::from(random_u64()) << 64 | u128::from(random_u64())))
    }

    /// The cart of a token that was kept.
    pub fn with_token(client: &Client, token: CartToken) -> Cart {
        Cart { client: client.clone(), token, id: token.cart() }
    }

    /// The cart of a token kept as text; `None` if that is no token.
    pub fn with_token_text(client: &Client, token: &str) -> Option<Cart> {
        form::cart_token(token).map(|token| Cart::with_token(client, token))
    }

    /// Its id, which is no secret.
    pub fn id(&self) -> CartId {
        self.id
    }

    /// Its token.
    pub fn token(&self) -> CartToken {
        self.token
    }

    /// Its token as text, to be kept: 32 hexadecimal digits.
    pub fn token_text(&self) -> String {
        form::cart_token_text(self.token)
    }

    /// The same cart for one command under this request id, as [`Client::with_request_id`].
    pub fn with_request_id(&self, request_id: impl AsRef<str>) -> Cart {
        Cart { client: self.client.with_request_id(request_id), ..self.clone() }
    }

    /// The same cart with another deadline for its requests.
    pub fn with_deadline(&self, deadline: std::time::Duration) -> Cart {
        Cart { client: self.client.with_deadline(deadline), ..self.clone() }
    }

    /// `cart.open`: only needed to name the customer or a time to live before the first hold.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn open(&self, customer: Option<Id>, ttl_ms: Option<u64>) -> Result<Reply<CartView>, Error> {
        let body = body::CartOpen { token: self.token, cart: None, customer, ttl_ms };
        self.client.change(Op::CartOpen, &body).await
    }

    /// `cart.get`: what it holds, and until when.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn get(&self) -> Result<Reply<CartView>, Error> {
        self.client.read(Op::CartGet, &self.only()).await
    }

    /// `cart.hold_seats`: these seats, all or none.
    ///
    /// # Errors
    /// As every op: [`Error`]; `seats_taken` names every seat that stood in the way.
    pub async fn hold_seats(&self, session: &Id, seats: impl IntoIterator<Item = Seat>) -> Result<Reply<Held>, Error> {
        self.hold(session, seats, false).await
    }

    /// `cart.hold_seats` with `best_effort`: as many of these seats as are free, but at least one.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn hold_what_is_free(
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
        let seats = seats.into_iter().collect();
        let body = body::HoldSeats { token: self.token, cart: None, session: session.clone(), seats, best_effort };
        self.client.change(Op::CartHoldSeats, &body).await
    }

    /// `cart.hold_best`: the best neighbouring seats there are.
    ///
    /// # Errors
    /// As every op: [`Error`]; `no_adjacent_seats` if there is no such run.
    pub async fn hold_best(&self, session: &Id, wish: BestWish) -> Result<Reply<Held>, Error> {
        let BestWish { count, category, section, accessible, split } = wish;
        let (token, session) = (self.token, session.clone());
        let body = body::HoldBest { token, cart: None, session, count, category, section, accessible, split };
        self.client.change(Op::CartHoldBest, &body).await
    }

    /// `cart.hold_all`: several lines, also of several sessions, all or none.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn hold_all(&self, lines: impl IntoIterator<Item = WantedLine>) -> Result<Reply<Held>, Error> {
        let lines = lines.into_iter().map(line).collect();
        self.client.change(Op::CartHoldAll, &body::HoldAll { token: self.token, cart: None, lines }).await
    }

    /// `cart.release`: gives a line back, or these seats of it.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn release(&self, line: u32, seats: Option<Vec<Seat>>) -> Result<Reply<CartView>, Error> {
        self.client.change(Op::CartRelease, &body::Release { token: self.token, cart: None, line, seats }).await
    }

    /// `cart.cancel`: gives everything back and ends the cart.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn cancel(&self) -> Result<Reply<CartView>, Error> {
        self.client.change(Op::CartCancel, &self.only()).await
    }

    /// `cart.checkout`: buys what it holds.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn checkout(&self, payment: Payment, customer: Option<Id>) -> Result<Reply<OrderView>, Error> {
        let Payment::Recorded { method, transaction_id } = payment;
        let payment = body::PaymentBody { recorded: Some(body::RecordedPayment { method, transaction_id }) };
        self.client.change(Op::CartCheckout, &body::Checkout { token: self.token, cart: None, payment, customer }).await
    }

    fn only(&self) -> body::CartOnly {
        body::CartOnly { token: self.token, cart: None }
    }
}

/// A payment made elsewhere: how, and the payer's reference.
pub fn recorded(method: impl AsRef<str>, transaction_id: impl AsRef<str>) -> Payment {
    Payment::Recorded { method: method.as_ref().into(), transaction_id: transaction_id.as_ref().into() }
}

fn line(WantedLine { session, want }: WantedLine) -> body::Line {
    let none = body::Line {
        session,
        seats: None,
        best_effort: false,
        count: None,
        category: None,
        section: None,
        accessible: 0,
        split: false,
    };
    match want {
        Want::Seats { seats, best_effort } => {
            body::Line { seats: Some(seats.as_slice().to_vec()), best_effort, ..none }
        }
        Want::Best(BestWish { count, category, section, accessible, split }) => {
            body::Line { count: Some(count), category, section, accessible, split, ..none }
        }
    }
}
