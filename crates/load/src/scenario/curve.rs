//! The curve of a sale that was recorded, as the stages of an open loop.

use std::{fs, path::Path};

use super::{OpenLoopSpec, ScenarioError, StageSpec, source::ScenarioSource};

const KEY: &str = "open_loop.curve";

/// Reads the curve that the scenario names into its stages. Its path is relative to the scenario's file.
pub(super) fn follow(open: &mut OpenLoopSpec, origin: &str, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
    let Some(name) = open.curve.clone() else { return Ok(()) };
    if !open.stages.is_empty() {
        return Err(source.malformed_at(KEY, "there are stages and a curve; leave one out"));
    }
    let path = Path::new(origin).parent().unwrap_or(Path::new("")).join(name);
    let origin = path.display().to_string();
    let text = fs::read_to_string(&path).map_err(|error| ScenarioError::Unreadable { path: origin.clone(), error })?;
    open.stages = stages(&text)
        .map_err(|(line, message)| ScenarioError::Malformed { location: format!("{origin}:{line}"), message })?;
    // The report's scenario has the stages, so that it can be read without the file.
    open.curve = None;
    Ok(())
}

/// The stages of a curve. A line is `SECONDS,FLOWS_PER_SECOND`: the rate holds from this second until that of the next line, and the
/// last line ends the curve. An error is the number of its line, from 1, and what is wrong.
fn stages(text: &str) -> Result<Vec<StageSpec>, (usize, String)> {
    let mut stages = Vec::new();
    let mut last: Option<(u32, u32)> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |message: String| (index + 1, message);
        let columns: Option<Vec<u32>> = line.split(',').map(|column| column.trim().parse().ok()).collect();
        let Some(&[second, per_second]) = columns.as_deref() else {
            let what = "give a second of the curve, a comma, and the flows a second from then on, such as 30,250";
            return Err(fail(format!("{line:?} is no line of a curve: {what}")));
        };
        match last {
            None if second != 0 => return Err(fail("the curve begins at second 0".to_owned())),
            Some((before, _)) if second <= before => {
                return Err(fail(format!("second {second} comes after second {before}; put the lines in order")));
            }
            Some((before, per_second)) => {
                stages.push(StageSpec { per_second, to_per_second: None, seconds: second - before });
            }
            None => {}
        }
        last = Some((second, per_second));
    }
    if stages.is_empty() {
        return Err((1, "a curve has at least two lines; the last one is its end".to_owned()));
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_a_list_of_stages() {
        let read = stages("# an on-sale\n0, 10\n30, 250\n\n32,40\n60,0\n").expect("a curve");
        let seen: Vec<(u32, u32)> = read.iter().map(|stage| (stage.per_second, stage.seconds)).collect();
        assert_eq!(seen, [(10, 30), (250, 2), (40, 28)]);
        for (text, line, word) in [
            ("0,1\n5;2\n", 2, "is no line of a curve"),
            ("0,1,3\n", 1, "is no line of a curve"),
            ("1,1\n2,1\n", 1, "begins at second 0"),
            ("0,1\n5,1\n5,2\n", 3, "put the lines in order"),
            ("0,1\n", 1, "at least two lines"),
        ] {
            let (at, message) = stages(text).expect_err(text);
            assert!(at == line && message.contains(word), "{text:?}: line {at}: {message}");
        }
    }
}
