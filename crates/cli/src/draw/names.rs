//! Names of seats: `B5`, `12-5`, `balcony/A3`, and ranges like `B5-B8`.

use std::collections::{BTreeMap, BTreeSet};

use boxoffice_core::{layout::Layout, seat::Seat};

/// The names of a layout's seats.
#[derive(Debug)]
pub struct Names {
    /// The seats of each name, in lower case. There are several if sections use the same row labels.
    meanings: BTreeMap<String, Vec<u32>>,
    /// The name of each seat, by index.
    called: Vec<String>,
    /// The row of each seat, and its label.
    rows: Vec<u16>,
    labels: Vec<String>,
    /// The label of each row.
    row_labels: Vec<String>,
}

/// Why a text does not name seats.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("no seats were named; name some, like {example}")]
    Nothing { example: String },
    /// No seat has this name.
    #[error("there is no seat {0}; seats are called by row and seat, like {1}")]
    Unknown(String, String),
    /// Several seats have this name, in different sections or in another case.
    #[error("{0} may be {1}; say which")]
    Ambiguous(String, String),
    /// A range from one row into another.
    #[error("{0}: a range stays in one row; name each row by itself")]
    AcrossRows(String),
}

impl Names {
    /// The names in this layout.
    pub fn of(layout: &Layout) -> Names {
        let mut plain = Vec::new();
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        let mut meanings: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for index in 0..layout.seats() {
            let (row, seat) = (layout.row_label(index), layout.seat_label(index));
            let short = joined(row, &seat);
            let long = format!("{row}-{seat}");
            let place = layout.seat(index).row;
            let mut all = BTreeSet::from([short.to_lowercase(), long.to_lowercase()]);
            if let Some(section) = &layout.rows()[usize::from(place)].section {
                let with_section: Vec<String> =
                    all.iter().map(|name| format!("{}/{name}", section.as_str().to_lowercase())).collect();
                all.extend(with_section);
            }
            for name in all {
                meanings.entry(name).or_default().push(index);
            }
            plain.push(short);
            rows.push(place);
            labels.push(seat.to_string());
        }
        let called = (0..layout.seats())
            .zip(plain)
            .map(|(index, short)| match &layout.rows()[usize::from(rows[index as usize])].section {
                Some(section) if meanings[&short.to_lowercase()].len() > 1 => format!("{section}/{short}"),
                _ => short,
            })
            .collect();
        let row_labels = layout.rows().iter().map(|row| row.label.to_string()).collect();
        Names { meanings, called, rows, labels, row_labels }
    }

    /// The name of a seat.
    pub fn name(&self, index: u32) -> &str {
        &self.called[index as usize]
    }

    /// The index of a seat. `None` if there is no such seat.
    pub fn index(&self, seat: Seat) -> Option<u32> {
        let first = self.rows.partition_point(|row| *row < seat.row);
        let index = first + usize::from(seat.seat);
        (self.rows.get(index) == Some(&seat.row)).then_some(index as u32)
    }

    /// The names of seats, with ranges for neighbours: `B5–B8, C1`.
    pub fn list(&self, indexes: &[u32]) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut sorted = indexes.to_vec();
        sorted.sort_unstable();
        let goes_on = |one: &u32, next: &u32| one + 1 == *next && self.rows[*one as usize] == self.rows[*next as usize];
        for run in sorted.chunk_by(goes_on) {
            let (first, last) = (run[0], run[run.len() - 1]);
            match run.len() {
                1 => parts.push(self.name(first).to_owned()),
                2 => parts.extend([self.name(first).to_owned(), self.name(last).to_owned()]),
                _ => parts.push(format!("{}–{}", self.name(first), self.name(last))),
            }
        }
        parts.join(", ")
    }

    /// Reads names of seats, separated by spaces and commas. Returns the seats sorted, each once.
    ///
    /// # Errors
    /// [`NameError`] for the first name without a seat.
    pub fn read<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<Vec<u32>, NameError> {
        let mut seats = BTreeSet::new();
        for words in words {
            // A label may contain spaces. Then it is an argument of its own.
            if let Some(found) = self.whole(words.trim())? {
                seats.insert(found);
                continue;
            }
            for word in words.split(|char: char| char == ',' || char.is_whitespace()).filter(|word| !word.is_empty()) {
                seats.extend(self.word(word)?);
            }
        }
        if seats.is_empty() {
            return Err(NameError::Nothing { example: self.called[0].clone() });
        }
        Ok(seats.into_iter().collect())
    }

    fn word(&self, word: &str) -> Result<Vec<u32>, NameError> {
        if let Some(seat) = self.whole(word)? {
            return Ok(vec![seat]);
        }
        // `12-5-12-8` has three dashes, and only one of them is between two seats.
        for (at, dash) in word.char_indices().filter(|(_, char)| matches!(char, '-' | '–')) {
            let (from, to) = (&word[..at], &word[at + dash.len_utf8()..]);
            let Some(first) = self.whole(from)? else { continue };
            let Some(last) = self.end_of_range(first, to)? else { continue };
            if self.rows[first as usize] != self.rows[last as usize] {
                return Err(NameError::AcrossRows(word.to_owned()));
            }
            return Ok((first.min(last)..=first.max(last)).collect());
        }
        Err(NameError::Unknown(word.to_owned(), self.called[0].clone()))
    }

    /// The seat with this name. Of several the one that is written exactly so, because rows `A` and `a` are two.
    fn whole(&self, name: &str) -> Result<Option<u32>, NameError> {
        let several = match self.meanings.get(&name.to_lowercase()).map(Vec::as_slice) {
            None => return Ok(None),
            Some([seat]) => return Ok(Some(*seat)),
            Some(several) => several,
        };
        // What the map calls a seat names it, also where a row without a section has the label of one in a section.
        let only = |is_it: &dyn Fn(u32) -> bool| {
            let mut found = several.iter().copied().filter(|index| is_it(*index));
            found.next().filter(|_| found.next().is_none())
        };
        let exact = only(&|index| self.name(index) == name).or_else(|| only(&|index| self.is_written(index, name)));
        exact.map(Some).ok_or_else(|| {
            let names: Vec<&str> = several.iter().map(|index| self.name(*index)).collect();
            NameError::Ambiguous(name.to_owned(), names.join(" or "))
        })
    }

    /// Whether a name of a seat is in the same case as its labels. A section before it is not looked at, because ids of sections
    /// that differ only in case are told apart by the name of the seat.
    fn is_written(&self, index: u32, name: &str) -> bool {
        let (row, seat) = (&self.row_labels[usize::from(self.rows[index as usize])], &self.labels[index as usize]);
        name.ends_with(&joined(row, seat)) || name.ends_with(&format!("{row}-{seat}"))
    }

    /// The last seat of a range, from a whole name or only the part after the row.
    fn end_of_range(&self, first: u32, to: &str) -> Result<Option<u32>, NameError> {
        let row = self.rows[first as usize];
        // In the row of the first seat the name is unique, apart from case.
        let there = |name: &str| {
            let meant = self.meanings.get(&name.to_lowercase())?;
            let here = || meant.iter().copied().filter(|index| self.rows[*index as usize] == row);
            here().find(|index| self.is_written(*index, name)).or_else(|| here().next())
        };
        if let Some(last) = there(to) {
            return Ok(Some(last));
        }
        let in_row =
            || self.rows.partition_point(|other| *other < row)..self.rows.partition_point(|other| *other <= row);
        let lower = to.to_lowercase();
        let last = in_row().find(|index| self.labels[*index] == to);
        let last = last.or_else(|| in_row().find(|index| self.labels[*index].to_lowercase() == lower));
        match last {
            Some(index) => Ok(Some(index as u32)),
            None => self.whole(to),
        }
    }
}

/// A row and a seat as one word, with a dash if the end of the row would not be clear.
pub fn joined(row: &str, seat: &str) -> String {
    let unclear = match (row.chars().next_back(), seat.chars().next()) {
        (Some(end), Some(start)) => {
            (end.is_numeric() && start.is_numeric()) || (end.is_alphabetic() && start.is_alphabetic())
        }
        _ => false,
    };
    if unclear { format!("{row}-{seat}") } else { format!("{row}{seat}") }
}
