//! The session of an evening, and what its networks hold.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, Answered, Outcome, SessionAudit},
    command::{Area, CartCommand, Command, NewSession, SessionExtras, VenueCommand, VenueDetails, WantedLine},
    holder::Holder,
    id::{CartId, CartToken, Entity, Id, Request, RequestHash, hash64},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    portion::Portion,
    refusal::Refusal,
    time::Timestamp,
};
use rand::{Rng, rngs::SmallRng};
use tokio::time::sleep;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    client_stub::ClientStub,
    clock::BEGIN_MS,
    fixture::{audit_of, id},
};

/// The hall.
pub(super) const ROWS: u16 = 40;
pub(super) const WIDTH: u16 = 50;
pub(super) const SEATS: u32 = ROWS as u32 * WIDTH as u32;
/// Places of the area.
pub(super) const PLACES: u32 = 2_000;
/// The session is a year later.
const LATER_MS: u64 = 365 * 24 * 3_600_000;
/// The pause before an ask is repeated, in milliseconds.
const AGAIN_MS: u64 = 200;

/// A cart that was told that it has bought.
pub(super) struct Bought(pub(super) CartId);

/// What one network holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) seats: u32,
    pub(super) places: u32,
}

/// The session, its clients, and the network of each cart.
pub(super) struct House {
    pub(super) client: Arc<ClientStub>,
    pub(super) session: Entity,
    networks: Mutex<BTreeMap<CartId, u64>>,
    granted: AtomicU32,
    refused: AtomicU32,
}

impl House {
    /// Opens the session.
    pub(super) async fn open(client: Arc<ClientStub>, random: &mut SmallRng) -> House {
        let run = Run {
            gap: 0,
            count: WIDTH,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: id("standard"),
            accessible: false,
            points: Vec::new(),
        };
        let rows = (0..ROWS).map(|row| Row { label: format!("{row}").into(), section: None, runs: vec![run.clone()] });
        let layout = Arc::new(Layout::new(rows.collect(), None).expect("a good layout"));
        let euros = |amount| Money { amount, currency: Currency::new("EUR").expect("a currency") };
        let details = VenueDetails {
            name: "Theatre".into(),
            city: "Here".into(),
            position: None,
            comments: "".into(),
            zone: None,
            address: "".into(),
        };
        let begin = BEGIN_MS + LATER_MS;
        let floor = Area {
            id: id("floor"),
            name: "Floor".into(),
            capacity: PLACES,
            price: euros(300),
            names: Default::default(),
        };
        let new = NewSession {
            id: id("hamlet"),
            hall: id("hall"),
            title: id("title"),
            starts_at: Timestamp(begin),
            ends_at: Timestamp(begin + 3_600_000),
            prices: vec![(id("standard"), euros(1_000))],
            extras: SessionExtras { areas: vec![floor], ..Default::default() },
        };
        for command in [
            VenueCommand::Put(details),
            VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout },
            VenueCommand::CreateSession(new),
        ] {
            let ended = client.change(random, "evening", Command::Venue(id("theatre"), command), u32::MAX).await;
            if ended.granted().is_none() {
                client.oracle.lock().violation(format!("the session cannot be opened: {ended:?}"));
            }
        }
        let session = Entity::Session(id("hamlet"));
        House { client, session, networks: Mutex::default(), granted: AtomicU32::new(0), refused: AtomicU32::new(0) }
    }

    /// The node that leads the session.
    pub(super) fn leader(&self) -> Option<u64> {
        let machine = self.client.machines.iter().find(|machine| machine.runs())?;
        Some(machine.handle()?.leader_elsewhere(&self.session).unwrap_or(machine.number))
    }

    /// A new cart of this network, in the shard of the session as most clients have it.
    pub(super) fn new_cart(&self, network: u64, random: &mut SmallRng) -> CartId {
        let token = match random.random_ratio(3, 4) {
            true => CartToken::beside(&self.session, random.random()),
            false => CartToken(random.random()),
        };
        self.networks.lock().insert(token.cart(), network);
        token.cart()
    }

    /// Holds lines for a network.
    pub(super) fn hold(network: u64, lines: Vec<WantedLine>) -> CartCommand {
        CartCommand::Hold { lines, customer: None, guest: true, holder: Some(holder(network)), attributes: Vec::new() }
    }

    /// Asks any node, and again with the same request id, until the outcome is known. `None` after so many tries.
    pub(super) async fn ask(
        &self,
        random: &mut SmallRng,
        cart: CartId,
        command: CartCommand,
        tries: u32,
    ) -> Option<Outcome> {
        let number: u64 = random.random();
        let request = Request { id: RequestHash(number), body: number };
        for _ in 0..tries {
            match self.client.attempt(random, Command::Cart(cart, command.clone()), Some(request)).await {
                Ok(Err(Refusal::InProgress | Refusal::PaymentPending)) | Err(_) => {}
                Ok(outcome) => return Some(outcome),
            }
            sleep(Duration::from_millis(AGAIN_MS)).await;
        }
        None
    }

    /// Counts an ask of a hoarder.
    pub(super) fn count(&self, is_granted: bool) {
        let count = if is_granted { &self.granted } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn asks(&self) -> (u32, u32) {
        (self.granted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    async fn audit(&self, random: &mut SmallRng) -> Option<Box<SessionAudit>> {
        match self.client.read(random, "judge", audit_of(&self.session)).await? {
            Ok(Answered { answer: Answer::SessionAudit(audit), .. }) => Some(audit),
            other => {
                self.client.oracle.lock().violation(format!("the audit of the session says {other:?}"));
                None
            }
        }
    }

    /// What each network holds in the committed session, by the carts of its holds, and what the session finds wrong.
    pub(super) async fn held(&self, random: &mut SmallRng) -> Option<(BTreeMap<u64, Held>, Vec<String>)> {
        let audit = self.audit(random).await?;
        let mut wrong: Vec<String> = audit.violations.iter().map(ToString::to_string).collect();
        let (mut all, networks): (BTreeMap<u64, Held>, _) = (BTreeMap::new(), self.networks.lock());
        for hold in &audit.holds {
            let Some(network) = networks.get(&hold.hold.cart) else {
                wrong.push(format!("{hold:?} is of a cart that nobody has"));
                continue;
            };
            let held = all.entry(*network).or_default();
            match &hold.portion {
                Portion::Seats(seats) => held.seats += seats.as_slice().len() as u32,
                Portion::Places { quantity, .. } => held.places += quantity,
                other => wrong.push(format!("a session holds {other:?}")),
            }
        }
        Some((all, wrong))
    }

    /// Purchases that the session does not know.
    pub(super) async fn not_sold(&self, bought: &[Bought], random: &mut SmallRng) -> Vec<String> {
        let Some(audit) = self.audit(random).await else { return Vec::new() };
        let sold: std::collections::BTreeSet<CartId> = audit.sales.iter().map(|sale| sale.hold.cart).collect();
        let lost = bought.iter().filter(|bought| !sold.contains(&bought.0));
        let mut wrong: Vec<String> =
            lost.map(|Bought(cart)| format!("cart {cart} has bought, and nothing is sold to it")).collect();
        let many = audit.sales.len().saturating_sub(bought.len());
        if many > 0 {
            wrong.push(format!("{many} sales more than buyers were told of"));
        }
        wrong
    }
}

/// The holder of a network. Nobody else is in its wider network.
pub(super) fn holder(network: u64) -> Holder {
    Holder {
        own: hash64(format!("network {network}").as_bytes()),
        wider: hash64(format!("wider {network}").as_bytes()),
    }
}

/// Whether a hold was refused because its network has its share.
pub(super) fn is_share(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::ShareReached { .. } => true,
        Refusal::Lines(lines) => lines.iter().any(|line| is_share(&line.refusal)),
        _ => false,
    }
}

/// The area of the session.
pub(super) fn floor() -> Id {
    id("floor")
}
