//! Follows a stream of WebSocket frames to know whether a message is incomplete. The library that reads the frames does not
//! tell.

/// Follows the heads of a client's frames.
#[derive(Default)]
pub(super) struct Boundary {
    head: Head,
    /// Bytes of the current frame's payload that are still to come.
    payload: u64,
    /// The length of the current frame's payload.
    announced: u64,
    /// Bytes of the current message's fragments that have passed.
    gathered: u64,
    /// Whether the current message has fragments and is incomplete.
    fragmented: bool,
    /// Complete messages so far.
    messages: u64,
}

/// The part of a frame's head that has arrived. A head has at most two bytes, a length of eight and a mask of four.
#[derive(Default)]
struct Head {
    bytes: [u8; 14],
    length: usize,
}

impl Boundary {
    /// Follows these bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.payload > 0 {
                let passed = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len());
                self.payload -= passed as u64;
                bytes = &bytes[passed..];
                if self.payload == 0 {
                    self.frame_passed();
                }
                continue;
            }
            self.head.bytes[self.head.length] = bytes[0];
            self.head.length += 1;
            bytes = &bytes[1..];
            if let Some(payload) = self.head.payload() {
                self.payload = payload;
                self.announced = payload;
                if payload == 0 {
                    self.frame_passed();
                }
            }
        }
    }

    /// How many messages came before the incomplete one. `None` if none is incomplete.
    pub(super) fn incomplete_after(&self) -> Option<u64> {
        let middle = self.head.length > 0 || self.fragmented;
        middle.then_some(self.messages)
    }

    /// Memory of the incomplete message, in bytes. A frame has memory for all of it from its head on. 0 if none is
    /// incomplete.
    pub(super) fn room(&self) -> u64 {
        let frame = if self.payload > 0 { self.announced } else { 0 };
        self.gathered.saturating_add(frame)
    }

    fn frame_passed(&mut self) {
        let [first, ..] = self.head.bytes;
        self.head.length = 0;
        let (last, control) = (first & 0x80 != 0, first & 0x08 != 0);
        // Control frames may come between the fragments of a message.
        if !control {
            self.fragmented = !last;
            self.messages += u64::from(last);
            self.gathered = if last { 0 } else { self.gathered.saturating_add(self.announced) };
        }
    }
}

impl Head {
    /// The length of the payload, once the head is complete.
    fn payload(&self) -> Option<u64> {
        let [_, second, ..] = self.bytes;
        let digits = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        if self.length < 2 || self.length < 2 + digits + mask {
            return None;
        }
        let long = self.bytes[2..2 + digits].iter().fold(0, |length, digit| length << 8 | u64::from(*digit));
        Some(if digits == 0 { u64::from(second & 0x7f) } else { long })
    }
}

#[cfg(test)]
mod tests {
    use super::Boundary;

    /// A masked frame with this first byte and a payload of `length` bytes.
    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![first];
        match length {
            0..=125 => frame.push(0x80 | length as u8),
            126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([1, 2, 3, 4]);
        frame.extend(std::iter::repeat_n(0xff, length));
        frame
    }

    #[test]
    fn every_boundary_is_found_for_all_pieces() {
        // A text, a ping, a fragmented message with a pong in between, an empty one, and long ones.
        let frames = [
            (frame(0x81, 10), Some(1)),
            (frame(0x89, 5), Some(1)),
            (frame(0x02, 3), None),
            (frame(0x8a, 0), None),
            (frame(0x80, 200), Some(2)),
            (frame(0x82, 0), Some(3)),
            (frame(0x82, 125), Some(4)),
            (frame(0x82, 126), Some(5)),
            (frame(0x82, 70_000), Some(6)),
        ];
        for step in [1, 2, 3, 7, 64, 100_000] {
            let mut boundary = Boundary::default();
            let mut whole = 0;
            for (frame, messages) in &frames {
                for (index, bytes) in frame.chunks(step).enumerate() {
                    boundary.pass(bytes);
                    // An incomplete frame has memory from its head on. Only this one is long.
                    let head = 14;
                    let long = frame.len() > 70_000 && (index + 1) * step >= head && (index + 1) * step < frame.len();
                    assert_eq!(boundary.room() == 70_000, long, "{} bytes, by {step}", (index + 1) * step);
                    if (index + 1) * step < frame.len() {
                        assert_eq!(boundary.incomplete_after(), Some(whole), "in the middle, by {step}");
                    }
                }
                whole = messages.unwrap_or(whole);
                let expected = if messages.is_some() { None } else { Some(whole) };
                assert_eq!(boundary.incomplete_after(), expected, "at the end of a frame, by {step}");
                assert_eq!(boundary.room(), if messages.is_none() { 3 } else { 0 }, "a fragment of 3 is kept");
                assert_eq!(boundary.messages, whole);
            }
        }
    }
}
