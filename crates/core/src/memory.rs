//! The answers an entity remembers, so that a repeat of a request gets the same (P9).

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{answer::Answer, event::Remembered, id::Request, refusal::Refusal, shared_map::SharedMap};

/// Answers kept for repeats; beyond this the oldest goes.
pub(crate) const REMEMBERED_MAX: usize = 256;

/// The newest answers of an entity, by the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Memory {
    answers: SharedMap<u64, Arc<Remembered>>,
}

impl Memory {
    /// The answer to a request that was granted before, if it is remembered; refused if it had another body.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<Answer, Refusal>> {
        let known = self.answers.values().rev().find(|known| known.request.id == request.id)?;
        let same = known.request.body == request.body;
        Some(if same { Ok(known.answer.clone()) } else { Err(Refusal::RequestIdReused) })
    }

    /// Keeps one more answer.
    pub(crate) fn remember(&mut self, remembered: &Remembered) {
        if self.answers.len() == REMEMBERED_MAX {
            self.answers.pop_first();
        }
        let number = self.answers.last().map_or(0, |(number, _)| number + 1);
        self.answers.insert(number, Arc::new(remembered.clone()));
    }

    /// Bytes on the heap, those behind the answers not counted.
    pub(crate) fn heap_bytes(&self) -> usize {
        let each = 2 * size_of::<usize>() + size_of::<Remembered>();
        self.answers.heap_bytes() + self.answers.len() * each
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, REMEMBERED_MAX};
    use crate::{
        answer::Answer,
        event::Remembered,
        id::{Request, RequestHash},
        refusal::Refusal,
    };

    #[test]
    fn the_newest_answers_are_kept_and_another_body_is_refused() {
        let mut memory = Memory::default();
        let request = |number: u64| Request { id: RequestHash(number), body: number };
        for number in 0..=REMEMBERED_MAX as u64 {
            memory.remember(&Remembered { request: request(number), answer: Answer::Done });
        }
        assert_eq!(memory.answered(request(0)), None, "the oldest went");
        assert_eq!(memory.answered(request(1)), Some(Ok(Answer::Done)));
        let other = Request { id: RequestHash(1), body: 2 };
        assert_eq!(memory.answered(other), Some(Err(Refusal::RequestIdReused)));
    }
}
