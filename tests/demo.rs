//! The demo: one command starts three real nodes with the page and a control that kills and starts them. It leaves nothing behind
//! when it ends.

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use crate::common::{eventually, http};
use serde_json::{Value, json};

/// Time limit of the demo's start and end.
const TIMEOUT: Duration = Duration::from_secs(120);

struct Demo {
    child: Child,
    nodes: Vec<SocketAddr>,
    control: SocketAddr,
}

impl Demo {
    /// Starts the demo with its own directory for temporary files at ports that are told it, and reads its output.
    fn start(files: &Path) -> Demo {
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        // Each demo of this process looks at other ports.
        static DEMOS: AtomicU16 = AtomicU16::new(0);
        let first = 12_000 + (std::process::id() % 2_000) as u16 * 3 + DEMOS.fetch_add(1, Ordering::Relaxed) * 300;
        let first = (first..20_000).find(|first| (0..3).all(|more| is_free(first + more))).expect("three free ports");
        let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
        command
            .args(["demo", "--buyers", "4", "--port", &first.to_string()])
            .env("TMPDIR", files)
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let lines = BufReader::new(child.stdout.take().expect("the output is piped")).lines().map_while(Result::ok);
        let output: Vec<String> = lines.take_while(|line| !line.starts_with("Ctrl-C")).collect();
        let nodes: Vec<SocketAddr> = output
            .iter()
            .filter_map(|line| line.trim().strip_prefix("http://")?.strip_suffix('/')?.parse().ok())
            .collect();
        let ports: Vec<u16> = nodes.iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [first, first + 1, first + 2], "{output:?}");
        Demo { child, nodes, control: SocketAddr::from(([127, 0, 0, 1], 0)) }
    }

    /// Finds the control as the page does.
    async fn find_control(&mut self) -> Value {
        let output = self.page_json(0).await;
        let control = output["demo"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a control");
        self.control = control.parse().expect("an address");
        output
    }

    async fn page_json(&self, node: usize) -> Value {
        let (status, text) = http::get(self.nodes[node], "/page.json").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    async fn node_status(&self) -> Vec<Value> {
        let (status, text) = http::get(self.control, "/nodes").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("a list")
    }

    async fn act(&self, path: &str, headers: &str) -> u16 {
        http::raw_post(self.control, path, headers, "").await.0
    }

    /// Ends the demo as Ctrl-C or a closed terminal does.
    fn end(&mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process runs");
        let until = Instant::now() + TIMEOUT;
        let status = loop {
            match self.child.try_wait().expect("the process is a child") {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "the demo is still running"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Reached when a test fails.
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
    let output = demo.find_control().await;
    assert_eq!(output["nodes"].as_array().map(Vec::len), Some(3), "{output}");
    assert_eq!((&output["gateway"], &output["products"]), (&json!(true), &json!(["programme", "poster"])), "{output}");

    let (status, page) = http::get(demo.nodes[2], "/").await;
    assert!(status == 200 && page.contains("<title>"), "{page}");
    for session in ["tosca-tonight", "lumen-late", "hamlet-tonight", "yard-tonight"] {
        let (status, session) = http::post_as(None, demo.nodes[1], "session.get", None, &json!({"id": session})).await;
        assert_eq!(status, 200, "{session}");
    }

    // The theatre's members buy before everybody else.
    for (rid, code, status) in [("member-1", None, 409), ("member-2", Some("GLOBE-7Q2M-XK"), 200)] {
        let mut hold =
            json!({"token": "1f1e2d3c4b5a69788796a5b4c3d2e1f0", "session": "henry-v-second-night", "seats": [[0, 0]]});
        if let Some(code) = code {
            hold["code"] = json!(code);
        }
        let (is, answer) = http::post_as(None, demo.nodes[1], "cart.hold_seats", Some(rid), &hold).await;
        assert_eq!(is, status, "{answer}");
    }

    let first = demo.node_status().await;
    assert!(first.iter().all(|node| node["running"] == true), "{first:?}");
    assert_eq!(demo.act("/nodes/n2/start", "").await, 409, "it runs");
    assert_eq!(demo.act("/nodes/n4/kill", "").await, 404);
    assert_eq!(demo.act("/nodes/n2/kill", "origin: http://127.0.0.1:9\r\n").await, 403, "the origin of another site");
    let ours = format!("origin: http://{}\r\n", demo.nodes[0]);
    assert_eq!(demo.act("/nodes/n2/kill", &ours).await, 204);
    assert_eq!(demo.act("/nodes/n2/kill", "").await, 409, "it does not run");
    assert_eq!(demo.node_status().await[1]["running"], false);
    // The other nodes take over the dead node's shards.
    let hold = json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "session": "hamlet-matinee", "count": 2});
    let (status, held) = http::post_as(None, demo.nodes[0], "cart.hold_best", Some("demo-1"), &hold).await;
    assert_eq!(status, 200, "{held}");
    assert_eq!(demo.act("/nodes/n2/start", "").await, 204);
    let second = demo.node_status().await;
    assert!(second[1]["running"] == true && second[1]["pid"] != first[1]["pid"], "{second:?}");
    let cart = json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"});
    let (status, view) = http::post_as(None, demo.nodes[1], "cart.get", None, &cart).await;
    assert!(status == 200 && view["ok"]["lines"].as_array().map(Vec::len) == Some(1), "{view}");

    demo.end(rustix::process::Signal::INT);
    for node in first.iter().chain(&second) {
        let process = format!("/proc/{}", node["pid"]);
        assert!(!Path::new(&process).exists(), "{node} is left");
    }
    assert_is_empty(files.path());
}

/// A closed terminal acts like Ctrl-C. A killed demo removes nothing, but its nodes end, including a restarted one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_nodes_end_when_the_demo_is_stopped_or_killed() {
    let files = tempfile::tempdir().expect("a directory");
    Demo::start(files.path()).end(rustix::process::Signal::HUP);
    assert_is_empty(files.path());

    let mut demo = Demo::start(files.path());
    demo.find_control().await;
    assert_eq!(demo.act("/nodes/n2/kill", "").await, 204);
    assert_eq!(demo.act("/nodes/n2/start", "").await, 204);
    let nodes = demo.node_status().await;
    assert!(nodes.iter().all(|node| node["running"] == true), "{nodes:?}");
    demo.child.kill().expect("the process runs");
    demo.child.wait().expect("the process is a child");
    for node in &nodes {
        // The status of a dead process that was not waited for is empty.
        let command = format!("/proc/{}/cmdline", node["pid"]);
        let over = async || std::fs::read(&command).map_or(true, |line| line.is_empty()).then_some(());
        eventually("a node ends with the demo", over).await;
    }
}

fn assert_is_empty(files: &Path) {
    let left: Vec<_> = files.read_dir().expect("a directory").flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?} are left");
}
