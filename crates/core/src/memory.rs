//! The answers that an entity remembers, so that a repeat of a request gets the same answer (P9).

use alloc::sync::Arc;

use boxoffice_declare::Stored;

use crate::{
    answer::KeptAnswer,
    event::Remembered,
    id::{Request, RequestHash},
    refusal::Refusal,
    shared_map::SharedMap,
};

/// How many answers are remembered. The oldest is forgotten first.
pub(crate) const REMEMBERED_MAX: usize = 256;

/// The newest answers of an entity, by version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
#[stored(transparent)]
pub(crate) struct Memory {
    answers: SharedMap<u64, Arc<Remembered>>,
}

impl Memory {
    /// The answer to a request that was granted before and its version, if it is remembered. Refused if it had another body.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<(KeptAnswer, u64), Refusal>> {
        let (version, known) = self.answers.iter().rev().find(|(_, known)| known.request.id == request.id)?;
        let same = known.request.body == request.body;
        Some(if same { Ok((known.answer.clone(), *version)) } else { Err(Refusal::RequestIdReused) })
    }

    /// Whether a request with this id was granted, and its answer is remembered.
    pub(crate) fn knows(&self, id: RequestHash) -> bool {
        self.answers.iter().any(|(_, known)| known.request.id == id)
    }

    /// Adds an answer of this version.
    pub(crate) fn remember(&mut self, version: u64, remembered: &Remembered) {
        assert!(remembered.asked.is_empty(), "only carts ask others for what they answer");
        if self.answers.len() == REMEMBERED_MAX {
            self.answers.pop_first();
        }
        let before = self.answers.insert(version, Arc::new(remembered.clone()));
        assert!(before.is_none(), "version {version} is of two changes");
    }

    /// Bytes on the heap, without those that the answers own.
    pub(crate) fn heap_bytes(&self) -> usize {
        let each = 2 * size_of::<usize>() + size_of::<Remembered>();
        self.answers.heap_bytes() + self.answers.len() * each
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, REMEMBERED_MAX};
    use crate::{
        answer::KeptAnswer,
        event::Remembered,
        id::{Request, RequestHash},
        refusal::Refusal,
    };

    #[test]
    fn the_newest_answers_are_kept_and_another_body_is_refused() {
        let mut memory = Memory::default();
        let request = |number: u64| Request { id: RequestHash(number), body: number };
        for number in 0..=REMEMBERED_MAX as u64 {
            memory.remember(3 * number, &Remembered::alone(request(number), KeptAnswer::Done));
        }
        assert_eq!(memory.answered(request(0)), None, "the oldest is forgotten");
        assert_eq!(memory.answered(request(1)), Some(Ok((KeptAnswer::Done, 3))));
        let other = Request { id: RequestHash(1), body: 2 };
        assert_eq!(memory.answered(other), Some(Err(Refusal::RequestIdReused)));
    }
}
