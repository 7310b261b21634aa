//! The kinds of feeds. A feed has the row of the op that reads the same data in the permission table, so that following
//! something never needs less than reading it.

use boxoffice_core::id::Entity;

use crate::{op::Op, permission::Permission};

/// Makes [`FeedKind`] from its table: what is followed, its name in the table, and the op that reads the same data.
macro_rules! feeds {
    ($($(#[$doc:meta])* $feed:ident $name:literal as $op:ident,)*) => {
        /// A kind of feed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FeedKind {
            $($(#[$doc])* $feed,)*
        }

        impl FeedKind {
            /// Every kind, in the order of the table.
            pub const ALL: [FeedKind; [$($name),*].len()] = [$(FeedKind::$feed),*];

            /// The name of what is followed.
            pub const fn name(self) -> &'static str {
                match self {
                    $(FeedKind::$feed => $name,)*
                }
            }

            /// The op that reads the same data. Following needs what reading needs.
            pub const fn read(self) -> Op {
                match self {
                    $(FeedKind::$feed => Op::$op,)*
                }
            }
        }
    };
}

feeds! {
    /// The seats of a session, `{"entity":"session/…"}`.
    Session "session" as SessionMap,
    /// The counts of sessions, `{"sessions":[…]}`.
    SessionCounts "counts of sessions" as SessionMap,
    /// The counts of a product.
    Product "product" as ProductGet,
    /// The days of a resource on which bookings change.
    Resource "resource" as ResourceBookings,
    /// A cart.
    Cart "cart" as CartGet,
    /// The purchases of a customer.
    Customer "customer" as CustomerPurchases,
}

impl FeedKind {
    /// The feed of an entity. `None` for entities that nobody can follow.
    pub const fn of(entity: &Entity) -> Option<FeedKind> {
        match entity {
            Entity::Session(_) => Some(FeedKind::Session),
            Entity::Product(_) => Some(FeedKind::Product),
            Entity::Resource(_) => Some(FeedKind::Resource),
            Entity::Cart(_) => Some(FeedKind::Cart),
            Entity::Customer(_) => Some(FeedKind::Customer),
            Entity::Code(_) | Entity::Venue(_) | Entity::Directory | Entity::Cluster => None,
        }
    }

    /// The row of the table.
    pub const fn permission(self) -> Permission {
        self.read().permission()
    }
}

// A feed begins without asking the node for a venue. A kind whose read asks for one needs that question first.
const _: () = {
    let mut index = 0;
    while index < FeedKind::ALL.len() {
        assert!(FeedKind::ALL[index].permission().venues.is_decided_by_the_key(), "a feed of a venue is not checked");
        index += 1;
    }
};
