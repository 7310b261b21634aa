//! `boxoffice completions` and `boxoffice man`: made from the command line itself, so that they have every command and flag.

use std::{io::Write, path::Path};

use clap_complete::Shell;

use crate::{
    examples::command,
    failure::{Failure, Outcome},
};

/// Prints the completions of a shell.
pub fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "boxoffice", &mut script);
    print(&script);
    Ok(())
}

/// Prints the page of the program, or writes those of all commands into a directory.
///
/// # Errors
/// [`Failure::Usage`] if the directory cannot be written.
pub fn pages(directory: Option<&Path>) -> Outcome {
    let Some(directory) = directory else {
        print(&page(command()));
        return Ok(());
    };
    let failed = |error| Failure::Usage(format!("{}: cannot be written: {error}", directory.display()));
    std::fs::create_dir_all(directory).map_err(failed)?;
    for (name, page) in all_pages() {
        std::fs::write(directory.join(format!("{name}.1")), page).map_err(failed)?;
    }
    Ok(())
}

/// The pages of the program and of every command, by name.
fn all_pages() -> Vec<(String, Vec<u8>)> {
    let mut program = command();
    program.build();
    let mut left = vec![("boxoffice".to_owned(), program)];
    let mut pages = Vec::new();
    while let Some((name, command)) = left.pop() {
        let parts = command.get_subcommands().filter(|part| part.get_name() != "help");
        left.extend(parts.map(|part| (format!("{name}-{}", part.get_name()), part.clone())));
        // A command keeps its name for as long as the program runs.
        let full: &'static str = Box::leak(name.clone().into_boxed_str());
        pages.push((name, page(command.name(full))));
    }
    pages.sort();
    pages
}

fn page(command: clap::Command) -> Vec<u8> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).expect("a vector can be written");
    page
}

fn print(text: &[u8]) {
    // The reader may have closed the pipe.
    let _ = std::io::stdout().write_all(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_completions_of_each_shell_have_every_command() {
        let commands = command();
        let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
        assert!(names.contains(&"serve") && names.len() > 10, "{names:?}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "boxoffice", &mut script);
            let script = String::from_utf8(script).expect("a text");
            for name in names.iter().copied().chain(["history", "--admin-token-file", "--peers-listen"]) {
                let word = name.trim_start_matches('-');
                assert!(script.contains(word), "{shell}: {name} is missing");
            }
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let pages = all_pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["boxoffice", "boxoffice-serve", "boxoffice-admin", "boxoffice-admin-key-create"] {
            assert!(names.contains(&name), "{name} of {names:?}");
        }
        let serve = pages.iter().find(|(name, _)| name == "boxoffice-serve").map(|(_, page)| page.clone());
        let serve = String::from_utf8(serve.expect("found above")).expect("a text");
        assert!(serve.contains(".TH boxoffice-serve 1") && serve.contains("data\\-dir"), "{serve}");
    }
}
