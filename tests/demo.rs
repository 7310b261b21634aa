//! The demo: three real nodes in one command, each with the page; a control that kills and starts them; and nothing left
//! behind when it ends.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{eventually, http};
use serde_json::{Value, json};

/// How long the demo may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(120);

struct Demo {
    child: Child,
    nodes: Vec<SocketAddr>,
    control: SocketAddr,
}

impl Demo {
    /// Starts it with a directory of its own for temporary files, and reads what it prints.
    fn start(files: &Path) -> Demo {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
        command.args(["demo", "--buyers", "4"]).env("TMPDIR", files).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let told: Vec<String> = lines.take_while(|line| !line.starts_with("Ctrl-C")).collect();
        let nodes: Vec<SocketAddr> = told
            .iter()
            .filter_map(|line| line.trim().strip_prefix("http://")?.strip_suffix('/')?.parse().ok())
            .collect();
        assert_eq!(nodes.len(), 3, "three addresses of the page: {told:?}");
        Demo { child, nodes, control: SocketAddr::from(([127, 0, 0, 1], 0)) }
    }

    /// Looks for the control where the page does.
    async fn find_control(&mut self) -> Value {
        let told = self.page_json(0).await;
        let control = told["demo"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a control");
        self.control = control.parse().expect("an address");
        told
    }

    async fn page_json(&self, node: usize) -> Value {
        let (status, text) = http::get(self.nodes[node], "/page.json").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    async fn standing(&self) -> Vec<Value> {
        let (status, text) = http::get(self.control, "/nodes").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("a list")
    }

    async fn act(&self, path: &str, headers: &str) -> u16 {
        http::raw_post(self.control, path, headers, "").await.0
    }

    /// Ends it as Ctrl-C does, or the end of its terminal.
    fn end(&mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().expect("it is ours") {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // A test that failed.
        if let Ok(None) = self.child.try_wait() {
            let pid = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_sells_at_three_nodes_survives_a_kill_and_leaves_nothing_behind() {
    let files = tempfile::tempdir().expect("a directory");
    let mut demo = Demo::start(files.path());
    let told = demo.find_control().await;
    assert_eq!(told["nodes"].as_array().map(Vec::len), Some(3), "{told}");
    assert_eq!((&told["gateway"], &told["products"]), (&json!(true), &json!(["programme", "poster"])), "{told}");

    let (status, page) = http::get(demo.nodes[2], "/").await;
    assert!(status == 200 && page.contains("<title>"), "{page}");
    for session in ["tosca-tonight", "lumen-late", "hamlet-tonight", "yard-tonight"] {
        let (status, session) = http::post_as(None, demo.nodes[1], "session.get", None, &json!({"id": session})).await;
        assert_eq!(status, 200, "{session}");
    }

    let first = demo.standing().await;
    assert!(first.iter().all(|node| node["running"] == true), "{first:?}");
    assert_eq!(demo.act("/nodes/n2/start", "").await, 409, "it runs");
    assert_eq!(demo.act("/nodes/n4/kill", "").await, 404);
    assert_eq!(demo.act("/nodes/n2/kill", "origin: http://127.0.0.1:9\r\n").await, 403, "of a page that is not ours");
    let ours = format!("origin: http://{}\r\n", demo.nodes[0]);
    assert_eq!(demo.act("/nodes/n2/kill", &ours).await, 204);
    assert_eq!(demo.act("/nodes/n2/kill", "").await, 409, "it does not run");
    assert_eq!(demo.standing().await[1]["running"], false);
    // The others go on, also with what the dead one led.
    let hold = json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "session": "hamlet-matinee", "count": 2});
    let (status, held) = http::post_as(None, demo.nodes[0], "cart.hold_best", Some("demo-1"), &hold).await;
    assert_eq!(status, 200, "{held}");
    assert_eq!(demo.act("/nodes/n2/start", "").await, 204);
    let second = demo.standing().await;
    assert!(second[1]["running"] == true && second[1]["pid"] != first[1]["pid"], "{second:?}");
    let cart = json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"});
    let (status, view) = http::post_as(None, demo.nodes[1], "cart.get", None, &cart).await;
    assert!(status == 200 && view["ok"]["lines"].as_array().map(Vec::len) == Some(1), "{view}");

    demo.end(rustix::process::Signal::INT);
    for node in first.iter().chain(&second) {
        let process = format!("/proc/{}", node["pid"]);
        assert!(!Path::new(&process).exists(), "{node} is left");
    }
    nothing_is_left_in(files.path());
}

/// Its terminal is closed: as Ctrl-C. It is killed: it can remove nothing, but its nodes end, also one that was started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_demo_end_with_it_however_it_ends() {
    let files = tempfile::tempdir().expect("a directory");
    Demo::start(files.path()).end(rustix::process::Signal::HUP);
    nothing_is_left_in(files.path());

    let mut demo = Demo::start(files.path());
    demo.find_control().await;
    assert_eq!(demo.act("/nodes/n2/kill", "").await, 204);
    assert_eq!(demo.act("/nodes/n2/start", "").await, 204);
    let nodes = demo.standing().await;
    assert!(nodes.iter().all(|node| node["running"] == true), "{nodes:?}");
    demo.child.kill().expect("it runs");
    demo.child.wait().expect("it is ours");
    for node in &nodes {
        // This is empty for a process that has ended and was not waited for.
        let command = format!("/proc/{}/cmdline", node["pid"]);
        let over = async || std::fs::read(&command).map_or(true, |line| line.is_empty()).then_some(());
        eventually("a node ends with the demo", over).await;
    }
}

fn nothing_is_left_in(files: &Path) {
    let left: Vec<_> = files.read_dir().expect("a directory").flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?} are left");
}
