//! Placement by hash prefixes, and tokens that place a cart next to its inventory.

use std::collections::BTreeSet;

use boxoffice_core::id::{CartToken, Entity, Id, hash64};

fn id(text: &str) -> Id {
    Id::new(text).expect("a short word is an id")
}

/// The 112 secret bits of the tokens in docs/reference/protocol.md.
const SECRET: u128 = 0x2d3c_4b5a_6978_8796_a5b4_c3d2_e1f0;

/// The same values as in docs/reference/protocol.md and tests/page/token.test.mjs. They must never change.
#[test]
fn the_hash_prefixes_of_keys_are_pinned() {
    let prefixes = [
        (Entity::Session(id("hamlet-tonight")), 0x944e),
        (Entity::Session(id("hamlet-0412")), 0x55da),
        (Entity::Product(id("programme")), 0xbeef),
        (Entity::Resource(id("room-5")), 0x1b71),
        (Entity::Venue(id("globe")), 0x4139),
        (Entity::Customer(id("ada")), 0xd14c),
    ];
    for (entity, prefix) in prefixes {
        assert_eq!(entity.hash_prefix(), prefix, "{entity}: {:04x}", entity.hash_prefix());
    }
}

#[test]
fn the_cart_of_a_token_is_pinned() {
    let token = CartToken::beside(&Entity::Session(id("hamlet-0412")), SECRET);
    assert_eq!(token.0, 0x55da_2d3c_4b5a_6978_8796_a5b4_c3d2_e1f0);
    assert_eq!(token.cart().to_string(), "55dac87213c7f745e2ed44cf17eb375f");
    let token = CartToken::beside(&Entity::Session(id("hamlet-tonight")), SECRET);
    assert_eq!(token.0, 0x944e_2d3c_4b5a_6978_8796_a5b4_c3d2_e1f0);
    assert_eq!(token.cart().to_string(), "944e8d957dee4e067880410dddf01884");
    assert_eq!(CartToken(0x0f1e << 112 | SECRET).cart().to_string(), "0f1e1892ba91625a7bb986fa704738a5");
}

#[test]
fn a_cart_has_the_hash_prefix_of_its_token() {
    for number in 0..1_000_u32 {
        let name = id(&format!("s{number}"));
        for entity in [Entity::Session(name.clone()), Entity::Product(name.clone()), Entity::Resource(name)] {
            let random = u128::from(hash64(&number.to_be_bytes())) << 64 | u128::from(number);
            let token = CartToken::beside(&entity, random);
            assert_eq!(Entity::Cart(token.cart()).hash_prefix(), entity.hash_prefix());
            assert_eq!(token.0 << 16, random << 16, "the other 112 bits are the random ones");
        }
    }
}

#[test]
fn tokens_that_differ_in_one_bit_have_carts_that_differ_in_the_hash() {
    let token = 0x0f1e << 112 | SECRET;
    let secrets: BTreeSet<u128> = (0..128).map(|bit| CartToken(token ^ 1 << bit).cart().0 << 16).collect();
    assert_eq!(secrets.len(), 128, "the hash is of all bits of the token, the first 16 as well");
    let many: BTreeSet<u128> = (0..100_000).map(|number| CartToken(number).cart().0).collect();
    assert_eq!(many.len(), 100_000);
    assert!(many.iter().all(|cart| cart >> 112 == 0), "the first 16 bits are the token's");
}
