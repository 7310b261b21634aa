//! What a cart remembers of the requests it granted, so that a repeat gets the same answer (P9).

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{Body, Cart};
use crate::{
    answer::Answer,
    event::Remembered,
    id::{Request, RequestHash},
    refusal::Refusal,
};

/// A request that was granted. The answer is packed: most are never asked for again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    request: Request,
    /// `None` for the checkout: its answer is the order.
    answer: Option<Box<[u8]>>,
}

/// What is remembered of a request.
pub(crate) enum Recalled {
    /// It was granted, and this is the answer.
    Answer(Box<Answer>),
    /// It was the checkout that made the order.
    Order,
}

impl Memory {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, |answer| answer.len())
    }
}

impl Cart {
    /// What is remembered of a request, if it was granted; refused if it had another body.
    pub(crate) fn recall(&self, request: Request) -> Option<Result<Recalled, Refusal>> {
        let body = self.body.as_ref()?;
        let memory = body.remembered.iter().find(|memory| memory.request.id == request.id)?;
        if memory.request.body != request.body {
            return Some(Err(Refusal::RequestIdReused));
        }
        Some(Ok(match &memory.answer {
            Some(packed) => Recalled::Answer(Box::new(unpack(packed))),
            None => Recalled::Order,
        }))
    }

    /// Whether a request with this id was granted.
    pub(super) fn remembers(&self, request: RequestHash) -> bool {
        self.body.as_ref().is_some_and(|body| body.remembered.iter().any(|memory| memory.request.id == request))
    }
}

impl Body {
    pub(super) fn remember(&mut self, remembered: &Remembered) {
        let Remembered { request, answer } = remembered;
        self.keep(Memory { request: *request, answer: Some(pack(answer)) });
    }

    pub(super) fn remember_order(&mut self, request: Request) {
        self.keep(Memory { request, answer: None });
    }

    fn keep(&mut self, memory: Memory) {
        if self.remembered.len() < 4 {
            // Millions of carts have one or two.
            self.remembered.reserve_exact(1);
        }
        self.remembered.push(memory);
    }
}

fn pack(answer: &Answer) -> Box<[u8]> {
    let packed: Vec<u8> = postcard::to_allocvec(answer).expect("an answer of a cart can be packed");
    packed.into_boxed_slice()
}

fn unpack(packed: &[u8]) -> Answer {
    postcard::from_bytes(packed).expect("what was packed can be unpacked")
}
