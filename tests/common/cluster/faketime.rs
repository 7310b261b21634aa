//! Clocks that can be set, with Debian's libfaketime. Only the wall clock changes, never the monotonic one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// # Panics
/// If libfaketime is not installed. `tests/run` installs it.
fn library() -> PathBuf {
    let known = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
    let paths = known.map(|machine| Path::new("/usr/lib").join(machine).join("faketime/libfaketimeMT.so.1"));
    let found = paths.into_iter().find(|path| path.exists());
    found.expect("clocks are set by libfaketime, which is not installed: install Debian's package `faketime`")
}

/// Makes the command's process read its clock from this file.
pub(crate) fn set_up(command: &mut Command, file: &Path) {
    // Another library may be preloaded already.
    let before = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
    let mut libraries = before.map(|value| value.to_os_string()).unwrap_or_default();
    if !libraries.is_empty() {
        libraries.push(":");
    }
    libraries.push(library());
    command.env("LD_PRELOAD", libraries).env("FAKETIME_TIMESTAMP_FILE", file).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
}

/// Sets the clock this many seconds off the true time.
pub(crate) fn set(file: &Path, seconds: i64) {
    let aside = file.with_extension("new");
    fs::write(&aside, format!("{seconds:+}\n")).expect("a written clock");
    fs::rename(&aside, file).expect("the clock gets its name");
}
