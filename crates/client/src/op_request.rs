//! A command whose body may leave something out, before it is sent.

use std::pin::Pin;

use boxoffice_core::{
    command::{Details, Shipping},
    id::Entity,
    text::Comments,
};
use boxoffice_wire::{AnsweredOp, body};

use crate::{
    client::Client,
    error::{Error, Reply},
};

/// A command with this body. It is sent when it is awaited. Before that, [`OpRequest::with`] and the methods that are named after a
/// field set what the body may leave out.
#[derive(Clone, Debug)]
#[must_use = "a command is sent when it is awaited"]
pub struct OpRequest<B> {
    client: Client,
    entity: Entity,
    body: B,
}

impl<B> OpRequest<B> {
    pub(crate) fn new(client: &Client, entity: Entity, body: B) -> OpRequest<B> {
        OpRequest { client: client.clone(), entity, body }
    }

    /// Sets fields of the body.
    pub fn with(mut self, set: impl FnOnce(&mut B)) -> OpRequest<B> {
        set(&mut self.body);
        self
    }
}

impl OpRequest<body::HallPut> {
    /// Comments. They need a node that speaks protocol 1.1.
    pub fn comments(self, comments: impl AsRef<str>) -> Self {
        self.with(|body| body.comments = Comments::as_said(comments.as_ref()))
    }
}

impl OpRequest<body::HoldSeats> {
    /// Holds those of the seats that are free, at least one.
    pub fn best_effort(self) -> Self {
        self.with(|body| body.best_effort = true)
    }
}

impl OpRequest<body::ResourceReserve> {
    /// Details of the booking.
    pub fn details(self, details: impl AsRef<str>) -> Self {
        self.with(|body| body.details = Details::as_said(details.as_ref()))
    }
}

impl OpRequest<body::HoldSlot> {
    /// Details of the booking. They need a node that speaks protocol 1.1.
    pub fn details(self, details: impl AsRef<str>) -> Self {
        self.with(|body| body.details = Details::as_said(details.as_ref()))
    }
}

impl OpRequest<body::Checkout> {
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

impl<B> IntoFuture for OpRequest<B>
where
    B: AnsweredOp<Answer: Send + 'static> + Send + Sync + 'static,
{
    type Output = Result<Reply<B::Answer>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let OpRequest { client, entity, body } = self;
        Box::pin(async move { client.ask_of(&entity, &body).await })
    }
}
