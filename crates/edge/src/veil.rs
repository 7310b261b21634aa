//! What guests see of other people's bookings: when, and nothing of whose they are.
//!
//! A booking made through a cart is named after its hold, and a hold after its cart, whose id is the order's: that name
//! would be as good as the order id beside it. So the cart in it is enciphered under a key that is drawn when the door
//! opens. Pages go on after the name of their last booking, therefore a name must lead back.

use boxoffice_core::{
    answer::{Answer, Answered, BookingView, Outcome},
    refusal::{Conflict, LineRefusal, Refusal},
};
use hmac::{Hmac, KeyInit, Mac};
use rand::{TryRngCore, rngs::OsRng};
use sha2::Sha256;
use smol_str::{SmolStr, format_smolstr};

/// What names of holds begin with; the cart follows, then what is the hold's own.
const HOLD: &str = "hold/";

/// Hexadecimal digits of a cart's id.
const CART_DIGITS: usize = 32;

/// Rounds of the cipher: with four, a Feistel network over a good function cannot be told from chance (Luby, Rackoff 1988).
const ROUNDS: u8 = 4;

/// The key of this door.
pub(crate) struct Veil {
    key: [u8; 32],
}

impl Veil {
    /// With a key of its own.
    pub(crate) fn new() -> Veil {
        let mut key = [0; 32];
        OsRng.try_fill_bytes(&mut key).expect("the system has randomness");
        Veil { key }
    }

    /// An outcome as guests are told it.
    pub(crate) fn over(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(Answered { answer: Answer::Bookings(bookings), at }) => {
                let bookings = bookings.into_iter().map(|booking| self.over_booking(booking)).collect();
                Ok(Answered { answer: Answer::Bookings(bookings), at })
            }
            Ok(Answered { answer: Answer::Available(conflicts), at }) => {
                Ok(Answered { answer: Answer::Available(self.over_conflicts(conflicts)), at })
            }
            Ok(other) => Ok(other),
            Err(refusal) => Err(self.over_refusal(refusal)),
        }
    }

    /// The name that a guest was told under this one.
    pub(crate) fn lifted(&self, name: &SmolStr) -> SmolStr {
        self.renamed(name, |cart| self.deciphered(cart))
    }

    fn over_booking(&self, booking: BookingView) -> BookingView {
        let name = self.renamed(&booking.booking, |cart| self.enciphered(cart));
        BookingView { booking: name, details: SmolStr::default(), order: None, ..booking }
    }

    fn over_conflicts(&self, conflicts: Vec<Conflict>) -> Vec<Conflict> {
        let over = |conflict: Conflict| Conflict {
            why: self.renamed(&conflict.why, |cart| self.enciphered(cart)),
            booking: conflict.booking.map(|name| self.renamed(&name, |cart| self.enciphered(cart))),
            ..conflict
        };
        conflicts.into_iter().map(over).collect()
    }

    fn over_refusal(&self, refusal: Refusal) -> Refusal {
        if let Refusal::SlotTaken(conflicts) = refusal {
            return Refusal::SlotTaken(self.over_conflicts(conflicts));
        }
        let Refusal::Lines(lines) = refusal else { return refusal };
        let over = |line: LineRefusal| LineRefusal { refusal: self.over_refusal(line.refusal), ..line };
        Refusal::Lines(lines.into_iter().map(over).collect())
    }

    /// The text with another cart in the name of the hold that it begins with, if it begins with one.
    fn renamed(&self, text: &SmolStr, other: impl FnOnce(u128) -> u128) -> SmolStr {
        let Some((cart, rest)) = text.strip_prefix(HOLD).and_then(|rest| rest.split_at_checked(CART_DIGITS)) else {
            return text.clone();
        };
        match u128::from_str_radix(cart, 16) {
            Ok(cart) => format_smolstr!("{HOLD}{:032x}{rest}", other(cart)),
            Err(_) => text.clone(),
        }
    }

    fn enciphered(&self, cart: u128) -> u128 {
        let halves = ((cart >> 64) as u64, cart as u64);
        joined((0..ROUNDS).fold(halves, |(left, right), round| (right, left ^ self.round(round, right))))
    }

    fn deciphered(&self, cart: u128) -> u128 {
        let halves = ((cart >> 64) as u64, cart as u64);
        joined((0..ROUNDS).rev().fold(halves, |(left, right), round| (right ^ self.round(round, left), left)))
    }

    fn round(&self, round: u8, half: u64) -> u64 {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(&[round]);
        mac.update(&half.to_be_bytes());
        let digest = mac.finalize().into_bytes();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn joined((left, right): (u64, u64)) -> u128 {
    u128::from(left) << 64 | u128::from(right)
}

#[cfg(test)]
mod tests {
    use super::{SmolStr, Veil};

    #[test]
    fn a_name_leads_back_and_says_nothing() {
        let (veil, other) = (Veil::new(), Veil::new());
        for cart in [0, 1, u128::MAX, 0x1892_ba91_625a_7bb9_86fa_7047_38a5_4551] {
            let name = SmolStr::new(format!("hold/{cart:032x}/00000000000000aa/0/1"));
            let told = veil.renamed(&name, |cart| veil.enciphered(cart));
            assert!(told.ends_with("/00000000000000aa/0/1") && told.len() == name.len(), "{told}");
            assert!(!told.contains(&format!("{cart:032x}")), "{told}");
            assert_eq!(veil.lifted(&told), name);
            assert_ne!(other.lifted(&told), name, "another door has another key");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        let veil = Veil::new();
        for text in ["choir", "booking/choir is there from 10 to 11", "", "hold/", "hold/12", "hold/zz", "hold/é"] {
            let text = SmolStr::new(text);
            assert_eq!(veil.lifted(&text), text);
        }
    }
}
