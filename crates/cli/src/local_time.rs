//! Instants as the clocks of a place show them. The zone is always named, because a terminal may be elsewhere.

use boxoffice_client::Timestamp;
use boxoffice_core::calendar::Zone;
use boxoffice_wire::repr;

const MINUTE_MS: i64 = 60_000;

/// The zone of this name, or UTC by name if there is none or this program does not know it.
pub fn zone_or_utc(name: Option<&str>) -> Zone {
    name.and_then(Zone::new).unwrap_or_else(Zone::utc)
}

/// An instant for people: `2026-12-24 19:30 Europe/Copenhagen`.
pub fn date_and_time_in(zone: &Zone, at: Timestamp) -> String {
    match zone.civil(at) {
        Some(local) => {
            let text = local.to_string();
            format!("{} {} {zone}", &text[..10], &text[11..16])
        }
        None => "beyond the year 9999".into(),
    }
}

/// An instant with its seconds and the offset of the zone, in RFC 3339: `2026-10-25T02:30:07+02:00`.
pub fn instant(zone: &Zone, at: Timestamp) -> String {
    match (zone.civil(at), zone.offset_ms(at)) {
        (Some(local), Some(offset_ms)) => {
            let (sign, minutes) = (if offset_ms < 0 { '-' } else { '+' }, offset_ms.abs() / MINUTE_MS);
            let local = local.to_string();
            // It leaves out what is zero: the seconds, and parts of them.
            let (to_minutes, seconds) = (&local[..16], local.get(16..19).unwrap_or(":00"));
            format!("{to_minutes}{seconds}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
        _ => "beyond the year 9999".into(),
    }
}

/// An instant as an import file may say it: `2026-10-25T02:30+02:00`.
pub fn with_offset(zone: &Zone, at: Timestamp) -> String {
    match (zone.civil(at), zone.offset_ms(at)) {
        (Some(local), Some(offset_ms)) => {
            let (sign, minutes) = (if offset_ms < 0 { '-' } else { '+' }, offset_ms.abs() / MINUTE_MS);
            format!("{}{sign}{:02}:{:02}", &local.to_string()[..16], minutes / 60, minutes % 60)
        }
        _ => "beyond the year 9999".into(),
    }
}

/// The instant of a text on the command line.
///
/// # Errors
/// It is none.
pub fn parse_instant(text: &str) -> Result<Timestamp, String> {
    let wanted = "an instant with its zone, like 2026-11-29T20:00:00+01:00 or 2026-11-29T19:00:00Z";
    repr::timestamp(text).ok_or_else(|| format!("it is not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_told_by_the_clocks_of_the_place() {
        let at = Timestamp(1_798_140_605_123);
        let of = |name: Option<&str>| date_and_time_in(&zone_or_utc(name), at);
        assert_eq!(of(Some("Europe/Copenhagen")), "2026-12-24 20:30 Europe/Copenhagen");
        assert_eq!(of(Some("America/New_York")), "2026-12-24 14:30 America/New_York");
        assert_eq!(of(Some("Asia/Kathmandu")), "2026-12-25 01:15 Asia/Kathmandu");
        assert_eq!(of(Some("Atlantis/City")), "2026-12-24 19:30 UTC");
        assert_eq!(of(None), "2026-12-24 19:30 UTC");
        let with = |name: &str| with_offset(&zone_or_utc(Some(name)), at);
        assert_eq!(with("America/New_York"), "2026-12-24T14:30-05:00");
        assert_eq!(with("Asia/Kathmandu"), "2026-12-25T01:15+05:45");
    }
}
