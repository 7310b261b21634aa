extern crate std;

use alloc::{collections::BTreeMap, format, string::String, vec, vec::Vec};
use core::fmt::Debug;

use expect_test::expect;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    fairness::Charge,
    portion::PricedSeat,
    refusal::{LineRefusal, Refusal},
    seat::Seat,
    time::Timestamp,
};

#[derive(Debug, PartialEq, Stored)]
struct Old {
    #[n(0)]
    id: u64,
    #[n(1)]
    note: Option<SmolStr>,
}

/// `Old` of a later version.
#[derive(Debug, PartialEq, Stored)]
struct New {
    #[n(0)]
    id: u64,
    #[n(3)]
    names: BTreeMap<SmolStr, u64>,
    #[n(1)]
    note: Option<SmolStr>,
    #[n(2)]
    is_new: bool,
}

#[derive(Debug, PartialEq, Stored)]
#[stored(lenient)]
struct Lenient {
    #[n(0)]
    id: u64,
}

/// Numbers 1 and 2 are no longer used.
#[derive(Debug, PartialEq, Stored)]
struct Gaps {
    #[n(0)]
    id: u64,
    #[n(3)]
    note: Option<SmolStr>,
    #[stored(skip)]
    cached: u64,
}

#[derive(Debug, PartialEq, Stored)]
enum Kind {
    #[n(4)]
    Late(#[n(0)] u64, #[n(1)] bool),
    #[n(0)]
    Plain,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|char| char.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn written(value: &impl Encode) -> Vec<u8> {
    append(value, Vec::new())
}

/// Checks a value's bytes, and that they are read as it.
#[track_caller]
fn check<T: Encode + Decode + Debug + PartialEq>(value: &T, hex: &str) {
    assert_eq!(written(value), bytes(hex), "{value:?}");
    assert_eq!(read::<T>(&bytes(hex)).as_ref(), Ok(value));
}

/// Checks that bytes are not read, and why.
#[track_caller]
fn refused<T: Decode + Debug>(hex: &str, why: &str) {
    let words = read::<T>(&bytes(hex)).expect_err("it is refused");
    assert!(words.contains(why), "{words}");
}

#[test]
fn absent_fields_at_the_end_add_no_byte() {
    check(&Old { id: 5, note: None }, "81 05");
    check(&New { id: 5, names: BTreeMap::new(), note: None, is_new: false }, "81 05");
    check(&Old { id: 5, note: Some("a".into()) }, "82 05 61 61");
    check(&New { id: 5, names: BTreeMap::new(), note: None, is_new: true }, "83 05 f6 f5");
    check(&New { id: 5, names: [("a".into(), 1)].into(), note: None, is_new: false }, "84 05 f6 f4 a1 61 61 01");
    check(&Kind::Late(7, false), "82 04 07");
    check(&Kind::Late(7, true), "83 04 07 f5");
    check(&Kind::Plain, "00");
}

#[test]
fn what_is_newer_is_refused_by_name() {
    refused::<Old>("83 05 f6 07", "a field is unknown to this program");
    refused::<Kind>("84 04 07 f5 07", "a field is unknown to this program");
    refused::<Kind>("82 00 07", "a field is unknown to this program");
    refused::<Kind>("07", "variant 7 is unknown to this program");
    refused::<Kind>("82 07 00", "variant 7 is unknown to this program");
    refused::<Old>("80", "a field is missing");
    refused::<Kind>("04", "a field is missing");
    refused::<Kind>("80", "a variant has no number");
    refused::<Old>("81 05 00", "1 bytes are left over");
}

/// An unknown variant in a field that may be absent is no absent field.
#[test]
fn an_unknown_variant_is_refused_in_an_optional_field_as_well() {
    refused::<Option<Kind>>("07", "variant 7 is unknown to this program");
    refused::<(u64, Option<Kind>)>("82 00 82 07 00", "variant 7 is unknown to this program");
}

#[test]
fn a_lenient_reader_skips_what_it_does_not_know() {
    for newer in ["81 05", "83 05 f6 07", "82 05 82 a1 01 02 43 000000"] {
        assert_eq!(read(&bytes(newer)), Ok(Lenient { id: 5 }));
    }
    refused::<Lenient>("82 05", "end of input");
}

#[test]
fn numbers_that_are_no_longer_used_are_null() {
    let value = Gaps { id: 5, note: Some("a".into()), cached: 0 };
    check(&value, "84 05 f6 f6 61 61");
    check(&Gaps { note: None, ..value }, "81 05");
    // Values of before had fields there.
    let before = Ok(Gaps { id: 5, note: None, cached: 0 });
    assert_eq!(read(&bytes("82 05 a1 01 82 02 03")), before);
    assert_eq!(read(&bytes("83 05 61 61 1903e8")), before);
}

#[test]
fn keys_are_ascending() {
    type Map = BTreeMap<u64, u64>;
    check(&Map::from([(1, 0), (2, 0)]), "a2 01 00 02 00");
    refused::<Map>("a2 02 00 01 00", "keys are not in order");
    refused::<Map>("a2 01 00 01 00", "keys are not in order");
    check(&BTreeSet::from([1_u64, 2]), "82 01 02");
    refused::<BTreeSet<u64>>("82 02 01", "keys are not in order");
    refused::<BTreeSet<u64>>("82 01 01", "keys are not in order");
    type Shared = crate::shared_map::SharedMap<u64, u64>;
    refused::<Shared>("a2 02 00 01 00", "keys are not in order");
}

#[test]
fn lengths_come_first() {
    refused::<Vec<u64>>("9f 05 ff", "a length is missing");
    refused::<Old>("9f 05 ff", "a length is missing");
    refused::<Kind>("9f 04 07 ff", "a length is missing");
    refused::<BTreeMap<u64, u64>>("bf 01 00 ff", "a length is missing");
    refused::<BTreeSet<u64>>("9f 01 ff", "a length is missing");
    refused::<Vec<u8>>("5f 41 00 ff", "");
    refused::<SmolStr>("7f 61 61 ff", "");
    refused::<Seat>("5f 42 0000 ff", "");
}

/// With so much memory reserved, the test would not end.
#[test]
fn a_length_beyond_the_bytes_reserves_no_memory() {
    for length in ["9b 0fffffffffffffff", "9a ffffffff", "9b ffffffffffffffff"] {
        refused::<Vec<[u64; 64]>>(&format!("{length} 9840"), "");
        refused::<Vec<Refusal>>(&format!("{length} 18 68"), "");
        refused::<BTreeSet<u64>>(&format!("{length} 01"), "end of input");
        refused::<Lenient>(&format!("{length} 01"), "end of input");
    }
    for length in ["5b 7fffffffffffffff", "5a ffffffff", "5b ffffffffffffffff"] {
        refused::<Vec<u8>>(&format!("{length} 00"), "");
        refused::<Vec<Seat>>(&format!("{length} 00"), "");
    }
    refused::<SmolStr>("7b 7fffffffffffffff 61", "");
    refused::<BTreeMap<u64, u64>>("bb 7fffffffffffffff 01 00", "end of input");
}

#[test]
fn the_highest_and_lowest_numbers() {
    check(&u64::MAX, "1b ffffffffffffffff");
    check(&i64::MIN, "3b 7fffffffffffffff");
    check(&u32::MAX, "1a ffffffff");
    check(&i32::MIN, "3a 7fffffff");
    check(&u16::MAX, "19 ffff");
    check(&u8::MAX, "18 ff");
    check(&u128::MAX, "50 ffffffffffffffffffffffffffffffff");
    refused::<u8>("19 0100", "");
    refused::<u32>("1b 0000000100000000", "");
    refused::<i64>("1b 8000000000000000", "");
    refused::<u64>("20", "");
    refused::<u128>("4f ffffffffffffffffffffffffffffff", "16 bytes");
    refused::<[u8; 3]>("42 0000", "there are not 3");
}

#[test]
fn a_number_with_more_bytes_than_it_needs_is_refused() {
    refused::<u64>("1b 0000000000000005", "longer than it has to be");
    refused::<Old>("98 01 05", "longer than it has to be");
    refused::<Old>("81 18 05", "longer than it has to be");
    refused::<Old>("82 05 f6", "the last field is absent");
}

#[test]
fn refusals_in_refusals_are_not_read() {
    let of = |refusal| Refusal::Lines(vec![LineRefusal { line: 0, refusal }]);
    let twice = written(&of(of(Refusal::CartExpired)));
    assert!(read::<Refusal>(&twice).expect_err("it is refused").contains("a refusal of lines in one of lines"));
    // As deep as the bytes allow. The stack would end before them.
    let level = &written(&of(Refusal::CartExpired))[..5];
    let deep: Vec<u8> = level.iter().copied().cycle().take(1_000_000).collect();
    read::<Refusal>(&deep).expect_err("it is refused");
}

#[test]
fn the_schema_names_all_types_of_a_value() {
    let mut schema = Schema::default();
    let shape = <(Vec<New>, Option<Kind>, Result<Gaps, [u8; 4]>)>::shape(&mut schema);
    let text = format!("{schema}The value: {shape}\n");
    expect![[r#"
        Gaps
          0 id: u64
          3 note: text?
        Kind
          0 Plain
          4 Late
            0 0: u64
            1 1: bool
        New
          0 id: u64
          1 note: text?
          2 is_new: bool
          3 names: {text: u64}
        The value: ([New], Kind?, (Gaps or bytes * 4))
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_type_is_read_by_its_name() {
    let mut schema = Schema::default();
    Old::shape(&mut schema);
    let again = schema.again("Old").expect("it was added");
    assert_eq!(again(&bytes("81 05")), Ok((String::from("Old { id: 5, note: None }"), bytes("81 05"))));
    assert!(schema.again("New").is_none());
}

/// Another type with the name of one above.
mod other {
    use boxoffice_declare::Stored;

    #[derive(Debug, Stored)]
    pub(super) struct Old {
        #[n(0)]
        pub(super) id: u64,
    }

    #[derive(Debug, Stored)]
    #[stored(name = "OtherOld")]
    pub(super) struct Named {
        #[n(0)]
        pub(super) id: u64,
    }
}

#[test]
#[should_panic = "two types are stored as `Old`"]
fn two_types_of_one_name_are_found() {
    let mut schema = Schema::default();
    Old::shape(&mut schema);
    assert_eq!(other::Named::shape(&mut schema), Shape::Named("OtherOld".into()));
    assert_eq!(other::Named { id: 5 }.id, other::Old { id: 5 }.id);
    other::Old::shape(&mut schema);
}

#[test]
fn another_form_of_what_is_read_is_found() {
    let caught = |hex: &str| {
        own::only(true);
        let read = std::panic::catch_unwind(|| read::<Lenient>(&bytes(hex)));
        own::only(false);
        read.is_err()
    };
    // A writer of this program has no second field.
    assert!(!caught("81 05") && caught("82 05 07"));
}

fn seat() -> impl Strategy<Value = Seat> {
    (any::<u16>(), any::<u16>()).prop_map(|(row, seat)| Seat { row, seat })
}

fn price() -> impl Strategy<Value = i64> {
    prop_oneof![0..3_i64, any::<i64>()]
}

fn any_charge() -> impl Strategy<Value = Charge> {
    let numbers = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    (0..1_u64 << 48, 0..1_u64 << 48, numbers).prop_map(|(own, wider, numbers)| {
        let (age_ms, floor, bonus_seconds, forgives, life_seconds) = numbers;
        Charge { own, wider, age_ms, floor, bonus_seconds, forgives, life_seconds }
    })
}

/// Bytes that are likely to be short numbers.
fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![0..3_u8, Just(0x7f), Just(0x80), any::<u8>()], 0..24)
}

/// Checks that a byte string which is read is the one that is written.
fn is_only_form<T: Encode + Decode>(string: &[u8]) -> Result<(), TestCaseError> {
    let stored = written(&string.to_vec());
    if let Ok(value) = read::<T>(&stored) {
        prop_assert_eq!(written(&value), stored);
    }
    Ok(())
}

proptest! {
    #[test]
    fn seats_prices_instants_and_charges_are_read_as_they_were_written(
        seats in vec(seat(), 0..9),
        prices in vec((seat(), price()), 0..9),
        ms in prop_oneof![0..300_u64, any::<u64>()],
        charge in any_charge(),
    ) {
        let priced: Vec<_> = prices.into_iter().map(|(seat, price)| PricedSeat::new(seat, price)).collect();
        prop_assert_eq!(read(&written(&seats)), Ok(seats.clone()));
        prop_assert_eq!(read(&written(&priced)), Ok(priced.clone()));
        for (seat, priced) in seats.iter().zip(&priced) {
            prop_assert_eq!(read(&written(seat)), Ok(*seat));
            prop_assert_eq!(read(&written(priced)), Ok(priced.clone()));
        }
        prop_assert_eq!(read(&written(&Timestamp(ms))), Ok(Timestamp(ms)));
        prop_assert_eq!(read(&written(&charge)), Ok(charge));
    }

    #[test]
    fn seats_instants_and_charges_have_one_form(string in some_bytes(), tags in vec(any::<u8>(), 12)) {
        is_only_form::<Seat>(&string)?;
        is_only_form::<Vec<Seat>>(&string)?;
        is_only_form::<crate::seat::SeatSet>(&string)?;
        is_only_form::<Timestamp>(&string)?;
        is_only_form::<Charge>(&string)?;
        is_only_form::<Charge>(&[&tags[..], &string].concat())?;
    }

    #[test]
    fn prices_of_seats_have_one_form(seats in vec(seat(), 0..5), prices in vec(0..3_i64, 0..6)) {
        let stored = written(&(seats, prices));
        if let Ok(priced) = read::<Vec<PricedSeat>>(&stored) {
            prop_assert_eq!(written(&priced), &stored[..]);
        }
        if let Ok(priced) = read::<PricedSeat>(&stored) {
            prop_assert_eq!(written(&priced), stored);
        }
    }
}

#[test]
fn other_forms_of_seats_prices_instants_and_charges_are_refused() {
    refused::<Seat>("43 80 00 05", "a short number is too long");
    refused::<Seat>("44 ffff04 00", "too many seats");
    refused::<Seat>("44 0000 0001", "a seat is followed by another");
    refused::<Vec<Seat>>("43 0000 00", "a short number is cut off");
    refused::<crate::seat::SeatSet>("44 0001 0000", "out of order");
    refused::<crate::seat::SeatSet>("40", "missing");
    refused::<Vec<PricedSeat>>("82 44 0000 0001 82 05 05", "prices do not belong to their seats");
    refused::<Vec<PricedSeat>>("82 42 0000 82 05 06", "prices do not belong to their seats");
    refused::<Vec<PricedSeat>>("82 42 0000 80", "prices do not belong to their seats");
    refused::<PricedSeat>("82 40 80", "there is not one priced seat");
    refused::<Timestamp>("42 00 05", "the first of which is not zero");
    refused::<Timestamp>("49 01 0000000000000000", "up to eight bytes");
    refused::<Charge>("52 000000000000000000000000 00 00 00 00 00 00", "unknown to this program");
    refused::<Charge>("50 000000000000000000000000 00 00 00 00", "cut off");
    refused::<Charge>("52 000000000000000000000000 80 00 00 00 00 00", "too long");
    refused::<Charge>("55 000000000000000000000000 00 ffffffff1f 00 00 00", "too high");
}
