//! Stories of a cluster. Each line is a command, followed by its outcome and, below it, the changes.
//!
//! | line | meaning |
//! |---|---|
//! | `found 1 d1 shards 2 replicas 3` | node 1 with the disk d1 founds the cluster |
//! | `join d2` `join d2 as 2` | a machine with the disk d2 wants to become a member, or this member |
//! | `arrived 2 d2` | a member has started |
//! | `drain 2` `undrain 2` `remove 2` `replace 2` | commands of an operator; `force` before the first or third |
//! | `renew 2 d2 d5` `renew 2 d2 d5 without 3` `renew 2 d2 d5 rest 60000` | a member wants to replace its damaged disk d2 by d5; node 3 cannot be reached; the last one was so many milliseconds ago |
//! | `place 1 to 1 2 + 3 led by 2` | another target for shard 1: voters, learners, leader; `; 2 to …` for more |
//! | `stale place …` | the same, based on the previous version |
//! | `reached 1 2` | the leader of shard 1 has reached the target of version 2 |
//! | `retire 2` | a drained member has nothing left |
//! | `finish` `finish without 3` | the version of the cluster is to be raised; node 3 cannot be reached |
//! | `… by r1` | with this request id; otherwise every line has its own; `by none` has none |

use std::{fmt::Write, sync::Arc};

use boxoffice_core::{
    answer::{Answer, Outcome},
    cluster::{Copies, MemberState, Place, Replica},
    cluster_table::ClusterTable,
    command::{Admission, ClusterCommand, Command, Machine, Move, Replacing},
    event::Event,
    host::{Effect, Host, Input, Turn},
    id::{Entity, Request, RequestHash, hash64},
    rules::Rules,
    state_map::{State, StateMap},
    stored,
    time::Timestamp,
    version::{ClusterVersion, NEXT, OLDEST_READ, ReadVersions},
};
use expect_test::Expect;

use crate::{folds, states::written_and_read};

/// Plays a script and compares the story.
pub(crate) fn check(script: &str, expect: Expect) {
    folds::begin();
    let mut play = Play::default();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        play.line(line);
    }
    expect.assert_eq(&play.story);
}

/// The cluster table of a shard.
#[derive(Default)]
pub(crate) struct Play {
    kept: StateMap,
    at: u64,
    lines: u64,
    pub(crate) story: String,
}

impl Play {
    /// The table after these lines, none of which may be refused.
    pub(crate) fn after(script: &str) -> Play {
        folds::begin();
        let mut play = Play::default();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            play.line(line);
        }
        assert!(!play.story.contains("refused"), "{}", play.story);
        play
    }

    /// The time of the next command, in milliseconds.
    pub(crate) fn next_at(&self) -> u64 {
        self.at + 1_000
    }

    pub(crate) fn cluster(&self) -> Option<ClusterTable> {
        let state = self.kept.get(&Entity::Cluster)?;
        let State::Cluster(cluster) = &*state else { panic!("not a cluster") };
        Some((**cluster).clone())
    }

    /// Runs one line, and writes its outcome.
    pub(crate) fn line(&mut self, line: &str) {
        self.lines += 1;
        let (text, request) = match line.split_once(" by ") {
            Some((text, "none")) => (text, None),
            Some((text, request)) if !request.contains(' ') && !text.contains("place") => {
                (text, Some(request.to_owned()))
            }
            Some(_) | None => (line, Some(format!("line {}", self.lines))),
        };
        let before = self.cluster();
        let command = self.command(text);
        let outcome = self.send(request.as_deref(), command);
        let after = self.cluster();
        writeln!(self.story, "{line} -> {}", describe(&outcome)).expect("writes to a string succeed");
        self.story.push_str(&changes(before.as_ref(), after.as_ref()));
    }

    /// Gives a command to a host with the current state, and applies its events.
    pub(crate) fn send(&mut self, request: Option<&str>, command: ClusterCommand) -> Outcome {
        self.at += 1_000;
        let request =
            request.map(|id| Request { id: RequestHash::of(id), body: hash64(format!("{command:?}").as_bytes()) });
        let state = self.kept.get(&Entity::Cluster);
        let mut host: Host<()> = Host::new(Entity::Cluster, state, Arc::new(Rules::default()));
        let mut turn = Turn::default();
        let command = Command::Cluster(command);
        assert_eq!(command.entity(), Entity::Cluster);
        host.handle(Timestamp(self.at), Input::Command { from: (), request, command, timeout_ms: 60_000 }, &mut turn);
        assert!(host.idle() && !host.ended() && turn.now.is_empty() && turn.wake_at.is_none());
        let answers = if turn.events.is_empty() { &mut turn.read } else { &mut turn.committed };
        let answered = match (answers.pop(), answers.pop()) {
            (Some(Effect::Answer { to: (), outcome }), None) => outcome,
            (first, second) => panic!("expected one answer: {first:?} {second:?}"),
        };
        let events = std::mem::take(&mut turn.events);
        assert!(answered.is_ok() || events.is_empty(), "a refusal changes nothing");
        folds::note(&Entity::Cluster, &events);
        // Encodes and decodes the log and a snapshot, as every replica does.
        let log = stored::append(&events, Vec::new());
        let events: Vec<Event> = stored::read(&log).expect("and read");
        assert_eq!(stored::append(&events, Vec::new()), log);
        self.kept.apply(&Entity::Cluster, events);
        let again = written_and_read(&self.kept);
        assert_eq!(again.get(&Entity::Cluster), self.kept.get(&Entity::Cluster));
        self.kept = again;
        answered
    }

    fn command(&self, line: &str) -> ClusterCommand {
        let words: Vec<&str> = line.split_whitespace().collect();
        let version = self.cluster().map_or(0, |cluster| cluster.version());
        match words[..] {
            ["found", node, disk, "shards", shards, "replicas", replicas] => ClusterCommand::Found {
                node: number(node),
                machine: machine(disk).into(),
                shards: number(shards) as u16,
                replicas: number(replicas) as u8,
            },
            ["join", disk] => join(None, disk, Admission::Vouched),
            ["join", disk, "as", node] => join(Some(number(node)), disk, Admission::Vouched),
            ["join", disk, "with", "nothing"] => join(None, disk, Admission::Nothing),
            ["join", disk, "invited", name] => join(None, disk, Admission::Invitation(invitation(name))),
            ["join", disk, "as", node, "invited", name] => {
                join(Some(number(node)), disk, Admission::Invitation(invitation(name)))
            }
            ["renew", node, from, to] => renewal(node, from, to, Vec::new(), 0),
            ["renew", node, from, to, "rest", ms] => renewal(node, from, to, Vec::new(), number(ms)),
            ["renew", node, from, to, "without", ref down @ ..] => {
                renewal(node, from, to, down.iter().map(|node| number(node)).collect(), 0)
            }
            ["invite", name, "for", ms] => ClusterCommand::Invite { hash: invitation(name), for_ms: number(ms) },
            ["arrived", node, disk] => ClusterCommand::Arrived { node: number(node), machine: machine(disk).into() },
            ["drain", node] => ClusterCommand::Drain { node: number(node), force: false },
            ["force", "drain", node] => ClusterCommand::Drain { node: number(node), force: true },
            ["undrain", node] => ClusterCommand::Undrain { node: number(node) },
            ["remove", node] => ClusterCommand::Remove { node: number(node), force: false },
            ["force", "remove", node] => ClusterCommand::Remove { node: number(node), force: true },
            ["replace", node] => ClusterCommand::Replace { node: number(node) },
            ["retire", node] => ClusterCommand::Retire { node: number(node) },
            ["reached", shard, version] => {
                ClusterCommand::Reached { shard: number(shard) as u16, version: number(version) }
            }
            ["finish"] => ClusterCommand::FinishUpgrade { down: Vec::new() },
            ["finish", "without", ref nodes @ ..] => {
                ClusterCommand::FinishUpgrade { down: nodes.iter().map(|node| number(node)).collect() }
            }
            ["get"] => ClusterCommand::Get,
            ["place", ref words @ ..] => ClusterCommand::Place { based_on: version, moves: moves(words) },
            ["stale", "place", ref words @ ..] => ClusterCommand::Place { based_on: version - 1, moves: moves(words) },
            _ => panic!("unknown line: {line}"),
        }
    }
}

pub(crate) fn join(node: Option<u64>, disk: &str, admission: Admission) -> ClusterCommand {
    let machine = Machine { versions: None, ..machine(disk) };
    ClusterCommand::Join { node, machine: machine.into(), proof: None, admission }
}

/// The wish of member `node` to replace its damaged disk `from` by `to`, decided where the members `down` are not linked.
fn renewal(node: &str, from: &str, to: &str, down: Vec<u64>, rest_ms: u64) -> ClusterCommand {
    let replacing = Replacing { disk: machine(from).disk, down, rest_ms };
    join(Some(number(node)), to, Admission::Replacing(replacing))
}

/// The hash of the invitation with this name.
pub(crate) fn invitation(name: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..name.len()].copy_from_slice(name.as_bytes());
    hash
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// The machine with this disk. A letter after the number stands for another process on it: `b` for a later patch, `n` for the program of
/// the next version, `o` for one that reads only that version, `l` for one that reads one more.
pub(crate) fn machine(disk: &str) -> Machine {
    let number: String = disk.chars().filter(char::is_ascii_digit).collect();
    let (program, oldest, newest) = match disk.chars().last() {
        Some('b') => ("0.2.0", OLDEST_READ, OLDEST_READ),
        Some('n') => ("0.3.0", OLDEST_READ, NEXT),
        Some('l') => ("0.5.0", OLDEST_READ, ClusterVersion::numbered(NEXT.number() + 1)),
        Some('o') => ("0.4.0", NEXT, NEXT),
        _ => ("0.1.0", OLDEST_READ, OLDEST_READ),
    };
    Machine {
        disk: number.parse().expect("a disk has a number"),
        peer: format!("host{number}:7280").into(),
        client: format!("host{number}:7180").into(),
        program: program.into(),
        versions: Some(ReadVersions { oldest, newest }),
    }
}

fn moves(words: &[&str]) -> Vec<Move> {
    let each = |words: &[&str]| {
        let [shard, "to", to @ .., "led", "by", leader] = words else { panic!("{words:?} is not a move") };
        let mut sides = to.split(|word| *word == "+").map(|nodes| nodes.iter().map(|node| number(node)).collect());
        Move {
            shard: number(shard) as u16,
            voters: sides.next().unwrap_or_default(),
            learners: sides.next().unwrap_or_default(),
            leader: number(leader),
        }
    };
    words.split(|word| *word == ";").map(each).collect()
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Ok(answered) => match &answered.answer {
            Answer::Done => format!("done at {}", answered.at[0].version),
            Answer::Invitation(view) => format!(
                "invited until {} s, at {}, at {}",
                view.ends_at.0 / 1_000,
                view.clients.join(" "),
                answered.at[0].version
            ),
            Answer::Cluster(view) => {
                let own = view.own.map_or_else(String::new, |own| format!(" as node {own}"));
                format!(
                    "ok{own} at {}, {} members, {} places",
                    answered.at[0].version,
                    view.members.len(),
                    view.places.len()
                )
            }
            other => panic!("unexpected answer {other:?}"),
        },
        Err(refusal) => format!("refused {} {}: {refusal}", refusal.code(), refusal.name()),
    }
}

/// The changes of a line.
fn changes(before: Option<&ClusterTable>, after: Option<&ClusterTable>) -> String {
    let mut text = String::new();
    let Some(after) = after else { return text };
    for (node, member) in after.members() {
        if before.and_then(|before| before.members().get(node)) != Some(member) {
            let disk = member.disk.map_or_else(|| "no disk".to_owned(), |disk| format!("disk {disk}"));
            let (state, since) = (member.state.name(), member.since.0 / 1_000);
            write!(text, "  node {node}: {state} since {since}, {disk} at {}", member.peer)
                .expect("writes to a string succeed");
            if member.first_generation > 1 {
                write!(text, ", from generation {} on", member.first_generation).expect("writes to a string succeed");
            }
            text.push('\n');
        }
    }
    if before.is_some_and(|before| before.cluster_version() != after.cluster_version()) {
        writeln!(text, "  the cluster is at version {}", after.cluster_version()).expect("writes to a string succeed");
    }
    for (shard, place) in after.places().iter().enumerate() {
        if before.is_none_or(|before| before.places()[shard] != *place) {
            writeln!(text, "  shard {shard}: {}", draw(place)).expect("writes to a string succeed");
        }
    }
    text
}

fn draw(place: &Place) -> String {
    let from = if place.moving() { format!(", coming from {}", copies(&place.last_reached)) } else { String::new() };
    format!("target {} is {} led by {}{from}", place.version, copies(&place.target), place.leader)
}

fn copies(copies: &Copies) -> String {
    let texts = |replicas: &[Replica]| replicas.iter().map(Replica::to_string).collect::<Vec<_>>().join(" ");
    let plus = if copies.learners.is_empty() { "" } else { " + " };
    format!("{}{plus}{}", texts(&copies.voters), texts(&copies.learners))
}

/// Whether a member is in this state.
pub(crate) fn state(play: &Play, node: u64) -> MemberState {
    play.cluster().expect("the cluster is founded").members()[&node].state
}
