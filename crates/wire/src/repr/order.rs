//! Orders and purchases.

use boxoffice_core::{
    answer::{NamedInTerms, SeatLabels, SessionNames, TermsNames},
    command::{Payment, Shipping},
    id::{Entity, Id, OrderId},
    money::{AMOUNT_MAX, Money},
    names::Names,
    portion::{Tax, TaxSum, taxes},
    seat::Seat,
    time::Timestamp,
};
use serde::{Serializer, ser::SerializeStruct};
use smol_str::SmolStr;

use crate::{
    limits::CART_LINES_MAX,
    repr::{
        ToWire, decided,
        line::LineView,
        payment::{PaymentStatus, RefundRecord},
        same_fields,
        shape::shapes,
    },
};

shapes! {
    /// An order with its payment and refunds.
    #[derive(Eq)]
    pub struct Order {
        pub id: OrderId,
        pub customer?: Option<Id>,
        pub at: Timestamp,
        pub lines: Vec<LineView> = 0..=CART_LINES_MAX,
        pub total: Money,
        /// The taxes that the prices contain, by rate and code. Absent if no price type has one.
        pub taxes?: Vec<TaxSum>,
        pub payment: Payment,
        pub shipping?: Option<Shipping>,
        /// Whether some inventories have not confirmed the sale yet. It is certain.
        pub settling!: bool,
        pub payment_status: PaymentStatus,
        pub refunds?: Vec<RefundRecord>,
        /// What the lines say by id and number, in words, if `names` asked for it. By session.
        pub sessions?: Vec<SessionNames>,
    }

    /// A session of an order. It says what the lines say by id and number.
    struct SessionNamesFields as SessionNames {
        session: Id,
        title: Id,
        venue: Id,
        hall: Id,
        starts_at: Timestamp,
        ends_at: Timestamp,
        /// The IANA name of its venue's time zone.
        zone?: Option<SmolStr>,
        /// The names of the versions of the terms under which lines were held, with what the lines name.
        terms!: Vec<(u32, TermsNames)>,
        /// The seats of the lines, with their labels.
        seats!: Vec<SeatLabels>,
    }

    /// What the ids in lines mean that were held under a version of the terms.
    struct TermsOfLine {
        /// The `terms` of a line's `bought_as`, or 0 for lines without it.
        terms: u32,
        areas?: Vec<NamedInTerms>,
        price_types?: Vec<NamedInTerms>,
        offers?: Vec<NamedInTerms>,
    }

    /// A thing with its names.
    struct NamedFields as NamedInTerms {
        id: Id,
        name!: SmolStr,
        /// Its names for people.
        names?: Names,
    }

    /// A seat with the labels of its row and of itself.
    struct SeatFields as SeatLabels {
        seat: Seat,
        row!: SmolStr,
        label!: SmolStr,
        /// What the hall says of it, such as that its view is restricted.
        note?: SmolStr,
    }

    /// The tax that the prices of an order contain at one rate.
    struct TaxSumFields as TaxSum {
        /// In hundredths of a percent.
        rate: u32,
        /// What the house's books call it.
        code!: SmolStr,
        /// In minor units, rounded for each seat and place.
        amount: i64 = 0..=AMOUNT_MAX,
    }

    /// An order of a customer's purchases.
    view Purchase {
        cursor: u64,
        order: OrderId,
        at: Timestamp,
        total: Money,
        /// The IANA name of the time zone of the first line that has one.
        zone?: Option<SmolStr>,
        /// What it was for, summed by session, product and resource.
        items: Vec<PurchasedItem>,
    }

    /// How much of one thing an order was for.
    view PurchasedItem {
        entity: Entity,
        /// The number of seats, places or units. Each slot counts as one.
        quantity: u32,
    }

    /// A page of a customer's purchases, by cursor.
    view PurchasesPage {
        purchases: Vec<Purchase>,
        /// The cursor of the newest purchase. 0 if there is none.
        newest: u64,
        /// The epoch of the cursors. Send it with a cursor. Absent from nodes of 0.2.0.
        epoch?: Option<u64>,
    }
}

same_fields! {
    TaxSum: [TaxSum { tax: Tax { rate, code }, amount }] = TaxSumFields { rate, code, amount },
    SessionNames: [SessionNames { session, title, venue, hall, starts_at, ends_at, zone, terms, seats }]
        = SessionNamesFields { session, title, venue, hall, starts_at, ends_at, zone, terms, seats },
    (u32, TermsNames): [(terms, TermsNames { areas, price_types, offers })]
        = TermsOfLine { terms, areas, price_types, offers },
    NamedInTerms: [NamedInTerms { id, name, names }] = NamedFields { id, name, names },
    SeatLabels: [SeatLabels { seat, row, label, note }] = SeatFields { seat, row, label, note },
}

/// Writes an order with its payment and refunds.
pub(crate) fn write_order<S: Serializer>(
    order: &decided::Order,
    settling: bool,
    payment: &decided::PaymentStatus,
    (refunds, sessions): (&Vec<decided::RefundRecord>, &Vec<SessionNames>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let decided::Order { id, customer, at, lines, total, payment: paid_by, shipping } = order;
    let taxes = taxes(lines.iter().map(|line| &line.content));
    let optional =
        [customer.is_some(), shipping.is_some(), !refunds.is_empty(), !taxes.is_empty(), !sessions.is_empty()];
    let optional = optional.map(usize::from);
    let mut map = serializer.serialize_struct("Order", 7 + optional.iter().sum::<usize>())?;
    map.serialize_field("id", &ToWire(id))?;
    if let Some(customer) = customer {
        map.serialize_field("customer", &ToWire(customer))?;
    }
    map.serialize_field("at", &ToWire(at))?;
    map.serialize_field("lines", &ToWire(lines))?;
    map.serialize_field("total", &ToWire(total))?;
    if !taxes.is_empty() {
        map.serialize_field("taxes", &ToWire(&taxes))?;
    }
    map.serialize_field("payment", &ToWire(paid_by))?;
    if let Some(shipping) = shipping {
        map.serialize_field("shipping", &ToWire(shipping))?;
    }
    map.serialize_field("settling", &settling)?;
    map.serialize_field("payment_status", &ToWire(payment))?;
    if !refunds.is_empty() {
        map.serialize_field("refunds", &ToWire(refunds))?;
    }
    if !sessions.is_empty() {
        map.serialize_field("sessions", &ToWire(sessions))?;
    }
    map.end()
}

/// For feeds, which send one purchase to all that watch its customer.
impl From<decided::Purchase> for Purchase {
    fn from(decided::Purchase { cursor, order, at, total, zone, items }: decided::Purchase) -> Purchase {
        let item = |decided::PurchasedItem { entity, quantity }| PurchasedItem { entity, quantity };
        Purchase { cursor, order, at, total, zone, items: items.into_iter().map(item).collect() }
    }
}
