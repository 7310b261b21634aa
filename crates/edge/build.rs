//! Builds a release again after a change of the page, because the page is a part of that program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program that is built for debugging reads the files while it runs.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rerun-if-changed=page");
    }
}
