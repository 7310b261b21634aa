//! Amounts as spreadsheets write them: `12.50`, `12,50`, `1.234,50 €`, `1 234,5`.

/// What a number shows of the marks of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// It has no mark.
    None,
    /// This letter is the decimal mark.
    Decimal(char),
    /// This letter is either mark.
    Either(char),
    /// It is no number.
    NoNumber,
}

/// What an amount is, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountError {
    /// Not a number above or equal to zero.
    NoNumber,
    /// It may be a thousand times as much.
    Ambiguous,
    /// It has more digits than the currency.
    TooPrecise,
    /// More than prices can say.
    TooHigh,
}

/// The decimal mark of a file whose numbers are these, each with its line. `None` if no number shows it.
///
/// # Errors
/// Two numbers show different marks. The message has their lines.
pub fn decimal_mark<'a>(numbers: impl IntoIterator<Item = (u64, &'a str)>) -> Result<Option<char>, String> {
    let mut found: Option<(char, u64, &str)> = None;
    for (line, number) in numbers {
        let Evidence::Decimal(mark) = evidence(&bare(number)) else { continue };
        match found {
            None => found = Some((mark, line, number)),
            Some((known, _, _)) if known == mark => {}
            Some((_, first, other)) => {
                return Err(format!(
                    "{other} in line {first} and {number} in line {line} have different decimal marks; write all numbers alike"
                ));
            }
        }
    }
    Ok(found.map(|(mark, _, _)| mark))
}

/// An amount in minor units of a currency with this many digits. `mark` is the decimal mark of the file, if known.
///
/// # Errors
/// [`AmountError`].
pub fn minor_units(number: &str, mark: Option<char>, digits: u32) -> Result<i64, AmountError> {
    let number = bare(number);
    let mark = match (evidence(&number), mark) {
        (Evidence::NoNumber, _) => return Err(AmountError::NoNumber),
        (Evidence::None, mark) => mark.unwrap_or('.'),
        (Evidence::Decimal(own), _) => own,
        (Evidence::Either(_), Some(mark)) => mark,
        // Three digits behind the mark are what this currency has.
        (Evidence::Either(own), None) if digits == 3 => own,
        (Evidence::Either(_), None) => return Err(AmountError::Ambiguous),
    };
    let (whole, rest) = number.split_once(mark).unwrap_or((&number, ""));
    let whole: String = whole.chars().filter(char::is_ascii_digit).collect();
    // Zeros are refused as well: they may be a group.
    if rest.len() > digits as usize {
        return Err(AmountError::TooPrecise);
    }
    let minor = format!("{whole}{rest:0<width$}", width = digits as usize);
    minor.parse().map_err(|_| AmountError::TooHigh)
}

/// A number without blanks, apostrophes and signs of currencies. Letters stay, so that they are found.
fn bare(number: &str) -> String {
    const SIGNS: &[char] = &['€', '$', '£', '¥', '₽', '₴', '₺', '₹', '₩', '₫', '¤'];
    let mut text = number.trim().trim_matches(SIGNS).trim();
    for name in ["zł", "Kč", "kr.", "kr", "Ft"] {
        text = text.strip_suffix(name).or_else(|| text.strip_prefix(name)).unwrap_or(text).trim();
    }
    for dash in [",-", ",–", ",—", ".-", ".–", ".—"] {
        text = text.strip_suffix(dash).unwrap_or(text);
    }
    // Groups of three may be parted by blanks of any width and by apostrophes. Other digits beside them are no groups.
    let is_gap = |letter: char| letter.is_whitespace() || matches!(letter, '\'' | '’');
    if text.contains(is_gap) {
        let whole = text.split([',', '.']).next().unwrap_or_default();
        let mut groups = whole.split(is_gap);
        let first = groups.next().unwrap_or_default();
        let three = |group: &str| group.len() == 3 && group.bytes().all(|digit| digit.is_ascii_digit());
        if !(1..=3).contains(&first.len()) || !groups.all(three) || text[whole.len()..].contains(is_gap) {
            return text.to_owned();
        }
    }
    text.chars().filter(|letter| !is_gap(*letter)).collect()
}

fn evidence(number: &str) -> Evidence {
    let only = |letter: char| letter.is_ascii_digit() || matches!(letter, ',' | '.');
    if number.is_empty() || !number.chars().all(only) || !number.ends_with(|last: char| last.is_ascii_digit()) {
        return Evidence::NoNumber;
    }
    let Some(last) = number.rfind([',', '.']) else { return Evidence::None };
    let mark = if number[last..].starts_with(',') { ',' } else { '.' };
    let other = if mark == ',' { '.' } else { ',' };
    let (before, behind) = (&number[..last], &number[last + 1..]);
    match (before.contains(mark), before.contains(other)) {
        (true, true) => Evidence::NoNumber,
        // Several of one kind part groups.
        (true, false) if is_grouped(number, mark) => Evidence::Decimal(other),
        (true, false) => Evidence::NoNumber,
        (false, true) if is_grouped(before, other) => Evidence::Decimal(mark),
        (false, true) => Evidence::NoNumber,
        (false, false) => {
            let may_be_group = behind.len() == 3 && (1..=3).contains(&before.len()) && !before.starts_with('0');
            if may_be_group { Evidence::Either(mark) } else { Evidence::Decimal(mark) }
        }
    }
}

fn is_grouped(number: &str, by: char) -> bool {
    let mut groups = number.split(by);
    let first = groups.next().unwrap_or_default();
    (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(numbers: &[&str], digits: u32) -> Vec<Result<i64, AmountError>> {
        let mark = decimal_mark((1..).zip(numbers.iter().copied())).expect("one mark");
        numbers.iter().map(|number| minor_units(number, mark, digits)).collect()
    }

    #[test]
    fn decimal_commas_and_points_are_read() {
        assert_eq!(
            all(&["12,50", "1.234,50 €", "7", "1 234,5", "0,5", "1.234"], 2),
            [Ok(1_250), Ok(123_450), Ok(700), Ok(123_450), Ok(50), Ok(123_400)]
        );
        assert_eq!(
            all(&["12.50", "$1,234.50", "7", "1'234.5", "1,234"], 2),
            [Ok(1_250), Ok(123_450), Ok(700), Ok(123_450), Ok(123_400)]
        );
        assert_eq!(all(&["1.234.567", "1,5", "12,-"], 2), [Ok(123_456_700), Ok(150), Ok(1_200)]);
        assert_eq!(all(&["1000", "20 kr."], 0), [Ok(1_000), Ok(20)]);
        assert_eq!(all(&["0.500", "2.25"], 3), [Ok(500), Ok(2_250)]);
    }

    #[test]
    fn a_mark_that_nothing_shows_is_not_guessed() {
        assert_eq!(all(&["1.234", "7"], 2), [Err(AmountError::Ambiguous), Ok(700)]);
        assert_eq!(all(&["1,234"], 0), [Err(AmountError::Ambiguous)]);
        assert_eq!(all(&["1.234"], 3), [Ok(1_234)], "the dinar of Kuwait has three digits");
        assert_eq!(all(&["1.234", "2,5"], 3), [Ok(1_234_000), Ok(2_500)]);
        let mixed = decimal_mark([(2, "12,50"), (5, "3.75")]).expect_err("two marks");
        assert_eq!(mixed, "12,50 in line 2 and 3.75 in line 5 have different decimal marks; write all numbers alike");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for wrong in ["", "free", "-1", "1,2,3", "1.2.3,4", "12.", ",", "1 2", "1e3", "10 %", "1.23.456", "1,234.5,6"] {
            assert_eq!(minor_units(wrong, None, 2), Err(AmountError::NoNumber), "{wrong}");
        }
        assert_eq!(minor_units("12.505", Some('.'), 2), Err(AmountError::TooPrecise));
        assert_eq!(minor_units("1.000", Some('.'), 2), Err(AmountError::TooPrecise), "it may be a thousand");
        assert_eq!(minor_units("1.000", Some('.'), 0), Err(AmountError::TooPrecise), "it may be a thousand");
        assert_eq!(minor_units("9999999999999999999", None, 2), Err(AmountError::TooHigh));
    }
}
