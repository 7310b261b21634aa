//! Labels and names that people cannot tell apart.
//!
//! Two labels are alike if they have the same letters after normalization (NFC), without invisible and control characters and with
//! blanks folded, where letters of other scripts that look like Latin ones (Unicode Technical Standard 39) count as those. Case and
//! digits count. Requests and imports are checked. Stored layouts are never, so a rule that changes makes none unreadable.

use std::{borrow::Cow, collections::BTreeMap};

use boxoffice_core::{
    id::Id,
    layout::{Labels, Layout},
    names::Names,
};
use smol_str::SmolStr;
use unicode_normalization::UnicodeNormalization;
use unicode_script::{Script, UnicodeScript};
use unicode_security::skeleton;

/// The form in which two labels that look the same are equal. It is for comparison only.
pub fn likeness(label: &str) -> Cow<'_, str> {
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if is_plain(label) && label.trim() == label && !label.contains("  ") {
        return Cow::Borrowed(label);
    }
    let mut text = String::with_capacity(label.len());
    for letter in label.nfd() {
        if is_blank(letter) {
            if !text.is_empty() && !text.ends_with(' ') {
                text.push(' ');
            }
        } else if !is_invisible(letter) {
            push_latin(&mut text, letter);
        }
    }
    Cow::Owned(text.trim_end().nfc().collect())
}

/// Blanks of any width, line ends and tabs, and the Braille cell without a dot.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter == '\u{2800}'
}

/// Control characters, and those that are drawn as nothing.
fn is_invisible(letter: char) -> bool {
    !letter.is_ascii_graphic() && (letter.is_control() || skeleton(letter.encode_utf8(&mut [0; 4])).next().is_none())
}

/// Adds a letter, or the Latin one that it looks like.
fn push_latin(text: &mut String, letter: char) {
    // Letters and digits of the full width.
    if let Some(narrow) =
        ('\u{ff01}'..='\u{ff5e}').contains(&letter).then(|| letter as u32 - 0xfee0).and_then(char::from_u32)
    {
        return text.push(narrow);
    }
    // Roman numerals that are one character.
    if ('\u{2160}'..='\u{217f}').contains(&letter) {
        return text.extend(std::iter::once(letter).nfkd());
    }
    if letter.is_ascii() || !letter.is_alphabetic() || letter.script() == Script::Latin {
        return text.push(letter);
    }
    let mut buffer = [0; 4];
    let looks: String = skeleton(letter.encode_utf8(&mut buffer)).collect();
    match looks.as_str() {
        looks if looks.is_empty() || !looks.bytes().all(|byte| byte.is_ascii_alphabetic()) => text.push(letter),
        // In the table `I` and `m` are `l` and `rn`.
        "rn" => text.push('m'),
        looks if letter.is_uppercase() => {
            text.extend(looks.chars().map(|letter| if letter == 'l' { 'I' } else { letter }))
        }
        looks => text.push_str(looks),
    }
}

/// A label as a message shows it, with the numbers of its letters where they are what differs.
pub fn shown(label: &str) -> String {
    let strange: Vec<String> = label
        .chars()
        .filter(|letter| !letter.is_ascii_graphic() && *letter != ' ')
        .take(4)
        .map(|letter| format!("U+{:04X}", letter as u32))
        .collect();
    let plain: String = label.chars().filter(|letter| !is_invisible(*letter)).collect();
    if strange.is_empty() { format!("`{plain}`") } else { format!("`{plain}` ({})", strange.join(" ")) }
}

/// Checks that people can tell the rows of each section, the seats of each row, and the names of sections and categories apart.
///
/// # Errors
/// The first two labels that look the same, in words.
pub fn check(layout: &Layout) -> Result<(), String> {
    let mut rows: BTreeMap<(Option<&Id>, SmolStr), &SmolStr> = BTreeMap::new();
    for row in layout.rows() {
        let place = match &row.section {
            Some(section) => format!("section {section}"),
            None => "the hall".into(),
        };
        let key = seen("row", &row.label)?;
        if let Some(other) = rows.insert((row.section.as_ref(), key), &row.label) {
            return Err(alike(&format!("two rows of {place}"), other, &row.label));
        }
        // Numbers that are not the same look different.
        if row.runs.iter().all(|run| matches!(run.labels, Labels::Numbers { .. })) {
            continue;
        }
        let mut seats: BTreeMap<SmolStr, SmolStr> = BTreeMap::new();
        for run in &row.runs {
            for place in 0..usize::from(run.count) {
                let Some(label) = run.labels.label(place) else { continue };
                let key = seen("seat", &label)?;
                if let Some(other) = seats.insert(key, label.clone()) {
                    return Err(alike(&format!("two seats of row {}", row.label), &other, &label));
                }
            }
        }
    }
    let mut sections: Vec<&Id> = layout.rows().iter().filter_map(|row| row.section.as_ref()).collect();
    sections.sort_unstable();
    sections.dedup();
    let of =
        |names: &[(Id, Names)], id: &Id| names.iter().find(|(known, _)| known == id).map(|(_, names)| names.clone());
    let named = |ids: Vec<&Id>, names: &[(Id, Names)]| -> Vec<(SmolStr, Names)> {
        ids.into_iter().map(|id| (SmolStr::new(id.as_str()), of(names, id).unwrap_or_default())).collect()
    };
    check_names("sections", &named(sections, &layout.names().sections))?;
    check_names("categories", &named(layout.categories().iter().collect(), &layout.names().categories))
}

/// Checks that no reader sees the same name for two things of a kind. Each has a name for readers of locales without one.
///
/// # Errors
/// The first two names that look the same, in words.
pub fn check_names(kind: &str, things: &[(SmolStr, Names)]) -> Result<(), String> {
    let mut locales: Vec<&SmolStr> =
        things.iter().flat_map(|(_, names)| names.iter().map(|(locale, _)| locale)).collect();
    locales.sort_unstable();
    locales.dedup();
    for locale in locales.into_iter().map(Some).chain([None]) {
        let mut known: BTreeMap<SmolStr, &SmolStr> = BTreeMap::new();
        for (usual, names) in things {
            let own = names.iter().find(|(known, _)| Some(*known) == locale).map(|(_, name)| name);
            let name = own.unwrap_or(usual);
            let key = seen("name", name)?;
            if let Some(other) = known.insert(key, name) {
                let reader = locale.map_or_else(String::new, |locale| format!(" for readers of {locale}"));
                return Err(alike(&format!("two {kind}{reader}"), other, name));
            }
        }
    }
    Ok(())
}

/// The likeness of a label that people can see.
fn seen(kind: &str, label: &str) -> Result<SmolStr, String> {
    match likeness(label) {
        empty if empty.is_empty() => {
            Err(format!("a {kind} has a label that shows nothing, {}; write letters or digits", shown(label)))
        }
        visible => Ok(SmolStr::new(visible)),
    }
}

fn alike(what: &str, one: &str, other: &str) -> String {
    format!("{what} look the same, {} and {}; call one of them something else", shown(one), shown(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_look_the_same_are_alike() {
        for (one, other) in [
            // Composed and decomposed.
            ("\u{e9}", "e\u{301}"),
            // Invisible and control characters.
            ("A1", "A\u{200b}1"),
            ("A1", "\u{feff}A1"),
            ("A1", "A\u{ad}1\u{200e}"),
            ("A1", "A\u{7}1"),
            // Blanks.
            ("Box 1", "Box\u{a0}1"),
            ("Box 1", " Box \t 1 "),
            ("Box 1", "Box\u{2800}1"),
            // Cyrillic and Greek.
            ("A", "\u{410}"),
            ("A", "\u{391}"),
            ("B", "\u{412}"),
            ("I", "\u{406}"),
            ("I", "\u{399}"),
            ("o", "\u{43e}"),
            ("\u{eb}", "\u{451}"),
            ("Loge C", "Loge \u{421}"),
            // Roman numerals that are one character, and the full width.
            ("II", "\u{2161}"),
            ("A1", "\u{ff21}\u{ff11}"),
        ] {
            assert_eq!(likeness(one), likeness(other), "{one:?} and {other:?}");
        }
    }

    #[test]
    fn labels_that_look_different_are_not_alike() {
        for (one, other) in [
            ("A", "a"),
            ("1", "l"),
            ("1", "I"),
            ("0", "O"),
            ("I", "l"),
            ("m", "rn"),
            ("e", "\u{e9}"),
            ("A1", "A 1"),
            ("東", "東上"),
            ("Б", "6"),
            ("\u{416}", "X"),
        ] {
            assert_ne!(likeness(one), likeness(other), "{one:?} and {other:?}");
        }
    }
}
