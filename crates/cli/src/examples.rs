//! The command line, with an example for each command.

use clap::{CommandFactory, FromArgMatches};

use crate::args::Args;

/// What `--help` of each command shows last. The first words of a line name the command.
const EXAMPLES: [&str; 46] = [
    "demo --port 7180 --open",
    "serve --config boxoffice.toml --data-dir /var/lib/boxoffice",
    "join --config boxoffice.toml --data-dir /var/lib/boxoffice < invitation",
    "import config/examples/royal.json",
    "book hamlet-tonight B5-B8",
    "watch hamlet-tonight",
    "load seed-theatre --baseline load-report/report.json --worse-max 20",
    "inspect /var/lib/boxoffice --turns session/hamlet-tonight",
    "backup /backup/tickets --address https://tickets.example --admin-token-file key",
    "restore /backup/tickets /var/lib/boxoffice --at 2026-12-24T20:00:07Z",
    "export orders --csv --to orders.csv --admin-token-file key",
    "export sessions --backup /backup/tickets --at 2026-12-24T20:00:07Z",
    "verify /var/lib/boxoffice --receipt receipt-2027-01-01.txt",
    "verify /backup/tickets",
    "verify --running --address https://tickets.example --admin-token-file key",
    "sim --seeds 200",
    "completions fish",
    "man /usr/local/share/man/man1",
    "admin status --address https://tickets.example --ca ca.pem --admin-token-file key",
    "admin audit session/hamlet-tonight",
    "admin receipt --admin-token-file key",
    "admin history hamlet-tonight --seat B5",
    "admin map hamlet-tonight --at 2026-11-29T20:00:00+01:00",
    "admin nodes --json",
    "admin drain 4",
    "admin remove 4",
    "admin replace 4",
    "admin upgrade show",
    "admin upgrade finish --admin-token-file key",
    "admin settle order/0f1e2d3c4b5a69788796a5b4c3d2e1f0 1 captured",
    "admin reconcile --config boxoffice.toml --since 2026-12-24T20:00:07Z",
    "admin customer-token ada --customer-secret-file secret",
    "admin invite --for 30m",
    "admin token",
    "admin key create till-3 --role desk --venue royal --to till-3.key",
    "admin key list",
    "admin key revoke till-3",
    "admin release cart/0f1e2d3c4b5a69788796a5b4c3d2e1f0 2 --reason \"double booking\"",
    "admin refund order/0f1e2d3c4b5a69788796a5b4c3d2e1f0 --reason ill",
    "admin sessions --venue royal",
    "admin offers hamlet-tonight --close web",
    "admin code put GLOBE-7Q2M --group members --uses 4",
    "admin code get GLOBE-7Q2M",
    "admin cancel hamlet-tonight --reason \"the lead is ill\"",
    "admin block hamlet-tonight A1-A4",
    "admin unblock hamlet-tonight A1-A4",
];

/// The command line of the program.
pub fn command() -> clap::Command {
    with_examples(Args::command(), "")
}

/// Reads the arguments of this process. Ends it if they are wrong, or ask for help.
pub fn parse() -> Args {
    let matches = command().get_matches();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn with_examples(command: clap::Command, path: &str) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|part| part.get_name().to_owned()).collect();
    let mut command = match example(path).filter(|_| names.is_empty()) {
        Some(example) => command.after_help(format!("Example: boxoffice {example}")),
        None => command,
    };
    for name in names {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(name, |part| with_examples(part, &path));
    }
    command
}

/// The example of the command with this path.
fn example(path: &str) -> Option<&'static str> {
    let is_it =
        |example: &&&str| example.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    EXAMPLES.iter().find(is_it).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of all commands that do something.
    fn paths(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        if !command.has_subcommands() {
            found.push(path.to_owned());
        }
        for part in command.get_subcommands() {
            paths(part, format!("{path} {}", part.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_command_has_an_example_that_it_understands() {
        let mut found = Vec::new();
        paths(&Args::command(), "", &mut found);
        assert!(found.len() > 25, "{found:?}");
        for path in &found {
            let example = example(path).unwrap_or_else(|| panic!("{path} has no example"));
            let words = example.split_once(" <").map_or(example, |(words, _)| words);
            let args = std::iter::once("boxoffice").chain(words.split_whitespace()).map(|word| word.trim_matches('"'));
            // A reason of several words is quoted for the shell.
            let args: Vec<&str> = if words.contains('"') {
                args.take_while(|word| *word != "--reason").chain(["--reason", "why"]).collect()
            } else {
                args.collect()
            };
            if let Err(error) = command().try_get_matches_from(args) {
                panic!("{example}: {error}");
            }
            let help = command().try_get_matches_from(
                path.split(' ')
                    .fold(vec!["boxoffice"], |mut all, word| {
                        all.push(word);
                        all
                    })
                    .into_iter()
                    .chain(["--help"]),
            );
            let help = help.expect_err("help is told as an error").to_string();
            assert!(help.contains(&format!("Example: boxoffice {example}")), "{help}");
        }
    }
}
