//! Sessions, their areas and maps.

use boxoffice_core::answer::{AreaCounts, MapView, SeatCounts, SessionEntry, SessionView};
use serde_json::json;

use super::Group;
use crate::{
    city::{CityPage, CitySession},
    form::Of,
    form_answer::AreaFields,
    reply::{SessionPage, ThreeStates},
    schema::build::{about, component, count, flag, id, list, needed, object, optional, time, whole, words},
};

pub(super) fn sessions() -> Group {
    let counts = object::<Of<SeatCounts>>(["free", "held", "sold", "blocked"].map(|state| needed(state, count())));
    let area = object::<AreaFields>([
        needed("id", id()),
        needed("name", words()),
        needed("capacity", count()),
        needed("price", component("Price")),
        optional("free", count()),
        optional("held", count()),
        optional("sold", count()),
    ]);
    let area_counts = object::<Of<AreaCounts>>([
        needed("area", id()),
        needed("free", count()),
        needed("held", count()),
        needed("sold", count()),
    ]);
    let session = object::<Of<SessionView>>([
        needed("id", id()),
        needed("venue", id()),
        needed("hall", id()),
        needed("title", id()),
        needed("starts_at", time()),
        needed("ends_at", time()),
        needed("prices", component("Prices")),
        optional("areas", list(component("Area"))),
        optional("hold_ttl_ms", count()),
        optional("limits", component("Limits")),
        needed("comments", words()),
        optional("canceled", about(words(), "Why it will not take place.")),
        needed("counts", component("Counts")),
        needed("layout", component("Layout")),
    ]);
    let entry = object::<Of<SessionEntry>>([
        needed("id", id()),
        needed("hall", id()),
        needed("title", id()),
        needed("starts_at", time()),
        needed("ends_at", time()),
        needed("open", flag()),
    ]);
    let of_city = object::<CitySession>([
        needed("id", id()),
        needed("venue", id()),
        needed("hall", id()),
        needed("title", id()),
        needed("starts_at", time()),
        needed("ends_at", time()),
        needed("open", flag()),
    ]);
    let page =
        object::<SessionPage>([needed("sessions", list(component("SessionEntry"))), optional("cursor", words())]);
    let city = object::<CityPage>([needed("sessions", list(component("CitySession"))), optional("cursor", words())]);
    let packed = json!({"type": "string", "contentEncoding": "base64"});
    let seats = about(packed, "Two bits a seat in layout order: 0 free, 1 held, 2 sold, 3 blocked.");
    let map = object::<Of<MapView>>([
        needed("session", id()),
        needed("epoch", count()),
        needed("version", count()),
        needed("counts", component("Counts")),
        optional("areas", list(component("AreaCounts"))),
        needed("seats", seats),
    ]);
    let three = object::<ThreeStates>([
        needed("session", id()),
        needed("epoch", count()),
        needed("version", count()),
        needed("counts", component("Counts")),
        needed("states", about(list(whole(0, 2)), "2 on sale, 1 locked, 0 sold or blocked.")),
    ]);
    vec![
        ("Counts", about(counts, "Seats by state.")),
        ("Area", about(area, "Places without seats, and how many are free, held and sold.")),
        ("AreaCounts", about(area_counts, "Places of an area by state.")),
        ("Session", session),
        ("SessionEntry", entry),
        ("SessionPage", about(page, "Of a venue.")),
        ("CitySession", of_city),
        ("CityPage", about(city, "Of a city.")),
        ("Map", map),
        ("ThreeStates", three),
    ]
}
