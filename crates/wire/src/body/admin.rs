//! The ops of operators.

use boxoffice_core::{
    access::{KEY_VENUES_MAX, NewKey, Role, Roles},
    cluster::ADDRESS_BYTES_MAX,
    command::{
        Admission, CartCommand, ClusterCommand, CodeCommand, Command, CustomerCommand, DirectoryCommand,
        INVITATION_MS_MAX, Machine, ProductCommand, ResourceCommand, SessionCommand,
    },
    id::{CartId, Entity, Id},
    payment::Settlement,
    seat::Seat,
    text::{OptionalReason, Text},
    time::Timestamp,
    version::{ClusterVersion, ReadVersions},
};
use boxoffice_declare::{op, shape};
use smol_str::SmolStr;

use super::{Empty, Get};
use crate::{
    access::{KeyList, RoleName},
    call::{BackupPart, BackupQuery, Call, Shape},
    cluster::{Address, ClusterStatus, InvitationStatus, Node},
    convert::Converted,
    joining,
    limits::{CURSOR_BYTES_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX, PAYMENT_TEXT_BYTES_MAX, SHARDS_MAX},
    mac::HEX_256,
    rejection::Rejection,
    repr::{
        WireRepr,
        shape::{Each, With},
    },
    status::{BackupPiece, BackupPlaces, HistoryPage, NodeAudit, NodeStatus, ShardIndex},
    unread::Body,
    view::{AsOf, CartAudit, CartView, CodeAudit, CustomerAudit, ProductAudit, ResourceAudit, SessionAudit},
};

/// What the examples of ops about members need, since one node alone cannot be drained.
const SEVERAL: &str = "a cluster of several nodes";

/// The status of the node.
#[op("admin.status", inside, roles(Report), venues(Refused), batch(Alone), weight(20), by_hand, answers(NodeStatus))]
#[example(r#"{}"#)]
pub struct AdminStatus(pub Empty);

impl AdminStatus {
    /// Any map is the body, so that a status can always be asked for.
    pub(crate) fn read(_: Body<'_>) -> Converted<(Call, Shape)> {
        Ok((Call::Status, Shape::Plain))
    }
}

/// A fresh count of what a session, cart, product, resource, customer or the whole node holds.
#[op(
    "admin.audit",
    inside,
    roles(Desk, Report),
    venues(OfEntity),
    batch(Alone),
    weight(50),
    answers(NodeAudit, SessionAudit, CartAudit, ProductAudit, ResourceAudit, CustomerAudit, CodeAudit)
)]
#[example(r#"{}"#)]
#[example(r#"{"entity": "session/hamlet-matinee"}"#)]
#[example(r#"{"entity": "cart/0f1e1892ba91625a7bb986fa704738a5"}"#)]
#[example(r#"{"entity": "cart/0f1eecdfd76ee0cfaf40280fd2d87392"}"#)]
#[example(r#"{"entity": "product/programme"}"#)]
#[example(r#"{"entity": "resource/room-5"}"#)]
#[example(r#"{"entity": "customer/ada"}"#)]
#[example(r#"{"entity": "session/hamlet-tonight", "customers": true}"#)]
#[derive(Default, Eq)]
pub struct Audit {
    /// The entity to audit. The whole node if absent.
    pub entity: Option<Entity>,
    /// Ask each cart and order for its customer and the begin of its holds.
    #[optional]
    pub customers: bool,
}

impl Audit {
    /// The audit of an entity.
    pub fn about(entity: Entity) -> Audit {
        Audit { entity: Some(entity), customers: false }
    }

    fn command(self) -> Converted<Call> {
        match (self.entity, self.customers) {
            // A cart says its customer and the begin of its holds in any case.
            (Some(entity @ Entity::Cart(_)), true) => Ok(Call::Command(audit(entity)?)),
            (Some(entity), true) => Ok(Call::AuditWithCarts(audit(entity)?)),
            (Some(entity), false) => Ok(Call::Command(audit(entity)?)),
            (None, true) => Err(Rejection::bad_request("`customers` is for the audit of one entity")),
            (None, false) => Ok(Call::AuditNode),
        }
    }
}

/// The events of an entity or of one of its seats. The newest page comes first, with its oldest entry first.
#[op("admin.history", inside, roles(Desk, Report), venues(OfEntity), batch(Alone), weight(50), answers(HistoryPage))]
#[example(r#"{"entity": "session/hamlet-tonight", "limit": 100, "seat": [1, 5]}"#)]
#[example(r#"{"entity": "product/programme", "limit": 1}"#)]
#[derive(Eq)]
pub struct History {
    pub entity: Entity,
    /// Only what happened to this seat, if the entity is a session.
    pub seat: Option<Seat>,
    /// The maximum number of entries, 100 if absent.
    #[within(1..=PAGE_ENTRIES_MAX)]
    pub limit: Option<u32>,
    /// Only entries older than this version. The cursor of the page before.
    pub before: Option<u64>,
}

impl History {
    fn command(self) -> Converted<Call> {
        let limit = self.limit.unwrap_or(PAGE_ENTRIES);
        match (&self.entity, self.seat) {
            (Entity::Session(_), _) | (_, None) => {}
            (_, Some(_)) => return Err(Rejection::bad_request("a `seat` is one of a session")),
        }
        Ok(Call::History { entity: self.entity, seat: self.seat, limit, before: self.before })
    }
}

/// A session, product or resource as it was at an instant, with its holds and sales, and a session with its map.
#[op(
    "admin.map",
    inside,
    roles(Admin),
    venues(OfEntity),
    batch(Alone),
    weight(50),
    examples_need("a session that existed then"),
    answers(AsOf)
)]
#[example(r#"{"at": "2026-11-29T20:00:00Z", "entity": "session/hamlet-tonight"}"#)]
#[derive(Eq)]
pub struct AdminMap {
    pub entity: Entity,
    /// The instant. Everything is in the answer that was decided until then.
    pub at: Timestamp,
}

impl AdminMap {
    fn command(self) -> Converted<Call> {
        match self.entity {
            Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) => {
                Ok(Call::AsOf { entity: self.entity, at: self.at })
            }
            Entity::Venue(_) | Entity::Cart(_) | Entity::Customer(_) | Entity::Code(_) => {
                Err(Rejection::bad_request("an `entity` is a session, product or resource"))
            }
            Entity::Directory | Entity::Cluster => {
                Err(Rejection::bad_request("an `entity` is a session, product or resource"))
            }
        }
    }
}

/// Release a line of a cart.
#[op("admin.release", desk, venues(OfCartLines), weight(6), answers(CartView))]
#[example(r#"{"cart": "0f1eecdfd76ee0cfaf40280fd2d87392", "line": 1}"#)]
#[derive(Eq)]
pub struct AdminRelease {
    pub cart: CartId,
    #[narrow(0..=u32::MAX)]
    pub line: u32,
    /// The reason, which the owner is shown.
    #[since(1, 1)]
    #[optional]
    pub reason: OptionalReason,
}

impl AdminRelease {
    fn command(self) -> Converted<Command> {
        Ok(Command::Cart(self.cart, CartCommand::Revoke { line: self.line, reason: self.reason }))
    }
}

/// End the attempt to pay of a cart that is under way, and leave the cart active.
#[op("admin.checkout_cancel", desk, since(1, 5), venues(OfCartLines), weight(6), answers(CartView))]
#[example(r#"{"cart": "0f1eecdfd76ee0cfaf40280fd2d87392"}"#)]
#[derive(Eq)]
pub struct AdminCheckoutCancel {
    pub cart: CartId,
}

impl AdminCheckoutCancel {
    fn command(self) -> Converted<Command> {
        Ok(Command::Cart(self.cart, CartCommand::CancelCheckout { by_operator: true }))
    }
}

/// Settle a step of a payment whose outcome the gateway does not tell, or that failed.
#[op(
    "admin.settle",
    desk,
    venues(OfCartLines),
    weight(8),
    examples_need("a payment attempt whose outcome is unknown"),
    answers()
)]
#[example(
    r#"{"attempt": 1, "cart": "0f1e1892ba91625a7bb986fa704738a5", "outcome": "authorized", "reference": "au-7"}"#
)]
#[example(r#"{"attempt": 1, "cart": "0f1e1892ba91625a7bb986fa704738a5", "outcome": "declined"}"#)]
#[example(r#"{"attempt": 1, "cart": "0f1e1892ba91625a7bb986fa704738a5", "outcome": "refunded", "refund": 1}"#)]
#[derive(Eq)]
pub struct AdminSettle {
    pub cart: CartId,
    #[narrow(0..=u32::MAX)]
    pub attempt: u32,
    #[narrow(["authorized", "declined", "captured", "voided", "refunded"])]
    pub outcome: SmolStr,
    /// The gateway's name for the authorization. With `authorized` only.
    pub reference: Option<Text<1, PAYMENT_TEXT_BYTES_MAX>>,
    /// The number of the refund of the order, from 1. With `refunded` only.
    #[narrow(0..=u32::MAX)]
    pub refund: Option<u32>,
}

impl AdminSettle {
    fn command(self) -> Converted<Command> {
        let no = |words: &'static str| Err(Rejection::bad_request(words));
        let outcome = match (self.outcome.as_str(), self.reference, self.refund) {
            ("authorized", Some(reference), None) => Settlement::Authorized { reference: reference.into_plain() },
            ("authorized", None, _) => return no("`authorized` needs the gateway's `reference`"),
            ("declined", None, None) => Settlement::Declined,
            ("captured", None, None) => Settlement::Captured,
            ("voided", None, None) => Settlement::Voided,
            ("refunded", None, Some(refund)) => Settlement::Refunded { refund },
            ("refunded", _, None) => return no("`refunded` needs the number of the `refund`"),
            ("authorized" | "declined" | "captured" | "voided", _, Some(_)) => {
                return no("only `refunded` has a `refund`");
            }
            ("declined" | "captured" | "voided" | "refunded", Some(_), _) => {
                return no("only `authorized` has a `reference`");
            }
            _ => return no("`outcome` is `authorized`, `declined`, `captured`, `voided` or `refunded`"),
        };
        Ok(Command::Cart(self.cart, CartCommand::Settle { attempt: self.attempt, outcome }))
    }
}

/// The members of the cluster, and the wanted place of each shard.
#[op(
    "admin.nodes",
    inside,
    roles(Report),
    venues(Refused),
    batch(Item),
    weight(5),
    examples_need(SEVERAL),
    answers(ClusterStatus)
)]
#[example(r#"{}"#)]
pub struct AdminNodes(pub Empty);

impl AdminNodes {
    fn command(self) -> Converted<Command> {
        Ok(Command::Cluster(ClusterCommand::Get))
    }
}

/// Join the cluster. A repeat by the same disk is the same member.
#[op("admin.join", cluster, or(JoiningMachine), weight(20), examples_need(SEVERAL), answers(ClusterStatus))]
#[example(r#"{"client": "10.0.0.2:7180", "disk": "00112233445566778899aabbccddeeff", "peer": "10.0.0.2:7280", "program": "0.1.0"}"#)]
#[derive(Eq)]
pub struct AdminJoin {
    /// The id of the node. The next free one if absent.
    #[narrow(Node)]
    pub node: Option<u64>,
    /// The random name of its data directory.
    pub disk: u128,
    /// The address for other members.
    #[narrow(Address)]
    pub peer: SmolStr,
    /// The address for clients.
    #[narrow(Address)]
    pub client: SmolStr,
    /// The version of its program.
    #[narrow(Address)]
    pub program: SmolStr,
    /// The lowest version of the cluster that its program reads.
    #[since(1, 5)]
    pub reads_from: Option<u8>,
    /// The highest one. A machine that does not read the cluster's version is refused.
    #[since(1, 5)]
    pub reads_up_to: Option<u8>,
    /// The proof that it knows the secret of the cluster's nodes.
    #[narrow(With("pattern", HEX_256))]
    pub proof: Option<SmolStr>,
    /// An invitation that `admin.invite` has registered.
    #[since(1, 3)]
    #[narrow(With("pattern", HEX_256))]
    pub invitation: Option<SmolStr>,
    /// The proof that it knows the admin token of the node that it asks, in place of an invitation.
    #[since(1, 3)]
    #[narrow(With("pattern", HEX_256))]
    pub admin_proof: Option<SmolStr>,
}

impl AdminJoin {
    /// A machine that wants to be a member.
    fn command(self) -> Converted<Command> {
        let AdminJoin { node, disk, peer, client, program, reads_from, reads_up_to, proof, invitation, admin_proof } =
            self;
        let address = |name: &str, said: SmolStr| {
            let text = Text::<1, ADDRESS_BYTES_MAX>::as_said(said);
            text.check_field(name).map(|()| text.into_plain())
        };
        let (peer, client) = (address("peer", peer)?, address("client", client)?);
        let versions = match (reads_from, reads_up_to) {
            (Some(oldest), Some(newest)) => {
                let (oldest, newest) = (ClusterVersion::numbered(oldest), ClusterVersion::numbered(newest));
                Some(ReadVersions { oldest, newest })
            }
            (None, None) => None,
            (_, _) => return Err(Rejection::bad_request("`reads_from` and `reads_up_to` come together")),
        };
        let machine = Machine { disk, peer, client, program: address("program", program)?, versions };
        let proof = proof.map(|proof| digits("proof", &proof)).transpose()?;
        let admission = match (invitation, admin_proof) {
            (Some(invitation), None) => {
                Admission::Invitation(joining::invitation_hash(&digits("invitation", &invitation)?))
            }
            (None, Some(proof)) => Admission::AdminProof(digits("admin_proof", &proof)?),
            (None, None) => Admission::Nothing,
            (Some(_), Some(_)) => return Err(Rejection::bad_request("one of `invitation` and `admin_proof`")),
        };
        Ok(Command::Cluster(ClusterCommand::Join { node, machine: Box::new(machine), proof, admission }))
    }
}

/// Invite one machine to join. The answer has what the machine needs, the secret of the nodes too.
#[op("admin.invite", cluster, since(1, 3), weight(20), examples_need(SEVERAL), answers(InvitationStatus))]
#[example(r#"{"hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}"#)]
#[derive(Eq)]
pub struct AdminInvite {
    /// SHA-256 of the invitation.
    #[narrow(With("pattern", HEX_256))]
    pub hash: SmolStr,
    /// How long a machine may use it, an hour if absent.
    #[narrow(1..=INVITATION_MS_MAX)]
    pub for_ms: Option<u64>,
}

impl AdminInvite {
    /// An invitation of a machine.
    fn command(self) -> Converted<Command> {
        let AdminInvite { hash, for_ms } = self;
        let for_ms = for_ms.unwrap_or(INVITATION_MS);
        if !(1..=INVITATION_MS_MAX).contains(&for_ms) {
            return Err(Rejection::bad_request(format!("`for_ms` is 1 to {INVITATION_MS_MAX}")));
        }
        Ok(Command::Cluster(ClusterCommand::Invite { hash: digits("hash", &hash)?, for_ms }))
    }
}

/// A member that is to leave.
#[shape(body)]
#[derive(Copy, Eq)]
pub struct AdminLeave {
    #[narrow(Node)]
    pub node: u64,
    /// Go on even if each shard is left with a single voter.
    #[optional]
    pub force: bool,
}

/// Move everything away from a member. It leaves when it has nothing left.
#[op("admin.drain", cluster, weight(20), examples_need(SEVERAL), answers())]
#[example(r#"{"node": 2}"#)]
#[example(r#"{"force": true, "node": 2}"#)]
pub struct AdminDrain(pub AdminLeave);

impl AdminDrain {
    fn command(self) -> Converted<Command> {
        let AdminLeave { node, force } = self.0;
        Ok(Command::Cluster(ClusterCommand::Drain { node, force }))
    }
}

/// End the draining of a member. It keeps its replicas and gets more.
#[op("admin.undrain", cluster, weight(20), examples_need(SEVERAL), answers())]
#[example(r#"{"node": 2}"#)]
pub struct AdminUndrain(pub AdminNode);

impl AdminUndrain {
    fn command(self) -> Converted<Command> {
        Ok(Command::Cluster(ClusterCommand::Undrain { node: self.0.node }))
    }
}

/// Remove a member that will not come back. Its shards are copied anew, and its id is not used again.
#[op("admin.remove", cluster, weight(20), examples_need(SEVERAL), answers())]
#[example(r#"{"node": 2}"#)]
#[example(r#"{"force": true, "node": 2}"#)]
pub struct AdminRemove(pub AdminLeave);

impl AdminRemove {
    fn command(self) -> Converted<Command> {
        let AdminLeave { node, force } = self.0;
        Ok(Command::Cluster(ClusterCommand::Remove { node, force }))
    }
}

/// Raise the version of the cluster to the highest that every member reads. Older programs are refused from then on.
#[op("admin.finish_upgrade", cluster, since(1, 5), weight(20), examples_need(SEVERAL), answers())]
#[example(r#"{}"#)]
pub struct AdminFinishUpgrade(pub Empty);

impl AdminFinishUpgrade {
    fn command(self) -> Converted<Command> {
        // The deciding node fills in the members that it has no link to.
        Ok(Command::Cluster(ClusterCommand::FinishUpgrade { down: Vec::new() }))
    }
}

/// A member.
#[shape(body)]
#[derive(Copy, Eq)]
pub struct AdminNode {
    #[narrow(Node)]
    pub node: u64,
}

/// Declare the disk of a member lost. A machine with another disk joins in its place, under its id.
#[op("admin.replace", cluster, weight(20), examples_need(SEVERAL), answers())]
#[example(r#"{"node": 2}"#)]
pub struct AdminReplace(pub AdminNode);

impl AdminReplace {
    fn command(self) -> Converted<Command> {
        Ok(Command::Cluster(ClusterCommand::Replace { node: self.0.node }))
    }
}

/// The shards of the node as a backup may read them, and the segments of its log. With `mark`, the cut through all shards begins at
/// which the backup ends.
#[op(
    "admin.backup",
    inside,
    http(Post),
    roles(Admin),
    venues(Refused),
    batch(Alone),
    weight(20),
    answers(BackupPlaces)
)]
#[example(r#"{"after": [{"index": 4711, "shard": 7}]}"#)]
#[derive(Default, Eq)]
pub struct AdminBackup {
    /// The last entry of each shard that an earlier backup has. What is not named begins with the first entry.
    #[optional]
    #[narrow(0..=SHARDS_MAX)]
    pub after: Vec<ShardIndex>,
    /// Raise the mark.
    #[optional]
    pub mark: bool,
}

impl AdminBackup {
    fn command(self) -> Converted<Call> {
        let AdminBackup { after, mark } = self;
        if after.len() > SHARDS_MAX {
            return Err(Rejection::bad_request(format!("`after` has at most {SHARDS_MAX} shards")));
        }
        let place = |ShardIndex { shard, index }: ShardIndex| (shard, index);
        Ok(Call::Backup(BackupQuery::Places { after: after.into_iter().map(place).collect(), mark }))
    }
}

/// A piece of a shard's newest snapshot, of the records of its ended entities, or of a segment of the log, as the node has them on
/// its disk.
#[op(
    "admin.backup_read",
    inside,
    roles(Admin),
    venues(Refused),
    batch(Alone),
    weight(50),
    examples_need("a data directory with snapshots"),
    answers(BackupPiece)
)]
#[example(r#"{"segment": 12}"#)]
#[example(r#"{"snapshot": 7}"#)]
#[example(r#"{"from": "5fc1", "records": 7}"#)]
#[derive(Default, Eq)]
pub struct AdminBackupRead {
    /// A shard whose snapshot is read.
    pub snapshot: Option<u16>,
    /// A shard whose records are read.
    pub records: Option<u16>,
    /// The number of a segment.
    pub segment: Option<u64>,
    /// The `next` of the piece before. From the beginning if absent.
    pub from: Option<Text<1, CURSOR_BYTES_MAX>>,
}

impl AdminBackupRead {
    fn command(self) -> Converted<Call> {
        let AdminBackupRead { snapshot, records, segment, from } = self;
        let part = match (snapshot, records, segment) {
            (Some(shard), None, None) => BackupPart::Snapshot(shard),
            (None, Some(shard), None) => BackupPart::Records(shard),
            (None, None, Some(number)) => BackupPart::Segment(number),
            _ => return Err(Rejection::bad_request("one of `snapshot`, `records` and `segment`")),
        };
        Ok(Call::Backup(BackupQuery::Read { part, from: from.map(Text::into_plain) }))
    }
}

/// All keys, with their names and roles.
#[op("admin.keys", inside, roles(Admin), venues(Refused), batch(Item), weight(5), answers(KeyList))]
#[example(r#"{}"#)]
pub struct AdminKeys(pub Empty);

impl AdminKeys {
    fn command(self) -> Converted<Command> {
        Ok(Command::Directory(DirectoryCommand::Keys))
    }
}

/// Make a key. Its owner shows `bok.ID.SECRET`. The cluster keeps only the hash of the secret.
#[op("admin.key_create", cluster, since(1, 2), weight(15), answers())]
#[example(r#"{"hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "id": "till-3", "roles": ["desk"], "venues": ["globe"]}"#)]
#[derive(Eq)]
pub struct KeyCreate {
    /// The name of the key. It stands in the history of what is done with the key.
    pub id: Id,
    /// SHA-256 of the secret.
    #[narrow(With("pattern", HEX_256))]
    pub hash: SmolStr,
    #[narrow((1..=Role::ALL.len(), Each(RoleName)))]
    pub roles: Vec<SmolStr>,
    /// The venues that the key is limited to. All if absent.
    #[optional]
    #[narrow(0..=KEY_VENUES_MAX)]
    pub venues: Vec<Id>,
    /// The maximum of requests a second on one node.
    #[narrow(1..=u32::MAX)]
    pub requests_per_second: Option<u32>,
    /// The maximum that its carts hold at the same time on one node.
    #[narrow(0..=u32::MAX)]
    pub held_max: Option<u32>,
}

impl KeyCreate {
    /// A key that an operator makes.
    fn command(self) -> Converted<Command> {
        let KeyCreate { id, hash, roles, venues, requests_per_second, held_max } = self;
        let hash = digits("hash", &hash)?;
        let role = |name: &SmolStr| {
            let words = "a role is `watch`, `sell`, `desk`, `report` or `admin`";
            Role::from_name(name).ok_or_else(|| Rejection::bad_request(words))
        };
        let roles = roles.iter().map(role).collect::<Converted<Roles>>()?;
        if requests_per_second == Some(0) {
            return Err(Rejection::bad_request("`requests_per_second` is at least 1"));
        }
        let terms = Box::new(NewKey { hash, roles, venues, requests_per_second, held_max });
        Ok(Command::Directory(DirectoryCommand::CreateKey { name: id, terms }))
    }
}

/// Revoke a key: every node refuses it within a second.
#[op("admin.key_revoke", cluster, since(1, 2), weight(15), answers())]
#[example(r#"{"id": "till-3"}"#)]
pub struct AdminKeyRevoke(pub Get);

impl AdminKeyRevoke {
    fn command(self) -> Converted<Command> {
        Ok(Command::Directory(DirectoryCommand::RevokeKey { name: self.0.id }))
    }
}

/// The audit of one entity.
fn audit(entity: Entity) -> Converted<Command> {
    match entity {
        Entity::Session(id) => Ok(Command::Session(id, SessionCommand::Audit)),
        Entity::Cart(id) => Ok(Command::Cart(id, CartCommand::Audit)),
        Entity::Product(id) => Ok(Command::Product(id, ProductCommand::Audit)),
        Entity::Resource(id) => Ok(Command::Resource(id, ResourceCommand::Audit)),
        Entity::Customer(id) => Ok(Command::Customer(id, CustomerCommand::Audit)),
        Entity::Code(id) => Ok(Command::Code(id, CodeCommand::Audit)),
        Entity::Venue(_) | Entity::Directory | Entity::Cluster => {
            Err(Rejection::bad_request("sessions, products, resources, carts, customers and codes are audited"))
        }
    }
}

/// The life of an invitation without another one, in milliseconds.
const INVITATION_MS: u64 = 60 * 60 * 1_000;

/// 256 bits in hexadecimal digits.
fn digits(name: &str, text: &str) -> Converted<[u8; 32]> {
    joining::read(text).ok_or_else(|| Rejection::bad_request(format!("`{name}` is 64 hexadecimal digits")))
}
