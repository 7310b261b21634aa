//! The fields of requests that are newer than version 1.0 of the protocol.

use crate::{limits::PROTOCOL_VERSION, op::Op};

/// A field of a request that is newer than 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    pub op: Op,
    /// The path of names to the field, with `[]` after lists: `lines[].details`.
    pub field: &'static str,
    /// The first minor version with the field.
    pub minor: u32,
}

impl Added {
    /// Why the field is not sent to an older node, in words.
    pub fn refusal(&self, minor: u32) -> String {
        let (field, op, version) = (self.field, self.op.name(), PROTOCOL_VERSION);
        let needed = self.minor;
        format!("`{field}` of `{op}` needs protocol {version}.{needed}, and the node speaks {version}.{minor}")
    }
}

/// Collects the fields of an op that are newer than 1.0.
#[derive(Debug)]
pub struct Newer {
    op: Op,
    /// The version of the op. Its fields are as new.
    since: u32,
    /// The path to the map whose fields are added.
    path: String,
    found: Vec<Added>,
}

impl Newer {
    /// The newer fields of an op that `fields` adds. The op has come with the minor version `since`.
    pub(crate) fn of(op: Op, since: u32, fields: fn(&mut Newer)) -> Vec<Added> {
        let mut newer = Newer { op, since, path: String::new(), found: Vec::new() };
        fields(&mut newer);
        newer.found
    }

    /// Adds a field if it is newer than 1.0, and those in it.
    pub(crate) fn field(&mut self, name: &str, since: u32, inner: fn(&mut Newer)) {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let minor = if outer == 0 { since.max(self.since) } else { since };
        if minor > 0 {
            // The table lives as long as the program.
            self.found.push(Added { op: self.op, field: self.path.clone().leak(), minor });
        }
        inner(self);
        self.path.truncate(outer);
    }

    /// Adds the fields of the elements of a list.
    pub(crate) fn each(&mut self, inner: fn(&mut Newer)) {
        let outer = self.path.len();
        self.path.push_str("[]");
        inner(self);
        self.path.truncate(outer);
    }
}
