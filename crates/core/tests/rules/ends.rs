//! Numbers near their ends, for every kind of entity: what was said in a storm comes again in any order, with revisions,
//! attempts, versions, amounts, quantities and times pushed to where arithmetic ends, to hosts whose counters are nearly at
//! their ends. A refusal is an answer; a panic is a bug, in a decision as when it is applied.

use std::{collections::BTreeMap, sync::Arc};

use boxoffice_core::{
    ask::{Ask, Reply},
    command::{ClusterCommand, Command, CustomerCommand, DirectoryCommand, Machine, Move, Title, VenueCommand},
    host::{Effect, Host, Input, Turn},
    id::{Entity, Request, RequestHash},
    keep::{Kept, State},
    money::{AMOUNT_MAX, PRICE_MAX},
    payment::{GatewayCall, GatewayOutcome},
    time::{Rules, TIMESTAMP_MAX, Timestamp},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    script::{details, id},
    storm::{Dice, midst},
    town::Message,
};

const SEEDS: u64 = 150;
const STEPS: u32 = 400;
/// Steps of the storm before.
const BEFORE: u32 = 160;
/// Messages that may come again; the oldest go.
const MESSAGES_MAX: usize = 600;

#[test]
fn numbers_near_their_ends_are_answered() {
    // Other seeds than those of every day, by hand.
    let from = std::env::var("ENDS_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(0);
    for seed in from..from + SEEDS {
        let _named = Named(seed);
        let mut run = Run::new(seed);
        (0..STEPS).for_each(|_| run.step());
        assert!(run.decided > 0, "nothing was decided");
    }
}

/// Says which seed it was if it ends badly.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("numbers of seed {} ended badly: ENDS_FROM={}", self.0, self.0);
        }
    }
}

struct Run {
    dice: Dice,
    at: Timestamp,
    rules: Arc<Rules>,
    kept: Kept,
    hosts: BTreeMap<Entity, Host<u32>>,
    messages: Vec<Message>,
    decided: u32,
}

impl Run {
    fn new(seed: u64) -> Run {
        let town = midst(seed, BEFORE);
        let mut dice = Dice(!seed);
        let at = match dice.roll(3) {
            0 => town.now,
            1 => Timestamp(TIMESTAMP_MAX.0 - dice.roll(5_000)),
            _ => Timestamp(town.now.0 + (1 << dice.roll(42))),
        };
        // Carts and inventories tell old from new by revisions: those are moved on everywhere alike.
        let revisions = [0, 1 << 62, u64::MAX - (1 << 42)][dice.roll(3) as usize];
        let mut later = |field: &str, old: u64| is_revision(field).then_some(old + revisions);
        let mut messages: Vec<Message> = town.posted.iter().map(|message| moved_on(message, &mut later)).collect();
        messages.extend(others());
        let wound = rewritten(&town.kept.cut(), &mut |field, old| wind(&mut dice, field).or_else(|| later(field, old)));
        let kept = Kept::restore(wound.expect("counters have room"));
        let rules = Arc::new(town.rules().clone());
        Run { dice, at, rules, kept, hosts: BTreeMap::new(), messages, decided: 0 }
    }

    fn step(&mut self) {
        self.at = self.at.after(match self.dice.roll(20) {
            0 => 1 << self.dice.roll(40),
            1..=4 => self.dice.roll(2_000),
            _ => 0,
        });
        let place = self.dice.roll(self.messages.len() as u64) as usize;
        let Message { to, input } = self.messages[place].clone();
        let input = match self.dice.roll(8) {
            0 => Input::Wake,
            _ => self.pushed(input),
        };
        if self.dice.roll(12) == 0 {
            // Another leader goes on from what is committed.
            self.hosts.remove(&to);
        }
        self.handle(to, input);
        if self.messages.len() > MESSAGES_MAX {
            self.messages.drain(..self.messages.len() - MESSAGES_MAX);
        }
    }

    /// The same with some of its numbers near their ends.
    fn pushed(&mut self, input: Input<u32>) -> Input<u32> {
        let dice = &mut self.dice;
        let one_in = 2 + dice.roll(8);
        // What is sold or released was committed by its cart; another revision or quantity would be a broken promise.
        let bound = matches!(input, Input::Ask { ask: Ask::Sell { .. } | Ask::Release { .. }, .. });
        let stale = matches!(input, Input::Reply { reply: Reply::Stale { .. }, .. });
        let mut push = |field: &str, old: u64| {
            let fixed = (is_revision(field) && !stale) || (bound && field != "at");
            (!fixed && dice.roll(one_in) == 0).then(|| edge(dice, old))
        };
        match input {
            Input::Ask { from, ask } => Input::Ask { from, ask: rewritten(&ask, &mut push).unwrap_or(ask) },
            Input::Reply { from, reply } => Input::Reply { from, reply: rewritten(&reply, &mut push).unwrap_or(reply) },
            Input::Paid { key, step, outcome } => {
                let (cart, whole) = (key.cart, (key, step, outcome));
                let (mut key, step, outcome) = rewritten(&whole, &mut push).unwrap_or(whole);
                key.cart = cart;
                Input::Paid { key, step, outcome }
            }
            Input::Command { from, request, command } => {
                let changed = rewritten(&command, &mut push).unwrap_or_else(|_| command.clone());
                // What the door lets through: it has looked at each number.
                let command = if changed.entity() == command.entity() { changed } else { command };
                let anew = Request { id: RequestHash(self.dice.roll(1 << 40)), body: 0 };
                let request = request.map(|known| if self.dice.roll(3) == 0 { known } else { anew });
                Input::Command { from, request, command }
            }
            Input::Wake => Input::Wake,
        }
    }

    fn handle(&mut self, to: Entity, input: Input<u32>) {
        let (state, rules) = (self.kept.get(&to), Arc::clone(&self.rules));
        let before = state.as_deref().map_or(0, State::version);
        let host = self.hosts.entry(to.clone()).or_insert_with(|| Host::new(to.clone(), state, rules));
        let mut turn = Turn { known: before, ..Turn::default() };
        host.handle(self.at, input, &mut turn);
        assert_eq!(turn.after, before, "{to} is decided against what is committed");
        let events = turn.events.len() as u64;
        if events > 0 {
            self.decided += 1;
            self.kept.apply(&to, std::mem::take(&mut turn.events));
            let version = self.kept.get(&to).map_or(0, |state| state.version());
            assert_eq!(version, before + events, "{to} counts its events");
        }
        for effect in turn.now.into_iter().chain(turn.committed).chain(turn.read) {
            let message = match effect {
                Effect::Answer { .. } => continue,
                Effect::Ask { to: other, ask } => Message { to: other, input: Input::Ask { from: to.clone(), ask } },
                Effect::Reply { to: other, reply } => {
                    Message { to: other, input: Input::Reply { from: to.clone(), reply } }
                }
                Effect::Pay(call) => {
                    let input = Input::Paid { key: call.key(), step: call.step(), outcome: self.outcome(&call) };
                    Message { to: Entity::Cart(call.key().cart), input }
                }
            };
            self.messages.push(message);
        }
    }

    fn outcome(&mut self, call: &GatewayCall) -> GatewayOutcome {
        match (self.dice.roll(4), call) {
            (0, _) => GatewayOutcome::Unknown { reason: "late".into() },
            (1, _) => GatewayOutcome::Declined { reason: "poor".into() },
            (_, GatewayCall::Authorize { amount, .. }) => {
                GatewayOutcome::Authorized { reference: "auth".into(), amount: *amount }
            }
            (_, GatewayCall::Capture { .. }) => GatewayOutcome::Captured,
            (_, GatewayCall::Void { .. }) => GatewayOutcome::Voided,
            (_, GatewayCall::Refund { .. }) => GatewayOutcome::Refunded,
        }
    }
}

/// A number at which something ends, or begins, or one beside it.
fn edge(dice: &mut Dice, old: u64) -> u64 {
    const ENDS: [u64; 14] = [
        0,
        1 << 8,
        1 << 16,
        1 << 20,
        1 << 31,
        1 << 32,
        PRICE_MAX as u64,
        AMOUNT_MAX as u64,
        TIMESTAMP_MAX.0,
        i64::MAX as u64,
        ((1 << 44) - 1) << 20,
        u64::MAX,
        1_000_000,
        1 << 44,
    ];
    let end = if dice.roll(4) == 0 { old } else { ENDS[dice.roll(ENDS.len() as u64) as usize] };
    match dice.roll(4) {
        0 => end.saturating_sub(1 + dice.roll(3)),
        1 => end.saturating_add(1 + dice.roll(2)),
        _ => end,
    }
}

/// A counter of kept state nearly at its end: as far as it can come in a life, for those that a client moves; as far as it
/// is wide, for those that nobody can fill.
fn wind(dice: &mut Dice, field: &str) -> Option<u64> {
    let end = match field {
        "version" | "next" => u64::MAX - 1_000_000,
        "next_line" => u64::from([u16::MAX as u32, u32::MAX - 5_000][dice.roll(2) as usize]),
        "disowned" => u64::from(u16::MAX),
        "begun" => 256,
        _ => return None,
    };
    // All versions are wound alike: some rest on others.
    (field == "version" || dice.roll(3) == 0).then(|| end - if field == "version" { 0 } else { dice.roll(3) })
}

/// Whether a number says which of two words about a hold is the newer one.
fn is_revision(field: &str) -> bool {
    matches!(field, "revision" | "quota_revision" | "released")
}

fn moved_on(message: &Message, later: &mut dyn FnMut(&str, u64) -> Option<u64>) -> Message {
    let room = "revisions have room";
    let input = match message.input.clone() {
        Input::Ask { from, ask } => Input::Ask { from, ask: rewritten(&ask, later).expect(room) },
        Input::Reply { from, reply } => Input::Reply { from, reply: rewritten(&reply, later).expect(room) },
        other @ (Input::Command { .. } | Input::Paid { .. } | Input::Wake) => other,
    };
    Message { to: message.to.clone(), input }
}

/// What is asked of entities that are not in storms.
fn others() -> Vec<Message> {
    let machine = |disk: u128| {
        let name = |word: &str| format!("{word}{disk}").into();
        Box::new(Machine { disk, peer: name("p"), client: name("c"), program: "p".into() })
    };
    let moved = Move { shard: 1, voters: vec![1, 2], learners: Vec::new(), leader: 1 };
    let cluster = [
        ClusterCommand::Found { node: 1, machine: machine(1), shards: 8, replicas: 3 },
        ClusterCommand::Join { node: None, machine: machine(2), proof: None },
        ClusterCommand::Join { node: Some(3), machine: machine(3), proof: None },
        ClusterCommand::Arrived { node: 2, machine: machine(2) },
        ClusterCommand::Place { based_on: 3, moves: vec![moved] },
        ClusterCommand::Reached { shard: 1, version: 4 },
        ClusterCommand::Drain { node: 2, force: true },
        ClusterCommand::Undrain { node: 2 },
        ClusterCommand::Replace { node: 2 },
        ClusterCommand::Remove { node: 2, force: true },
        ClusterCommand::Retire { node: 2 },
        ClusterCommand::Get,
    ];
    let title = Title {
        name: "Hamlet".into(),
        director: "".into(),
        cast: Vec::new(),
        comments: "".into(),
        duration_ms: Some(9_000_000),
    };
    let directory = [
        DirectoryCommand::PutTitle(id("hamlet"), title),
        DirectoryCommand::GetTitle(id("hamlet")),
        DirectoryCommand::SearchTitles { name: None, limit: 5, after: None },
        DirectoryCommand::SearchVenues { city: None, name: None, near: Some((5, 6)), limit: 5, after: None },
        DirectoryCommand::VenuesOfCity("Town".into()),
    ];
    let (from, to) = (Timestamp(0), Timestamp(5_000_000));
    let search = VenueCommand::SearchSessions { hall: None, title: None, from, to, limit: 5, after: None };
    let commands = cluster.into_iter().map(Command::Cluster).chain(directory.into_iter().map(Command::Directory));
    let commands = commands.chain([
        Command::Venue(id("venue"), search),
        Command::Customer(id("ann"), CustomerCommand::Purchases { after: 0, limit: 5 }),
        Command::Customer(id("ann"), CustomerCommand::Audit),
    ]);
    let request = Request { id: RequestHash(7), body: 7 };
    let command = |command: Command| Message {
        to: command.entity(),
        input: Input::Command { from: 0, request: Some(request), command },
    };
    let list = Ask::List { details: details(), version: 3 };
    let listed = Message { to: Entity::Directory, input: Input::Ask { from: Entity::Venue(id("venue")), ask: list } };
    let all: Vec<Message> = commands.map(command).chain([listed]).collect();
    // Often enough to be among all the others.
    (0..4).flat_map(|_| all.clone()).collect()
}

/// The same value with some of its numbers replaced: `change` is told the field a number is in, and the number. An error if
/// there is no such value.
fn rewritten<T: Serialize + DeserializeOwned>(
    value: &T,
    change: &mut dyn FnMut(&str, u64) -> Option<u64>,
) -> Result<T, rmp_serde::decode::Error> {
    let bytes = rmp_serde::to_vec_named(value).expect("it can be written");
    let mut walk = Walk { bytes: &bytes, at: 0, out: Vec::with_capacity(bytes.len()), change };
    walk.value("", true);
    rmp_serde::from_slice(&walk.out)
}

/// A walk over a value in MessagePack, which copies it.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
    change: &'a mut dyn FnMut(&str, u64) -> Option<u64>,
}

impl Walk<'_> {
    fn copy(&mut self, count: usize) {
        self.out.extend_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
    }

    /// The number in these bytes behind the head, big endian.
    fn number(&self, count: usize) -> u64 {
        self.bytes[self.at + 1..self.at + 1 + count].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn value(&mut self, field: &str, may_change: bool) {
        let head = self.bytes[self.at];
        match head {
            0x00..=0x7f => self.unsigned(field, u64::from(head), 1, may_change),
            0xcc..=0xcf => {
                let width = 1 << (head - 0xcc);
                self.unsigned(field, self.number(width), 1 + width, may_change);
            }
            0xd0..=0xd3 => self.copy(1 + (1 << (head - 0xd0))),
            0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => self.copy(1),
            0xca => self.copy(5),
            0xcb => self.copy(9),
            0xa0..=0xbf => self.copy(1 + usize::from(head & 0x1f)),
            0xd9 | 0xc4 => self.copy(2 + self.number(1) as usize),
            0xda | 0xc5 => self.copy(3 + self.number(2) as usize),
            0xdb | 0xc6 => self.copy(5 + self.number(4) as usize),
            0x90..=0x9f => self.list(field, usize::from(head & 0x0f), 1, may_change),
            0xdc => self.list(field, self.number(2) as usize, 3, may_change),
            0xdd => self.list(field, self.number(4) as usize, 5, may_change),
            0x80..=0x8f => self.map(field, usize::from(head & 0x0f), 1, may_change),
            0xde => self.map(field, self.number(2) as usize, 3, may_change),
            0xdf => self.map(field, self.number(4) as usize, 5, may_change),
            other => panic!("{other:#x} is in no value of these"),
        }
    }

    fn unsigned(&mut self, field: &str, number: u64, bytes: usize, may_change: bool) {
        match (self.change)(field, number).filter(|_| may_change) {
            None => self.copy(bytes),
            Some(changed) => {
                self.at += bytes;
                self.out.push(0xcf);
                self.out.extend_from_slice(&changed.to_be_bytes());
            }
        }
    }

    fn list(&mut self, field: &str, count: usize, head: usize, may_change: bool) {
        self.copy(head);
        (0..count).for_each(|_| self.value(field, may_change));
    }

    /// Keys stay as they are; those that are texts name the field.
    fn map(&mut self, field: &str, count: usize, head: usize, may_change: bool) {
        self.copy(head);
        for _ in 0..count {
            let begin = self.out.len();
            self.value(field, false);
            let key = self.out[begin..].to_vec();
            let name = match key[0] {
                0xa0..=0xbf => std::str::from_utf8(&key[1..]).ok(),
                _ => None,
            };
            self.value(name.unwrap_or(field), may_change);
        }
    }
}
