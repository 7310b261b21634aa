//! The word that was meant: `adress` is `address`.

/// The known word that is nearest to a word. `None` if none is near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // A third of the letters may be wrong, and at least one.
    let most = (word.chars().count() / 3).max(1);
    let near = known.into_iter().map(|known| (distance(&word, known), known)).filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// How many letters are left out, put in, replaced, or exchanged with the next one.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, against) in other.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != against);
            let mut least = replaced.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *letter == other[column - 1] && one[row - 1] == *against {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_strange_one_is_not() {
        let known = ["address", "anonymous", "origins", "drain_ms", "id"];
        for (word, meant) in [
            ("adress", Some("address")),
            ("Address", Some("address")),
            ("orignis", Some("origins")),
            ("drain", None),
            ("drain_m", Some("drain_ms")),
            ("di", Some("id")),
            ("title", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }

    #[test]
    fn distances_count_single_mistakes() {
        for (one, other, expected) in
            [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("abcd", "acbd", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (expected, expected), "{one} {other}");
        }
    }
}
