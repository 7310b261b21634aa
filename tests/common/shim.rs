//! The fault library: built once, controlled by a file.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use super::Rng;

/// Path of the preloaded library. Builds it from `tests/faults/shim.c` with the system's C compiler.
///
/// # Panics
/// If there is no C compiler. `tests/run` installs one.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/faults/shim.c");
        // Other test programs may build it at the same time. Each builds its own file and renames it.
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

/// Disk faults.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Faults {
    None,
    /// Writes that extend a file fail.
    NoSpace,
    SyncFails,
    /// A sync takes this many milliseconds longer.
    SlowSync(u32),
    /// The power fails after the next sync of a log segment has written this many bytes.
    Torn(u32),
}

/// The value of `BOXOFFICE_FAULT_UNITS` for one process: a power cut loses each unit by itself, a tenth of them, half or all.
pub(crate) fn units(rng: &mut Rng) -> String {
    let (bytes, percent) = ([512, 4_096][rng.below(2)], [10, 50, 100][rng.below(3)]);
    format!("{bytes} {percent} {}", rng.next())
}

/// Writes the control file and renames it, so that no partial line is read.
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

/// Simulates a power cut after a failed sync and the end of the process: takes back the bytes of that sync that no later write
/// has replaced. Returns how many bytes were lost.
pub(crate) fn lose(control: &Path) -> usize {
    let noted = PathBuf::from(format!("{}.lost", control.display()));
    let bytes = fs::read(&noted).expect("a sync has failed");
    let mut rest = &bytes[..];
    let mut take = |length: usize| {
        let (taken, left) = rest.split_at_checked(length)?;
        rest = left;
        Some(taken)
    };
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let mut lost: BTreeMap<(PathBuf, u64), u8> = BTreeMap::new();
    while let Some(kind) = take(1).map(|kind| kind[0]) {
        let length = number(take(8).expect("a whole note"));
        let path = PathBuf::from(String::from_utf8_lossy(take(length as usize).expect("a whole note")).into_owned());
        let (at, bytes) = (number(take(8).expect("a whole note")), number(take(8).expect("a whole note")));
        let places = (at..at + bytes).map(|at| (path.clone(), at));
        match kind {
            // Bytes of earlier losses are not on the disk either.
            b'L' => {
                let before = take(bytes as usize).expect("a whole note");
                places.zip(before).for_each(|(place, byte)| _ = lost.entry(place).or_insert(*byte));
            }
            _ => places.for_each(|place| _ = lost.remove(&place)),
        }
    }
    fs::remove_file(&noted).expect("it was read");
    // The segment being created at that time was removed.
    lost.retain(|(path, _), _| path.extension().is_none_or(|extension| extension != "tmp"));
    for ((path, at), byte) in &lost {
        let file = fs::OpenOptions::new().write(true).open(path).expect("a file that lost something");
        file.write_all_at(&[*byte], *at).expect("taken back");
    }
    lost.len()
}
