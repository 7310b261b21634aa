//! Commands to a code.

use boxoffice_declare::Stored;

use crate::id::Id;

/// The most uses of one code.
pub const CODE_USES_MAX: u32 = 1_000_000;

/// Commands to a code.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum CodeCommand {
    /// `code.put` creates or changes the code, which remembers its last puts.
    #[n(0)]
    Put(#[n(0)] CodeDetails),
    /// `code.get`.
    #[n(1)]
    Get,
    /// `admin.audit`.
    #[n(2)]
    Audit,
}

/// What a code is good for.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CodeDetails {
    /// The group of codes that offers of sessions name.
    #[n(0)]
    pub group: Id,
    /// How many seats and places may be held and bought with it, or how many carts may hold and buy any.
    #[n(1)]
    pub uses: u32,
    /// It is not taken any more. What was held and bought with it stays so.
    #[n(2)]
    pub ended: bool,
    /// A cart takes one use, for as many seats and places as it likes, until it has none of them any more.
    #[n(3)]
    pub by_order: bool,
}

/// What a code lets a cart hold, as a session hears of it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ShownCode {
    #[n(0)]
    pub group: Id,
    /// How many seats or places of this hold may be under it.
    #[n(1)]
    pub uses: u32,
}
