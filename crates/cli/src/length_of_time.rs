//! Lengths of time on the command line.

/// A time like `90s`, `30m`, `1h` or `7d`, in milliseconds.
///
/// # Errors
/// The text is none.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let units = [('s', 1_000_u64), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];
    let read = units.into_iter().find_map(|(letter, unit_ms)| {
        let number = text.strip_suffix(letter)?.parse::<u64>().ok()?;
        number.checked_mul(unit_ms)
    });
    read.filter(|ms| *ms > 0).ok_or_else(|| format!("{text:?} is no time like 90s, 30m, 1h or 7d"))
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("90s"), Ok(90_000));
        assert_eq!(parse_time("30m"), Ok(1_800_000));
        assert_eq!(parse_time("1h"), Ok(3_600_000));
        assert_eq!(parse_time("7d"), Ok(604_800_000));
        for wrong in ["", "1", "h", "0h", "-1h", "1.5h", "1 h", "99999999999999999999d", "9999999999999999d", "1w"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
