//! Sessions as they were. At the end of a run each node is asked for instants of the past, and must answer with what clients saw then
//! and with what its own history says.

use std::collections::BTreeMap;

use boxoffice_core::{
    id::{Entity, Id},
    time::Timestamp,
};
use boxoffice_node::{
    as_of::AsOfError,
    history::{HISTORY_MAX, HistoryEntry},
    node::NodeHandle,
};
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};

use crate::{
    client_stub::ClientStub,
    clock::{BEGIN_MS, CLOCKS_MS},
    fixture::{Fixture, id},
    shown::{Times, shown_by},
};

/// Sessions that are asked for.
const SESSIONS: usize = 3;
/// Instants of each session.
const INSTANTS: usize = 6;

/// What is asked for of a session.
struct Question {
    at: Timestamp,
    /// A version that a client read, and when, around this instant.
    read: Option<(u64, Times)>,
}

/// Asks every node. Violations go to the oracle.
pub(crate) async fn judge(client: &ClientStub, fixture: &Fixture, walls_were_right: bool, rng: &mut SmallRng) {
    let mut answers = [0; 2];
    for _ in 0..SESSIONS {
        let session = id(&format!("s{}", rng.random_range(0..fixture.sessions().max(1))));
        let entity = Entity::Session(session.clone());
        let questions = questions(client, &session, rng);
        // The version at each instant, by the first node that knows it.
        let mut known: BTreeMap<Timestamp, (u64, u64)> = BTreeMap::new();
        for machine in client.members() {
            let number = machine.number;
            let Some(handle) = machine.handle() else { continue };
            // A node without the log behind its snapshot cannot know that the snapshot's last entry had a time that was set back.
            let history = match handle.history_of(&entity, None, HISTORY_MAX, None).await {
                Ok(history) => history.entries,
                Err(error) => {
                    client.oracle.lock().violation(format!("node {number}: the history of {entity}: {error}"));
                    continue;
                }
            };
            let history = if walls_were_right { &history[..] } else { &[] };
            for question in &questions {
                match version(client, (&handle, number), &entity, question, history).await {
                    Ok(Some(version)) => {
                        answers[0] += 1;
                        let (other, first) = *known.entry(question.at).or_insert((number, version));
                        if first != version && walls_were_right {
                            let at = question.at;
                            let what =
                                format!("{entity} at {at:?}: version {first} at node {other}, {version} at {number}");
                            client.oracle.lock().violation(what);
                        }
                        let wrong =
                            question.read.filter(|_| walls_were_right).and_then(|read| off(question.at, version, read));
                        if let Some(wrong) = wrong {
                            client.oracle.lock().violation(format!("node {number}: {entity} as it was: {wrong}"));
                        }
                    }
                    Ok(None) => answers[1] += 1,
                    Err(what) => client.oracle.lock().violation(format!("node {number}: {entity} as it was: {what}")),
                }
            }
        }
    }
    let [answered, below] = answers;
    client.trace.note(&format!("{answered} states of the past are found, {below} are not kept"));
}

/// Instants around reads, and others.
fn questions(client: &ClientStub, session: &Id, rng: &mut SmallRng) -> Vec<Question> {
    let reads: Vec<(u64, Times)> = {
        let oracle = client.oracle.lock();
        let of_session = oracle.maps.range((session.clone(), 0)..=(session.clone(), u64::MAX));
        of_session.map(|((_, version), (_, times))| (*version, *times)).collect()
    };
    let around: Vec<_> = (0..INSTANTS / 2).filter_map(|_| reads.choose(rng).copied()).collect();
    let around = around.into_iter().map(|read| {
        let (called_ms, answered_ms) = read.1;
        let ms = if read.0.is_multiple_of(2) { called_ms.saturating_sub(CLOCKS_MS) } else { answered_ms + CLOCKS_MS };
        Question { at: Timestamp(BEGIN_MS + ms), read: Some(read) }
    });
    let now_ms = client.trace.now_ms();
    let others = (0..INSTANTS / 2).map(|_| Timestamp(BEGIN_MS + rng.random_range(0..now_ms)));
    let others: Vec<Question> = others.map(|at| Question { at, read: None }).collect();
    around.chain(others).collect()
}

/// The version at an instant, 0 before the first. `None` if the node does not know.
///
/// # Errors
/// What is wrong with its answer.
async fn version(
    client: &ClientStub,
    (handle, number): (&NodeHandle, u64),
    entity: &Entity,
    question: &Question,
    history: &[HistoryEntry],
) -> Result<Option<u64>, String> {
    let at = question.at;
    let version = match handle.as_of(entity, at).await {
        Ok(then) => {
            let map = then.map().ok_or_else(|| format!("{then:?} is no session"))?;
            let who = format!("node {number}, asked for {at:?},");
            client.oracle.lock().shown(&who, entity.clone(), map.version, shown_by(&map));
            if then.since > at || then.until.is_some_and(|until| until <= at) {
                return Err(format!("it was so from {:?} until {:?} and not at {at:?}", then.since, then.until));
            }
            map.version
        }
        Err(AsOfError::NotYet) => 0,
        Err(AsOfError::Below { floor }) if floor > at => return Ok(None),
        // This machine's wall clock is set back.
        Err(AsOfError::Ahead { now }) if now < at => return Ok(None),
        // A replica that has just begun, or none that can be reached.
        Err(AsOfError::History(boxoffice_node::history::HistoryError::Elsewhere) | AsOfError::Failed(_)) => {
            return Ok(None);
        }
        Err(error) => return Err(format!("{at:?}: {error}")),
    };
    // Times are corrected, so the last entry that is not after the instant counts.
    let by_history = history.iter().rfind(|entry| entry.time <= at).map(|entry| entry.version);
    match by_history {
        Some(expected) if expected != version => {
            Err(format!("version {version} at {at:?}, and {expected} by its history"))
        }
        _ => Ok(Some(version)),
    }
}

/// What contradicts a read of a version, at an instant far enough from it.
fn off(at: Timestamp, version: u64, (read, (called_ms, answered_ms)): (u64, Times)) -> Option<String> {
    let at_ms = at.0.saturating_sub(BEGIN_MS);
    let is_before = at_ms + CLOCKS_MS <= called_ms && version > read;
    let is_after = at_ms >= answered_ms + CLOCKS_MS && version < read;
    (is_before || is_after).then(|| {
        format!("version {version} at {at_ms} ms, and {read} was read between {called_ms} and {answered_ms} ms")
    })
}
