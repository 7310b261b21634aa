//! The requests that a cart remembers, so that a repeat gets the same answer (P9).

use alloc::{borrow::Cow, boxed::Box, vec::Vec};

use boxoffice_declare::Stored;

use super::Cart;
use crate::{
    answer::{Answered, At, KeptAnswer},
    event::Remembered,
    id::{Entity, Request, RequestHash},
    payment::PaymentFailure,
    refusal::Refusal,
    stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer},
};

/// Enough bytes for most outcomes.
const PACKED_BYTES: usize = 128;

/// A request that has an outcome. The outcome is packed, because most are never asked for again.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(super) struct Memory {
    #[n(0)]
    request: Request,
    /// `None` for the checkout, whose answer is the order.
    #[n(1)]
    answer: Option<Packed>,
}

/// The bytes of a [`KeptOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packed(Box<[u8]>);

impl Encode for Packed {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.0);
    }
}

impl Decode for Packed {
    fn shape(schema: &mut Schema) -> Shape {
        KeptOutcome::shape(schema);
        Shape::Leaf("bytes")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Packed, Error> {
        Decode::decode(from).map(Packed)
    }
}

/// An outcome of a request.
#[derive(Debug, Stored)]
struct KeptOutcome<'a> {
    /// The cart's version.
    #[n(0)]
    version: u64,
    /// The versions of the inventories that were asked.
    #[n(1)]
    asked: Cow<'a, [At]>,
    /// The answer, or the failure of the payment.
    #[n(2)]
    outcome: Result<Cow<'a, KeptAnswer>, Cow<'a, PaymentFailure>>,
}

/// The remembered outcome of a request.
pub(crate) enum Recalled {
    /// It was granted with this answer and these versions.
    Answer(Box<Answered>),
    /// It was the checkout that made the order.
    Order,
    /// It was a checkout whose payment failed.
    Failed(PaymentFailure),
}

impl Memory {
    /// An answer that was given with this version of the cart.
    pub(super) fn answered(version: u64, remembered: &Remembered) -> Memory {
        let Remembered { request, answer, asked } = remembered;
        let (asked, outcome) = (Cow::Borrowed(&asked[..]), Ok(Cow::Borrowed(answer)));
        Memory::packed(*request, &KeptOutcome { version, asked, outcome })
    }

    /// The failed payment of a checkout, with this version of the cart.
    pub(super) fn failed(version: u64, request: Request, failure: &PaymentFailure) -> Memory {
        let (asked, outcome) = (Cow::Borrowed(&[][..]), Err(Cow::Borrowed(failure)));
        Memory::packed(request, &KeptOutcome { version, asked, outcome })
    }

    /// The checkout that made the order.
    pub(super) fn ordered(request: Request) -> Memory {
        Memory { request, answer: None }
    }

    fn packed(request: Request, outcome: &KeptOutcome<'_>) -> Memory {
        let packed = stored::append(outcome, Vec::with_capacity(PACKED_BYTES));
        Memory { request, answer: Some(Packed(packed.into_boxed_slice())) }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, |answer| answer.0.len())
    }
}

impl Cart {
    /// The outcome of a request, if it has one. Refused if the request had another body.
    pub(crate) fn recall(&self, request: Request) -> Option<Result<Recalled, Refusal>> {
        let body = self.body.as_ref()?;
        let memory = body.remembered.iter().find(|memory| memory.request.id == request.id)?;
        if memory.request.body != request.body {
            return Some(Err(Refusal::RequestIdReused));
        }
        Some(Ok(match &memory.answer {
            Some(packed) => self.unpack(&packed.0),
            None => Recalled::Order,
        }))
    }

    fn unpack(&self, packed: &[u8]) -> Recalled {
        let KeptOutcome { version, asked, outcome } = stored::read(packed).expect("what was packed can be unpacked");
        let answer = match outcome {
            Ok(answer) => answer.into_owned(),
            Err(failure) => return Recalled::Failed(failure.into_owned()),
        };
        let mut at = Vec::with_capacity(asked.len() + 1);
        // A repeat does not know the place in the log.
        at.push(At { entity: Entity::Cart(self.id), version, position: 0 });
        at.extend(asked.into_owned());
        Recalled::Answer(Box::new(Answered { answer: answer.into(), at }))
    }

    /// Forgets which requests have an outcome. Only a planted bug does so.
    pub(crate) fn forget_requests(&mut self) {
        if let Some(body) = &mut self.body {
            body.remembered.clear();
        }
    }

    /// Whether a request with this id has an outcome.
    pub(crate) fn remembers(&self, request: RequestHash) -> bool {
        self.body.as_ref().is_some_and(|body| body.remembered.iter().any(|memory| memory.request.id == request))
    }
}
