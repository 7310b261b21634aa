//! Samples for operators: audits with a hold and a sale of every kind, history, status.

use boxoffice_core::{
    answer::{
        AsOf, CartAudit, Claim, CodeAudit, CodeView, CustomerAudit, HoldView, ProductAudit, ResourceAudit, SaleView,
        SessionAudit,
    },
    id::{Entity, HoldId, RequestHash},
    payment::{PaymentStatus, VoidRecord, VoidStatus},
    portion::Portion,
    seat::SeatSet,
};
use boxoffice_wire::{
    hello::Durability,
    status::{
        BackupPiece, BackupPlaces, BackupShard, ChainEnd, CurrencyTotal, FollowerStatus, HistoryEntry, HistoryPage,
        NodeAudit, NodeStatus, PaymentTotals, Rates, SeatTotals, ShardStatus, UnitTotals,
    },
};

use super::{HOUR, area_counts, cart, cart_view, counts, euro, evening, id, map_view, refund, seat, stock_counts};

pub fn hold_id() -> HoldId {
    HoldId { cart: cart(), request: RequestHash::of("c1-000042"), part: 0, attempt: 1 }
}

/// A portion of every kind.
pub fn portions() -> Vec<Portion> {
    vec![
        Portion::Seats(SeatSet::new([seat(1, 5)]).expect("a seat")),
        Portion::Places { area: id("yard"), quantity: 4 },
        Portion::Units(2),
        Portion::Slot { begin: evening(), end: evening().after(HOUR) },
        Portion::Quota { quota: id("hamlet"), count: 3 },
        Portion::Uses(3),
    ]
}

/// A hold of every kind.
pub fn hold_views() -> Vec<HoldView> {
    let hold = |portion| HoldView {
        hold: hold_id(),
        revision: 2,
        deadline: evening(),
        portion,
        customer: Some(id("ada")),
        since: Some(evening()),
    };
    portions().into_iter().map(hold).collect()
}

/// A sale of every kind.
pub fn sale_views() -> Vec<SaleView> {
    let sale = |portion| SaleView {
        order: cart().order(),
        hold: hold_id(),
        portion,
        at: evening(),
        customer: Some(id("ada")),
    };
    portions().into_iter().map(sale).collect()
}

pub fn session_audit() -> SessionAudit {
    SessionAudit {
        session: id("hamlet-tonight"),
        counts: counts(),
        areas: vec![area_counts()],
        holds: hold_views()[..2].to_vec(),
        sales: sale_views()[..2].to_vec(),
        violations: vec!["seat 3 is held twice".into()],
        holders: Vec::new(),
    }
}

pub fn as_of() -> AsOf {
    AsOf {
        entity: Entity::Session(id("hamlet-tonight")),
        at: evening().after(HOUR),
        since: evening(),
        until: Some(evening().after(2 * HOUR)),
        floor: Some(evening()),
        position: 88_213,
        version: 391,
        map: Some(map_view()),
        session: Some(session_audit()),
        product: None,
        resource: None,
    }
}

pub fn cart_audit() -> CartAudit {
    let entities = [
        Entity::Session(id("hamlet-tonight")),
        Entity::Session(id("hamlet-tonight")),
        Entity::Product(id("programme")),
        Entity::Resource(id("room-5")),
        Entity::Customer(id("ada")),
        Entity::Code(id("c5ce1a7c5ce1a7c5ce1a7c5ce1a7c5ce")),
    ];
    let claim = |(portion, entity)| Claim {
        line: 1,
        since: evening(),
        entity,
        hold: hold_id(),
        revision: 2,
        portion: Some(portion),
    };
    let mut holds: Vec<Claim> = portions().into_iter().zip(entities).map(claim).collect();
    holds.push(Claim { portion: None, ..holds[0].clone() });
    CartAudit {
        cart: cart_view(),
        holds,
        payment: Some(PaymentStatus::Captured),
        refunds: vec![refund()],
        voids: vec![
            VoidRecord { attempt: 1, status: VoidStatus::Failed { reason: "it is closed".into() } },
            VoidRecord { attempt: 2, status: VoidStatus::Voided },
            VoidRecord { attempt: 3, status: VoidStatus::Pending },
        ],
        attempt: Some(4),
        owed: 1,
        violations: Vec::new(),
    }
}

pub fn product_audit() -> ProductAudit {
    ProductAudit {
        product: id("programme"),
        counts: stock_counts(),
        holds: hold_views()[2..3].to_vec(),
        sales: sale_views()[2..3].to_vec(),
        violations: Vec::new(),
        holders: Vec::new(),
    }
}

pub fn resource_audit() -> ResourceAudit {
    ResourceAudit {
        resource: id("room-5"),
        bookings: 3,
        holds: hold_views()[3..4].to_vec(),
        sales: sale_views()[3..4].to_vec(),
        violations: Vec::new(),
        holders: Vec::new(),
    }
}

pub fn customer_audit() -> CustomerAudit {
    CustomerAudit {
        customer: id("ada"),
        quotas: vec![(id("hamlet"), 3, 4)],
        holds: hold_views()[4..5].to_vec(),
        sales: sale_views()[4..5].to_vec(),
        purchases: vec![cart().order()],
        violations: Vec::new(),
    }
}

pub fn code_view() -> CodeView {
    CodeView { group: id("members"), uses: 9, ended: true, by_order: true, held: 3, sold: 4 }
}

pub fn code_audit() -> CodeAudit {
    CodeAudit {
        code: id("c5ce1a7c5ce1a7c5ce1a7c5ce1a7c5ce"),
        counts: code_view(),
        holds: hold_views()[5..].to_vec(),
        sales: sale_views()[5..].to_vec(),
        violations: Vec::new(),
    }
}

pub fn node_audit() -> NodeAudit {
    NodeAudit {
        venues: 1,
        sessions: 2,
        seats: SeatTotals { free: 10, held: 2, sold: 3, blocked: 1 },
        areas: UnitTotals { free: 400, held: 40, sold: 60 },
        stock: UnitTotals { free: 7, held: 2, sold: 1 },
        payments: PaymentTotals { recorded: 1, ..PaymentTotals::default() },
        payments_pending: 3,
        payments_failed: 1,
        failed_keys: vec!["000000000000000000000000000000ab-1-void".into()],
        order_totals: vec![CurrencyTotal { currency: euro(0).currency, orders: 1, amount: 3_000 }],
        violations: vec!["a sale without an order".into()],
        ..NodeAudit::default()
    }
}

pub fn history_page() -> HistoryPage {
    let entry = HistoryEntry {
        position: 88_213,
        version: 391,
        at: evening(),
        event: "held".into(),
        details: "by cart 0f1e1892ba91625a7bb986fa704738a5".into(),
        by: "till-3".into(),
    };
    let entity = Entity::Session(id("hamlet-tonight"));
    HistoryPage { entity, entries: vec![entry], cursor: Some(391), complete: false }
}

pub fn backup_places() -> BackupPlaces {
    BackupPlaces {
        cluster: "00112233445566778899aabbccddeeff".into(),
        shard_count: 1,
        node: 2,
        disk: "ffeeddccbbaa99887766554433221100".into(),
        shards: vec![BackupShard { shard: 1, snapshot: 10_000, committed: 10_391, mark: 7 }],
        first_segment: 3,
        last_segment: 4,
        mark: 7,
    }
}

pub fn backup_piece() -> BackupPiece {
    BackupPiece { data: "AAECAw==".into(), next: Some("2710.40000".into()) }
}

pub fn status() -> NodeStatus {
    NodeStatus {
        node: "n1".into(),
        cluster: "c0ffee".into(),
        version: "0.1.0".into(),
        uptime_ms: 12_000,
        durability: Durability { replicas: 1, fsync: "always".into() },
        state: "ready".into(),
        disk_is_slow: true,
        damage: "the store is damaged: records of a block of shard 3 cannot be read".into(),
        cluster_version: 17,
        upgrade: "to version 18, held back by node 2: it cannot be reached".into(),
        linked: vec![2, 17],
        shards: vec![ShardStatus {
            shard: 0,
            role: "leader".into(),
            term: 3,
            applied: 88_214,
            entities: 12,
            leader: Some(1),
            committed: 88_214,
            distance_ms: -40,
            unconfirmed: true,
            followers: vec![FollowerStatus { replica: "2.17".into(), lag: 3, heard: true }],
            chain: Some(ChainEnd {
                index: 88_213,
                term: 3,
                hash: "0f1e1892ba91625a7bb986fa704738a5".into(),
                at: evening(),
            }),
        }],
        connections: 4,
        watchers: 2,
        under_way: 17,
        actors: 9,
        carts_archived: 120,
        tombstones: 6,
        payments_pending: 1,
        payments_failed: 2,
        rates: Rates { requests: 1_000.5, ok: 990.0, ..Rates::default() },
    }
}
