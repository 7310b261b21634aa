//! The box office. It blocks and unblocks seats, revokes lines of carts and cancels sessions. Much later it repeats
//! granted requests, which must get the same answer and change nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::Answer,
    command::{CartCommand, Command, SessionCommand},
    id::{Entity, Id, Request},
    seat::{Seat, SeatState},
};
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::{sync::watch, time::sleep};

use crate::{
    client_stub::{ClientStub, Ended},
    fixture::{self, Fixture, SIDE},
    rng::{around, rng},
    settings::Settings,
};

/// Mean pauses between two operations, in milliseconds.
const PAUSES_MS: [u64; 3] = [1_000, 4_000, 15_000];
/// The mean time before a granted request is repeated, in milliseconds.
const REPEATS_MS: u64 = 20_000;
/// The limit for the release of canceled sessions at the end, in milliseconds.
const COMES_BACK_MS: u64 = 60_000;
/// The limit for the release of seats that were kept, after it was due, in milliseconds.
const RELEASED_MS: u64 = 30_000;

/// Blocked seats by session. `None` where that is not certain any more.
pub(crate) type Blocked = BTreeMap<Id, BTreeMap<Seat, Option<()>>>;

/// The staff of the venues.
pub(crate) struct Staff {
    client: Arc<ClientStub>,
    fixture: Arc<Fixture>,
    rng: SmallRng,
    pause_ms: u64,
    blocked: Blocked,
    /// Granted requests with the time of their repeat.
    granted: Vec<(u64, Command, Request)>,
}

impl Staff {
    pub(crate) fn new(settings: &Settings, client: Arc<ClientStub>, fixture: Arc<Fixture>) -> Staff {
        let mut rng = rng(settings.seed, "staff", 0);
        let pause_ms = *PAUSES_MS.choose(&mut rng).expect("there are some");
        Staff { client, fixture, rng, pause_ms, blocked: Blocked::new(), granted: Vec::new() }
    }

    /// Works until told to stop, and returns the blocked seats.
    pub(crate) async fn work(mut self, stop: watch::Receiver<bool>) -> Blocked {
        while !*stop.borrow() {
            sleep(Duration::from_millis(around(&mut self.rng, self.pause_ms))).await;
            match self.rng.random_range(0..40) {
                0..9 => self.block().await,
                9..15 => self.unblock().await,
                15..28 => self.take_away().await,
                28..30 => self.cancel().await,
                30..33 => {
                    let command = self.fixture.other_prices(&mut self.rng);
                    self.change(command).await;
                }
                _ => self.repeat().await,
            }
        }
        self.blocked
    }

    async fn change(&mut self, command: Command) -> Ended {
        let ended = self.client.change(&mut self.rng, "staff", command.clone(), 8).await;
        if let Ended::Known { outcome: Ok(_), request, .. } = &ended {
            let at_ms = self.client.trace.now_ms() + around(&mut self.rng, REPEATS_MS);
            self.granted.push((at_ms, command, *request));
        }
        ended
    }

    async fn block(&mut self) {
        let session = self.fixture.session(&mut self.rng);
        let seat = |rng: &mut SmallRng| Seat { row: rng.random_range(0..SIDE), seat: rng.random_range(0..SIDE) };
        let mut seats: Vec<Seat> = (0..self.rng.random_range(1..4)).map(|_| seat(&mut self.rng)).collect();
        seats.sort();
        seats.dedup();
        self.set(session, seats, true).await;
    }

    async fn unblock(&mut self) {
        let sessions: Vec<&Id> = self.blocked.iter().filter(|(_, seats)| !seats.is_empty()).map(|(id, _)| id).collect();
        let Some(session) = sessions.choose(&mut self.rng).map(|id| Id::clone(id)) else { return };
        let seat = *self.blocked[&session].keys().next().expect("looked at above");
        self.set(session, vec![seat], false).await;
    }

    /// Blocks or unblocks seats.
    async fn set(&mut self, session: Id, seats: Vec<Seat>, off: bool) {
        let command = match off {
            true => SessionCommand::Block(seats.clone()),
            false => SessionCommand::Unblock(seats.clone()),
        };
        let ended = self.change(Command::Session(session.clone(), command)).await;
        let known = self.blocked.entry(session).or_default();
        let certain = match ended {
            Ended::Known { outcome: Ok(_), .. } => true,
            Ended::Known { maybe: false, .. } | Ended::Not => return,
            Ended::Known { maybe: true, .. } | Ended::Unknown => false,
        };
        for seat in seats {
            // A change with an unknown outcome may still be applied later.
            let doubtful = known.get(&seat) == Some(&None);
            match (certain && !doubtful, off) {
                (true, true) => _ = known.insert(seat, Some(())),
                (true, false) => _ = known.remove(&seat),
                (false, _) => _ = known.insert(seat, None),
            }
        }
    }

    /// Revokes a line of a buyer's cart.
    async fn take_away(&mut self) {
        let Some(cart) = self.fixture.some_cart(&mut self.rng) else { return };
        let line = self.rng.random_range(1..5);
        self.fixture.takes_away(cart, line, self.client.trace.now_ms());
        self.change(Command::Cart(cart, CartCommand::Revoke { line, reason: "broken seat".into() })).await;
    }

    /// Cancels the older session on sale.
    async fn cancel(&mut self) {
        let [older, _] = &self.fixture.sold_now()[..] else { return };
        self.fixture.cancels(older, self.client.trace.now_ms());
        let cancel = SessionCommand::Cancel { reason: "rain".into() };
        self.change(Command::Session(older.clone(), cancel)).await;
    }

    /// Repeats a request that was granted a while ago.
    async fn repeat(&mut self) {
        let now_ms = self.client.trace.now_ms();
        let Some(place) = self.granted.iter().position(|(at_ms, ..)| *at_ms <= now_ms) else { return };
        let (_, command, request) = self.granted.swap_remove(place);
        self.client.repeat(&mut self.rng, "staff", command, (request, None)).await;
    }
}

/// The final check: canceled sessions must have no holds and sales, and blocked seats must still be blocked.
pub(crate) async fn judge(client: &ClientStub, fixture: &Fixture, blocked: &Blocked, rng: &mut SmallRng) {
    for session in fixture.canceled() {
        let until_ms = client.trace.now_ms() + COMES_BACK_MS;
        let entity = Entity::Session(session.clone());
        loop {
            let Some(Ok(answered)) = client.read(rng, "judge", fixture::audit_of(&entity)).await else { break };
            let Answer::SessionAudit(audit) = answered.answer else { break };
            let map = Command::Session(session.clone(), SessionCommand::Get);
            let Some(Ok(view)) = client.read(rng, "judge", map).await else { break };
            let is_canceled = matches!(&view.answer, Answer::Session(view) if view.canceled.is_some());
            if !is_canceled || (audit.holds.is_empty() && audit.sales.is_empty()) {
                // The session may not be canceled, because the staff gave up.
                break;
            }
            if client.trace.now_ms() > until_ms {
                let what = format!("{entity} was canceled and still has {:?} and {:?}", audit.holds, audit.sales);
                client.oracle.lock().violation(what);
                break;
            }
            sleep(Duration::from_millis(1_000)).await;
        }
    }
    for (session, seats) in blocked {
        let Some(Ok(answered)) =
            client.read(rng, "judge", Command::Session(session.clone(), SessionCommand::Map)).await
        else {
            continue;
        };
        let Answer::Map(map) = answered.answer else { continue };
        for seat in seats.iter().filter(|(_, certain)| certain.is_some()).map(|(seat, _)| *seat) {
            let state = fixture::state_in(&map.seats, seat);
            if state != SeatState::Blocked as u8 {
                let what = format!("{seat:?} of {session} was kept off sale, and is in state {state}");
                client.oracle.lock().violation(what);
            }
        }
    }
    judge_releases(client, blocked, rng).await;
}

/// The final check of allotments: when they are released, their seats must be blocked no more than others.
async fn judge_releases(client: &ClientStub, blocked: &Blocked, rng: &mut SmallRng) {
    let kept = client.oracle.lock().kept.clone();
    for (session, (seats, release_at)) in kept {
        let until_ms = client.wall_clocks.run_ms(release_at) + RELEASED_MS;
        sleep(Duration::from_millis(until_ms.saturating_sub(client.trace.now_ms()))).await;
        let map = Command::Session(session.clone(), SessionCommand::Map);
        let Some(Ok(answered)) = client.read(rng, "judge", map).await else { continue };
        let Answer::Map(map) = answered.answer else { continue };
        let by_staff = |seat: &Seat| blocked.get(&session).is_some_and(|seats| seats.contains_key(seat));
        for seat in seats.iter().filter(|seat| !by_staff(seat)) {
            if fixture::state_in(&map.seats, *seat) == SeatState::Blocked as u8 {
                let what = format!("{seat:?} of {session} is still kept, and was to be released at {release_at:?}");
                client.oracle.lock().violation(what);
            }
        }
    }
}
