//! Pseudonyms of bookings. Guests see when a resource is booked, and not whose the booking is.
//!
//! A booking made through a cart is named after its hold, and a hold after its cart, whose id is also the order's. So the
//! name would reveal the order. The cart in it is therefore encrypted under a key that is drawn when the port opens. A page
//! of bookings continues after the last name of the page before, so a pseudonym must lead back to the name.

use boxoffice_core::{
    answer::{Answer, Answered, BookingView, Outcome},
    refusal::{Conflict, LineRefusal, Refusal},
};
use hmac::{Hmac, KeyInit, Mac};
use rand::{TryRngCore, rngs::OsRng};
use sha2::Sha256;
use smol_str::{SmolStr, format_smolstr};

/// The beginning of a hold's name. The cart follows, then the hold's own part.
const HOLD: &str = "hold/";

/// Hexadecimal digits of a cart's id.
const CART_DIGITS: usize = 32;

/// Rounds of the cipher. Four rounds of a Feistel network over a good function look random (Luby, Rackoff 1988).
const ROUNDS: u8 = 4;

/// The key of the pseudonyms.
pub(crate) struct BookingPseudonyms {
    key: [u8; 32],
}

impl BookingPseudonyms {
    /// Draws a new key.
    pub(crate) fn new() -> BookingPseudonyms {
        let mut key = [0; 32];
        OsRng.try_fill_bytes(&mut key).expect("the system has randomness");
        BookingPseudonyms { key }
    }

    /// An outcome as guests see it.
    pub(crate) fn hide(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(Answered { answer: Answer::Bookings(bookings), at }) => {
                let bookings = bookings.into_iter().map(|booking| self.hide_booking(booking)).collect();
                Ok(Answered { answer: Answer::Bookings(bookings), at })
            }
            Ok(Answered { answer: Answer::Available(conflicts), at }) => {
                Ok(Answered { answer: Answer::Available(self.hide_conflicts(conflicts)), at })
            }
            Ok(other) => Ok(other),
            Err(refusal) => Err(self.hide_refusal(refusal)),
        }
    }

    /// The name behind a pseudonym.
    pub(crate) fn real_name(&self, name: &SmolStr) -> SmolStr {
        self.replace_cart(name, |cart| self.decipher(cart))
    }

    fn hide_booking(&self, booking: BookingView) -> BookingView {
        let name = self.replace_cart(&booking.booking, |cart| self.encipher(cart));
        BookingView { booking: name, details: SmolStr::default(), order: None, ..booking }
    }

    fn hide_conflicts(&self, conflicts: Vec<Conflict>) -> Vec<Conflict> {
        let hide = |conflict: Conflict| Conflict {
            why: self.replace_cart(&conflict.why, |cart| self.encipher(cart)),
            booking: conflict.booking.map(|name| self.replace_cart(&name, |cart| self.encipher(cart))),
            ..conflict
        };
        conflicts.into_iter().map(hide).collect()
    }

    fn hide_refusal(&self, refusal: Refusal) -> Refusal {
        if let Refusal::SlotTaken(conflicts) = refusal {
            return Refusal::SlotTaken(self.hide_conflicts(conflicts));
        }
        let Refusal::Lines(lines) = refusal else { return refusal };
        let hide = |line: LineRefusal| LineRefusal { refusal: self.hide_refusal(line.refusal), ..line };
        Refusal::Lines(lines.into_iter().map(hide).collect())
    }

    /// Replaces the cart in the hold's name that the text begins with, if it does.
    fn replace_cart(&self, text: &SmolStr, other: impl FnOnce(u128) -> u128) -> SmolStr {
        let Some((cart, rest)) = text.strip_prefix(HOLD).and_then(|rest| rest.split_at_checked(CART_DIGITS)) else {
            return text.clone();
        };
        match u128::from_str_radix(cart, 16) {
            Ok(cart) => format_smolstr!("{HOLD}{:032x}{rest}", other(cart)),
            Err(_) => text.clone(),
        }
    }

    fn encipher(&self, cart: u128) -> u128 {
        let halves = ((cart >> 64) as u64, cart as u64);
        join((0..ROUNDS).fold(halves, |(left, right), round| (right, left ^ self.round(round, right))))
    }

    fn decipher(&self, cart: u128) -> u128 {
        let halves = ((cart >> 64) as u64, cart as u64);
        join((0..ROUNDS).rev().fold(halves, |(left, right), round| (right ^ self.round(round, left), left)))
    }

    fn round(&self, round: u8, half: u64) -> u64 {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(&[round]);
        mac.update(&half.to_be_bytes());
        let digest = mac.finalize().into_bytes();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn join((left, right): (u64, u64)) -> u128 {
    u128::from(left) << 64 | u128::from(right)
}

#[cfg(test)]
mod tests {
    use super::{BookingPseudonyms, SmolStr};

    #[test]
    fn a_pseudonym_leads_back_and_reveals_nothing() {
        let (pseudonyms, other) = (BookingPseudonyms::new(), BookingPseudonyms::new());
        for cart in [0, 1, u128::MAX, 0x1892_ba91_625a_7bb9_86fa_7047_38a5_4551] {
            let name = SmolStr::new(format!("hold/{cart:032x}/00000000000000aa/0/1"));
            let pseudonym = pseudonyms.replace_cart(&name, |cart| pseudonyms.encipher(cart));
            assert!(pseudonym.ends_with("/00000000000000aa/0/1") && pseudonym.len() == name.len(), "{pseudonym}");
            assert!(!pseudonym.contains(&format!("{cart:032x}")), "{pseudonym}");
            assert_eq!(pseudonyms.real_name(&pseudonym), name);
            assert_ne!(other.real_name(&pseudonym), name, "another port has another key");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        let pseudonyms = BookingPseudonyms::new();
        for text in ["choir", "booking/choir is there from 10 to 11", "", "hold/", "hold/12", "hold/zz", "hold/é"] {
            let text = SmolStr::new(text);
            assert_eq!(pseudonyms.real_name(&text), text);
        }
    }
}
