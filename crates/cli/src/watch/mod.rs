//! `boxoffice watch`: the live map of a session. Changes of a product, a resource, a customer's purchases or the counts of
//! several sessions are lines.

mod change;
mod lines;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, io::IsTerminal, pin::pin, time::Duration};

use boxoffice_client::{Client, Id, MapState, NewSession, SeatCounts, SeatState, SessionView, Watch as Feed};
use boxoffice_wire::repr;
use crossterm::event::EventStream;
use futures_util::StreamExt;
use tokio::time::{MissedTickBehavior, interval};

pub use change::{changes, in_words};

use crate::{
    args::{NodeArgs, Watch},
    draw::{self, Key, Names, Page, Plan, Screen},
    failure::{Failure, Outcome},
    ids,
    local_time::{date_and_time_in, zone_or_utc},
    node_client::{self, now, options, say, time_of_day},
};

/// How often the page is drawn again.
const TICK: Duration = Duration::from_millis(250);

/// The number of last changes below the map.
const CHANGES_SHOWN: usize = 3;

/// Watches until stopped.
pub fn run(args: &Watch) -> Outcome {
    let [entity] = &args.entities[..] else {
        let sessions =
            args.entities.iter().map(|text| ids::id_of("session", text)).collect::<Result<Vec<Id>, Failure>>()?;
        return node_client::block_on(async {
            let client = args.node_args.connect().await?;
            lines::watch_counts(&client, sessions, &args.node_args).await
        });
    };
    session_or_other(args, entity)
}

fn session_or_other(args: &Watch, entity_or_session: &str) -> Outcome {
    if let Some(entity) = repr::entity(entity_or_session) {
        let watched = node_client::block_on(async {
            let client = args.node_args.connect().await?;
            lines::watch(&client, &entity, &args.node_args).await
        })?;
        if watched {
            return Ok(());
        }
    }
    let id = ids::id_of("session", entity_or_session)?;
    let lines = args.lines || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal();
    node_client::block_on(async {
        let client = args.node_args.connect().await?;
        let session = session(&client, &id, &args.node_args).await?;
        let feed = client.watch(&id);
        let watched = Watched::new(session);
        if lines {
            in_lines(&client, feed, watched, &args.node_args).await
        } else {
            on_screen(&client, feed, watched, &args.node_args).await
        }
    })
}

/// Reads a session.
///
/// # Errors
/// The failure of the request, with what to do.
pub async fn session(client: &Client, id: &Id, node_args: &NodeArgs) -> Result<SessionView, Failure> {
    match client.session_get(id).await {
        Ok(reply) => Ok(reply.value),
        Err(error) if error.refusal().is_some_and(|no| no.name == "not_found") => Err(Failure::Refused(format!(
            "there is no session {id} at {}; `boxoffice import` makes sessions",
            node_args.host_and_port()
        ))),
        Err(error) => Err(node_args.failure(error)),
    }
}

/// The place and time of a session in a line.
pub fn headline(session: &SessionView) -> String {
    let SessionView { venue, session: NewSession { id, hall, title, starts_at, .. }, zone, .. } = session;
    let zone = zone_or_utc(zone.as_deref());
    let opens_at = session.sale.as_ref().and_then(|sale| sale.opens_at);
    let opens = opens_at.map_or_else(String::new, |at| format!(", on sale from {}", date_and_time_in(&zone, at)));
    format!("{id}: {title}, {venue} / {hall}, {}{opens}", date_and_time_in(&zone, *starts_at))
}

/// A session as it was last seen.
#[derive(Debug)]
struct Watched {
    session: SessionView,
    names: Names,
    plan: Plan,
    version: Option<u64>,
    counts: SeatCounts,
    last: VecDeque<String>,
}

impl Watched {
    fn new(session: SessionView) -> Watched {
        let layout = session.layout.clone();
        Watched {
            names: Names::of(&layout),
            plan: Plan { prices: session.prices.clone(), states: Vec::new(), own: Default::default(), layout },
            version: None,
            counts: session.counts,
            last: VecDeque::new(),
            session,
        }
    }

    /// Takes a newer map. Returns the changes in a line.
    fn take(&mut self, map: &MapState) -> Result<String, Failure> {
        let states = states(map, &self.session)?;
        let words = match self.version {
            Some(_) => in_words(&changes(&self.plan.states, &states), &self.names),
            None => "first seen".into(),
        };
        self.plan.states = states;
        self.version = Some(map.version());
        self.counts = map.counts();
        // There may be none, if seats were held and released between two maps.
        let words = if words.is_empty() { "as before".into() } else { words };
        let line = format!("version {}  {}  {words}", map.version(), time_of_day(now()));
        self.last.push_back(line.clone());
        if self.last.len() > CHANGES_SHOWN {
            self.last.pop_front();
        }
        Ok(line)
    }

    fn page(&self, connected: bool, stale: Option<Duration>) -> Page {
        let options = options();
        let Some(version) = self.version else {
            return Page { head: vec![headline(&self.session), "waiting for the map …".into()], ..Page::default() };
        };
        let status = match (connected, stale) {
            (true, None) => draw::paint("live", "32", options.colours),
            (true, Some(age)) => draw::paint(&old(age), "1;31", options.colours),
            (false, _) => draw::paint("reconnecting …", "1;31", options.colours),
        };
        let head = vec![
            draw::paint(&headline(&self.session), "1", options.colours),
            format!("version {version}: {}   {status}", draw::counts(&self.counts)),
            String::new(),
        ];
        let mut foot = vec![String::new()];
        foot.extend(draw::legend(&self.plan, &options));
        foot.push(String::new());
        foot.extend(self.last.iter().map(|line| draw::paint(line, "2", options.colours)));
        foot.push("q leaves".into());
        Page { head, body: draw::house(&self.plan, &options), foot, cursor: false }
    }
}

/// The warning about a state that may be this old.
fn old(age: Duration) -> String {
    format!("the node is cut off: this may be {} s old", age.as_secs().max(1))
}

/// The states of a map of this session.
///
/// # Errors
/// [`Failure::Refused`] if the map has other seats, because the session was made anew.
pub fn states(map: &MapState, session: &SessionView) -> Result<Vec<SeatState>, Failure> {
    if map.seats() == session.layout.seats() {
        Ok(map.states().collect())
    } else {
        Err(Failure::Refused(format!("session {} has other seats now; start again", session.id)))
    }
}

async fn in_lines(client: &Client, mut feed: Feed, mut watched: Watched, node_args: &NodeArgs) -> Outcome {
    if !say(&headline(&watched.session)) {
        return Ok(());
    }
    let (mut ticks, mut stop) = (ticks(), pin!(stop_requested()));
    let mut connected = true;
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            map = feed.next() => {
                let mut line = watched.take(map.map_err(|error| node_args.failure(error))?)?;
                if let Some(age) = feed.stale_for() {
                    line = format!("{line}  {}", old(age));
                }
                if !say(&format!("{line}  ({})", draw::counts(&watched.counts))) {
                    // The reader is gone.
                    return Ok(());
                }
            }
            _ = ticks.tick() => {
                let there = client.server_hello().is_some();
                if there != connected {
                    eprintln!("{}", if there { "connected again" } else { "reconnecting …" });
                    connected = there;
                }
            }
        }
    }
}

async fn on_screen(client: &Client, mut feed: Feed, mut watched: Watched, node_args: &NodeArgs) -> Outcome {
    let mut screen = Screen::open().map_err(no_terminal)?;
    let (mut keys, mut ticks, mut stop) = (EventStream::new(), ticks(), pin!(stop_requested()));
    let mut drawn = None;
    loop {
        let connected = client.server_hello().is_some();
        let state = (connected, watched.version, feed.stale_for().map(|age| age.as_secs()));
        if drawn != Some(state) {
            screen.show(&watched.page(connected, feed.stale_for())).map_err(no_terminal)?;
            drawn = Some(state);
        }
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            event = keys.next() => match event {
                Some(Ok(event)) => match Key::of(&event) {
                    Key::Char('q') | Key::Interrupt => return Ok(()),
                    key => {
                        if let Key::Scroll(lines) = key {
                            screen.scroll(lines);
                        }
                        drawn = None;
                    }
                },
                Some(Err(_)) | None => return Ok(()),
            },
            map = feed.next() => {
                watched.take(map.map_err(|error| node_args.failure(error))?)?;
            }
            _ = ticks.tick() => {}
        }
    }
}

/// The failure of a terminal that cannot be drawn on.
pub fn no_terminal(error: std::io::Error) -> Failure {
    Failure::Usage(format!("this terminal cannot be drawn on ({error}); watch with --lines, book with seats and --yes"))
}

/// The ticks of the page.
pub fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for Ctrl-C or SIGTERM.
pub async fn stop_requested() {
    let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    let mut terminate = terminate.expect("a handler of SIGTERM can be installed");
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => result.expect("a handler of Ctrl-C can be installed"),
    }
}
