//! Names the commit that the program is built from, for `boxoffice --version` and the table of a cluster's members.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BOXOFFICE_COMMIT");
    // A build without the repository, as in a container, may be told the commit.
    let told = env::var("BOXOFFICE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(commit).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=BOXOFFICE_COMMIT={commit}");
}

/// The commit of the repository that these sources are in. `None` without `git`, or if the sources are only a part of another one.
fn commit() -> Option<String> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()?;
    let top = PathBuf::from(git(&root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if top != root {
        return None;
    }
    // The program is built again when another commit is checked out or made. A file that does not exist would build it each time.
    let branch = git(&root, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    for name in ["HEAD", "packed-refs"].map(str::to_owned).into_iter().chain(branch) {
        let path = git(&root, &["rev-parse", "--git-path", &name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.is_file()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&root, &["rev-parse", "--short=12", "HEAD"])
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
