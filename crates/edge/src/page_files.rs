//! The files of the page, and what each is when it is compressed.
//!
//! They are in `crates/edge/page` and a part of the program. A debug build reads them from there each time, so that they can be
//! edited while it runs.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::Path,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::coding::{self, Coding};

/// Bytes of a file's digest in its entity tag.
const TAG_BYTES: usize = 16;

/// How hard a debug build compresses a file that was edited.
const QUICK: u32 = 1;

/// A file as it was when the program was built.
struct Built {
    path: &'static str,
    plain: &'static [u8],
    /// The file in a coding, if that is clearly shorter.
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
}

/// What `build.rs` found, sorted by path.
const BUILT: &[Built] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// A file of the page.
#[derive(Debug)]
pub(crate) struct PageFile {
    /// The digest of its bytes without a coding, in hexadecimal digits.
    pub(crate) digest: String,
    plain: Bytes,
    gzip: Option<Bytes>,
    brotli: Option<Bytes>,
}

impl PageFile {
    /// The codings that it has besides the identity, the smallest first.
    pub(crate) fn codings(&self) -> Vec<Coding> {
        let both = [(Coding::Brotli, &self.brotli), (Coding::Gzip, &self.gzip)];
        both.into_iter().filter_map(|(coding, bytes)| bytes.is_some().then_some(coding)).collect()
    }

    /// Its bytes in a coding that it has.
    pub(crate) fn bytes(&self, coding: Coding) -> Bytes {
        let coded = match coding {
            Coding::Identity => None,
            Coding::Gzip => self.gzip.as_ref(),
            Coding::Brotli => self.brotli.as_ref(),
        };
        coded.unwrap_or(&self.plain).clone()
    }
}

/// A file of the page, by its path below the folder.
pub(crate) fn find(path: &str) -> Option<Arc<PageFile>> {
    static ALL: LazyLock<BTreeMap<&str, Arc<PageFile>>> =
        LazyLock::new(|| BUILT.iter().map(|built| (built.path, Arc::new(of_built(built)))).collect());
    if cfg!(debug_assertions) { read(path).map(Arc::new) } else { ALL.get(path).cloned() }
}

fn of_built(built: &Built) -> PageFile {
    PageFile {
        digest: digest(built.plain),
        plain: Bytes::from_static(built.plain),
        gzip: built.gzip.map(Bytes::from_static),
        brotli: built.brotli.map(Bytes::from_static),
    }
}

/// The file as it is in the folder now.
fn read(path: &str) -> Option<PageFile> {
    let plain = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("page").join(path)).ok()?;
    let built = BUILT.binary_search_by_key(&path, |built| built.path).ok().map(|place| &BUILT[place]);
    if let Some(built) = built.filter(|built| built.plain == plain) {
        return Some(of_built(built));
    }
    let gzip = Some(coding::gzip(&plain, QUICK)).filter(|gzip| gzip.len() < plain.len());
    Some(PageFile { digest: digest(&plain), plain: plain.into(), gzip, brotli: None })
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..TAG_BYTES].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
