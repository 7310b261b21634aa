//! Cursors of lists, as text. A cursor is read in the one form in which a page gives it. So every other text is refused, and no
//! list has to do with a place that it never named.

use smol_str::{SmolStr, format_smolstr};

use crate::time::{TIMESTAMP_MAX, Timestamp};

/// The most entries of one page.
pub const PAGE_MAX: u32 = 1_000;

/// The cursor after an entry of a list that is ordered by time, then name. It is `MILLISECONDS/NAME`.
pub fn by_time(at: Timestamp, name: &str) -> SmolStr {
    format_smolstr!("{}/{name}", at.0)
}

/// The time and name of such a cursor, if `name` understands the name.
pub fn read_by_time<T>(cursor: &str, name: impl FnOnce(&str) -> Option<T>) -> Option<(Timestamp, T)> {
    let (at, rest) = cursor.split_once('/')?;
    let at = number(at).map(Timestamp).filter(|at| *at <= TIMESTAMP_MAX)?;
    Some((at, name(rest)?))
}

/// A number in decimal digits, without a sign and without zeros in front.
pub fn number(text: &str) -> Option<u64> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_canonical { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::{by_time, number, read_by_time};
    use crate::time::{TIMESTAMP_MAX, Timestamp};

    #[test]
    fn a_number_has_one_form() {
        for known in [0, 1, 10, 1_775_995_200_000, u64::MAX] {
            assert_eq!(number(&known.to_string()), Some(known));
        }
        let long = "18446744073709551616";
        for other in ["", "+1", "-1", "01", "00", " 1", "1 ", "1_000", "1.0", "1e3", "0x1", "\u{661}", long] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn a_cursor_has_a_time_up_to_the_end_of_time_and_everything_behind_the_slash_is_the_name() {
        let read = |text: &str| read_by_time(text, |name| (name == "a/b").then_some(()));
        assert_eq!(read(&by_time(Timestamp(5), "a/b")), Some((Timestamp(5), ())));
        assert_eq!(read(&by_time(TIMESTAMP_MAX, "a/b")), Some((TIMESTAMP_MAX, ())));
        assert_eq!(read(&by_time(Timestamp(TIMESTAMP_MAX.0 + 1), "a/b")), None);
        for other in ["5", "5/", "/a/b", "5//a/b", "5/a/b/", "05/a/b", "a/b/5", ""] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
