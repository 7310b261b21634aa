//! A set of seats of one layout, one bit a seat.
//!
//! The bits are in chunks that copies share. A write copies one chunk and references to the others, so its cost does not grow with
//! the hall, even while a reader or a snapshot has the set as it was before.

use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};

use crate::stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer};

/// Words of one chunk. A write copies no more, and a hall of 4 096 seats needs no second one.
const CHUNK_WORDS: usize = 64;

/// Seats by index. Empty sets own no memory, and neither do chunks to which nothing was added.
#[derive(Clone, Debug, Default, Eq)]
pub(crate) struct SeatBits {
    chunks: Box<[Option<Arc<[u64]>>]>,
}

impl PartialEq for SeatBits {
    /// Compares the words. Missing words are empty.
    fn eq(&self, other: &SeatBits) -> bool {
        self.words().eq(other.words())
    }
}

impl SeatBits {
    /// Whether the seat is in the set.
    pub(crate) fn has(&self, index: u32) -> bool {
        self.word(index / 64) >> (index % 64) & 1 == 1
    }

    /// Adds seats that are not in the set yet, of a layout of `seats` seats.
    pub(crate) fn add_all(&mut self, indexes: &[u32], seats: u32) {
        for run in runs(indexes) {
            assert!(run.iter().all(|index| *index < seats), "seats {run:?} of a layout of {seats}");
            let words = self.words_mut(run, seats);
            for &index in run {
                let (word, bit) = place(index);
                assert!(words[word] & bit == 0, "seat {index} is in the set already");
                words[word] |= bit;
            }
        }
    }

    /// Removes seats that are in the set.
    pub(crate) fn take_all(&mut self, indexes: &[u32]) {
        for run in runs(indexes) {
            let words = self.words_mut(run, 0);
            for &index in run {
                let (word, bit) = place(index);
                assert!(words[word] & bit != 0, "seat {index} is not in the set");
                words[word] &= !bit;
            }
        }
    }

    /// The chunk with these seats, to be changed, of a layout of at least `seats` seats.
    fn words_mut(&mut self, run: &[u32], seats: u32) -> &mut [u64] {
        let last = (run.iter().max().copied().unwrap_or(0) / 64) as usize;
        let (chunk, place) = (last / CHUNK_WORDS, last % CHUNK_WORDS);
        if !matches!(self.chunks.get(chunk), Some(Some(words)) if words.len() > place) {
            self.make_room(last, (seats.div_ceil(64) as usize).max(last + 1));
        }
        Arc::make_mut(self.chunks[chunk].as_mut().expect("there is room"))
    }

    /// Makes room for a word of a layout of at least `words` words.
    #[cold]
    fn make_room(&mut self, number: usize, words: usize) {
        let chunks = words.div_ceil(CHUNK_WORDS);
        if self.chunks.len() < chunks {
            let mut more = Vec::with_capacity(chunks);
            more.extend(core::mem::take(&mut self.chunks));
            more.resize(chunks, None);
            self.chunks = more.into_boxed_slice();
        }
        let length = CHUNK_WORDS.min(words - (number - number % CHUNK_WORDS));
        let chunk = &mut self.chunks[number / CHUNK_WORDS];
        *chunk = Some(match chunk {
            // It was read without empty words at its end.
            Some(short) => short.iter().copied().chain(core::iter::repeat(0)).take(length).collect(),
            None => vec![0; length].into(),
        });
    }

    /// The bits of seats `64 × number` to `64 × number + 63`, the first in the lowest bit.
    pub(crate) fn word(&self, number: u32) -> u64 {
        let number = number as usize;
        let chunk = self.chunks.get(number / CHUNK_WORDS).and_then(Option::as_deref);
        chunk.and_then(|chunk| chunk.get(number % CHUNK_WORDS)).copied().unwrap_or(0)
    }

    /// All words up to the last one with a seat. Equal sets have the same ones.
    fn words(&self) -> impl Iterator<Item = u64> {
        let last = self.chunks.iter().enumerate().rev().find_map(|(number, chunk)| {
            let last = chunk.as_deref()?.iter().rposition(|word| *word != 0)?;
            Some(number * CHUNK_WORDS + last + 1)
        });
        (0..last.unwrap_or(0) as u32).map(|number| self.word(number))
    }

    /// The number of seats in the set, counted anew.
    pub(crate) fn count(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let chunk = |chunk: &Arc<[u64]>| 2 * size_of::<usize>() + size_of_val(&**chunk);
        size_of_val(&*self.chunks) + self.chunks.iter().flatten().map(chunk).sum::<usize>()
    }
}

/// Parts of these seats that are in one chunk each.
fn runs(indexes: &[u32]) -> impl Iterator<Item = &[u32]> {
    indexes.chunk_by(|one, next| one / (64 * CHUNK_WORDS as u32) == next / (64 * CHUNK_WORDS as u32))
}

/// The word of a seat in its chunk, and its bit.
fn place(index: u32) -> (usize, u64) {
    ((index / 64) as usize % CHUNK_WORDS, 1 << (index % 64))
}

impl Encode for SeatBits {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.words().flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
    }

    fn is_absent(&self) -> bool {
        self.chunks.is_empty()
    }
}

impl Decode for SeatBits {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("bits of seats")
    }

    fn decode(from: &mut Reader<'_>) -> Result<SeatBits, Error> {
        let (words, rest) = stored::bytes(from)?.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Error::message("bits of seats are words of eight bytes"));
        }
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let chunk = |words: &[u64]| words.iter().any(|word| *word != 0).then(|| words.into());
        Ok(SeatBits { chunks: words.chunks(CHUNK_WORDS).map(chunk).collect() })
    }

    fn absent() -> Option<SeatBits> {
        Some(SeatBits::default())
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeSet, vec::Vec};

    use proptest::{collection::vec, prelude::*};

    use super::SeatBits;
    use crate::{random_tests::cases, stored};

    #[test]
    fn seats_come_and_go_and_an_empty_set_owns_nothing() {
        let mut bits = SeatBits::default();
        assert_eq!((bits.has(899), bits.count(), bits.heap_bytes()), (false, 0, 0));
        bits.add_all(&[0, 63, 64, 899], 900);
        assert_eq!((bits.has(63), bits.has(62), bits.count(), bits.heap_bytes()), (true, false, 4, 16 + 16 + 120));
        bits.take_all(&[63]);
        assert_eq!((bits.has(63), bits.count(), bits.word(14)), (false, 3, 1 << 3));
    }

    #[test]
    #[should_panic(expected = "seat 5 is in the set already")]
    fn adding_a_seat_twice_panics() {
        let mut bits = SeatBits::default();
        bits.add_all(&[5], 10);
        bits.add_all(&[5], 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases(200)))]

        /// Each step toggles some seats. Now and then the set is copied, or is written and read.
        #[test]
        fn the_bits_match_a_set_and_copies_do_not_change(
            seats in prop_oneof![1..70_u32, 4_090..4_100_u32, 1..20_000_u32],
            steps in vec((any::<u32>(), 0..10_u8), 0..200),
        ) {
            let (mut bits, mut model) = (SeatBits::default(), BTreeSet::new());
            let mut copies = Vec::new();
            for (first, what) in steps {
                let some: BTreeSet<u32> = (0..u32::from(what)).map(|step| first.wrapping_add(step * step * 911) % seats).collect();
                let (taken, added): (Vec<u32>, Vec<u32>) = some.into_iter().partition(|index| model.contains(index));
                bits.take_all(&taken);
                bits.add_all(&added, seats);
                model.retain(|index| !taken.contains(index));
                model.extend(added);
                match what {
                    0 => copies.push((bits.clone(), model.clone())),
                    1 => {
                        let again: SeatBits = stored::read(&stored::append(&bits, Vec::new())).expect("it was written");
                        prop_assert_eq!(&again, &bits);
                        prop_assert_eq!(stored::append(&again, Vec::new()), stored::append(&bits, Vec::new()));
                        bits = again;
                    }
                    _ => {}
                }
            }
            copies.push((bits, model));
            for (bits, model) in copies {
                let found: Vec<u32> = (0..seats).filter(|index| bits.has(*index)).collect();
                prop_assert!(found.iter().eq(&model));
                prop_assert_eq!(bits.count() as usize, model.len());
            }
        }
    }
}
