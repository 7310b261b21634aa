//! Events for people: a word and a sentence for each.

use boxoffice_core::{
    answer::{TakenAway, Taker},
    cluster::Replica,
    command::{CodeDetails, Payment},
    event::{
        CartEvent, ClusterEvent, CodeEvent, CustomerEvent, DirectoryEvent, Event, HoldEvent, NewLine, ProductEvent,
        ResourceEvent, SessionEvent, VenueEvent,
    },
    id::{HoldId, Id},
    money::Money,
    payment::{PaymentStatus, RefundStatus, VoidStatus},
    portion::{Content, Portion},
    seat::Seat,
    time::Timestamp,
};

use crate::repr::rfc3339;

/// The text of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// The event as one word.
    pub word: &'static str,
    /// The details. Empty if the word is enough.
    pub sentence: String,
}

/// Whether an event changed the state of this seat.
pub fn is_about(event: &Event, seat: Seat) -> bool {
    match event {
        Event::Session(event) => event.change().is_some_and(|(_, seats)| seats.contains(&seat)),
        Event::Venue(_)
        | Event::Cart(_)
        | Event::Product(_)
        | Event::Resource(_)
        | Event::Customer(_)
        | Event::Code(_)
        | Event::Directory(_)
        | Event::Cluster(_) => false,
    }
}

/// The text of an event.
pub fn event_text(event: &Event) -> EventText {
    let (word, sentence) = match event {
        Event::Venue(event) => venue(event),
        Event::Session(event) => session(event),
        Event::Cart(event) => cart(event),
        Event::Product(event) => product(event),
        Event::Resource(event) => resource(event),
        Event::Customer(event) => customer(event),
        Event::Code(event) => code(event),
        Event::Directory(event) => directory(event),
        Event::Cluster(event) => cluster(event),
    };
    EventText { word, sentence }
}

type Words = (&'static str, String);

/// How long something is held. The deadline in an event of an inventory is when it asks the cart, which tells nobody how long the
/// buyer has. The cart's own history has its deadlines.
const KEPT: &str = ", until the cart's deadline";

fn venue(event: &VenueEvent) -> Words {
    match event {
        VenueEvent::Put { details, shifted, .. } => {
            let zone = details.zone.as_deref().map_or_else(|| "without a zone".into(), |zone| format!("zone {zone}"));
            let shifted = match shifted {
                0 => String::new(),
                shifted => format!("; {shifted} coming sessions show another hour"),
            };
            ("put", format!("called {}, in {}, {zone}{shifted}", details.name, or_nowhere(&details.city)))
        }
        VenueEvent::HallPut { hall, name, layout, .. } => {
            let seats = layout
                .as_ref()
                .map_or_else(|| "its seats as they were".to_owned(), |layout| format!("with {} seats", layout.seats()));
            ("hall_put", format!("hall {hall}, called {name}, {seats}"))
        }
        VenueEvent::SessionBooked { session, .. } => (
            "session_booked",
            format!("session {} in hall {}, {}", session.id, session.hall, span(session.starts_at, session.ends_at)),
        ),
        VenueEvent::SessionOpened(id) => ("session_opened", format!("session {id} is on sale")),
        VenueEvent::SessionRefused(id) => {
            ("session_refused", format!("session {id} could not be opened; its time in the hall is free again"))
        }
        VenueEvent::SessionCanceled(id) => {
            ("session_canceled", format!("session {id} will not take place; its time in the hall is free again"))
        }
        VenueEvent::Listed { version } => ("listed", format!("the directory knows it as of version {version}")),
        VenueEvent::SessionZoned(id) => ("session_zoned", format!("session {id} knows the zone")),
        VenueEvent::SaleTold { session, mark } => {
            let when = mark
                .opens_at
                .map_or_else(|| "no offer is to open".into(), |at| format!("an offer opens at {}", instant(at)));
            ("sale_told", format!("session {session} says that {when}"))
        }
    }
}

fn directory(event: &DirectoryEvent) -> Words {
    match event {
        DirectoryEvent::TitlePut { id, title, request: _ } => {
            ("title_put", format!("title {id}, called {}", title.name))
        }
        DirectoryEvent::VenueListed { venue, details, version } => (
            "venue_listed",
            format!(
                "venue {venue}, called {}, in {}, as of its version {version}",
                details.name,
                or_nowhere(&details.city)
            ),
        ),
        DirectoryEvent::KeyCreated { name, key, request: _ } => {
            let roles = key.terms.roles.names().collect::<Vec<_>>().join(", ");
            let venues = key.terms.venues.iter().map(|venue| venue.as_str()).collect::<Vec<_>>().join(", ");
            let limited = if venues.is_empty() { venues } else { format!(", for {venues}") };
            ("key_created", format!("{name}: {roles}{limited}"))
        }
        DirectoryEvent::KeyRevoked { name, request: _ } => ("key_revoked", name.to_string()),
    }
}

fn cluster(event: &ClusterEvent) -> Words {
    match event {
        ClusterEvent::Founded { node, member, shards, replicas, cluster_version } => (
            "founded",
            format!(
                "by node {node} at {}, with {shards} data shards in {replicas} copies each, at version {cluster_version}",
                member.peer
            ),
        ),
        ClusterEvent::MemberPut { node, member, request: _, invitation } => {
            let invited = if invitation.is_some() { ", by an invitation" } else { "" };
            ("member_put", format!("node {node} at {} is {}{invited}", member.peer, member.state.name()))
        }
        ClusterEvent::Invited { invitation, .. } => {
            ("invited", format!("a machine, until {}", instant(invitation.ends_at)))
        }
        ClusterEvent::Placed { places, next_generation: _ } => {
            let aims = places.iter().map(|(shard, place)| {
                let learners = if place.target.learners.is_empty() { "" } else { ", learners " };
                format!("{shard} to {}{learners}{}", replicas(&place.target.voters), replicas(&place.target.learners))
            });
            ("placed", format!("shard {}", aims.collect::<Vec<_>>().join("; shard ")))
        }
        ClusterEvent::Reached { shard, version } => ("reached", format!("shard {shard} its target {version}")),
        ClusterEvent::Raised { cluster_version, request: _ } => ("raised", format!("to version {cluster_version}")),
    }
}

fn replicas(replicas: &[Replica]) -> String {
    replicas.iter().map(Replica::to_string).collect::<Vec<_>>().join(" ")
}

fn session(event: &SessionEvent) -> Words {
    match event {
        SessionEvent::Opened(opening) => {
            let session = &opening.session;
            let when = span(session.starts_at, session.ends_at);
            let (title, hall, venue) = (&session.title, &session.hall, &opening.venue);
            let seats = opening.layout.seats();
            ("opened", format!("{title} in hall {hall} of venue {venue}, {when}, with {seats} seats"))
        }
        SessionEvent::SeatsHeld { hold, seats: held, .. } => {
            ("held", format!("{} by {}{KEPT}", seats(held), holder(hold)))
        }
        SessionEvent::SeatsReleased { hold, seats: freed, expired, .. } => {
            (ended(*expired), format!("{} of {}", seats(freed), holder(hold)))
        }
        SessionEvent::SeatsSold { hold, seats: sold, order, at, freed_at: _ } => {
            ("sold", format!("{} of cart {} by order {order}, decided at {}", seats(sold), hold.cart, instant(*at)))
        }
        SessionEvent::SaleRefunded { hold, seats: freed } => match freed.as_slice() {
            [] => ("refunded", format!("places of order {}; they are free again", hold.cart.order())),
            freed => ("refunded", format!("{} of order {}; free again", seats(freed), hold.cart.order())),
        },
        SessionEvent::PlacesHeld { hold, area, quantity, .. } => {
            ("places_held", format!("{quantity} places in {area} altogether by {}{KEPT}", holder(hold)))
        }
        SessionEvent::PlacesReleased { hold, left, expired, .. } => {
            (if *expired { "places_expired" } else { "places_released" }, format!("{} has {left} left", holder(hold)))
        }
        SessionEvent::PlacesSold { hold, quantity, at, freed_at: _ } => {
            ("places_sold", sold(hold, *quantity, "places", *at))
        }
        SessionEvent::Hold(event) => on_hold(event),
        SessionEvent::ZoneSet(zone) => {
            let zone = zone.name.as_deref().unwrap_or("UTC");
            ("zone_set", format!("its times are told in {zone}; no instant moved"))
        }
        SessionEvent::Changed { what, .. } if what.is_empty() => ("changed", "its terms, in nothing".into()),
        SessionEvent::Changed { what, .. } => ("changed", what.join("; ")),
        SessionEvent::OffersOpened(offers) => {
            ("offers_opened", offers.iter().map(Id::as_str).collect::<Vec<_>>().join(" "))
        }
        SessionEvent::AllotmentsReleased(allotments) => {
            ("released_allotments", allotments.iter().map(Id::as_str).collect::<Vec<_>>().join(" "))
        }
        SessionEvent::Vacated => ("vacated", "its venue has the hall back".into()),
        SessionEvent::SaleTold(version) => ("sale_told", format!("its venue knows its sale as of version {version}")),
        SessionEvent::Canceled { reason, .. } => ("canceled", format!("it will not take place: {reason}")),
        SessionEvent::SeatsBlocked { seats: blocked, .. } => ("blocked", format!("{}; off sale", seats(blocked))),
        SessionEvent::SeatsUnblocked { seats: freed, .. } => ("unblocked", format!("{}; on sale again", seats(freed))),
    }
}

/// The word for the end of a hold without a sale.
fn ended(expired: bool) -> &'static str {
    if expired { "expired" } else { "released" }
}

fn product(event: &ProductEvent) -> Words {
    match event {
        ProductEvent::Put { details, request: _ } => {
            ("put", format!("called {}, {} each, a stock of {}", details.name, money(details.price), details.stock))
        }
        ProductEvent::UnitsHeld { hold, quantity, price, .. } => {
            let by = holder(hold);
            ("held", format!("{quantity} units altogether by {by}, {price} minor units each{KEPT}"))
        }
        ProductEvent::UnitsReleased { hold, left, expired, .. } => {
            (ended(*expired), format!("{} has {left} units left", holder(hold)))
        }
        ProductEvent::UnitsSold { hold, quantity, at, freed_at: _ } => ("sold", sold(hold, *quantity, "units", *at)),
        ProductEvent::UnitsRefunded { hold } => {
            ("refunded", format!("units of order {}; they are free again", hold.cart.order()))
        }
        ProductEvent::Hold(event) => on_hold(event),
    }
}

fn resource(event: &ResourceEvent) -> Words {
    match event {
        ResourceEvent::Put { details, request: _ } => {
            ("put", format!("called {}, {} at a time", details.name, details.capacity))
        }
        ResourceEvent::SlotHeld { hold, begin, end, price, .. } => {
            let (when, by) = (span(*begin, *end), holder(hold));
            ("held", format!("{when} by {by} for {price} minor units{KEPT}"))
        }
        ResourceEvent::SlotReleased { hold, expired, .. } => (ended(*expired), holder(hold)),
        ResourceEvent::SlotSold { hold, at, freed_at: _ } => {
            ("sold", format!("to order {}, decided at {}", hold.cart.order(), instant(*at)))
        }
        ResourceEvent::SlotRefunded { hold } => {
            ("refunded", format!("of order {}; the time is free again", hold.cart.order()))
        }
        ResourceEvent::Reserved { bookings, series, details, remembered: _ } => {
            let times = bookings.iter().map(|(id, begin, end)| format!("{id}: {}", span(*begin, *end)));
            let series = series.as_ref().map_or_else(String::new, |series| format!(" of series {series}"));
            let said = if details.is_empty() { String::new() } else { format!(" ({details})") };
            ("reserved", format!("bookings{series}: {}{said}", listed(times)))
        }
        ResourceEvent::BookingsCanceled { bookings, remembered: _ } => {
            ("booking_canceled", format!("{}; free again", listed(bookings.iter().map(ToString::to_string))))
        }
        ResourceEvent::BookingMoved { booking, begin, end, remembered: _ } => {
            ("booking_moved", format!("{booking} is now {}", span(*begin, *end)))
        }
        ResourceEvent::Hold(event) => on_hold(event),
        ResourceEvent::BookingRevoked { hold, remembered: _ } => {
            ("booking_revoked", format!("its cart {} is asked to release or refund it", hold.cart))
        }
    }
}

fn customer(event: &CustomerEvent) -> Words {
    match event {
        CustomerEvent::QuotaHeld { hold, quota, count, .. } => {
            ("quota_held", format!("{count} of {quota} altogether by {}{KEPT}", holder(hold)))
        }
        CustomerEvent::QuotaReleased { hold, left, expired, .. } => {
            (if *expired { "quota_expired" } else { "quota_released" }, format!("{} has {left} left", holder(hold)))
        }
        CustomerEvent::QuotaSold { hold, count, at } => ("quota_used", sold(hold, *count, "parts", *at)),
        CustomerEvent::QuotaRefunded { hold } => {
            ("quota_refunded", format!("of order {}; it may be used again", hold.cart.order()))
        }
        CustomerEvent::Hold(event) => on_hold(event),
        CustomerEvent::Posted(purchase) => {
            ("purchased", format!("order {} for {}, number {}", purchase.order, money(purchase.total), purchase.cursor))
        }
    }
}

fn code(event: &CodeEvent) -> Words {
    match event {
        CodeEvent::Put { details: CodeDetails { group, uses, ended, by_order }, .. } => {
            let ended = if *ended { ", ended" } else { "" };
            let what = if *by_order { "orders" } else { "uses" };
            ("put", format!("{uses} {what}, of group {group}{ended}"))
        }
        CodeEvent::UsesHeld { hold, count, .. } => {
            ("uses_held", format!("{count} altogether by {}{KEPT}", holder(hold)))
        }
        CodeEvent::UsesReleased { hold, left, expired, .. } => {
            (if *expired { "uses_expired" } else { "uses_released" }, format!("{} has {left} left", holder(hold)))
        }
        CodeEvent::UsesSold { hold, count, at } => ("used", sold(hold, *count, "uses", *at)),
        CodeEvent::UsesRefunded { hold } => {
            ("uses_refunded", format!("of order {}; they may be used again", hold.cart.order()))
        }
        CodeEvent::Hold(event) => on_hold(event),
    }
}

fn cart(event: &CartEvent) -> Words {
    match event {
        CartEvent::Opened { at, customer, deadline, ttl_ms: _, age_ends_at: _, remembered: _, known: _ } => {
            let of = customer.as_ref().map_or_else(String::new, |customer| format!("of {customer}, "));
            ("opened", format!("{of}at {}, until {}", instant(*at), instant(*deadline)))
        }
        CartEvent::LinesAdded { lines, grown, noted, deadline, .. } => {
            let word = if lines.is_empty() && grown.is_empty() && !noted.is_empty() { "noted" } else { "added" };
            let new = lines.iter().map(|NewLine { item, .. }| {
                let note = if item.note.is_empty() { String::new() } else { format!(", noted {:?}", item.note) };
                format!("{} of {}{note}", content(&item.content), item.entity)
            });
            let grown = grown.iter().map(|line| format!("line {} is now {}", line.line, content(&line.content)));
            let noted = noted.iter().map(|(line, note)| format!("line {line} is noted {note:?}"));
            (word, format!("{}; until {}", listed(new.chain(grown).chain(noted)), instant(*deadline)))
        }
        CartEvent::LineReduced { line, left, deadline, taken, .. } => {
            let left = left.as_ref().map_or_else(|| "nothing; it ended".into(), content);
            let by = taken.as_ref().map_or_else(String::new, |TakenAway { by, reason }| {
                let by = match by {
                    Taker::Operator => "an operator",
                    Taker::Session => "its canceled session",
                };
                if reason.is_empty() { format!(", by {by}") } else { format!(", by {by}: {reason}") }
            });
            ("reduced", format!("line {line} is now {left}{by}; until {}", instant(*deadline)))
        }
        CartEvent::GrowthUndone { lines } => {
            let lines = lines.iter().map(|(line, _, _)| line.to_string());
            ("growth_undone", format!("lines {} stay as they were", listed(lines)))
        }
        CartEvent::Disowned { holds } => {
            let holds = holds.iter().map(|(entity, hold, _)| format!("{} of {entity}", holder(hold)));
            ("disowned", listed(holds))
        }
        CartEvent::Canceled { at, remembered: _ } => ("canceled", format!("at {}", instant(*at))),
        CartEvent::Expired { at, aged } => {
            let why = if *aged { ": it had reached the highest age of a cart" } else { "" };
            ("expired", format!("at {}{why}", instant(*at)))
        }
        CartEvent::CheckoutBegun { attempt, at, payment, amount, .. } => {
            let (how, at) = (paid_by(payment), instant(*at));
            ("checkout_begun", format!("attempt {attempt} at {at}, {} {how}", money(*amount)))
        }
        CartEvent::CheckoutAbandoned { at, failure, release, asked: _, void, reference } => {
            let why = failure.as_ref().map_or_else(String::new, |failure| format!("{}; ", failure.refusal()));
            let then = if *release { "the cart ends" } else { "the cart goes on" };
            let void = if *void { ", a void is owed" } else { "" };
            let reference = reference.as_ref().map_or_else(String::new, |reference| format!(" of {reference}"));
            ("checkout_abandoned", format!("at {}: {why}{then}{void}{reference}", instant(*at)))
        }
        CartEvent::CheckedOut { order, .. } => {
            let lines = order.lines.iter().map(|line| format!("{} of {}", content(&line.content), line.entity));
            let (how, at) = (paid_by(&order.payment), instant(order.at));
            ("done", format!("order {} at {at} for {} {how}: {}", order.id, money(order.total), listed(lines)))
        }
        CartEvent::PaymentChanged(status) => ("payment", payment(status)),
        CartEvent::Refunded { refund, remembered: _ } => {
            let lines = listed(refund.lines.iter().map(u32::to_string));
            (
                "refunded",
                format!("number {}: {} for lines {lines}: {}", refund.number, money(refund.amount), refund.reason),
            )
        }
        CartEvent::RefundChanged { number, status } => ("refund", format!("number {number}: {}", refund(status))),
        CartEvent::StrayAuthorized { attempt, reference } => (
            "stray_authorized",
            format!("attempt {attempt} was given up and is authorized as {reference} all the same; a void is owed"),
        ),
        CartEvent::VoidChanged { attempt, status } => ("void", format!("attempt {attempt}: {}", void(status))),
        #[cfg(debug_assertions)]
        CartEvent::Rehearsed => ("rehearsed", String::new()),
        CartEvent::Delivered { numbers, sold: _ } => {
            ("delivered", format!("messages {} it owed", listed(numbers.iter().map(u64::to_string))))
        }
        CartEvent::CustomerSet { at: _, customer, remembered: _ } => {
            ("customer_set", format!("it is {customer}'s now"))
        }
        CartEvent::Touched { at: _, deadline, remembered: _ } => ("touched", format!("until {}", instant(*deadline))),
        CartEvent::Granted(_) => ("granted", "a request that changed nothing, or only what is said before".into()),
    }
}

fn on_hold(event: &HoldEvent) -> Words {
    match event {
        HoldEvent::Extended { hold, .. } => ("extended", format!("cart {} still has it", hold.cart)),
        HoldEvent::Remembered { hold, .. } => {
            ("remembered", format!("{} was released before it was asked for", holder(hold)))
        }
        HoldEvent::Forgotten(cart) => ("forgotten", format!("what cart {cart} had released")),
    }
}

fn payment(status: &PaymentStatus) -> String {
    match status {
        PaymentStatus::Recorded => "recorded".into(),
        PaymentStatus::Authorized => "authorized".into(),
        PaymentStatus::Captured => "captured".into(),
        PaymentStatus::CaptureFailed { reason } => format!("capture failed: {reason}"),
    }
}

fn refund(status: &RefundStatus) -> String {
    match status {
        RefundStatus::Recorded => "recorded".into(),
        RefundStatus::Pending => "pending".into(),
        RefundStatus::Refunded => "paid back".into(),
        RefundStatus::Failed { reason } => format!("failed: {reason}"),
    }
}

fn void(status: &VoidStatus) -> String {
    match status {
        VoidStatus::Pending => "pending".into(),
        VoidStatus::Voided => "given up".into(),
        VoidStatus::Failed { reason } => format!("failed: {reason}"),
    }
}

/// The payment, without the source from the gateway.
fn paid_by(payment: &Payment) -> String {
    match payment {
        Payment::Recorded { method, transaction_id } if transaction_id.is_empty() => format!("recorded as {method}"),
        Payment::Recorded { method, transaction_id } => format!("recorded as {method} {transaction_id}"),
        Payment::Gateway { .. } => "through the gateway".into(),
    }
}

fn content(content: &Content) -> String {
    match content.portion() {
        Portion::Seats(set) => seats(set.as_slice()),
        Portion::Places { area, quantity } => format!("{quantity} places in {area}"),
        Portion::Units(quantity) => format!("{quantity} units"),
        Portion::Slot { begin, end } => span(begin, end),
        Portion::Quota { quota, count } => format!("{count} of {quota}"),
        Portion::Uses(count) => format!("{count} uses"),
    }
}

fn sold(hold: &HoldId, quantity: u32, things: &str, at: Timestamp) -> String {
    format!("{quantity} {things} to order {}, decided at {}", hold.cart.order(), instant(at))
}

fn holder(hold: &HoldId) -> String {
    format!("cart {}", hold.cart)
}

fn seats(seats: &[Seat]) -> String {
    let list = listed(seats.iter().map(|Seat { row, seat }| format!("[{row}, {seat}]")));
    if seats.len() == 1 { format!("seat {list}") } else { format!("seats {list}") }
}

fn listed(things: impl Iterator<Item = String>) -> String {
    things.collect::<Vec<_>>().join(", ")
}

fn span(begin: Timestamp, end: Timestamp) -> String {
    format!("{} to {}", instant(begin), instant(end))
}

fn instant(at: Timestamp) -> String {
    rfc3339(at).map_or_else(|| format!("{} ms", at.0), |text| text.to_string())
}

fn money(Money { amount, currency }: Money) -> String {
    format!("{amount} minor units of {}", currency.as_str())
}

fn or_nowhere(city: &str) -> &str {
    if city.is_empty() { "no city" } else { city }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::{CartId, Entity, Id, OrderId, Request, RequestHash};

    use super::*;

    #[test]
    fn the_story_of_a_seat() {
        let hold = HoldId { cart: CartId(0xabc), request: RequestHash(1), part: 0, attempt: 0 };
        let (seat, other) = (Seat { row: 1, seat: 11 }, Seat { row: 1, seat: 12 });
        let at = Timestamp(1_798_140_600_000);
        let events = [
            SessionEvent::SeatsBlocked { seats: vec![other], request: Request { id: RequestHash(1), body: 1 } },
            SessionEvent::SeatsHeld {
                hold,
                revision: 1,
                want_hash: 7,
                seats: vec![seat, other],
                deadline: at,
                charge: None,
                prices: None,
                customer: None,
            },
            SessionEvent::SeatsReleased {
                hold,
                revision: 2,
                seats: vec![other],
                remember: true,
                expired: false,
                freed_at: None,
            },
            SessionEvent::SeatsSold { hold, seats: vec![seat], order: OrderId(0xabc), at, freed_at: None },
            SessionEvent::SaleRefunded { hold, seats: vec![seat] },
        ]
        .map(Event::Session);
        let texts: Vec<String> = events
            .iter()
            .filter(|event| is_about(event, seat))
            .map(|event| {
                let EventText { word, sentence } = event_text(event);
                format!("{word}: {sentence}")
            })
            .collect();
        let cart = CartId(0xabc);
        assert_eq!(
            texts,
            [
                format!("held: seats [1, 11], [1, 12] by cart {cart}, until the cart's deadline"),
                format!("sold: seat [1, 11] of cart {cart} by order {cart}, decided at 2026-12-24T19:30:00.000Z"),
                format!("refunded: seat [1, 11] of order {cart}; free again"),
            ]
        );
    }

    /// The time in a hold of an inventory is when it asks the cart, and a revision is a number of the protocol between them.
    #[test]
    fn a_history_tells_no_inner_time_and_no_revision() {
        let hold = HoldId { cart: CartId(0xabc), request: RequestHash(1), part: 0, attempt: 0 };
        let deadline = Timestamp(1_798_140_600_000);
        let revision = 1_048_576;
        let held = SessionEvent::SeatsHeld {
            hold,
            revision,
            want_hash: 7,
            seats: vec![Seat { row: 0, seat: 0 }],
            deadline,
            charge: None,
            prices: None,
            customer: None,
        };
        let events = [
            Event::Session(held),
            Event::Session(SessionEvent::Hold(HoldEvent::Extended { hold, deadline })),
            Event::Product(ProductEvent::Hold(HoldEvent::Extended { hold, deadline })),
            Event::Session(SessionEvent::Hold(HoldEvent::Remembered { hold, revision })),
            Event::Cart(CartEvent::Disowned {
                holds: vec![(Entity::Session(Id::new("hamlet").expect("an id")), hold, revision)],
            }),
        ];
        for event in &events {
            let sentence = event_text(event).sentence;
            assert!(!sentence.contains("revision") && !sentence.contains("1048576"), "{sentence}");
            assert!(!sentence.contains("2026-12-24"), "{sentence}");
        }
    }
}
