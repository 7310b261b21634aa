//! Requests, read and checked.

use boxoffice_core::{
    command::{Command, VenueCommand},
    id::{CartId, Request as RequestKey, RequestHash},
    refusal::Refusal,
};
use smol_str::format_smolstr;

use crate::{
    Encoding, Op, body,
    call::{Call, Item, Shape},
    envelope::{Envelope, Parts, Rejected},
    limits::{
        BATCH_ITEMS_MAX, BATCH_SEATS_MAX, DEADLINE_MS, DEADLINE_MS_MAX, HALL_FRAME_BYTES_MAX, REQUEST_ID_BYTES_MAX,
    },
    op::HeadClass,
    permission::BatchRule,
    raw,
    rejection::{Rejection, unknown_op},
    repr::cart_token,
    unknown::Unknown,
    unread::Body,
    version,
};

/// A valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's number for it, to be echoed.
    pub id: u64,
    pub op: Op,
    /// How long the client waits, in milliseconds. The default if it does not say.
    pub deadline_ms: u64,
    /// How long the buyer will still be there, in milliseconds: at least as long as the client waits.
    pub patience_ms: u64,
    /// The request id and a hash of the command that is equal in both encodings. Only for commands that change something.
    pub key: Option<RequestKey>,
    /// The shape of an ok answer.
    pub shape: Shape,
    pub call: Call,
}

impl Request {
    /// Reads a frame.
    ///
    /// # Errors
    /// The answer instead, with the id if it could be read.
    pub fn read(encoding: Encoding, frame: &[u8]) -> Result<Request, Rejected> {
        let head = Head::read(encoding, frame)?;
        head.request().map_err(|why| Rejected { id: Some(head.id), why })
    }

    /// The request with these parts. Over HTTP the envelope is not in the body.
    ///
    /// # Errors
    /// The answer instead.
    pub fn from_parts(
        encoding: Encoding,
        id: u64,
        op: Op,
        rid: Option<&str>,
        deadline_ms: Option<u64>,
        body: Option<&[u8]>,
    ) -> Result<Request, Rejection> {
        let key = request_id(op, rid)?;
        let (call, shape) = call(encoding, op, body.unwrap_or(encoding.empty()))?;
        let key = match &call {
            Call::Command(command) => keyed(key, command),
            Call::Hello(_)
            | Call::SearchCity(_)
            | Call::Watch { .. }
            | Call::WatchCounts { .. }
            | Call::Unwatch { .. }
            | Call::Batch(_)
            | Call::Status
            | Call::Shards
            | Call::AuditNode
            | Call::AuditWithCarts(_)
            | Call::NamedOrder(_)
            | Call::Backup(_)
            | Call::History { .. }
            | Call::AsOf { .. } => None,
        };
        let deadline_ms = deadline(deadline_ms);
        Ok(Request { id, op, deadline_ms, patience_ms: deadline_ms, key, shape, call })
    }

    /// The same request of a buyer who will still be there for this long, in milliseconds.
    #[must_use]
    pub fn with_patience(self, patience_ms: Option<u64>) -> Request {
        Request { patience_ms: patience_ms.unwrap_or(0).max(self.deadline_ms), ..self }
    }
}

/// A request whose op is known and whose body has not been read. Enough to refuse it.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The client's number for it.
    pub id: u64,
    pub op: Op,
    encoding: Encoding,
    envelope: Envelope<'a>,
}

/// A first command that an overloaded node may refuse, as the head of its request shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstCommand {
    Read,
    /// Opens this cart, unless it exists.
    OpenCart {
        /// The cart of the request's token.
        cart: CartId,
        /// The request id.
        rid: RequestHash,
        /// How long the buyer will still be there, in milliseconds.
        patience_ms: u64,
    },
}

impl<'a> Head<'a> {
    /// Reads the head of a frame.
    ///
    /// # Errors
    /// The answer instead, with the id if it could be read.
    pub fn read(encoding: Encoding, frame: &'a [u8]) -> Result<Head<'a>, Rejected> {
        // A frame that is too long for every op is not read at all.
        if frame.len() > HALL_FRAME_BYTES_MAX {
            return Err(Rejected { id: None, why: too_long(HALL_FRAME_BYTES_MAX) });
        }
        let envelope = Envelope::read(encoding, frame)?;
        let id = envelope.id;
        let rejected = |why: Rejection| Rejected { id: Some(id), why };
        let op = op(&envelope.op).map_err(rejected)?;
        if frame.len() > op.frame_bytes_max() {
            return Err(rejected(too_long(op.frame_bytes_max())));
        }
        Ok(Head { id, op, encoding, envelope })
    }

    /// Refuses a request that is newer than the minor version that all nodes of the cluster speak.
    ///
    /// # Errors
    /// As [`version::check`].
    pub fn check_minor(&self, minor: u32) -> Result<(), Rejection> {
        version::check(minor, self.encoding, self.op, self.envelope.body.unwrap_or(self.encoding.empty()))
    }

    /// Reads the whole request.
    ///
    /// # Errors
    /// The answer instead.
    pub fn request(&self) -> Result<Request, Rejection> {
        let Head { id, op, encoding, envelope } = self;
        envelope.unknown.refuse_if(op.is_strict())?;
        let (rid, patience_ms) = (envelope.rid.as_deref(), envelope.patience_ms);
        Request::from_parts(*encoding, *id, *op, rid, envelope.deadline_ms, envelope.body)
            .map(|request| request.with_patience(patience_ms))
    }

    /// The command, if the head shows that it is one that may be refused under overload.
    pub fn first_command(&self) -> Option<FirstCommand> {
        match self.op.class() {
            HeadClass::Read => Some(FirstCommand::Read),
            HeadClass::Begin => self.open_cart(),
            HeadClass::Later => None,
        }
    }

    fn open_cart(&self) -> Option<FirstCommand> {
        let rid = request_id(self.op, self.envelope.rid.as_deref()).ok()??;
        let token = raw::field(self.encoding, self.envelope.body?, "token").ok()??;
        let token = cart_token(&raw::text(self.encoding, token)?)?;
        let patience_ms = self.envelope.patience_ms.unwrap_or(0).max(deadline(self.envelope.deadline_ms));
        Some(FirstCommand::OpenCart { cart: token.cart(), rid, patience_ms })
    }
}

/// How long the client waits, in milliseconds, within the limits.
fn deadline(deadline_ms: Option<u64>) -> u64 {
    deadline_ms.unwrap_or(DEADLINE_MS).min(DEADLINE_MS_MAX)
}

fn too_long(most: usize) -> Rejection {
    Rejection::TooLarge(format_smolstr!("a frame of this op has at most {most} bytes"))
}

fn op(name: &str) -> Result<Op, Rejection> {
    Op::from_name(name).ok_or_else(|| unknown_op(&crate::repr::shortened(name)))
}

/// The hash of the request id, if the op needs one. A needless one is ignored.
fn request_id(op: Op, rid: Option<&str>) -> Result<Option<RequestHash>, Rejection> {
    if !op.changes() {
        return Ok(None);
    }
    let printable = |rid: &str| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&rid.len()) && rid.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    match rid {
        None => Err(Refusal::RequestIdMissing.into()),
        Some(rid) if printable(rid) => Ok(Some(RequestHash::of(rid))),
        Some(_) => {
            Err(Rejection::bad_request(format!("`rid` is 1 to {REQUEST_ID_BYTES_MAX} bytes of printable ASCII")))
        }
    }
}

/// The key of a command with a request id. The hash is of the core's command and not of the frame's bytes. So a repeat may
/// come in the other encoding, or with its fields in another order.
fn keyed(id: Option<RequestHash>, command: &Command) -> Option<RequestKey> {
    Some(RequestKey { id: id?, body: command.hash64() })
}

/// Reads the call of an op.
fn call(encoding: Encoding, op: Op, bytes: &[u8]) -> Result<(Call, Shape), Rejection> {
    // Serde would read a list as the fields in their order, and an empty list as an empty body.
    if !raw::is_map(encoding, bytes) {
        return Err(Rejection::bad_request("the body of a request is a map of fields"));
    }
    op.read(Body { encoding, is_strict: op.is_strict(), bytes })
}

fn stands_alone(op: Op) -> Rejection {
    Rejection::bad_request(format!("`{}` is no command and stands alone in a frame", op.name()))
}

impl body::Batch {
    /// Reads the items, each by itself, so that an invalid one has a rejection of its own.
    pub(crate) fn read(Body { encoding, is_strict: _, bytes }: Body<'_>) -> Result<(Call, Shape), Rejection> {
        Ok((Call::Batch(items(encoding, bytes)?), Shape::Plain))
    }
}

/// Reads the items of a batch, each by itself.
fn items(encoding: Encoding, body: &[u8]) -> Result<Vec<Result<Item, Rejection>>, Rejection> {
    let (mut list, mut unknown) = (None, Unknown::default());
    raw::fields(encoding, body, |name, value| {
        match name {
            // `null` is the same as absent.
            _ if raw::is_nothing(encoding, value) => {}
            "items" => list = Some(value),
            _ => unknown.note_field(name, &["items"]),
        }
        Ok(())
    })?;
    unknown.refuse_if(Op::Batch.is_strict())?;
    let list = list.ok_or_else(|| Rejection::bad_request("body: `items` is missing"))?;
    let mut elements = Vec::new();
    let mut too_many = false;
    raw::elements(encoding, list, |element| {
        too_many |= elements.len() == BATCH_ITEMS_MAX;
        if !too_many {
            elements.push(element);
        }
        Ok(())
    })?;
    if too_many {
        return Err(Rejection::TooLarge(format_smolstr!("at most {BATCH_ITEMS_MAX} items")));
    }
    if elements.is_empty() {
        return Err(Rejection::bad_request("body: `items` is empty"));
    }
    let mut seats = 0;
    Ok(elements.into_iter().map(|element| item(encoding, element, &mut seats)).collect())
}

/// Reads an item of a batch. `seats` counts the seats of the halls before it.
fn item(encoding: Encoding, element: &[u8], seats: &mut u32) -> Result<Item, Rejection> {
    let mut parts = Parts::default();
    raw::fields(encoding, element, |name, value| parts.take(encoding, name, value))?;
    let op = op(&parts.op.ok_or_else(|| Rejection::bad_request("`op` is missing"))?)?;
    parts.unknown.refuse_if(op.is_strict())?;
    let key = request_id(op, parts.rid.as_deref())?;
    match op.permission().batch {
        BatchRule::Item => {}
        BatchRule::Alone => return Err(stands_alone(op)),
    }
    let bytes = parts.body.unwrap_or(encoding.empty());
    // The bodies of further halls are not read, because that would take the memory.
    if op == Op::HallPut && *seats >= BATCH_SEATS_MAX {
        let why =
            format_smolstr!("the halls of a batch have at most {BATCH_SEATS_MAX} seats; put this one with another");
        return Err(Rejection::TooLarge(why));
    }
    let (call, shape) = op.read(Body { encoding, is_strict: op.is_strict(), bytes })?;
    let command = match call {
        Call::Command(command) => command,
        Call::SearchCity(_) => return Err(Rejection::bad_request("a search over a `city` stands alone in a frame")),
        Call::Hello(_)
        | Call::Watch { .. }
        | Call::WatchCounts { .. }
        | Call::Unwatch { .. }
        | Call::Batch(_)
        | Call::Status
        | Call::Shards
        | Call::AuditNode
        | Call::AuditWithCarts(_)
        | Call::NamedOrder(_)
        | Call::Backup(_)
        | Call::History { .. }
        | Call::AsOf { .. } => return Err(stands_alone(op)),
    };
    if let Command::Venue(_, VenueCommand::PutHall { layout, .. }) = &command {
        *seats += layout.seats();
    }
    Ok(Item { op, key: keyed(key, &command), shape, command })
}
