//! Compares the deserializer with rmp-serde and serde_json, which read the same bytes.

use proptest::prelude::*;
use serde_json::{Map, Number, Value};

use super::read;
use crate::{Encoding, raw};

/// Every first byte of MessagePack comes often, and lengths are short enough for the bytes that follow.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), 0x80..=0xdf_u8, 0..4_u8, b'a'..=b'z'];
    prop::collection::vec(byte, 1..24)
}

fn values() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Number::from),
        any::<i64>().prop_map(Number::from),
        (-300..300_i64).prop_map(Number::from),
        any::<f64>().prop_filter_map("JSON has only finite numbers", Number::from_f64),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(Value::Number),
        any::<String>().prop_map(Value::String),
        "[a-z]{30,300}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 64, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..20)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

proptest! {
    #[test]
    fn values_are_read_from_both_encodings(value in values()) {
        let packed = rmp_serde::to_vec(&value).expect("a value can be written");
        prop_assert_eq!(read::<Value>(Encoding::MsgPack, &packed), Ok(value.clone()));
        let text = value.to_string();
        // Read by serde_json itself, because the last digit of a float may differ from what was written.
        let expected: Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(read::<Value>(Encoding::Json, text.as_bytes()), Ok(expected));
    }

    #[test]
    fn bytes_are_read_as_rmp_serde_reads_them(bytes in bytes()) {
        let ours = read::<Value>(Encoding::MsgPack, &bytes);
        let is_one_value = raw::first(&bytes).is_ok_and(|first| first == bytes);
        let theirs = rmp_serde::from_slice::<Value>(&bytes).ok().filter(|_| is_one_value);
        prop_assert_eq!(ours.ok(), theirs);
    }
}
