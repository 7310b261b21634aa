//! What waits to be written to a connection. Answers go before all frames of feeds that have not begun, so an answer is always
//! the next frame that the socket gets.

use std::{cell::RefCell, collections::VecDeque};

use bytes::Bytes;

use crate::{planted, unsent::SharedUse};

/// Buffers that a thread keeps for the next connection, and how large they may be. One is in use at a time, unless peers do
/// not read.
const SPARE_BUFFERS: usize = 4;
const SPARE_BYTES_MAX: usize = 128 * 1024;

/// Written bytes that are removed from a buffer that never becomes empty.
const WRITTEN_BYTES_KEPT: usize = 16 * 1024;

thread_local! {
    /// Free buffers of the thread.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Frames that wait to be written, in a buffer of the thread that is given back when it is empty.
#[derive(Default)]
pub(super) struct Outgoing {
    /// What goes before `bytes`, because it is before a part that other connections share, or is one.
    first: First,
    bytes: Vec<u8>,
    /// How much of `bytes` was written already.
    written: usize,
    /// Where the frames of feeds begin in `bytes`. They are whole and go to its end.
    feeds: usize,
    /// The end of the last frame of a feed that has begun.
    begun: usize,
}

/// Bytes that go before all others.
#[derive(Default)]
struct First {
    /// Those that other connections share are counted as long as they wait.
    parts: VecDeque<(Bytes, Option<SharedUse>)>,
    /// How much of the first part was written already.
    written: usize,
    /// The rest of a frame of a feed that has begun, in the first part.
    begun: usize,
    /// All bytes that wait, and how many of them are shared.
    waiting: usize,
    shared: usize,
}

impl First {
    fn push(&mut self, bytes: Bytes, shared: Option<SharedUse>) {
        self.waiting += bytes.len();
        self.shared += if shared.is_some() { bytes.len() } else { 0 };
        self.parts.push_back((bytes, shared));
    }

    fn waiting(&self) -> Option<&[u8]> {
        self.parts.front().map(|(bytes, _)| &bytes[self.written..])
    }

    fn advance(&mut self, bytes: usize) {
        let (part, shared) = self.parts.front().expect("it was waiting");
        self.begun = self.begun.saturating_sub(bytes);
        self.waiting -= bytes;
        self.shared -= if shared.is_some() { bytes } else { 0 };
        self.written += bytes;
        if self.written == part.len() {
            self.parts.pop_front();
            self.written = 0;
        }
    }
}

impl Outgoing {
    /// Adds a part of a frame that is not of a feed and that other connections share. It is not copied.
    pub(super) fn push_shared(&mut self, part: Bytes, shared: SharedUse) {
        self.pass_begun();
        let before = &self.bytes[self.written..self.feeds];
        if !before.is_empty() {
            self.first.begun += self.begun.saturating_sub(self.written);
            let before = Bytes::copy_from_slice(before);
            self.first.push(before, None);
        }
        self.bytes.drain(..self.feeds);
        (self.written, self.feeds, self.begun) = (0, 0, 0);
        if !part.is_empty() {
            self.first.push(part, Some(shared));
        }
    }

    /// Adds a part of a frame that is not of a feed, or all of it. The rest must follow before anything is written.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.prepare();
        if planted::is("an answer behind a feed") {
            self.bytes.extend_from_slice(bytes);
            self.feeds = self.bytes.len();
            return;
        }
        if self.feeds == self.bytes.len() {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes.splice(self.feeds..self.feeds, bytes.iter().copied());
        }
        self.feeds += bytes.len();
    }

    /// The buffer, to which a whole frame of a feed is to be added.
    pub(super) fn feeds(&mut self) -> &mut Vec<u8> {
        self.prepare();
        &mut self.bytes
    }

    /// Removes the frames of feeds that have not begun, except those whose payload is to be kept.
    pub(super) fn retain_feeds(&mut self, keep: impl Fn(&[u8]) -> bool) {
        self.pass_begun();
        if self.feeds == self.bytes.len() {
            return;
        }
        let frames = self.bytes.split_off(self.feeds);
        let mut rest = &frames[..];
        while !rest.is_empty() {
            let (head, length) = measure(rest);
            let (frame, after) = rest.split_at(head + length);
            if keep(&frame[head..]) {
                self.bytes.extend_from_slice(frame);
            }
            rest = after;
        }
    }

    /// Bytes that are next. Empty if none wait.
    pub(super) fn waiting(&self) -> &[u8] {
        self.first.waiting().unwrap_or_else(|| &self.bytes[self.written..])
    }

    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.first.waiting + self.bytes.len() - self.written
    }

    /// How many bytes wait that are not of feeds.
    pub(super) fn answers(&self) -> usize {
        self.first.waiting - self.first.begun + self.feeds.saturating_sub(self.written.max(self.begun))
    }

    /// How many of these no other connection shares.
    pub(super) fn own_answers(&self) -> usize {
        self.answers() - self.first.shared
    }

    /// So many of the bytes that are next were written.
    pub(super) fn advance(&mut self, bytes: usize) {
        if self.first.parts.is_empty() {
            self.written += bytes;
        } else {
            self.first.advance(bytes);
        }
    }

    /// Everything was written.
    pub(super) fn finish(&mut self) {
        (self.written, self.feeds, self.begun) = (0, 0, 0);
        let mut bytes = std::mem::take(&mut self.bytes);
        if (1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) {
            bytes.clear();
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_BUFFERS {
                    spare.push(bytes);
                }
            });
        }
    }

    /// Takes a buffer of the thread if there is none, and removes much that was written.
    fn prepare(&mut self) {
        if self.bytes.capacity() == 0 {
            self.bytes = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        self.pass_begun();
        if self.written >= WRITTEN_BYTES_KEPT {
            self.bytes.drain(..self.written);
            self.feeds -= self.written;
            self.begun = self.begun.saturating_sub(self.written);
            self.written = 0;
        }
    }

    /// Counts the frames of feeds that have begun to those that go first.
    fn pass_begun(&mut self) {
        while self.feeds < self.written {
            let (head, length) = measure(&self.bytes[self.feeds..]);
            self.feeds += head + length;
            self.begun = self.feeds;
        }
    }
}

/// The length of a server's frame: of its head, and of its payload.
fn measure(frame: &[u8]) -> (usize, usize) {
    let digits = match frame[1] {
        126 => 2,
        127 => 8,
        short => return (2, usize::from(short)),
    };
    (2 + digits, frame[2..2 + digits].iter().fold(0, |length, digit| length << 8 | usize::from(*digit)))
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Arc};

    use rand::{Rng as _, SeedableRng, rngs::SmallRng};

    use bytes::Bytes;

    use super::Outgoing;
    use crate::unsent::UnsentAnswers;

    /// A frame whose payload is its number and then as many bytes as wanted.
    fn frame(number: u32, bytes: usize) -> Vec<u8> {
        let length = 4 + bytes;
        let mut frame = vec![0x82];
        match length {
            0..=125 => frame.push(length as u8),
            126..=0xffff => {
                frame.push(126);
                frame.extend((length as u16).to_be_bytes());
            }
            _ => {
                frame.push(127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(number.to_be_bytes());
        frame.extend(std::iter::repeat_n(number as u8, bytes));
        frame
    }

    /// Frames as a model keeps them: the one that is being written, answers, feeds.
    #[derive(Default)]
    struct Model {
        begun: Vec<u8>,
        begun_is_feed: bool,
        answers: VecDeque<Vec<u8>>,
        feeds: VecDeque<Vec<u8>>,
    }

    impl Model {
        /// Takes the next bytes off.
        fn write(&mut self, mut bytes: usize) -> Vec<u8> {
            let mut written = Vec::new();
            while bytes > 0 {
                if self.begun.is_empty() {
                    self.begun_is_feed = self.answers.is_empty();
                    let Some(next) = self.answers.pop_front().or_else(|| self.feeds.pop_front()) else { break };
                    self.begun = next;
                }
                let now = bytes.min(self.begun.len());
                written.extend(self.begun.drain(..now));
                bytes -= now;
            }
            written
        }

        fn all(&self) -> Vec<u8> {
            let frames = self.answers.iter().chain(&self.feeds).flatten();
            self.begun.iter().chain(frames).copied().collect()
        }
    }

    #[test]
    fn an_answer_goes_before_every_feed_that_has_not_begun() {
        for seed in 0..200 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut outgoing, mut model) = (Outgoing::default(), Model::default());
            let share = Arc::new(UnsentAnswers::new(0)).share(Arc::default());
            for number in 0..300_u32 {
                let bytes =
                    [0, 5, 121, 122, 300, 5_000, 70_000][rng.random_range(0..if number % 50 == 0 { 7 } else { 5 })];
                let next = frame(number, bytes);
                match rng.random_range(0..11) {
                    10 => {
                        let (head, payload) = next.split_at(next.len() - bytes);
                        let (shared, rest) = payload.split_at(bytes / 2);
                        outgoing.push(head);
                        let shared = Bytes::copy_from_slice(shared);
                        let counted = share.use_shared(&shared);
                        outgoing.push_shared(shared, counted);
                        outgoing.push(rest);
                        model.answers.push_back(next);
                    }
                    0..=2 => {
                        // The head and the payload of an answer come one after the other.
                        let (head, payload) = next.split_at(next.len() - 4 - bytes);
                        outgoing.push(head);
                        outgoing.push(payload);
                        model.answers.push_back(next);
                    }
                    3..=5 => {
                        outgoing.feeds().extend_from_slice(&next);
                        model.feeds.push_back(next);
                    }
                    6 => {
                        let odd = |payload: &[u8]| payload[3] % 2 == 1;
                        outgoing.retain_feeds(odd);
                        model.feeds.retain(|frame| odd(&frame[super::measure(frame).0..]));
                    }
                    _ => {
                        let most = rng.random_range(0..2_000);
                        let mut wrote = Vec::new();
                        while wrote.len() < most && !outgoing.waiting().is_empty() {
                            let some = outgoing.waiting();
                            let some = some[..some.len().min(most - wrote.len())].to_vec();
                            outgoing.advance(some.len());
                            wrote.extend(some);
                        }
                        assert_eq!(wrote, model.write(wrote.len()), "seed {seed}, step {number}");
                        if outgoing.waiting().is_empty() {
                            outgoing.finish();
                        }
                    }
                }
                let first =
                    outgoing.first.parts.iter().flat_map(|(bytes, _)| bytes.iter()).skip(outgoing.first.written);
                let waiting: Vec<u8> = first.chain(&outgoing.bytes[outgoing.written..]).copied().collect();
                assert!(waiting == model.all(), "seed {seed}, step {number}");
                assert_eq!(outgoing.len(), waiting.len(), "seed {seed}, step {number}");
                let shared = outgoing.first.parts.iter().filter(|(_, shared)| shared.is_some());
                let shared: usize = shared.map(|(bytes, _)| bytes.len()).sum();
                assert!(outgoing.own_answers() + shared >= outgoing.answers(), "seed {seed}, step {number}");
                let answers: usize = model.answers.iter().map(Vec::len).sum();
                let begun = if model.begun_is_feed { 0 } else { model.begun.len() };
                assert_eq!(outgoing.answers(), answers + begun, "seed {seed}, step {number}");
            }
        }
    }
}
