//! A node in this process, driven without sockets. Benches of the node share it.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, LazyLock, mpsc},
    thread,
    time::Duration,
};

use boxoffice_core::{
    answer::Answered,
    command::{Command, HoldPolicy, Limits, ProductDetails},
    id::{Id, Request, RequestHash},
    money::{Currency, Money},
};
use boxoffice_env::World;
use boxoffice_node::{
    admission::OverloadSettings,
    api::{self, ReplySink, ReplyTo},
    config::{NodeConfig, ReplicationConfig},
    node::{Node, NodeHandle, Runtimes},
};
use boxoffice_storage::fsync::Fsync;
use rand::{TryRngCore, rngs::OsRng};
use tokio::runtime::{Builder, Runtime};

/// The most commands under way in [`Alone::all`].
const UNDER_WAY: usize = 512;

/// The admin token of the nodes that this process starts, drawn when it is first asked for.
///
/// # Panics
/// If the system has no randomness.
pub fn admin_token() -> &'static str {
    static TOKEN: LazyLock<String> = LazyLock::new(|| {
        let mut bytes = [0; 32];
        OsRng.try_fill_bytes(&mut bytes).expect("the system has randomness");
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    });
    &TOKEN
}

/// The id with this text.
///
/// # Panics
/// If the text is not an id.
pub fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

/// An amount of cents.
///
/// # Panics
/// Never, because EUR is a currency.
pub fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("a currency") }
}

/// A product with a million units, which are held when they are put into a cart.
pub fn product() -> ProductDetails {
    ProductDetails {
        name: "thing".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price: euros(1_000),
        stock: 1_000_000,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    }
}

/// Processor time of a process's threads by their names, in nanoseconds. `process` is its number, or `self`.
///
/// # Panics
/// On other systems than Linux, or if there is no such process.
pub fn processor_ns(process: &str) -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task")).expect("a process").flatten() {
        // A thread may end meanwhile.
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let ns = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
        *by_name.entry(read("comm").trim().to_owned()).or_default() += ns.unwrap_or(0);
    }
    by_name
}

/// A node with two runtimes of one thread each, as on two processors.
pub struct Alone {
    node: Node,
    selling: Runtime,
    _watching: Runtime,
}

struct AnswerSender(mpsc::SyncSender<api::Result>);

impl ReplySink for AnswerSender {
    fn answer(&self, _: u64, result: api::Result) {
        let _ = self.0.send(result);
    }
}

impl Alone {
    /// Starts a node with its data in this directory, and waits until it is ready.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(data_dir: &Path, fsync: Fsync) -> Alone {
        Alone::replicating(data_dir, fsync, 1)
    }

    /// As [`Alone::start`], with this number of replicators.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn replicating(data_dir: &Path, fsync: Fsync, replicators: usize) -> Alone {
        let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let (selling, watching) = (runtime(), runtime());
        let runtimes = Runtimes { selling: selling.handle().clone(), watching: watching.handle().clone() };
        // A closed loop waits for its answers, and one refusal would end it.
        let overload = OverloadSettings { target_ms: 5_000, sustain_ms: 10_000, ..OverloadSettings::default() };
        let replication =
            ReplicationConfig { data_dir: data_dir.to_owned(), fsync, replicators, ..ReplicationConfig::default() };
        let config = NodeConfig { replication, overload, ..NodeConfig::default() };
        let node = Node::start(config, World::standalone(), &runtimes).expect("a node");
        while node.handle().ready().is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        Alone { node, selling, _watching: watching }
    }

    /// The handle for commands to the node.
    pub fn handle(&self) -> &NodeHandle {
        self.node.handle()
    }

    /// Gives the node a command and waits for the answer, which must be a success. `request` must be new to the command's
    /// entity.
    ///
    /// # Panics
    /// If it is refused or fails.
    pub fn must(&self, command: Command, request: u64) -> Answered {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.submit(command, request, &Arc::new(AnswerSender(sender)));
        answered(receiver.recv())
    }

    /// Gives the node all these commands, many at a time.
    ///
    /// # Panics
    /// If one is refused or fails.
    pub fn all(&self, commands: impl Iterator<Item = (Command, u64)>) {
        let (sender, receiver) = mpsc::sync_channel(UNDER_WAY);
        let answers = Arc::new(AnswerSender(sender));
        let mut under_way = 0;
        for (command, request) in commands {
            self.submit(command, request, &answers);
            under_way += 1;
            if under_way == UNDER_WAY {
                answered(receiver.recv());
                under_way -= 1;
            }
        }
        (0..under_way).for_each(|_| _ = answered(receiver.recv()));
    }

    /// Stops the node in order.
    ///
    /// # Panics
    /// If it cannot be stopped.
    pub fn stop(self) {
        self.selling.block_on(self.node.stop(5_000)).expect("an orderly stop");
    }

    fn submit(&self, command: Command, request: u64, answers: &Arc<AnswerSender>) {
        let request = Request { id: RequestHash(request), body: 0 };
        self.handle().submit(command, Some(request), ReplyTo::new(Arc::<AnswerSender>::clone(answers), 0));
    }
}

fn answered(answers: Result<api::Result, mpsc::RecvError>) -> Answered {
    match answers.expect("an answer") {
        Ok(Ok(answered)) => answered,
        other => panic!("not done: {other:?}"),
    }
}
