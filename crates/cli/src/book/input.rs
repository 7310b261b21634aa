//! The input of a buyer.

use boxoffice_core::seat::HOLD_SEATS_MAX;

use crate::draw::Names;

/// A parsed line of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// These seats, by index.
    Seats(Vec<u32>),
    /// This many of the best seats.
    Best(u16),
    /// Release these held seats. All if absent.
    GiveBack(Option<Vec<u32>>),
    /// Check out.
    Buy,
    Leave,
    /// An empty line.
    Nothing,
}

impl Input {
    /// Parses a line. Some words depend on whether anything is held.
    ///
    /// # Errors
    /// Why the line cannot be understood.
    pub fn read(words: &str, names: &Names, holding: bool) -> Result<Input, String> {
        let trimmed = words.trim();
        let lower = trimmed.to_lowercase();
        let (first, rest) = lower.split_once(char::is_whitespace).unwrap_or((&lower, ""));
        let rest = rest.trim();
        // Names of seats keep their case.
        let seats = trimmed.split_once(char::is_whitespace).map_or("", |(_, seats)| seats.trim());
        match (first, rest) {
            ("", _) if holding => return Ok(Input::Buy),
            ("", _) => return Ok(Input::Nothing),
            ("y" | "yes" | "buy", "") if holding => return Ok(Input::Buy),
            ("y" | "yes" | "buy", "") => return Err("nothing is held yet; name seats first".into()),
            ("q" | "quit" | "exit", "") => return Ok(Input::Leave),
            ("b" | "back", "") if holding => return Ok(Input::GiveBack(None)),
            ("b" | "back", _) if holding => {
                return names
                    .read([seats])
                    .map(|seats| Input::GiveBack(Some(seats)))
                    .map_err(|error| error.to_string());
            }
            ("b" | "back", _) => return Err("nothing is held yet; name seats first".into()),
            ("best", "") => return Ok(Input::Best(1)),
            ("best", count) => return best(count),
            (count, "best") => return best(count),
            _ => {}
        }
        match names.read([trimmed]) {
            Ok(seats) if seats.len() > HOLD_SEATS_MAX => {
                Err(format!("these are {} seats; at most {HOLD_SEATS_MAX} at once", seats.len()))
            }
            Ok(seats) => Ok(Input::Seats(seats)),
            Err(_) if trimmed.bytes().all(|byte| byte.is_ascii_digit()) => best(trimmed),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn best(count: &str) -> Result<Input, String> {
    match count.parse::<u16>() {
        Ok(count) if (1..=HOLD_SEATS_MAX).contains(&usize::from(count)) => Ok(Input::Best(count)),
        _ => Err(format!("{count}: how many of the best seats? 1 to {HOLD_SEATS_MAX}")),
    }
}
