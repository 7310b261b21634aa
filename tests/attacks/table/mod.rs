//! The permission table against real nodes: op × caller × customer × venue × transport, feeds and paths.
//!
//! The expected answers are worked out from the rows (`expected`), and a few invariants are written down by hand
//! (`invariants`), so that a wrong row is noticed as well as a node that does not keep to its row.

mod callers;
mod expected;
mod feeds;
mod invariants;
mod paths;
mod requests;
mod scene;
mod transports;

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
};

use boxoffice_wire::{
    Op,
    schema::{self, HttpMethods},
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use self::{
    callers::{Caller, Rules},
    requests::{About, Asked},
    scene::Scene,
    transports::{Answered, Http},
};
use super::{roles::LOG, tokens::Shop};
use crate::common::{Encoding, Home, Port, Rng, Server};

const ROYAL: &str = "royal";
const GLOBE: &str = "globe";

/// The customer whose orders others try to read.
const ADA: &str = "ada";

/// Stands in every order of Ada.
const MARKER: &str = "Ada of the marker";

/// Ops that no request of [`requests`] carries to an ok, because an ok would change the cluster or needs more than a scene.
const NEVER_OK: [&str; 16] = [
    "unwatch",
    "resource.move",
    "cart.release",
    "cart.cancel",
    "cart.checkout_cancel",
    "order.refund",
    "admin.release",
    "admin.settle",
    "admin.join",
    "admin.invite",
    "admin.drain",
    "admin.undrain",
    "admin.remove",
    "admin.replace",
    "admin.finish_upgrade",
    "admin.nodes",
];

/// A node, its scene, and everything that was wrong.
struct Judge {
    server: Server,
    operator: Port,
    rules: Rules,
    scene: Scene,
    rng: Rng,
    wrong: Vec<String>,
    /// Ops that were answered with ok at least once.
    granted: BTreeSet<&'static str>,
    asked: usize,
}

/// A request, and its refusal by the table.
type Row = (Op, About, Option<u64>);

/// The answers of one caller over one transport.
struct Heard {
    port: &'static str,
    way: &'static str,
    expected: Vec<Row>,
    answers: Vec<Answered>,
}

const CLIENTS: &str = "clients' port";

impl Judge {
    async fn start(test: &str, command: Command, rules: Rules) -> Judge {
        let server = Server::spawn(command).unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
        let operator = server.port(Encoding::Json).await;
        Judge::with(server, operator, test, rules).await
    }

    async fn with(server: Server, operator: Port, test: &str, rules: Rules) -> Judge {
        let mut rng = Rng::of_test(test);
        let scene = Scene::open(&operator, &mut rng).await;
        Judge { server, operator, rules, scene, rng, wrong: Vec::new(), granted: BTreeSet::new(), asked: 0 }
    }

    /// Lets every caller send every request in every way.
    async fn judge(&mut self, callers: &[Caller]) {
        // The order lets the effects of each group be seen: first those that change nothing of the house.
        let groups: [&dyn Fn(&Caller) -> bool; 4] = [
            &|caller| !caller.has("desk") && caller.venue.is_none(),
            &|caller| caller.venue == Some(ROYAL),
            &|caller| caller.venue == Some(GLOBE),
            &|caller| caller.has("desk") && caller.venue.is_none(),
        ];
        let mut heard_callers = 0;
        for (group, is_in) in groups.iter().enumerate() {
            let before = (self.entities().await, self.versions(ROYAL).await, self.versions(GLOBE).await);
            let members: Vec<(usize, &Caller)> =
                callers.iter().enumerate().filter(|(_, caller)| is_in(caller)).collect();
            heard_callers += members.len();
            // The operators' port has sixteen connections.
            for some in members.chunks(4) {
                let this = &*self;
                let all = join_all(some.iter().map(|(number, caller)| this.ask_all(*number, caller))).await;
                for ((_, caller), (heard, wrong_paths)) in some.iter().zip(all) {
                    self.wrong.extend(wrong_paths);
                    heard.into_iter().for_each(|heard| self.compare(caller, heard));
                }
            }
            let after = (self.entities().await, self.versions(ROYAL).await, self.versions(GLOBE).await);
            let (is_kept, what) = match group {
                0 => (before.0 == after.0, "callers without the role desk changed what is on offer"),
                1 => (before.2 == after.2, "keys of the royal changed sessions of the globe"),
                2 => (before.1 == after.1, "keys of the globe changed sessions of the royal"),
                _ => (before != after, "the house changed nothing, so the others were not tried"),
            };
            if !is_kept {
                self.wrong.push(format!("{what}: {before:?} became {after:?}"));
            }
        }
        assert_eq!(heard_callers, callers.len(), "each caller is in one group");
        self.judge_feeds(callers).await;
    }

    /// Lets every caller follow everything, at both ports.
    async fn judge_feeds(&mut self, callers: &[Caller]) {
        let mut round = 0;
        for to in [self.server.address(), self.server.operators()] {
            for some in callers.chunks(8) {
                round += 1;
                let ports = join_all(
                    (0..)
                        .zip(some)
                        .map(|(number, caller)| transports::socket(Ipv4Addr::new(127, 0, 3, number), to, caller)),
                );
                let ports = ports.await;
                let pairs: Vec<(&Caller, &Port)> = some.iter().zip(&ports).collect();
                let wrong = feeds::wrong(self.rules, &self.scene, &mut self.rng, &self.operator, round, &pairs).await;
                self.wrong.extend(wrong);
            }
        }
    }

    /// Asks for everything at both ports. Returns the answers of ops, and the wrong ones of paths.
    async fn ask_all(&self, number: usize, caller: &Caller) -> (Vec<Heard>, Vec<String>) {
        let (mut heard, mut wrong) = self.ask_at(2 * number, self.server.address(), false, caller).await;
        let more = self.ask_at(2 * number + 1, self.server.operators(), true, caller).await;
        heard.extend(more.0);
        wrong.extend(more.1);
        (heard, wrong)
    }

    /// The same at one port. `number` is that of the caller and the port.
    async fn ask_at(
        &self,
        number: usize,
        to: SocketAddr,
        is_operators: bool,
        caller: &Caller,
    ) -> (Vec<Heard>, Vec<String>) {
        // Each way has an address of its own, because budgets are per network.
        let from = |way: u8| Ipv4Addr::new(127, 0, 10 + way, 1 + number as u8);
        let port = transports::socket(from(0), to, caller).await;
        let mut heard = vec![self.ask_socket(number, &port, caller).await];
        heard.extend(self.ask_batch(number, &port, caller).await);
        let mut http = Http::new(from(1), to, caller);
        heard.push(self.ask_post(number, &mut http, caller).await);
        heard.push(self.ask_get(number, &mut http, caller).await);
        if is_operators {
            heard.iter_mut().for_each(|heard| heard.port = "operators' port");
        }
        (heard, paths::wrong(from(2), to, is_operators, caller).await)
    }

    /// The requests of a caller in one of the four ways.
    fn requests(&self, number: usize, way: usize) -> Vec<Asked> {
        let number = 4 * number + way;
        requests::all(&self.scene, number, &mut self.rng.fork(1_000 + number as u64))
    }

    /// The row of a request, with its refusal.
    fn row(&self, caller: &Caller, asked: &Asked) -> Row {
        let refusal = expected::refusal(self.rules, caller, asked.op.permission(), &asked.about);
        (asked.op, asked.about.clone(), refusal)
    }

    async fn ask_socket(&self, number: usize, port: &Port, caller: &Caller) -> Heard {
        let asked = self.requests(number, 0);
        let expected: Vec<Row> = asked.iter().map(|asked| self.row(caller, asked)).collect();
        let bodies: Vec<Value> = asked.iter().zip(&expected).map(|(asked, (.., no))| asked.body(*no)).collect();
        let answers = transports::by_socket(port, &asked, &bodies).await;
        Heard { port: CLIENTS, way: "socket", expected, answers }
    }

    /// `None` for callers that may not send a batch. The batch is among the requests of the other ways.
    async fn ask_batch(&self, number: usize, port: &Port, caller: &Caller) -> Option<Heard> {
        if expected::lacks_role(caller, Op::Batch.permission()).is_some() {
            return None;
        }
        let (mut items, mut expected) = (Vec::new(), Vec::new());
        for asked in self.requests(number, 1).into_iter().filter(|asked| !asked.alone) {
            let refusal = expected::refusal_of_item(self.rules, caller, asked.op, &asked.about);
            expected.push((asked.op, asked.about.clone(), refusal));
            items.push((asked.op, asked.body(refusal)));
        }
        let answer = port.exchange_whole(transports::batch(&items)).await;
        Some(Heard { port: CLIENTS, way: "batch", expected, answers: transports::of_items(&answer) })
    }

    async fn ask_post(&self, number: usize, http: &mut Http, caller: &Caller) -> Heard {
        let (mut expected, mut answers) = (Vec::new(), Vec::new());
        for asked in self.requests(number, 2) {
            if schema::of(asked.op).methods != HttpMethods::None {
                let row = self.row(caller, &asked);
                answers.push(http.post(answers.len(), asked.op, &asked.body(row.2)).await);
                expected.push(row);
            }
        }
        Heard { port: CLIENTS, way: "post", expected, answers }
    }

    async fn ask_get(&self, number: usize, http: &mut Http, caller: &Caller) -> Heard {
        let (mut expected, mut answers) = (Vec::new(), Vec::new());
        for asked in self.requests(number, 3) {
            if schema::of(asked.op).methods == HttpMethods::PostAndGet
                && let Some(answer) = http.get(asked.op, &asked.body).await
            {
                expected.push(self.row(caller, &asked));
                answers.push(answer);
            }
        }
        Heard { port: CLIENTS, way: "get", expected, answers }
    }

    fn compare(&mut self, caller: &Caller, heard: Heard) {
        let Heard { port, way, expected, answers } = heard;
        assert_eq!(expected.len(), answers.len(), "{port}, {way}: each request has an answer");
        for ((op, about, refusal), (code, text)) in expected.into_iter().zip(answers) {
            self.asked += 1;
            let fits = match refusal {
                Some(refusal) => code == refusal,
                // A refusal for a reason other than who asks. Failures and budgets would hide it.
                None => code < 900 && ![107, 108, 109].contains(&code),
            };
            let place = || format!("{} by {way} at the {port}: {} of {about:?}", caller.name, op.name());
            if !fits {
                self.wrong.push(format!("{}: {code}, not {refusal:?}: {text:.300}", place()));
            }
            if let Some(invariant) = invariants::broken(self.rules, caller, op.name(), &about, code, &text) {
                self.wrong.push(format!("{}: {invariant}: {code}: {text:.300}", place()));
            }
            if code == 0 {
                self.granted.insert(op.name());
            }
        }
    }

    /// The numbers of what only the house makes.
    async fn entities(&self) -> Value {
        let audit = self.operator.read("admin.audit", json!({})).await.ok();
        assert_eq!(audit["violations"], json!([]), "{audit}");
        let counted = ["venues", "titles", "sessions", "products", "resources", "refunds"];
        json!([counted.map(|name| audit[name].clone()), audit["seats"]["blocked"]])
    }

    /// The versions of a venue's sessions, which count every change.
    async fn versions(&self, venue: &str) -> Value {
        let mut versions = Vec::new();
        for session in ["show", "off"] {
            let map = self.operator.read("session.map", json!({"id": format!("{venue}-{session}")})).await.ok();
            versions.push(map["version"].clone());
        }
        json!(versions)
    }

    /// Everything that was wrong. The node is stopped.
    fn end(mut self) -> Vec<String> {
        assert!(!self.server.stderr().contains("panicked"), "{}", self.server.stderr());
        for name in Op::ALL.map(Op::name) {
            if name != "watch" && !NEVER_OK.contains(&name) && !self.granted.contains(name) {
                self.wrong.push(format!("{name}: no caller was granted it, so nothing was compared"));
            }
        }
        println!("{} requests", self.asked);
        self.server.stop();
        self.wrong
    }
}

#[track_caller]
fn has_no_mistakes(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

/// No hold ends by itself, and none is confirmed by its cart, while callers are judged by what they change, also on a machine that
/// needs minutes for it. A confirmation changes the version of a session.
fn log_and_lives() -> String {
    format!("{LOG}[carts]\nconfirm_ms = 3_600_000\n[fairness]\nlife_min_ms = 900_000\n")
}

const AS_SHIPPED: Rules = Rules { anonymous: "watch", recorded_by_anyone: false, knows_customers: false };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_holds_as_shipped() {
    let home = Home::with_config(&log_and_lives());
    let mut judge = Judge::start("the_table_holds_as_shipped", home.shipped_command(), AS_SHIPPED).await;
    let callers = callers::all(judge.server.operators(), AS_SHIPPED).await;
    judge.judge(&callers).await;
    has_no_mistakes(&judge.end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_holds_in_the_open_configuration() {
    let rules = Rules { anonymous: "sell", recorded_by_anyone: true, knows_customers: false };
    let home = Home::with_config(&log_and_lives());
    let mut judge = Judge::start("the_table_holds_in_the_open_configuration", home.command(), rules).await;
    let callers = callers::all(judge.server.operators(), rules).await;
    judge.judge(&callers).await;
    has_no_mistakes(&judge.end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_holds_with_tokens() {
    let rules = Rules { knows_customers: true, ..AS_SHIPPED };
    let shop = Shop::new();
    let home = Home::with_config(&format!("[listen]\nanonymous = \"watch\"\n{}{}", shop.listen(), log_and_lives()));
    let mut judge = Judge::start("the_table_holds_with_tokens", home.shipped_command(), rules).await;
    let mut callers = callers::all(judge.server.operators(), rules).await;
    callers.extend(callers::with_tokens(&shop, rules));
    judge.judge(&callers).await;
    has_no_mistakes(&judge.end());
}

/// Without an admin token and without a key of an admin, the operators' port asks for nothing. The clients' port does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_holds_without_credentials() {
    let home = Home::with_config(&log_and_lives());
    let mut command = home.shipped_command();
    command.env_remove("BOXOFFICE_ADMIN_TOKEN");
    let server = Server::spawn(command).expect("the node serves");
    let operator = Port::guest(server.operators(), Encoding::Json).await;
    let judge = Judge::with(server, operator, "the_table_holds_without_credentials", AS_SHIPPED);
    let mut judge = judge.await;
    let [guest, operators] = callers::without_credentials(AS_SHIPPED);
    for (to, is_operators, caller) in
        [(judge.server.address(), false, &guest), (judge.server.operators(), true, &operators)]
    {
        let (heard, wrong) = judge.ask_at(usize::from(is_operators), to, is_operators, caller).await;
        judge.wrong.extend(wrong);
        heard.into_iter().for_each(|heard| judge.compare(caller, heard));
        let port = transports::socket(Ipv4Addr::LOCALHOST, to, caller).await;
        let round = 1 + usize::from(is_operators);
        let pair = [(caller, &port)];
        let wrong = feeds::wrong(AS_SHIPPED, &judge.scene, &mut judge.rng, &judge.operator, round, &pair).await;
        judge.wrong.extend(wrong);
    }
    has_no_mistakes(&judge.end());
}

/// The planted fault: feeds have no rows, so that the role of `watch` is enough for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_row_of_feeds_is_found() {
    let home = Home::with_config(&log_and_lives());
    let mut command = home.shipped_command();
    command.env("BOXOFFICE_PLANTED_EDGE", "feed row missing");
    let mut judge = Judge::start("a_missing_row_of_feeds_is_found", command, AS_SHIPPED).await;
    let callers = callers::all(judge.server.operators(), AS_SHIPPED).await;
    judge.judge_feeds(&callers).await;
    judge.server.stop();
    let finds = |words: &str| judge.wrong.iter().any(|wrong| wrong.contains(words));
    for words in [
        "a guest: watch customer/ada: 0, not 107",
        "a watch key: watch customer/ada: 0, not 108",
        "a desk key of globe: watch customer/ada: 0, not 108",
        "nobody without `sell` or `report` reads a customer",
        "a key for one venue reads no customer",
        "Ada's purchases arrive",
    ] {
        assert!(finds(words), "not found: {words}\n{}", judge.wrong.join("\n"));
    }
}
