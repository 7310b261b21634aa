//! The commands of a batch.

use std::sync::Arc;

use boxoffice_core::{
    command::{CodeDetails, NewSession, ProductDetails, ResourceDetails, Title, VenueDetails},
    id::Id,
    layout::Layout,
    seat::Seat,
    text::{Comments, Name},
};
use boxoffice_wire::{Op, body, reply::BatchItem};
use serde::Serialize;
use smol_str::SmolStr;

/// A command of a batch. It covers the ops that importers need. Each command has its own request id, so a batch can be
/// repeated.
#[derive(Clone, Debug)]
pub struct BatchCommand {
    request_id: SmolStr,
    body: BatchBody,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum BatchBody {
    Venue(body::VenuePut),
    Hall(body::HallPut),
    Session(body::SessionCreate),
    Block(body::SessionSeats),
    Title(body::TitlePut),
    Product(body::ProductPut),
    Resource(Box<body::ResourcePut>),
    Code(body::CodePut),
}

impl BatchCommand {
    /// `venue.put`.
    pub fn venue_put(request_id: impl AsRef<str>, id: &Id, details: VenueDetails) -> BatchCommand {
        let body = body::VenuePut::new(id.clone(), details);
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Venue(body) }
    }

    /// `hall.put`.
    pub fn hall_put(
        request_id: impl AsRef<str>,
        venue: &Id,
        id: &Id,
        name: impl AsRef<str>,
        layout: Arc<Layout>,
    ) -> BatchCommand {
        let body = body::HallPut::of(venue.clone(), id.clone(), Name::as_said(name.as_ref()), layout);
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Hall(body) }
    }

    /// The same `hall.put` with comments, which need a node that speaks protocol 1.1. No effect on other commands,
    /// which take their comments with their details.
    #[must_use]
    pub fn with_comments(mut self, comments: impl AsRef<str>) -> BatchCommand {
        if let BatchBody::Hall(body) = &mut self.body {
            body.comments = Comments::as_said(comments.as_ref());
        }
        self
    }

    /// `session.create`.
    pub fn session_create(request_id: impl AsRef<str>, venue: &Id, session: NewSession) -> BatchCommand {
        let body = body::SessionCreate::new(venue.clone(), session);
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Session(body) }
    }

    /// `session.block`.
    pub fn session_block(request_id: impl AsRef<str>, id: &Id, seats: impl IntoIterator<Item = Seat>) -> BatchCommand {
        let body = body::SessionSeats { id: id.clone(), seats: seats.into_iter().collect() };
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Block(body) }
    }

    /// `title.put`.
    pub fn title_put(request_id: impl AsRef<str>, id: &Id, title: Title) -> BatchCommand {
        let body = BatchBody::Title(body::TitlePut::new(id.clone(), title));
        BatchCommand { request_id: SmolStr::new(request_id), body }
    }

    /// `product.put`.
    pub fn product_put(request_id: impl AsRef<str>, id: &Id, details: ProductDetails) -> BatchCommand {
        let body = BatchBody::Product(body::ProductPut::new(id.clone(), details));
        BatchCommand { request_id: SmolStr::new(request_id), body }
    }

    /// `resource.put`.
    pub fn resource_put(request_id: impl AsRef<str>, id: &Id, details: ResourceDetails) -> BatchCommand {
        let body = BatchBody::Resource(Box::new(body::ResourcePut::new(id.clone(), details)));
        BatchCommand { request_id: SmolStr::new(request_id), body }
    }

    /// `code.put`.
    pub fn code_put(request_id: impl AsRef<str>, code: &Id, details: CodeDetails) -> BatchCommand {
        let body = BatchBody::Code(body::CodePut::new(code.clone(), details));
        BatchCommand { request_id: SmolStr::new(request_id), body }
    }

    pub(crate) fn item(&self) -> BatchItem<'_, impl Serialize> {
        BatchItem { op: self.op().name(), rid: Some(self.request_id.as_str().into()), body: &self.body }
    }

    fn op(&self) -> Op {
        match &self.body {
            BatchBody::Venue(_) => Op::VenuePut,
            BatchBody::Hall(_) => Op::HallPut,
            BatchBody::Session(_) => Op::SessionCreate,
            BatchBody::Block(_) => Op::SessionBlock,
            BatchBody::Title(_) => Op::TitlePut,
            BatchBody::Product(_) => Op::ProductPut,
            BatchBody::Resource(_) => Op::ResourcePut,
            BatchBody::Code(_) => Op::CodePut,
        }
    }
}
