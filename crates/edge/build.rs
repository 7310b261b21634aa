//! Compresses the files of the page, and lists them for `src/page_files.rs`.
//!
//! A program that is built for debugging reads the files while it runs, so that they can be edited meanwhile. What is made here is
//! then used only for files that have not changed since the build.

use std::{
    env,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};

/// A coding must save this part of a file, in percent, or clients would unpack for nothing.
const SAVES_PERCENT_MIN: usize = 10;

/// How hard the compressors try: gzip from 1 to 9, brotli from 0 to 11.
struct Effort {
    gzip: u32,
    brotli: i32,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=page");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let effort = if is_release { Effort { gzip: 9, brotli: 11 } } else { Effort { gzip: 1, brotli: 1 } };
    let (page, out) = (folder("CARGO_MANIFEST_DIR").join("page"), folder("OUT_DIR"));
    let mut list = String::from("&[\n");
    for (number, path) in files_in(&page).iter().enumerate() {
        let plain = fs::read(page.join(path)).expect("a file of the page can be read");
        let save = |ending: &str, bytes: &[u8]| {
            let name = format!("{number}{ending}");
            fs::write(out.join(&name), bytes).expect("OUT_DIR can be written");
            format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\"))")
        };
        let coded = |ending: &str, bytes: Vec<u8>| {
            let is_worth_it = bytes.len() * 100 <= plain.len() * (100 - SAVES_PERCENT_MIN);
            if is_worth_it { format!("Some({})", save(ending, &bytes)) } else { "None".to_owned() }
        };
        let gzip = coded(".gz", gzip(&plain, effort.gzip));
        let brotli = coded(".br", brotli(&plain, effort.brotli));
        let plain = save("", &plain);
        writeln!(list, "    Built {{ path: {path:?}, plain: {plain}, gzip: {gzip}, brotli: {brotli} }},")
            .expect("a string takes everything");
    }
    list.push_str("]\n");
    fs::write(out.join("page_files.rs"), list).expect("OUT_DIR can be written");
}

fn folder(variable: &str) -> PathBuf {
    env::var_os(variable).expect("cargo sets it").into()
}

/// The paths of all files in a folder, below it, sorted.
fn files_in(root: &Path) -> Vec<String> {
    let (mut folders, mut files) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the page can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("it is below").to_str().expect("names are plain");
                files.push(name.to_owned());
            }
        }
    }
    files.sort_unstable();
    files
}

fn gzip(plain: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(plain).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything")
}

fn brotli(plain: &[u8], quality: i32) -> Vec<u8> {
    let parameters = brotli::enc::BrotliEncoderParams { quality, size_hint: plain.len(), ..Default::default() };
    let mut coded = Vec::new();
    brotli::BrotliCompress(&mut &plain[..], &mut coded, &parameters).expect("a vector takes everything");
    coded
}
