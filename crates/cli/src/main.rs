//! The program: `boxoffice serve`, and the commands for a running node.

#![allow(unreachable_pub, reason = "a program has no outside; `pub` says what a file offers the others")]

mod admin;
mod args;
mod book;
mod certificates;
mod config;
mod demo;
mod descriptors;
mod draw;
mod failure;
mod import;
mod inspect;
mod invitation;
mod join;
mod length_of_time;
mod load;
mod local_time;
mod node_client;
mod peer_secret;
mod secret;
mod serve;
mod sim;
mod watch;
mod words;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

/// Threads free memory that other threads allocated. With the system's allocator they would wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
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
        Command::Sim(sim) => sim::run_it(&sim),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("boxoffice: {failure}");
            failure.exit_code()
        }
    }
}
