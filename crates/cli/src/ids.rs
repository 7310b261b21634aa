//! Ids on the command line, with and without their kind: `session/hamlet` and `hamlet`.
//!
//! Audits and logs write an entity with its kind, and receipts and searches without. Commands take both.

use boxoffice_client::{CartId, Entity, Id};
use boxoffice_core::id::OrderId;
use boxoffice_wire::repr;

use crate::failure::Failure;

/// The id of a thing of this kind.
///
/// # Errors
/// [`Failure::Usage`] if it is none, or is of another kind.
pub fn id_of(kind: &str, text: &str) -> Result<Id, Failure> {
    let bare = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/')).unwrap_or(text);
    Id::new(bare).ok_or_else(|| {
        Failure::Usage(match text.split_once('/') {
            Some((other, _)) if other != kind => format!("{text:?} is no {kind}: write {kind}/ID, or the id alone"),
            _ => format!("{text:?} is no {kind}: an id is 1 to 64 of A-Z a-z 0-9 . _ : -"),
        })
    })
}

/// The cart with this text: its id or that of its order, which are the same digits.
///
/// # Errors
/// [`Failure::Usage`] if it is neither.
pub fn cart(text: &str) -> Result<CartId, Failure> {
    let bare = ["cart/", "order/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let cart = repr::order_id(bare).map(|order: OrderId| order.cart());
    cart.ok_or_else(|| {
        Failure::Usage(format!("{text}: write cart/ID, order/ID or the id, which is 32 hexadecimal digits"))
    })
}

/// The entity with this text. An order is its cart. Without a kind, 32 hexadecimal digits are a cart, and everything else is a session.
///
/// # Errors
/// [`Failure::Usage`] if it is none.
pub fn entity(text: &str) -> Result<Entity, Failure> {
    if let Ok(cart) = cart(text) {
        return Ok(Entity::Cart(cart));
    }
    let bare = || Id::new(text).map(Entity::Session);
    repr::entity(text).or_else(bare).ok_or_else(|| {
        Failure::Usage(format!(
            "{text}: write session/ID, product/ID, resource/ID, customer/ID, venue/ID, cart/ID or order/ID; the last two \
             are 32 hexadecimal digits"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn ids_are_taken_with_and_without_their_kind() {
        for text in ["hamlet", "session/hamlet"] {
            assert_eq!(id_of("session", text).expect("a session").as_str(), "hamlet");
            assert_eq!(entity(text).expect("a session").to_string(), "session/hamlet");
        }
        for text in [DIGITS.to_owned(), format!("cart/{DIGITS}"), format!("order/{DIGITS}")] {
            assert_eq!(cart(&text).expect("a cart").to_string(), DIGITS);
            assert_eq!(entity(&text).expect("a cart").to_string(), format!("cart/{DIGITS}"));
        }
        assert_eq!(entity("product/programme").expect("a product").to_string(), "product/programme");
        assert_eq!(entity("directory").expect("the directory").to_string(), "directory");
    }

    #[test]
    fn another_kind_is_refused() {
        let refused = |outcome: Result<Id, Failure>| outcome.expect_err("it is another").to_string();
        assert!(refused(id_of("session", "product/hamlet")).contains("is no session: write session/ID"));
        assert!(refused(id_of("customer", "")).contains("is no customer: an id is 1 to 64"));
        assert!(cart("hamlet").is_err() && cart(&DIGITS[1..]).is_err() && entity("a b").is_err());
    }
}
