//! Random values mean the same in both encodings, and decode unchanged.

use boxoffice_core::{
    answer::{
        Answer, Answered, BookingState, BookingView, LineView, ProductView, Purchase, PurchasesPage, StockCounts,
    },
    command::{CustomerLimit, HoldPolicy, Limits, ProductDetails},
    id::{CartId, CartToken, Entity, Id, OrderId},
    money::{Currency, Money},
    portion::{Content, PricedSeat},
    seat::Seat,
    time::{TIMESTAMP_MAX, Timestamp},
};
use bytes::BytesMut;
use proptest::prelude::*;
use serde::Serialize;
use smol_str::SmolStr;

use crate::{
    Encoding, Op, Request, body,
    call::Shape,
    encode,
    reply::{self, BookingPage, FromBody, Reply, ServerFrame},
    repr::{ToWire, WireWrite, cart_token, cart_token_text},
    view,
};

/// What a client reads of an answer.
fn back<T: FromBody + WireWrite>(encoding: Encoding, answer: &Answer) -> T {
    let mut out = BytesMut::new();
    let outcome = Ok(Answered { answer: answer.clone(), at: Vec::new() });
    encode::outcome(encoding, &mut out, 7, &outcome, Shape::Plain, None);
    let ServerFrame::Answer(Some(7), verdict, _) = ServerFrame::read(encoding, &out).expect("a frame") else {
        panic!("no answer")
    };
    let value: T = match verdict.read(encoding).expect("a body that fits") {
        Reply::Ok(value, _) => value,
        Reply::No(_) | Reply::Fail(_) => panic!("not ok"),
    };
    let (mut sent, mut read) = (BytesMut::new(), BytesMut::new());
    encode::answer(encoding, &mut sent, &Answered { answer: answer.clone(), at: Vec::new() }, Shape::Plain);
    encode::body(encoding, &mut read, &ToWire(&value));
    assert_eq!(read, sent, "what a client has read is written as it was sent");
    value
}

/// A server's reading of this request, which must be the same in both encodings.
fn read<B: Serialize>(op: Op, body: &B) -> Result<Request, u16> {
    let [one, other] = Encoding::ALL.map(|encoding| {
        let mut out = BytesMut::new();
        reply::request(encoding, &mut out, 7, op, Some("r"), None, body);
        Request::read(encoding, &out).map_err(|rejected| rejected.why.code())
    });
    assert_eq!(one, other);
    one
}

fn id() -> impl Strategy<Value = Id> {
    "[A-Za-z0-9._:-]{1,64}".prop_map(|text| Id::new(&text).expect("a good id"))
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..=TIMESTAMP_MAX.0).prop_map(Timestamp)
}

fn text() -> impl Strategy<Value = SmolStr> {
    "\\PC{0,20}".prop_map(SmolStr::from)
}

fn money() -> impl Strategy<Value = Money> {
    (any::<i64>(), "[A-Z]{3}")
        .prop_map(|(amount, currency)| Money { amount, currency: Currency::new(&currency).expect("a currency") })
}

fn line() -> impl Strategy<Value = LineView> {
    let seats = prop::collection::vec((any::<u16>(), any::<u16>(), any::<i64>()), 1..20).prop_map(|seats| {
        Content::Seats(seats.into_iter().map(|(row, seat, price)| PricedSeat::new(Seat { row, seat }, price)).collect())
    });
    let places = (id(), any::<u32>(), any::<i64>()).prop_map(|(area, quantity, price)| Content::Places {
        area,
        quantity,
        price,
        bought_as: None,
    });
    let of_session = (id(), prop_oneof![seats, places]).prop_map(|(id, content)| (Entity::Session(id), content));
    let units = (id(), any::<u32>(), any::<i64>()).prop_map(|(id, quantity, price)| {
        (Entity::Product(id), Content::Units { quantity, price, name: "".into(), tax: None })
    });
    let slot = (id(), time(), time(), any::<i64>()).prop_map(|(id, begin, end, price)| {
        (Entity::Resource(id), Content::Slot { begin, end, price, details: "".into() })
    });
    (any::<u32>(), prop_oneof![of_session, units, slot], any::<bool>())
        .prop_map(|(line, (entity, content), late)| LineView::new(line, entity, content, late))
}

fn limits() -> impl Strategy<Value = Limits> {
    let customer = (id(), 1..=1_000_000u32).prop_map(|(quota, max)| CustomerLimit { quota, max });
    (prop::option::of(1..=1_000_000u32), prop::option::of(customer))
        .prop_map(|(per_order, per_customer)| Limits { per_order, per_customer })
}

fn details() -> impl Strategy<Value = ProductDetails> {
    let properties = prop::collection::btree_map("[a-zäß]{1,20}", text(), 0..8);
    let price = (0..=1_000_000_000_000i64, money()).prop_map(|(amount, money)| Money { amount, ..money });
    let known = ("\\PC{1,20}", properties, prop::collection::vec(any::<u8>(), 0..1_024), price);
    let policy = prop_oneof![Just(HoldPolicy::AtAdd), Just(HoldPolicy::AtCheckout)];
    (known, 0..1u64 << 53, policy, any::<Option<u64>>(), limits()).prop_map(
        |((name, properties, blob, price), stock, hold, hold_ttl_ms, limits)| ProductDetails {
            name: name.into(),
            properties: properties.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            blob,
            price,
            stock,
            hold,
            hold_ttl_ms,
            limits,
            tax: None,
        },
    )
}

fn booking() -> impl Strategy<Value = BookingView> {
    let state = prop_oneof![Just(BookingState::Reserved), Just(BookingState::Held), Just(BookingState::Sold)];
    (text(), time(), time(), state, text(), any::<Option<u128>>()).prop_map(
        |(booking, begin, end, state, details, order)| BookingView {
            booking,
            begin,
            end,
            state,
            details,
            order: order.map(OrderId),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn carts_round_trip(lines in prop::collection::vec(line(), 0..8), cart in any::<u128>(), total in money()) {
        let view = boxoffice_core::answer::CartView {
            id: CartId(cart),
            lines,
            total: Some(total),
            ..super::common::cart_view()
        };
        let [json, msgpack] = Encoding::ALL.map(|encoding| back::<view::CartView>(encoding, &Answer::Cart(view.clone())));
        prop_assert_eq!(&json, &view::CartView::from(&view));
        prop_assert_eq!(json, msgpack);
    }

    #[test]
    fn products_round_trip_as_answers_and_requests(
        id in id(), details in details(), free in any::<u64>(), held in any::<u64>(), sold in any::<u64>(),
    ) {
        let view = ProductView { id: id.clone(), details: details.clone(), counts: StockCounts { free, held, sold } };
        let answer = Answer::Product(view.clone().into());
        let [json, msgpack] = Encoding::ALL.map(|encoding| back::<view::ProductView>(encoding, &answer));
        prop_assert_eq!(&json, &view::ProductView::from(view));
        prop_assert_eq!(json, msgpack);
        let request = read(Op::ProductPut, &body::ProductPut::new(id, details.clone()));
        let written = format!("{:?}", request.expect("a good product").call);
        prop_assert!(written.contains(&format!("{details:?}")), "{written}");
    }

    #[test]
    fn bookings_and_purchases_round_trip(
        bookings in prop::collection::vec(booking(), 0..8),
        purchases in prop::collection::vec((any::<u64>(), any::<u128>(), time(), money()), 0..8),
        newest in any::<u64>(),
    ) {
        let purchase = |(cursor, order, at, total)| Purchase { cursor, order: OrderId(order), at, total, zone: None, items: Vec::new() };
        let page = PurchasesPage { purchases: purchases.into_iter().map(purchase).collect(), newest, epoch: Some(newest) };
        let (booked, bought) = (Answer::Booked(bookings), Answer::Purchases(page));
        let [json, msgpack] = Encoding::ALL.map(|encoding| back::<BookingPage>(encoding, &booked));
        prop_assert_eq!(json, msgpack);
        let [json, msgpack] = Encoding::ALL.map(|encoding| back::<view::PurchasesPage>(encoding, &bought));
        prop_assert_eq!(json, msgpack);
    }

    #[test]
    fn numbers_are_thirty_two_hexadecimal_digits_and_nothing_else(
        number in any::<u128>(), place in 0..32_usize, other in any::<char>(),
    ) {
        let text = cart_token_text(CartToken(number));
        prop_assert_eq!(&text, &format!("{number:032x}"));
        for text in [&text, &text.to_uppercase()] {
            prop_assert_eq!(cart_token(text), Some(CartToken(number)));
            let mut changed = text.clone();
            changed.replace_range(place..=place, other.encode_utf8(&mut [0; 4]));
            let known = (changed.len() == 32).then(|| u128::from_str_radix(&changed, 16).ok()).flatten();
            let known = known.filter(|_| other.is_ascii_hexdigit());
            prop_assert_eq!(cart_token(&changed), known.map(CartToken), "{}", changed);
        }
        for wrong in [&text[1..], &text[..16], "", &format!("{text}0"), &format!("+{}", &text[1..])] {
            prop_assert_eq!(cart_token(wrong), None, "{}", wrong);
        }
    }

    #[test]
    fn any_time_and_any_quantity_mean_the_same_in_both_encodings(
        begin in time(), end in time(), quantity in any::<u64>(), line in any::<u32>(), product in id(),
    ) {
        let (token, cart, customer) = (super::common::token(), None, None);
        let resource = product.clone();
        let slot = body::HoldSlot { cart, customer, ..body::HoldSlot::of(token, resource, begin, end) };
        let fits = begin < end && end.0 - begin.0 <= 366 * 24 * 60 * 60 * 1000;
        prop_assert_eq!(read(Op::CartHoldSlot, &slot).map(|_| ()), if fits { Ok(()) } else { Err(502) });
        let quantity = crate::quantity::Quantity::Whole(quantity);
        let set = body::SetQuantity { token, cart: None, line, quantity: quantity.clone() };
        let small = matches!(quantity, crate::quantity::Quantity::Whole(0..=1_000_000));
        prop_assert_eq!(read(Op::CartSetQuantity, &set).map(|_| ()), if small { Ok(()) } else { Err(402) });
    }
}
