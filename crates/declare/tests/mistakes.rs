//! The likeliest mistakes in a declaration, and what the compiler says of each. `UPDATE_EXPECT=1` writes it.
//!
//! The compiler runs on each file by itself, so that no package is built a second time as `trybuild` would.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use expect_test::expect_file;

/// The likeliest mistakes, each with the field or the fact that its message names.
const MISTAKES: [(&str, &str); 13] = [
    ("fact_missing", "`weight(…)`"),
    ("fact_misspelt", "`wieght`"),
    ("example_missing", "`cart.get`"),
    ("newer_and_needed", "`note`"),
    ("version_misspelt", "`note`"),
    ("bound_without_an_end", "`note`"),
    ("bound_twice", "`note`"),
    ("attribute_misspelt", "`note`"),
    ("optional_twice", "`note`"),
    ("serde_by_hand", "`note`"),
    ("set_of_no_field", "`gate_way`"),
    ("enum_for_a_struct", "`CartGet`"),
    ("number_missing", "`note`"),
];

/// The macros as they were built for this test, which stand beside it.
fn macros() -> PathBuf {
    let own = env::current_exe().expect("a test is a file");
    let beside = fs::read_dir(own.parent().expect("it is in a folder")).expect("the folder is there");
    let is_built = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.contains("boxoffice_declare-") && name.ends_with(env::consts::DLL_EXTENSION)
    };
    let built = beside.map(|entry| entry.expect("a file").path()).filter(is_built);
    let newest = built.max_by_key(|path| path.metadata().and_then(|file| file.modified()).expect("a file has a time"));
    newest.expect("the macros are built before their tests")
}

/// What the compiler says of a file that has a mistake.
fn said_of(folder: &Path, macros: &Path, mistake: &str) -> String {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let extern_macros = format!("boxoffice_declare={}", macros.display());
    let flags = ["--edition", "2024", "--emit", "metadata", "--out-dir", env!("CARGO_TARGET_TMPDIR"), "--extern"];
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(flags).arg(extern_macros).arg(format!("{mistake}.rs"));
    let made = command.output().expect("the compiler starts");
    assert!(!made.status.success(), "{mistake} compiles");
    String::from_utf8(made.stderr).expect("it says text")
}

#[test]
fn every_message_names_the_field_or_the_fact() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let macros = macros();
    for (mistake, named) in MISTAKES {
        let said = said_of(&folder, &macros, mistake);
        let first = said.lines().next().unwrap_or_default();
        assert!(first.starts_with("error: ") && first.contains(named), "{mistake}: {said}");
        expect_file![folder.join(format!("{mistake}.stderr"))].assert_eq(&said);
    }
}
