//! The program: `boxoffice serve`, and the commands for a running node.

#![allow(unreachable_pub, reason = "a program has no outside; `pub` says what a file offers the others")]

mod address;
mod admin;
mod args;
mod backup;
mod book;
mod certificates;
mod config;
mod demo;
mod descriptors;
mod draw;
mod examples;
mod export;
mod failure;
mod ids;
mod import;
mod inspect;
mod invitation;
mod join;
mod length_of_time;
mod load;
mod local_time;
mod log;
mod manual;
mod node_client;
mod peer_secret;
mod progress;
mod secret;
mod serve;
mod sim;
mod suggest;
mod verify;
mod version;
mod watch;
mod words;

use std::process::ExitCode;

use crate::args::Command;

/// Threads free memory that other threads allocated. With the system's allocator they would wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Upgrades are tried with one program before there is a next release.
    #[cfg(debug_assertions)]
    if std::env::var_os("BOXOFFICE_NEXT_VERSION").is_some_and(|switch| !switch.is_empty()) {
        boxoffice_core::version::rehearse();
    }
    let args = examples::parse();
    let outcome = match args.command {
        Command::Serve(serve) => serve::run(&serve),
        Command::Join(serve) => serve::join(&serve),
        Command::Import(import) => import::run(&import),
        Command::Book(book) => book::run(&book),
        Command::Watch(watch) => watch::run(&watch),
        Command::Load(load) => load::run(&load),
        Command::Demo(demo) => demo::run(&demo),
        Command::Admin(admin) => admin::run(&admin),
        Command::Inspect(inspect) => inspect::run(&inspect),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Export(export) => export::run(&export),
        Command::Verify(verify) => verify::run(&verify),
        Command::Sim(sim) => sim::run_it(&sim),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { directory } => manual::pages(directory.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log::failed(&failure);
            failure.exit_code()
        }
    }
}
