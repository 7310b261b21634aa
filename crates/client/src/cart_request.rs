//! A command to a cart before it is sent.

use std::{marker::PhantomData, pin::Pin};

use boxoffice_core::{
    answer::Held,
    command::{Details, Shipping},
    id::Entity,
};
use boxoffice_wire::{
    Op, body,
    reply::{FromBody, OrderView},
};
use serde::Serialize;

use crate::{
    client::Client,
    error::{Error, Reply},
};

/// A command to a cart. It is sent when it is awaited. Before that, [`CartRequest::with`] and the methods that are named after a
/// field set what the body may leave out.
#[derive(Clone, Debug)]
#[must_use = "a command is sent when it is awaited"]
pub struct CartRequest<B, T> {
    client: Client,
    entity: Entity,
    op: Op,
    body: B,
    answer: PhantomData<fn() -> T>,
}

impl<B, T> CartRequest<B, T> {
    pub(crate) fn new(client: &Client, entity: Entity, op: Op, body: B) -> CartRequest<B, T> {
        CartRequest { client: client.clone(), entity, op, body, answer: PhantomData }
    }

    /// Sets fields of the body.
    pub fn with(mut self, set: impl FnOnce(&mut B)) -> CartRequest<B, T> {
        set(&mut self.body);
        self
    }
}

impl CartRequest<body::HoldSeats, Held> {
    /// Holds those of the seats that are free, at least one.
    pub fn best_effort(self) -> Self {
        self.with(|body| body.best_effort = true)
    }
}

impl CartRequest<body::HoldSlot, Held> {
    /// Details of the booking. They need a node that speaks protocol 1.1.
    pub fn details(self, details: impl AsRef<str>) -> Self {
        self.with(|body| body.details = Details::as_said(details.as_ref()))
    }
}

impl CartRequest<body::Checkout, OrderView> {
    /// The shipping address.
    pub fn shipping(self, shipping: Shipping) -> Self {
        self.with(|body| body.shipping = Some(shipping.into()))
    }

    /// What the buyer has seen: the total, or the [`lines_version`](boxoffice_core::answer::CartView::lines_version). The checkout
    /// is refused with `cart_differs` and both figures if the cart has changed.
    pub fn expecting(self, seen: body::Figure) -> Self {
        self.with(|body| body.expect = Some(seen))
    }
}

impl<B, T> IntoFuture for CartRequest<B, T>
where
    B: Serialize + Send + Sync + 'static,
    T: FromBody + Send + 'static,
{
    type Output = Result<Reply<T>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let CartRequest { client, entity, op, body, answer: _ } = self;
        Box::pin(async move { client.send_of(&entity, op, &body).await })
    }
}
