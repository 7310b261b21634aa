//! The frames of the floor. They equal Boxoffice's frames for the same change, byte for byte except for the numbers.

use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Seats of the watched map, as many as in Boxoffice's session.
const SEATS: u64 = 900;

/// The answer to `watch`.
pub(crate) fn granted() -> Utf8Bytes {
    Utf8Bytes::from_static(r#"{"id":1,"ok":{"feed":1}}"#)
}

/// The map at a version.
pub(crate) fn snapshot(version: u64, session: &str) -> Utf8Bytes {
    let seats = "A".repeat(SEATS as usize / 3);
    let free = SEATS - version % 2;
    let held = version % 2;
    format!(
        r#"{{"feed":1,"snapshot":{{"entity":"session/{session}","epoch":1,"version":{version},"counts":{{"free":{free},"held":{held},"sold":0,"blocked":0}},"seats":"{seats}"}}}}"#
    )
    .into()
}

/// The delta of one seat that is held or released.
pub(crate) fn delta(to: u64) -> Utf8Bytes {
    let (from, held) = (to - 1, to % 2);
    let (seat, free) = (to % SEATS, SEATS - held);
    let state = if held == 1 { "held" } else { "free" };
    format!(
        r#"{{"feed":1,"delta":{{"from":{from},"to":{to},"changes":[[{seat},"{state}"]],"counts":{{"free":{free},"held":{held},"sold":0,"blocked":0}}}}}}"#
    )
    .into()
}
