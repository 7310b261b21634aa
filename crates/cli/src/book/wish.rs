//! What a buyer types.

use boxoffice_core::seat::HOLD_SEATS_MAX;

use crate::draw::Names;

/// What is wished for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// These seats, by index.
    Seats(Vec<u32>),
    /// This many of the best seats.
    Best(u16),
    /// These held seats back; all if absent.
    GiveBack(Option<Vec<u32>>),
    /// What is held, for good.
    Buy,
    /// Nothing more.
    Leave,
    /// Nothing yet.
    Nothing,
}

impl Wish {
    /// The wish in these words; what some of them mean depends on whether anything is held.
    ///
    /// # Errors
    /// In words, what cannot be understood.
    pub fn read(words: &str, names: &Names, holding: bool) -> Result<Wish, String> {
        let trimmed = words.trim();
        let lower = trimmed.to_lowercase();
        let (first, rest) = lower.split_once(char::is_whitespace).unwrap_or((&lower, ""));
        let rest = rest.trim();
        match (first, rest) {
            ("", _) if holding => return Ok(Wish::Buy),
            ("", _) => return Ok(Wish::Nothing),
            ("y" | "yes" | "buy", "") if holding => return Ok(Wish::Buy),
            ("y" | "yes" | "buy", "") => return Err("nothing is held yet; name seats first".into()),
            ("q" | "quit" | "exit", "") => return Ok(Wish::Leave),
            ("b" | "back", "") if holding => return Ok(Wish::GiveBack(None)),
            ("b" | "back", seats) if holding => {
                return names.read([seats]).map(|seats| Wish::GiveBack(Some(seats))).map_err(|error| error.to_string());
            }
            ("b" | "back", _) => return Err("nothing is held yet; name seats first".into()),
            ("best", "") => return Ok(Wish::Best(1)),
            ("best", count) => return best(count),
            (count, "best") => return best(count),
            _ => {}
        }
        match names.read([trimmed]) {
            Ok(seats) if seats.len() > HOLD_SEATS_MAX => {
                Err(format!("these are {} seats; at most {HOLD_SEATS_MAX} at once", seats.len()))
            }
            Ok(seats) => Ok(Wish::Seats(seats)),
            Err(_) if trimmed.bytes().all(|byte| byte.is_ascii_digit()) => best(trimmed),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn best(count: &str) -> Result<Wish, String> {
    match count.parse::<u16>() {
        Ok(count) if (1..=HOLD_SEATS_MAX).contains(&usize::from(count)) => Ok(Wish::Best(count)),
        _ => Err(format!("{count}: how many of the best seats? 1 to {HOLD_SEATS_MAX}")),
    }
}
