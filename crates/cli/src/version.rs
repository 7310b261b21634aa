//! The version of this program, with the commit that it was built from.

/// Like `0.1.0+0123456789ab`, or `0.1.0+unknown` if it was built without the repository. The table of members takes no blanks.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("BOXOFFICE_COMMIT"));
