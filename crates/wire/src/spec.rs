//! What the struct of an op says of it. `#[op(…)]` writes it.

use serde::Serialize;

use crate::{
    call::{Call, Shape},
    from_body::FromBody,
    newer::Newer,
    op::{FrameLength, HeadClass, HttpMethods, Op, Pace, UnknownFields},
    permission::Permission,
    rejection::Rejection,
    repr::shape::Schema,
    unread::Body,
};

/// What an op is. The attribute of its struct in [`crate::body`] says all of it, and no fact has a default.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) summary: &'static str,
    pub(crate) changes: bool,
    pub(crate) permission: Permission,
    pub(crate) class: HeadClass,
    pub(crate) pace: Pace,
    pub(crate) unknown: UnknownFields,
    pub(crate) frame: FrameLength,
    pub(crate) methods: HttpMethods,
    pub(crate) weight: u32,
    /// The minor version that has brought the op. 0 if it has always been there.
    pub(crate) since: u32,
    /// Bodies that work, as JSON.
    pub(crate) examples: &'static [&'static str],
    /// What its examples need that a fresh node does not have, if anything.
    pub(crate) examples_need: Option<&'static str>,
    pub(crate) body: Schema,
    /// Finds the fields of its body that are newer than 1.0.
    pub(crate) newer: fn(&mut Newer),
    /// The possible answers. Without any, the answer is empty.
    pub(crate) answers: &'static [Schema],
}

/// The struct of an op.
pub(crate) trait OpSpec {
    /// Its name on the wire.
    const NAME: &'static str;
    /// What it is.
    const FACTS: Facts;
}

/// The body of an op, as clients send it.
pub trait OpBody: Serialize {
    /// Its op.
    const OP: Op;
}

/// The body of an op, with the answer that clients read.
pub trait AnsweredOp: OpBody {
    /// The body of its ok answer, or the first of several.
    type Answer: FromBody;
}

/// The struct of an op that makes a call of its body.
pub(crate) trait ReadOp {
    /// Reads a body.
    ///
    /// # Errors
    /// The answer instead.
    fn read(body: Body<'_>) -> Result<(Call, Shape), Rejection>;
}
