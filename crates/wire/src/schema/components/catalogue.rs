//! Venues, halls and titles.

use boxoffice_core::answer::{HallView, TitleView, VenueEntry, VenueView, VenuesPage};

use super::Group;
use crate::{
    form::Of,
    form_answer::HallEntryForm,
    reply::TitlePage,
    schema::build::{about, component, count, id, list, needed, object, optional, words},
};

pub(super) fn catalogue() -> Group {
    let hall_entry = object::<HallEntryForm>([needed("id", id()), needed("name", words()), needed("seats", count())]);
    let venue = object::<Of<VenueView>>([
        needed("id", id()),
        needed("name", words()),
        needed("city", words()),
        optional("position", component("Position")),
        needed("comments", words()),
        needed("halls", list(component("HallEntry"))),
    ]);
    let venue_entry = object::<Of<VenueEntry>>([
        needed("id", id()),
        needed("name", words()),
        needed("city", words()),
        optional("position", component("Position")),
        optional("distance_m", about(count(), "From `near`, in metres.")),
    ]);
    let venues =
        object::<Of<VenuesPage>>([needed("venues", list(component("VenueEntry"))), optional("cursor", words())]);
    let hall = object::<Of<HallView>>([
        needed("venue", id()),
        needed("id", id()),
        needed("name", words()),
        needed("comments", words()),
        needed("layout", component("Layout")),
    ]);
    let title = object::<Of<TitleView>>([
        needed("id", id()),
        needed("name", words()),
        needed("director", words()),
        needed("cast", list(words())),
        needed("comments", words()),
        optional("duration_ms", count()),
    ]);
    let titles = object::<TitlePage>([needed("titles", list(component("Title"))), optional("cursor", words())]);
    vec![
        ("HallEntry", hall_entry),
        ("Venue", venue),
        ("VenueEntry", venue_entry),
        ("VenuePage", venues),
        ("Hall", hall),
        ("Title", title),
        ("TitlePage", titles),
    ]
}
