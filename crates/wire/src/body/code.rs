//! The ops on codes.

use boxoffice_core::{
    command::{CODE_USES_MAX, CodeCommand, CodeDetails, Command},
    id::Id,
};
use boxoffice_declare::op;

use crate::{convert::Converted, view::CodeView};

/// Create or change a code, which lets its buyers hold seats and places under the offers of its group.
#[op("code.put", desk, since(1, 6), venues(Refused), frame(Import), weight(15), answers(CodeView))]
#[example(r#"{"code": "GLOBE-7Q2M", "group": "members", "uses": 4}"#)]
#[example(r#"{"code": "GLOBE-7Q2M", "ended": true, "group": "members", "uses": 4}"#)]
#[example(r#"{"by_order": true, "code": "SPRING-9K", "group": "members", "uses": 1}"#)]
#[derive(Eq)]
pub struct CodePut {
    /// The code that buyers type. Its case matters.
    pub code: Id,
    /// The group of codes that offers name.
    pub group: Id,
    /// How many seats and places may be in carts and bought with it, or how many carts and orders may have any with `by_order`.
    #[within(0..=CODE_USES_MAX)]
    pub uses: u32,
    /// It is not taken any more. What was held and bought with it stays so.
    #[optional]
    pub ended: bool,
    /// A cart takes one use, for as many seats and places as it likes, until it has none of them any more.
    #[optional]
    pub by_order: bool,
}

impl CodePut {
    /// The body that puts these details.
    pub fn new(code: Id, CodeDetails { group, uses, ended, by_order }: CodeDetails) -> CodePut {
        CodePut { code, group, uses, ended, by_order }
    }

    fn command(self) -> Converted<Command> {
        let CodePut { code, group, uses, ended, by_order } = self;
        Ok(Command::Code(code, CodeCommand::Put(CodeDetails { group, uses, ended, by_order })))
    }
}

/// Read how often a code was used.
///
/// It is no `GET`, because a URL stands in many logs.
#[op(
    "code.get",
    inside,
    roles(Desk, Report),
    unknown(Refused),
    since(1, 6),
    venues(Refused),
    batch(Item),
    http(Post),
    weight(1),
    answers(CodeView)
)]
#[example(r#"{"code": "GLOBE-7Q2M"}"#)]
#[derive(Eq)]
pub struct CodeGet {
    pub code: Id,
}

impl CodeGet {
    fn command(self) -> Converted<Command> {
        Ok(Command::Code(self.code, CodeCommand::Get))
    }
}
