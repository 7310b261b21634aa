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

use std::{collections::BTreeSet, net::Ipv4Addr, process::Command};

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
use crate::common::{Encoding, Home, Port, Rng, Server, http};

const ROYAL: &str = "royal";
const GLOBE: &str = "globe";

/// The customer whose orders others try to read.
const ADA: &str = "ada";

/// Stands in every order of Ada.
const MARKER: &str = "Ada of the marker";

/// Ops that no request of [`requests`] carries to an ok, because an ok would change the cluster or needs more than a scene.
const NEVER_OK: [&str; 13] = [
    "unwatch",
    "resource.move",
    "cart.release",
    "cart.cancel",
    "order.refund",
    "admin.release",
    "admin.settle",
    "admin.join",
    "admin.drain",
    "admin.undrain",
    "admin.remove",
    "admin.replace",
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

/// The answers of one caller over one transport.
struct Heard {
    way: &'static str,
    /// Each request, with its refusal by the table.
    expected: Vec<(Op, About, Option<u64>)>,
    answers: Vec<Answered>,
}

impl Judge {
    async fn start(test: &str, command: Command, rules: Rules) -> Judge {
        let server = Server::spawn(command).unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
        let operator = server.port(Encoding::Json).await;
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

    async fn ask_all(&self, number: usize, caller: &Caller) -> (Vec<Heard>, Vec<String>) {
        let (mut heard, mut wrong) = (Vec::new(), Vec::new());
        let from = |way: u8| Ipv4Addr::new(127, 0, 10 + way, 1 + number as u8);
        for (way, (to, is_operators)) in (0..).zip([(self.server.address(), false), (self.server.operators(), true)]) {
            let (way, port_number) = (way * 4, number * 8 + usize::from(is_operators) * 4);
            let ways = if is_operators {
                ["socket, operators", "batch, operators", "post, operators", "get, operators"]
            } else {
                ["socket", "batch", "post", "get"]
            };
            let rng = |way: u64| self.rng.fork(1_000 + port_number as u64 + way);
            let requests = |way: u64| requests::all(&self.scene, port_number + way as usize, &mut rng(way));
            let table = |asked: &[Asked]| -> Vec<(Op, About, Option<u64>)> {
                let row = |asked: &Asked| expected::refusal(self.rules, caller, asked.op.permission(), &asked.about);
                asked.iter().map(|asked| (asked.op, asked.about.clone(), row(asked))).collect()
            };
            let body = |asked: &Asked, refusal: Option<u64>| match (&asked.if_allowed, refusal) {
                (Some(harmless), None) => harmless.clone(),
                (Some(_), Some(_)) | (None, _) => asked.body.clone(),
            };

            let port = transports::socket(from(way), to, caller).await;
            let asked = requests(0);
            let expected = table(&asked);
            let bodies: Vec<Value> = asked.iter().zip(&expected).map(|(asked, (.., no))| body(asked, *no)).collect();
            let answers = transports::by_socket(&port, &asked, &bodies).await;
            heard.push(Heard { way: ways[0], expected, answers });

            let asked: Vec<Asked> = requests(1).into_iter().filter(|asked| !asked.alone).collect();
            let item = |asked: &Asked| {
                let no = expected::refusal_of_item(self.rules, caller, asked.op, &asked.about);
                (asked.op, asked.about.clone(), no)
            };
            let expected: Vec<_> = asked.iter().map(item).collect();
            let asked: Vec<Asked> = asked
                .into_iter()
                .zip(&expected)
                .map(|(one, (.., no))| Asked { body: body(&one, *no), ..one })
                .collect();
            if expected::lacks_role(caller, Op::Batch.permission()).is_none() {
                let answer = port.exchange_whole(transports::batch(&asked)).await;
                heard.push(Heard { way: ways[1], expected, answers: transports::of_items(&answer) });
            }

            let mut http = Http::new(from(way + 1), to, caller);
            let is_for_http = |asked: &Asked| schema::of(asked.op).methods != HttpMethods::None;
            let asked: Vec<Asked> = requests(2).into_iter().filter(is_for_http).collect();
            let expected = table(&asked);
            let mut answers = Vec::new();
            for (number, (asked, (.., no))) in asked.iter().zip(&expected).enumerate() {
                answers.push(http.post(number, asked.op, &body(asked, *no)).await);
            }
            heard.push(Heard { way: ways[2], expected, answers });

            let (mut expected, mut answers) = (Vec::new(), Vec::new());
            for asked in requests(3) {
                if schema::of(asked.op).methods == HttpMethods::PostAndGet
                    && let Some(answer) = http.get(asked.op, &asked.body).await
                {
                    expected.extend(table(&[asked]));
                    answers.push(answer);
                }
            }
            heard.push(Heard { way: ways[3], expected, answers });
            wrong.extend(paths::wrong(from(way + 2), to, is_operators, caller).await);
        }
        (heard, wrong)
    }

    fn compare(&mut self, caller: &Caller, heard: Heard) {
        let Heard { way, expected, answers } = heard;
        assert_eq!(expected.len(), answers.len(), "{way}: each request has an answer");
        for ((op, about, refusal), (code, text)) in expected.into_iter().zip(answers) {
            self.asked += 1;
            let fits = match refusal {
                Some(refusal) => code == refusal,
                // A refusal for a reason other than who asks. Failures and budgets would hide it.
                None => code < 900 && ![107, 108, 109].contains(&code),
            };
            let place = || format!("{} by {way}: {} of {about:?}", caller.name, op.name());
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
        let audit = http::ask(self.server.operators(), "admin.audit", None, &json!({})).await.ok();
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

const AS_SHIPPED: Rules = Rules { anonymous: "watch", recorded_by_anyone: false, knows_customers: false };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_holds_as_shipped() {
    let home = Home::with_config(LOG);
    let mut judge = Judge::start("the_table_holds_as_shipped", home.shipped_command(), AS_SHIPPED).await;
    let callers = callers::all(judge.server.operators(), AS_SHIPPED).await;
    judge.judge(&callers).await;
    has_no_mistakes(&judge.end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_holds_in_the_open_configuration() {
    let rules = Rules { anonymous: "sell", recorded_by_anyone: true, knows_customers: false };
    let home = Home::with_config(LOG);
    let mut judge = Judge::start("the_table_holds_in_the_open_configuration", home.command(), rules).await;
    let callers = callers::all(judge.server.operators(), rules).await;
    judge.judge(&callers).await;
    has_no_mistakes(&judge.end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_holds_with_tokens() {
    let rules = Rules { knows_customers: true, ..AS_SHIPPED };
    let shop = Shop::new();
    let home = Home::with_config(&format!("[listen]\nanonymous = \"watch\"\n{}{LOG}", shop.listen()));
    let mut judge = Judge::start("the_table_holds_with_tokens", home.shipped_command(), rules).await;
    let mut callers = callers::all(judge.server.operators(), rules).await;
    callers.extend(callers::with_tokens(&shop, rules));
    judge.judge(&callers).await;
    has_no_mistakes(&judge.end());
}

/// The planted fault: feeds have no rows, so that the role of `watch` is enough for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_row_of_feeds_is_found() {
    let home = Home::with_config(LOG);
    let mut command = home.shipped_command();
    command.env("BOXOFFICE_PLANTED_FEEDS", "1");
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
