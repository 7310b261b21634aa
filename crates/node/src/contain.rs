//! Containment: a panic while an entity decides ends that decision and nothing else.
//!
//! Nothing is proposed before a decision has ended, so all that it changed is the actor's own copy, which is thrown away. A panic
//! anywhere else, above all where committed entries are applied, ends the process, because its answers could be wrong.

use std::{
    any::Any,
    backtrace::Backtrace,
    cell::{Cell, RefCell},
    fmt,
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use boxoffice_core::{host::Input, id::Entity};
use boxoffice_shard::ShardId;
use tracing_mutex::parkinglot::Mutex;

use crate::leader_hint::LeaderInfo;

/// Panics that are logged with their backtrace in each span of time. Further ones are only counted, because a client that repeats
/// its request must not fill the log.
const LOGGED_MAX: u32 = 10;
/// That span, in milliseconds.
const LOGGED_MS: u64 = 60_000;

/// Backtraces that are being written. Looking up their symbols takes up to seconds, and capturing another one would wait for it.
static WRITING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static DECIDING: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Option<Panic>> = const { RefCell::new(None) };
    /// The caller whose command is being decided.
    static BLAMED: Cell<Option<CallerKey>> = const { Cell::new(None) };
}

/// Names one waiting caller: the address of its sink, and its tag there.
pub(crate) type CallerKey = (usize, u64);

/// A panic of a decision.
pub(crate) struct Panic {
    /// Its message and place.
    pub(crate) text: String,
    backtrace: Option<Backtrace>,
}

/// A leader's knowledge when one of its decisions panicked. A deposed leader that does not know of its successor decides on
/// states that no other node has. Its term, and how far it is ahead of committed state, distinguish it from the leader that
/// is obeyed.
pub(crate) struct PanicContext {
    /// The kind of the input, see [`kind_of`].
    pub(crate) input: &'static str,
    /// The sender, if it is another entity.
    pub(crate) by: Option<Entity>,
    pub(crate) shard: ShardId,
    /// The term in which the leader decides.
    pub(crate) term: u64,
    /// The newest term that the replica here knows, with its leader.
    pub(crate) leader: LeaderInfo,
    /// The entity's version before the decision, with all proposals. `admin.history` has the committed ones.
    pub(crate) version: u64,
    /// The entity's committed version in the replica here.
    pub(crate) committed: u64,
}

impl fmt::Display for PanicContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PanicContext { input, by, shard, term, leader, version, committed } = self;
        write!(f, "decided: {input}")?;
        if let Some(by) = by {
            write!(f, " of {by}")?;
        }
        write!(
            f,
            " at version {version}, of which {committed} are committed here; leader of shard {shard} in term {term}"
        )?;
        match leader.leader {
            Some(node) => write!(f, ", of term {} node {node} is known", leader.term),
            None => write!(f, ", of term {} no leader is known", leader.term),
        }
    }
}

/// The kind of an input, in a word.
pub(crate) fn kind_of<R>(input: &Input<R>) -> &'static str {
    match input {
        Input::Command { request: Some(_), .. } => "command",
        Input::Command { request: None, .. } => "read",
        Input::Ask { .. } => "ask",
        Input::Reply { .. } => "reply",
        Input::Paid { .. } => "paid",
        Input::Wake => "wake",
    }
}

/// Whether a panic is of a decision, for the panic hook of a program that ends at every other panic. Such a panic is caught, and
/// the node logs it with its backtrace.
pub fn notes(panic: &PanicHookInfo<'_>) -> bool {
    if !DECIDING.get() {
        return false;
    }
    // The symbols are looked up only if it is logged.
    let text = panic.to_string().replace('\n', " ");
    let backtrace = (WRITING.load(Ordering::Acquire) == 0).then(Backtrace::force_capture);
    let seen = Panic { text, backtrace };
    SEEN.set(Some(seen));
    true
}

/// Runs a decision, and catches its panic. Callers that it drops hear `internal`.
///
/// # Errors
/// The panic. Everything that the decision could change must be thrown away.
pub(crate) fn decide<T>(decision: impl FnOnce() -> T) -> Result<T, Panic> {
    DECIDING.set(true);
    let decided = catch_unwind(AssertUnwindSafe(decision));
    DECIDING.set(false);
    decided.map_err(|payload| SEEN.take().unwrap_or_else(|| Panic { text: text_of(&*payload), backtrace: None }))
}

/// Throws away the state of a decision of this caller's command. If it contains the caller, the caller hears `internal`.
pub(crate) fn blaming(caller: Option<CallerKey>, discard: impl FnOnce()) {
    BLAMED.set(caller);
    discard();
    BLAMED.set(None);
}

/// Whether a caller that is dropped without an answer had a part in a panic.
pub(crate) fn is_blamed(caller: impl FnOnce() -> CallerKey) -> bool {
    std::thread::panicking() || BLAMED.get().is_some_and(|blamed| blamed == caller())
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

/// Logs panics for the operator, a bounded number of them in full.
#[derive(Default)]
pub(crate) struct PanicLog(Mutex<Logged>);

#[derive(Default)]
struct Logged {
    since_ms: u64,
    count: u32,
}

impl PanicLog {
    /// Logs a panic of this entity's decision, unless many were logged a moment ago.
    pub(crate) fn note(&self, now_ms: u64, entity: &Entity, mut panic: Panic, known: &PanicContext) {
        let count = {
            let mut logged = self.0.lock();
            if now_ms.saturating_sub(logged.since_ms) >= LOGGED_MS {
                *logged = Logged { since_ms: now_ms, count: 0 };
            }
            logged.count = logged.count.saturating_add(1);
            logged.count
        };
        if count <= LOGGED_MAX {
            panic.text = format!("{} ({known})", panic.text);
            panic.write(entity.clone());
        }
        if count == LOGGED_MAX {
            tracing::error!("more panics like this are only counted for a minute: boxoffice_panics_contained_total");
        }
    }
}

impl Panic {
    /// Logs it. Symbols are looked up on a thread of its own. This one may be the only one that carries messages between nodes,
    /// and a leader that is silent for that long loses its leadership.
    fn write(self, entity: Entity) {
        let Panic { text, backtrace } = self;
        let Some(backtrace) = backtrace else { return log(&entity, &text, "") };
        WRITING.fetch_add(1, Ordering::AcqRel);
        let write = {
            let (entity, text) = (entity.clone(), text.clone());
            let log_of_this_thread = tracing::dispatcher::get_default(Clone::clone);
            move || {
                let backtrace = backtrace.to_string();
                tracing::dispatcher::with_default(&log_of_this_thread, || log(&entity, &text, &backtrace));
                WRITING.fetch_sub(1, Ordering::AcqRel);
            }
        };
        if thread::Builder::new().name("backtrace".into()).spawn(write).is_err() {
            WRITING.fetch_sub(1, Ordering::AcqRel);
            log(&entity, &text, "no thread to look up its backtrace");
        }
    }
}

fn log(entity: &Entity, text: &str, backtrace: &str) {
    tracing::error!(%entity, "{CONTAINED}; please report it: {text}\n{backtrace}");
}

/// How the log line of a contained panic begins.
const CONTAINED: &str = "a panic while deciding was contained";

/// Panics planted on purpose, to see that they are contained. Only in builds with debug assertions.
#[cfg(debug_assertions)]
pub mod planted {
    use std::sync::atomic::{AtomicU64, Ordering};

    use boxoffice_core::host::Input;

    use super::Mutex;

    static PLANTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    /// Planted panics that happened.
    static SPRUNG: AtomicU64 = AtomicU64::new(0);

    /// From now on every decision of this entity on this kind of input panics (`product/p:command`, `…:ask` or `…:wake`). With
    /// `:stuck` after it the thread stands still instead. The program takes them from its environment, separated by spaces.
    pub fn plant(what: &str) {
        *PLANTED.lock() = what.split_whitespace().map(str::to_owned).collect();
    }

    /// In tests a contained panic that was not planted is a failed run.
    pub(crate) fn check(metrics: &crate::metrics::Metrics) {
        let contained = metrics.panics_contained.load(Ordering::Relaxed);
        let planted = SPRUNG.load(Ordering::Relaxed);
        let calm = contained <= planted || std::thread::panicking();
        assert!(calm, "{contained} decisions panicked and were contained, {planted} of them on purpose");
    }

    pub(crate) fn spring<R>(entity: &boxoffice_core::id::Entity, input: &Input<R>) {
        let planted = PLANTED.lock();
        if planted.is_empty() {
            return;
        }
        let kind = super::kind_of(input);
        let spring = planted.contains(&format!("{entity}:{kind}"));
        let is_stuck = planted.contains(&format!("{entity}:{kind}:stuck"));
        drop(planted);
        if is_stuck {
            loop {
                std::thread::park();
            }
        }
        if spring {
            SPRUNG.fetch_add(1, Ordering::Relaxed);
            panic!("planted: {entity} decides a {kind}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::api::{self, Failure, ReplySink, ReplyTo};

    #[derive(Default)]
    struct Answers(Mutex<Vec<(u64, api::Result)>>);

    impl ReplySink for Answers {
        fn answer(&self, tag: u64, result: api::Result) {
            self.0.lock().push((tag, result));
        }
    }

    /// A slow log.
    struct SlowLog {
        said: mpsc::Sender<String>,
        go_on: Mutex<mpsc::Receiver<()>>,
    }

    impl tracing::Subscriber for SlowLog {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &tracing::Event<'_>) {
            self.go_on.lock().recv().expect("the test lets it go on");
            self.said.send(format!("{event:?}")).expect("the test listens");
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    // Not inlined, so that the backtrace has its name even in a build without debug information.
    #[test]
    #[inline(never)]
    fn deciding_does_not_wait_for_the_log() {
        let ((say, said), (let_go, go_on)) = (mpsc::channel(), mpsc::channel());
        let log = tracing::Dispatch::new(SlowLog { said: say, go_on: Mutex::new(go_on) });
        let entity = Entity::Product(boxoffice_core::id::Id::new("frail").expect("an id"));
        let panic = Panic { text: "on purpose".to_owned(), backtrace: Some(Backtrace::force_capture()) };
        // It would wait for itself here if it wrote.
        let known = PanicContext {
            input: "ask",
            by: Some(Entity::Cart(boxoffice_core::id::CartId(7))),
            shard: 3,
            term: 5,
            leader: LeaderInfo { term: 6, leader: Some(2) },
            version: 12,
            committed: 9,
        };
        tracing::dispatcher::with_default(&log, || PanicLog::default().note(0, &entity, panic, &known));
        assert!(said.try_recv().is_err() && WRITING.load(Ordering::Acquire) > 0);
        let_go.send(()).expect("it is written elsewhere");
        let said = said.recv().expect("it was written");
        assert!(said.contains("on purpose") && said.contains("deciding_does_not_wait_for_the_log"), "{said}");
        let told = "decided: ask of cart/00000000000000000000000000000007 at version 12, of which 9 are committed here; leader of \
                    shard 3 in term 5, of term 6 node 2 is known";
        assert!(said.contains(told), "{said}");
    }

    #[test]
    fn only_callers_with_a_part_in_a_panic_hear_internal() {
        let answers = Arc::new(Answers::default());
        let to = |tag| ReplyTo::new(Arc::clone(&answers) as Arc<dyn ReplySink>, tag);
        let (deciding, kept, stranger) = (to(1), to(2), to(3));
        let key = kept.key();
        let panic = decide(move || {
            let _here = deciding;
            panic!("on purpose");
        });
        assert_eq!(panic.map(|(): ()| ()).map_err(|panic| panic.text), Err("on purpose".to_owned()));
        blaming(Some(key), || drop((kept, stranger)));
        drop(to(2));
        let failures = [(1, Failure::Internal), (2, Failure::Internal), (3, Failure::Unknown), (2, Failure::Unknown)];
        assert_eq!(*answers.0.lock(), failures.map(|(tag, failure)| (tag, Err(failure))));
        assert_eq!(decide(|| 7).ok(), Some(7));
    }
}
