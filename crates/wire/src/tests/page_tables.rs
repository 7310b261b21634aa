//! Tables of pages that are made of the crate's own tables.

/// Checks that a page of `docs/reference` has these tables, which begin and end with a mark. Writes them into the page if `UPDATE_EXPECT` is
/// set.
///
/// # Panics
/// The page has other tables, or a mark is missing.
pub(super) fn check(page: &str, (begin, end): (&str, &str), tables: &str) {
    let path = format!("{}/../../docs/reference/{page}", env!("CARGO_MANIFEST_DIR"));
    let mut document = std::fs::read_to_string(&path).expect("the page is there");
    let first = document.find(begin).expect("the page has the mark where the tables begin");
    let last = first + document[first..].find(end).expect("the page has the mark where they end") + end.len();
    if document[first..last] == *tables {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_EXPECT").is_some(),
        "the tables of docs/reference/{page} are not those of the code"
    );
    document.replace_range(first..last, tables);
    std::fs::write(path, document).expect("the page can be written");
}
