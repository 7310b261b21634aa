//! The fault library: built once, controlled by a file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The library that is preloaded; built from `tests/faults/shim.c` with the system's C compiler.
///
/// # Panics
/// If there is no C compiler; `tests/run` installs one.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/faults/shim.c");
        // Other test programs may build it at the same time: each its own, then the name changes hands.
        let (own, library) = (target.join(format!("shim-{}.so", std::process::id())), target.join("shim.so"));
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .arg(&own)
            .arg(source)
            .args(["-ldl", "-lpthread"])
            .output()
            .expect("a C compiler (`cc`) builds the fault library");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::rename(&own, &library).expect("the library gets its name");
        library
    })
}

/// What the disk suffers from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Faults {
    None,
    /// Nothing can become longer.
    NoSpace,
    /// A sync fails.
    SyncFails,
    /// A sync takes so many milliseconds longer.
    SlowSync(u32),
    /// The next sync of a log segment writes so many bytes, and the power goes.
    Torn(u32),
}

/// Writes the control file: aside first, so that no half line is read.
pub(crate) fn write_control(control: &Path, faults: Faults) {
    let text = match faults {
        Faults::None => String::new(),
        Faults::NoSpace => "enospc\n".to_owned(),
        Faults::SyncFails => "eio .log\n".to_owned(),
        Faults::SlowSync(ms) => format!("slow {ms} .log\n"),
        Faults::Torn(bytes) => format!("torn {bytes} .log\n"),
    };
    let aside = control.with_extension("new");
    fs::write(&aside, text).expect("a written control file");
    fs::rename(&aside, control).expect("the control file gets its name");
}
