//! Bodies of the ops of operators.

use boxoffice_core::{
    access::{KEY_VENUES_MAX, Role},
    command::INVITATION_MS_MAX,
    id::{CartId, Entity, Id},
    payment::Settlement,
    seat::Seat,
};
use smol_str::SmolStr;

use crate::{
    access::RoleName,
    cluster::{Address, Node},
    limits::{PAGE_ENTRIES_MAX, PAYMENT_TEXT_BYTES_MAX, REASON_BYTES_MAX},
    mac::HEX_256,
    repr::shape::{Each, With, shapes},
};

shapes! {
    #[derive(Default, Eq)]
    pub struct Audit {
        /// The entity to audit. The whole node if absent.
        pub entity?: Option<Entity>,
    }

    #[derive(Eq)]
    pub struct History {
        pub entity: Entity,
        /// Only what happened to this seat, if the entity is a session.
        pub seat?: Option<Seat>,
        /// The maximum number of entries, 100 if absent.
        pub limit?: Option<u32> = 1..=PAGE_ENTRIES_MAX,
        /// Only entries older than this version. The cursor of the page before.
        pub before?: Option<u64>,
    }

    #[derive(Eq)]
    pub struct AdminRelease {
        pub cart: CartId,
        pub line: u32 = 0..=u32::MAX,
        /// The reason, which the owner is shown.
        pub reason?: SmolStr = 0..=REASON_BYTES_MAX,
    }

    #[derive(Eq)]
    pub struct AdminSettle {
        pub cart: CartId,
        pub attempt: u32 = 0..=u32::MAX,
        pub outcome: SmolStr = ["authorized", "declined", "captured", "voided", "refunded"],
        /// The gateway's name for the authorization. With `authorized` only.
        pub reference?: Option<SmolStr> = 1..=PAYMENT_TEXT_BYTES_MAX,
        /// The number of the refund of the order, from 1. With `refunded` only.
        pub refund?: Option<u32> = 0..=u32::MAX,
    }

    #[derive(Eq)]
    pub struct AdminJoin {
        /// The id of the node. The next free one if absent.
        pub node?: Option<u64> = Node,
        /// The random name of its data directory.
        pub disk: u128,
        /// The address for other members.
        pub peer: SmolStr = Address,
        /// The address for clients.
        pub client: SmolStr = Address,
        /// The version of its program.
        pub program: SmolStr = Address,
        /// The proof that it knows the secret of the cluster's nodes.
        pub proof?: Option<SmolStr> = With("pattern", HEX_256),
        /// An invitation that `admin.invite` has registered.
        pub invitation?: Option<SmolStr> = With("pattern", HEX_256),
        /// The proof that it knows the admin token of the node that it asks, in place of an invitation.
        pub admin_proof?: Option<SmolStr> = With("pattern", HEX_256),
    }

    #[derive(Eq)]
    pub struct AdminInvite {
        /// SHA-256 of the invitation.
        pub hash: SmolStr = With("pattern", HEX_256),
        /// How long a machine may use it, an hour if absent.
        pub for_ms?: Option<u64> = 1..=INVITATION_MS_MAX,
    }

    #[derive(Copy, Eq)]
    pub struct AdminLeave {
        pub node: u64 = Node,
        /// Go on even if each shard is left with a single voter.
        pub force?: bool,
    }

    #[derive(Copy, Eq)]
    pub struct AdminNode {
        pub node: u64 = Node,
    }

    #[derive(Eq)]
    pub struct KeyCreate {
        /// The name of the key. It stands in the history of what is done with the key.
        pub id: Id,
        /// SHA-256 of the secret.
        pub hash: SmolStr = With("pattern", HEX_256),
        pub roles: Vec<SmolStr> = (1..=Role::ALL.len(), Each(RoleName)),
        /// The venues that the key is limited to. All if absent.
        pub venues?: Vec<Id> = 0..=KEY_VENUES_MAX,
        /// The maximum of requests a second on one node.
        pub requests_per_second?: Option<u32> = 1..=u32::MAX,
        /// The maximum that its carts hold at the same time on one node.
        pub held_max?: Option<u32> = 0..=u32::MAX,
    }
}

impl AdminSettle {
    /// The body with these details.
    pub fn new(cart: CartId, attempt: u32, outcome: Settlement) -> AdminSettle {
        let (outcome, reference, refund) = match outcome {
            Settlement::Authorized { reference } => ("authorized", Some(reference), None),
            Settlement::Declined => ("declined", None, None),
            Settlement::Captured => ("captured", None, None),
            Settlement::Voided => ("voided", None, None),
            Settlement::Refunded { refund } => ("refunded", None, Some(refund)),
        };
        AdminSettle { cart, attempt, outcome: outcome.into(), reference, refund }
    }
}
