//! An on-sale: members buy with codes, everybody buys from an instant on, and allotments are released. A ledger has what buyers were
//! told, and the audit compares it with what the nodes say.

mod audit;
mod ledger;
mod networks;
mod terms;
mod visit;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_client::{SessionChange, Timestamp};
use boxoffice_workload::{arrival::FlowNumber, house::House};
use rand::{Rng, rngs::SmallRng};
use tokio::task::JoinHandle;

use self::{
    ledger::{CODE_NOT_VALID, Ledger},
    networks::Networks,
    terms::{SaleTerms, TicketKind},
    visit::{PhaseCounts, Seats, Visited, Wish},
};
use crate::{
    LoadError, RunConfig,
    clock::now_ms,
    connection_pool::ConnectionPool,
    loops::FinishedFlows,
    progress::Progress,
    report::{Latency, Onsale, OnsalePhase},
    run_context::RunContext,
    scenario::{OnsaleSpec, Scenario},
    setup,
};

/// The sale opens so long after the run's start at first. The run sets the right time when the members have bought.
const FAR_MS: u64 = 12 * 60 * 60 * 1_000;

/// Groups of flow numbers, which decide tokens and random choices. A visit that cancels its cart uses the next one, too.
const FIRST: u32 = 0;
const LAST: u32 = 2;
const RIVAL: u32 = 4;
const AGAIN: u32 = 6;
const LATE: u32 = 8;
const EARLY: u32 = 10;
const PUBLIC: u32 = 12;
const RELEASE: u32 = 14;

/// Every n-th pair of seats of an allotment is wanted by two buyers.
const CONTENDED: u32 = 10;

/// How long a change by the desk may take.
const DESK_LIMIT: Duration = Duration::from_secs(60);

/// Creates the sessions and puts the codes.
///
/// # Errors
/// [`LoadError`] if the nodes refuse a part of it, for example because they have no secret for codes.
pub(crate) async fn create(
    connections: &ConnectionPool,
    scenario: &Scenario,
    (spec, house): (&OnsaleSpec, &House),
    now_ms: u64,
    progress: &Progress,
) -> Result<f64, LoadError> {
    let terms = SaleTerms::new(spec, house, scenario.currency());
    let batch = scenario.connect.setup_batch as usize;
    // Without a secret a node refuses the first code, so the codes come before all that takes long.
    let begun = Instant::now();
    setup::send_all(connections, "codes", terms.codes(), batch, progress).await?;
    let codes_put_s = begun.elapsed().as_secs_f64();
    let [venues, halls, sessions] = terms.sessions(Timestamp(now_ms + FAR_MS), now_ms)?;
    setup::send_all(connections, "venues", venues, batch, progress).await?;
    setup::send_all(connections, "halls", halls, batch, progress).await?;
    setup::send_all(connections, "sessions", sessions, batch, progress).await?;
    Ok(codes_put_s)
}

/// What all buyers share.
struct Sale {
    terms: SaleTerms,
    context: Arc<RunContext>,
    desk: Arc<ConnectionPool>,
    networks: Networks,
    ledger: Ledger,
    finished: FinishedFlows,
    /// How far the nodes' clock is ahead of this machine's, in milliseconds.
    clock_offset_ms: i64,
    /// Some code has not got its uses back in time, so no other one is waited for.
    is_stuck: AtomicBool,
    /// Of the phase that goes on.
    counts: Mutex<PhaseCounts>,
}

/// Runs the on-sale and audits it.
///
/// # Errors
/// [`LoadError`] if a node cannot be reached or the desk is refused.
pub(crate) async fn run(
    config: &RunConfig,
    (connections, context): (&Arc<ConnectionPool>, &Arc<RunContext>),
    (spec, house, codes_put_s): (&OnsaleSpec, &House, f64),
    (finished, progress): (&FinishedFlows, &Progress),
) -> Result<Onsale, LoadError> {
    let terms = SaleTerms::new(spec, house, context.scenario.currency());
    let addresses = connections.addresses();
    let deadline = Duration::from_millis(context.scenario.connect.deadline_ms);
    let networks = Networks::connect(addresses.clone(), config.tls.clone(), deadline).await;
    let networks = networks.map_err(|error| LoadError::Connect { addresses: addresses.join(", "), error })?;
    // No code of the run has this number.
    let checked = networks.check(&house.session_id(0), &terms.code(spec.codes)).await;
    checked.map_err(|why| LoadError::Setup { what: "buyers' networks", why })?;
    let node_ms = connections.server_time_ms().await?;
    let sale = Arc::new(Sale {
        ledger: Ledger::new(&terms),
        terms,
        context: Arc::clone(context),
        desk: Arc::clone(connections),
        networks,
        finished: finished.clone(),
        clock_offset_ms: node_ms as i64 - now_ms() as i64,
        is_stuck: AtomicBool::new(false),
        counts: Mutex::default(),
    });
    let mut report = Onsale { sessions: house.sessions_all(), codes: spec.codes, codes_put_s, ..Onsale::default() };
    progress.begin("on-sale", 3);
    let late = sale.presale(&mut report).await?;
    progress.add(1);
    sale.opening(late, &mut report).await?;
    progress.add(1);
    sale.release(&mut report).await?;
    progress.add(1);
    audit::run(&sale, connections, &mut report, progress).await?;
    Ok(report)
}

impl Sale {
    /// The members buy. Returns the codes that have one use left.
    async fn presale(self: &Arc<Sale>, report: &mut Onsale) -> Result<Vec<u32>, LoadError> {
        let late = Arc::new(Mutex::new(Vec::new()));
        let begun = Instant::now();
        let visited = self.each((0..self.terms.spec.codes).collect(), {
            let late = Arc::clone(&late);
            async move |sale: Arc<Sale>, code| {
                if sale.member(code).await {
                    late.lock().expect("no thread panics while it holds the lock").push(code);
                }
            }
        });
        visited.await?;
        report.phases.push(self.phase("presale", begun));
        let mut late = std::mem::take(&mut *late.lock().expect("no thread panics while it holds the lock"));
        late.sort_unstable();
        Ok(late)
    }

    /// A member buys with a code. Returns whether it has kept a use for later.
    async fn member(&self, code: u32) -> bool {
        let spec = &self.terms.spec;
        let mut random = self.context.run_seed.rng(FlowNumber { group: FIRST, index: code }, 0);
        let session = random.random_range(0..self.terms.house.sessions_all());
        let wish = |group, count: u16, random: &mut SmallRng| Wish {
            number: FlowNumber { group, index: code },
            session,
            seats: Seats::Best(random.random_range(0..self.terms.categories())),
            kinds: vec![TicketKind::Adult; count.into()],
            code: Some(code),
            insists: true,
            cancels: random.random_range(0..100) < spec.cancel_percent,
            opens_at: None,
            comes_early: false,
        };
        let what = random.random_range(0..100);
        let (again, race) = (spec.again_percent, spec.again_percent + spec.race_percent);
        let (is_race, is_late) = ((again..race).contains(&what), (race..race + spec.late_percent).contains(&what));
        let first = spec.uses - u16::from(is_race || is_late);
        if first > 0 {
            self.visit(self.networks.shared(), wish(FIRST, first, &mut random)).await;
        }
        if is_race {
            self.race(wish(LAST, 1, &mut random), wish(RIVAL, 1, &mut random)).await;
        }
        if what < again {
            // Whoever is granted here has more tickets than the code has uses, and the audit says so.
            self.visit_refused(Wish { insists: false, cancels: false, ..wish(AGAIN, 1, &mut random) }).await;
        }
        is_late
    }

    /// Two carts want the last use of a code at once. One of them gets it, or the member comes once more.
    async fn race(&self, one: Wish, rival: Wish) {
        let again = one.clone();
        let [one, rival] = [one, rival].map(|wish| Wish { insists: false, cancels: false, ..wish });
        let visited = tokio::join!(self.visit_refused(one), self.visit_refused(rival));
        match visited {
            (Visited::Bought(_), Visited::Bought(_)) => {
                self.ledger.differ("two carts got the last use of a code", || {
                    again.code.map_or_else(String::new, |code| self.terms.code(code).to_string())
                });
            }
            (Visited::Refused(CODE_NOT_VALID), Visited::Refused(CODE_NOT_VALID)) => {
                let number = FlowNumber { group: AGAIN, ..again.number };
                self.visit(self.networks.shared(), Wish { number, ..again }).await;
            }
            _ => {}
        }
    }

    /// A visit whose code may be refused, from a network that has not shown many wrong ones.
    async fn visit_refused(&self, wish: Wish) -> Visited {
        match self.networks.wrong().await {
            Ok(client) => self.visit(&client, wish).await,
            Err(error) => {
                self.ledger.differ("a buyer could not connect", || error.to_string());
                Visited::Failed
            }
        }
    }

    /// Everybody buys from an instant on, for which some wait. Members whose codes have a use left come, too.
    async fn opening(self: &Arc<Sale>, late: Vec<u32>, report: &mut Onsale) -> Result<(), LoadError> {
        let spec = &self.terms.spec;
        let opens_at = self.node_ms() + spec.lead_ms;
        for session in 0..self.terms.house.sessions_all() {
            self.ledger.opens(session, Timestamp(opens_at));
            let offers = self.terms.offers(Timestamp(opens_at)).into_iter().map(Into::into).collect();
            self.change(session, |change| change.offers = Some(offers)).await?;
        }
        let early: Vec<JoinHandle<()>> = (0..spec.early)
            .map(|index| {
                let sale = Arc::clone(self);
                // They come one after the other in the first half of the time.
                let comes = Duration::from_millis(spec.lead_ms * u64::from(index) / u64::from(2 * spec.early));
                tokio::spawn(async move {
                    tokio::time::sleep(comes).await;
                    let wish = sale.public_wish(FlowNumber { group: EARLY, index });
                    let wish = Wish { opens_at: Some(opens_at), comes_early: true, ..wish };
                    sale.visit(sale.networks.shared(), wish).await;
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(opens_at.saturating_sub(self.node_ms()))).await;
        let begun = Instant::now();
        let late_count = late.len() as u32;
        let visited = self.each((0..late_count + spec.public).collect(), async move |sale: Arc<Sale>, index| {
            match late.get(index as usize) {
                Some(code) => sale.late_member(*code).await,
                None => {
                    let wish = sale.public_wish(FlowNumber { group: PUBLIC, index: index - late_count });
                    // The opening is an event of each session, which its first hold brings about.
                    sale.visit(sale.networks.shared(), Wish { opens_at: Some(opens_at), ..wish }).await;
                }
            }
        });
        visited.await?;
        for buyer in early {
            buyer.await.map_err(|_| LoadError::Internal("a buyer's task panicked"))?;
        }
        report.phases.push(self.phase("opening", begun));
        audit::check_pools(self).await
    }

    /// A member shows a code with one use left for two seats. One of them costs as much as without the code.
    async fn late_member(&self, code: u32) {
        let number = FlowNumber { group: LATE, index: code };
        let mut random = self.context.run_seed.rng(number, 0);
        let wish = Wish {
            number,
            session: random.random_range(0..self.terms.house.sessions_all()),
            seats: Seats::Best(random.random_range(0..self.terms.categories())),
            kinds: vec![TicketKind::Adult; 2],
            code: Some(code),
            insists: true,
            cancels: false,
            opens_at: None,
            comes_early: false,
        };
        if let Visited::Bought(tickets) = self.visit(self.networks.shared(), wish).await {
            let with_code = tickets.iter().filter(|ticket| ticket.with_code).count();
            if with_code != 1 {
                self.ledger.differ("a code with one use left gave another number of tickets its price", || {
                    format!("{with_code} for {}", self.terms.code(code))
                });
            }
        }
    }

    /// What a buyer without a code wants.
    fn public_wish(&self, number: FlowNumber) -> Wish {
        let spec = &self.terms.spec;
        let mut random = self.context.run_seed.rng(number, 0);
        let what = random.random_range(0..100);
        let kinds = if what < spec.under26_percent {
            vec![TicketKind::Under26; random.random_range(1..=2)]
        } else if what < spec.under26_percent.saturating_add(spec.carer_percent) {
            vec![TicketKind::Adult, TicketKind::Carer]
        } else {
            vec![TicketKind::Adult; random.random_range(1..=4)]
        };
        let sold = self.terms.categories_sold(&kinds);
        let seats = match random.random_bool(0.5) {
            true => self.named(kinds.len() as u16, sold, &mut random),
            false => Seats::Best(random.random_range(0..sold)),
        };
        let session = random.random_range(0..self.terms.house.sessions_all());
        let cancels = random.random_range(0..100) < spec.cancel_percent;
        Wish { number, session, seats, kinds, code: None, insists: false, cancels, opens_at: None, comes_early: false }
    }

    /// The allotments are released, while buyers ask for their seats.
    async fn release(self: &Arc<Sale>, report: &mut Onsale) -> Result<(), LoadError> {
        let terms = &self.terms;
        // What comes before the release is only asking.
        let begun = Instant::now() + Duration::from_millis(terms.spec.lead_ms);
        let release_at = self.node_ms() + terms.spec.lead_ms;
        let (by_time, by_desk): (Vec<u32>, Vec<u32>) =
            (0..terms.house.sessions_all()).partition(|session| terms.is_released_by_time(*session));
        for session in by_time {
            let at = Some(Timestamp(release_at));
            self.ledger.releases(session, at, self.context.now_us());
            let allotments = [terms.allotment(at).into()].into_iter().collect();
            self.change(session, |change| change.allotments = Some(allotments)).await?;
        }
        let desk = async {
            tokio::time::sleep(Duration::from_millis(release_at.saturating_sub(self.node_ms()))).await;
            for session in by_desk {
                self.ledger.releases(session, None, self.context.now_us());
                let release = [terms::allotment_id()].into_iter().collect();
                self.change(session, |change| change.release = release).await?;
            }
            Ok(())
        };
        let pairs = terms.allotment_seats() / 2 * terms.house.sessions_all();
        let buyers = pairs + pairs / CONTENDED;
        let visited = self.each((0..buyers).collect(), async move |sale: Arc<Sale>, index| {
            let pair = if index < pairs { index } else { (index - pairs) * CONTENDED };
            let wish = sale.release_wish(FlowNumber { group: RELEASE, index }, pair);
            sale.visit(sale.networks.shared(), wish).await;
        });
        let (released, visited) = tokio::join!(desk, visited);
        released.and(visited)?;
        report.phases.push(self.phase("release", begun));
        Ok(())
    }

    /// Two seats of an allotment, by their number among the pairs of all sessions.
    fn release_wish(&self, number: FlowNumber, pair: u32) -> Wish {
        let terms = &self.terms;
        let (sessions, width) = (terms.house.sessions_all(), u32::from(terms.house.seats));
        let (session, place) = (pair % sessions, pair / sessions);
        let first = u32::from(terms.allotment_from()) * width + 2 * place;
        let seats = [first, first + 1].map(|index| terms.house.seat(index)).to_vec();
        Wish {
            number,
            session,
            seats: Seats::Released(seats),
            kinds: vec![TicketKind::Adult; 2],
            code: None,
            insists: false,
            cancels: false,
            opens_at: None,
            comes_early: false,
        }
    }

    /// The desk changes the terms of a session.
    async fn change(&self, session: u32, set: impl FnOnce(&mut SessionChange)) -> Result<(), LoadError> {
        let mut change = SessionChange::of(self.terms.house.session_id(session));
        set(&mut change);
        let changed = self.desk.client().with_deadline(DESK_LIMIT).session_change(&change).await;
        changed.map(drop).map_err(|error| LoadError::Query { what: "a change of a session's terms", error })
    }

    /// Lets the scenario's clients do this for each number, one after the other.
    async fn each(self: &Arc<Sale>, numbers: Vec<u32>, act: impl AsyncFn(Arc<Sale>, u32)) -> Result<(), LoadError> {
        let next = AtomicUsize::new(0);
        let client = async || {
            while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                act(Arc::clone(self), *number).await;
            }
        };
        let clients = (0..self.terms.spec.clients).map(|_| client());
        futures_util::future::join_all(clients).await;
        Ok(())
    }

    /// The phase that ends now.
    fn phase(&self, name: &str, begun: Instant) -> OnsalePhase {
        let counts = std::mem::take(&mut *self.counts.lock().expect("no thread panics while it holds the lock"));
        let PhaseCounts { came, bought, tickets, refused, too_early, waited, .. } = counts;
        let latency = |mut us: Vec<u64>| Latency::of(&mut us);
        OnsalePhase {
            name: name.to_owned(),
            seconds: begun.elapsed().as_secs_f64(),
            came,
            bought,
            tickets,
            refused,
            too_early,
            waited,
            hold: latency(counts.hold_us),
            checkout: latency(counts.checkout_us),
            opening: latency(counts.opening_us),
        }
    }
}

#[cfg(test)]
mod tests;
