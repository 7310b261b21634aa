//! Figures that the README tells of a benchmark stand in the section that it links to, so that a reader finds the run, and one figure
//! is not told in two ways.

use std::{collections::BTreeSet, fs, path::Path};

/// Pages with the runs behind the figures.
const PAGES: [&str; 2] = ["docs/internals/performance.md", "crates/bench/README.md"];

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)).expect("a page")
}

/// The numbers of a text, without inline code and targets of links. Blanks between groups of three digits belong to a number.
fn numbers(text: &str) -> BTreeSet<String> {
    let plain: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut without_links = String::new();
    let mut rest = plain.as_str();
    while let Some((before, target)) = rest.split_once("](") {
        without_links.push_str(before);
        rest = target.split_once(')').map_or("", |(_, rest)| rest);
    }
    without_links.push_str(rest);
    let is_group = |word: &str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers: Vec<String> = Vec::new();
    let mut may_go_on = false;
    for part in without_links.split([' ', '\n']) {
        for (at, word) in part.split(|char: char| !char.is_ascii_digit() && char != '.').enumerate() {
            let word = word.trim_matches('.');
            match numbers.last_mut() {
                Some(last) if at == 0 && may_go_on && is_group(word) => last.push_str(word),
                _ if !word.is_empty() => numbers.push(word.to_owned()),
                _ => {}
            }
        }
        // A group follows a word of at most three digits.
        let word = part.trim_start_matches(|char: char| !char.is_alphanumeric());
        may_go_on = (1..=3).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    }
    numbers.into_iter().collect()
}

/// The text below a heading, up to the next heading that is not below it.
fn section<'a>(page: &'a str, anchor: &str) -> Option<&'a str> {
    let level = |line: &str| line.len() - line.trim_start_matches('#').len();
    let is_heading = |line: &str| level(line) > 0 && line[level(line)..].starts_with(' ');
    let (mut begin, mut at, mut fenced) = (None, 0, false);
    for line in page.split_inclusive('\n') {
        fenced ^= line.starts_with("```");
        if !fenced && is_heading(line) {
            match begin {
                Some((begin, of)) if level(line) <= of => return Some(&page[begin..at]),
                None if crate::pages::anchor(&line[level(line)..]) == anchor => begin = Some((at, level(line))),
                _ => {}
            }
        }
        at += line.len();
    }
    begin.map(|(begin, _)| &page[begin..])
}

/// The sections of the pages with runs to which a row links.
fn linked<'a>(row: &str, pages: &'a [(&str, String)]) -> Vec<&'a str> {
    let targets = row.split("](").skip(1).filter_map(|rest| rest.split_once(')')?.0.split_once('#'));
    let sections = targets.filter_map(|(path, anchor)| {
        let (_, page) = pages.iter().find(|(name, _)| *name == path)?;
        Some(section(page, anchor).unwrap_or_else(|| panic!("{path} has no section {anchor}")))
    });
    sections.collect()
}

/// The number of figures of the README's rows that were compared, and what is wrong with them. Rows of what was measured and rows
/// with a ratio must link to a run. A row that begins with "as above" has the link of the row before.
fn differences(readme: &str, pages: &[(&str, String)]) -> (usize, Vec<String>) {
    let (mut compared, mut wrong) = (0, Vec::new());
    let (mut is_measured, mut sections) = (false, Vec::new());
    for line in readme.lines() {
        if line.starts_with('#') {
            is_measured = line == "## Measured";
        }
        if !line.starts_with("| ") {
            continue;
        }
        if !line.starts_with("| as above |") {
            sections = linked(line, pages);
        }
        let figures = numbers(line);
        if sections.is_empty() {
            if (is_measured || line.contains('×')) && !figures.is_empty() {
                wrong.push(format!("this row does not say where its run is: {line}"));
            }
            continue;
        }
        let told: BTreeSet<String> = sections.iter().flat_map(|section| numbers(section)).collect();
        compared += figures.len();
        let missing = figures.difference(&told);
        wrong.extend(missing.map(|figure| format!("{figure} is not in the linked section: {line}")));
    }
    (compared, wrong)
}

#[test]
fn figures_of_the_readme_are_those_of_the_runs() {
    let (compared, wrong) = differences(&read("README.md"), &PAGES.map(|page| (page, read(page))));
    assert!(compared > 80 && wrong.is_empty(), "{compared} figures compared:\n{}", wrong.join("\n"));
}

/// Each figure of the README is changed in turn, and all places where its section tells it.
#[test]
fn a_figure_that_is_changed_on_either_side_is_found() {
    let page = "# P\n\n## Runs\n\n| 20 901, 14 837 | 1.41 |\n\n### Others\n\nMean 1.31 ms.\n\n## Else\n\n1.50 and 2\n"
        .to_owned();
    let pages = [(PAGES[0], page.clone())];
    let readme = "| what | figure |\n|---|---|\n| [a run](docs/internals/performance.md#runs) | 20 901; Redis 14 837, 1.41 × |\n\
                  | as above | mean 1.31 ms, `--rates 20` |\n";
    assert_eq!(differences(readme, &pages), (4, vec![]));
    for figure in ["20 901", "14 837", "1.41", "1.31"] {
        let changed = figure.replace('1', "7");
        assert_eq!(differences(&readme.replace(figure, &changed), &pages).1.len(), 1, "{figure} in the README");
        let pages = [(PAGES[0], page.replace(figure, &changed))];
        assert_eq!(differences(readme, &pages).1.len(), 1, "{figure} in the section");
    }
    let unlinked =
        differences("## Measured\n\n| a run | 1.31 |\n\n## More\n\n| a run | 1.31 |\n| a run | 1.41 × |\n", &pages).1;
    assert_eq!(unlinked.len(), 2, "{unlinked:?}");
    // A figure of another section does not count.
    assert_eq!(differences(&readme.replace("1.31", "1.50"), &pages).1.len(), 1);
}

#[test]
fn numbers_are_read_with_their_groups() {
    let found = numbers(
        "1 000 000 of 20 901, 0.08/0.14 ms, p99 4.1 (2.8 to 4.1) 80 000. 5 000 and p99 300, [a 7](b#8) `9` 1.5 300",
    );
    let expected = ["0.08", "0.14", "1.5", "1000000", "2.8", "20901", "300", "4.1", "5000", "7", "80000", "99"];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}
