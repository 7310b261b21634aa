//! Bookings, free slots and what is in the way.

use boxoffice_core::{
    answer::BookingView,
    refusal::{Conflict, Shortage},
};

use super::Group;
use crate::{
    form::Of,
    reply::{Available, BookingPage, FreeSlots},
    schema::build::{
        about, component, count, flag, id, list, needed, object, one_of, optional, pair, part_of, time, words,
    },
};

pub(super) fn calendar() -> Group {
    let booking = object::<Of<BookingView>>([
        needed("booking", about(words(), "Its id; of one made through a cart, a text that names the hold.")),
        needed("begin", time()),
        needed("end", time()),
        needed("state", one_of(&["reserved", "held", "sold"])),
        optional("details", words()),
        optional("order", component("OrderId")),
    ]);
    let bookings = || needed("bookings", list(component("Booking")));
    let conflict = object::<Of<Conflict>>([
        needed("begin", time()),
        needed("end", time()),
        needed("why", about(words(), "The booking in the way, or what is wrong with the time.")),
        optional("booking", about(words(), "The booking in the way, as `resource.bookings` calls it.")),
    ]);
    let shortage = object::<Of<Shortage>>([
        needed("product", id()),
        needed("wanted", about(count(), "How many more were asked for.")),
        needed("free", count()),
        needed("held", about(count(), "Only held, by other lines of carts: they may come back.")),
    ]);
    let available =
        object::<Available>([needed("available", flag()), needed("conflicts", list(component("Conflict")))]);
    let slots = object::<FreeSlots>([needed("slots", list(about(pair(time()), "`[begin, end]`.")))]);
    vec![
        ("Booking", booking),
        ("Booked", about(part_of::<BookingPage>([bookings()]), "All that is booked now, by begin.")),
        ("BookingPage", object::<BookingPage>([bookings(), optional("cursor", words())])),
        ("Conflict", conflict),
        ("Shortage", about(shortage, "A product with fewer free units than were asked for.")),
        ("Available", available),
        ("FreeSlots", slots),
    ]
}
