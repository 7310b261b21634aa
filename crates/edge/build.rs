//! A new file of the page is a reason to build again, where the page becomes a part of the program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program that is built for debugging reads the files while it runs.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rerun-if-changed=page");
    }
}
