//! Carts live in the shard of their inventory: hash prefixes of the rules and ranges of the shards together.

use boxoffice_core::id::{CartToken, Entity, Id, hash64};
use boxoffice_shard::ring::shard_of;

fn id(text: &str) -> Id {
    Id::new(text).expect("a short word is an id")
}

/// 128 bits that look random.
fn drawn(number: u32) -> u128 {
    let half = |part: u8| u128::from(hash64(&[&number.to_be_bytes()[..], &[part]].concat()));
    half(0) << 64 | half(1)
}

#[test]
fn a_cart_beside_a_session_is_in_its_shard_for_every_number_of_shards() {
    for shards in (1..=100).chain([256, 1_000, 4_096, u16::MAX]) {
        for number in 0..200 {
            let name = id(&format!("session-{number}"));
            for entity in [Entity::Session(name.clone()), Entity::Product(name.clone()), Entity::Resource(name)] {
                let cart = Entity::Cart(CartToken::beside(&entity, drawn(number)).cart());
                let shard = shard_of(entity.hash_prefix(), shards);
                assert_eq!(shard_of(cart.hash_prefix(), shards), shard, "{entity}, {shards} shards");
                assert!((1..=shards).contains(&shard), "a cart is never in the directory's shard");
            }
        }
    }
}

#[test]
fn carts_of_random_tokens_and_entities_are_spread_evenly() {
    for shards in [1, 3, 32, 100] {
        let mut carts = vec![0_u32; usize::from(shards) + 1];
        let mut sessions = carts.clone();
        let each = 1_000;
        for number in 0..each * u32::from(shards) {
            let cart = Entity::Cart(CartToken(drawn(number)).cart());
            carts[usize::from(shard_of(cart.hash_prefix(), shards))] += 1;
            let session = Entity::Session(id(&format!("s{number}")));
            sessions[usize::from(shard_of(session.hash_prefix(), shards))] += 1;
        }
        for counts in [carts, sessions] {
            assert_eq!(counts[0], 0, "the directory holds no keys");
            assert!(counts[1..].iter().all(|count| count.abs_diff(each) < each / 6), "{shards}: {counts:?}");
        }
    }
}

/// The same values as in docs/reference/protocol.md.
#[test]
fn places_are_pinned() {
    let shards = |entity: &Entity| [1, 3, 32, 100].map(|shards| shard_of(entity.hash_prefix(), shards));
    assert_eq!(shards(&Entity::Session(id("hamlet-tonight"))), [1, 2, 19, 58]);
    assert_eq!(shards(&Entity::Session(id("hamlet-0412"))), [1, 2, 11, 34]);
    assert_eq!(shards(&Entity::Product(id("programme"))), [1, 3, 24, 75]);
    assert_eq!(shards(&Entity::Resource(id("room-5"))), [1, 1, 4, 11]);
    assert_eq!(shards(&Entity::Cart(CartToken(u128::MAX).cart())), [1, 3, 32, 100]);
}
