//! Commands at a terminal: over TLS, with ids of either form, and what a node writes and refuses at its start.

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::common::{ADMIN, BOXOFFICE, Home, Pem, eventually};

/// A loopback address where nothing listens.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port")
}

/// Runs the program with the admin token.
fn run(args: &[&str]) -> Output {
    let mut command = Command::new(BOXOFFICE);
    command
        .args(args)
        .env("BOXOFFICE_ADMIN_TOKEN", ADMIN)
        .env_remove("BOXOFFICE_CA")
        .output()
        .expect("the program runs")
}

/// The standard output of a command that must succeed.
#[track_caller]
fn done(args: &[&str]) -> String {
    let output = run(args);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {:?}\n{stdout}\n{stderr}", output.status.code());
    stdout.into_owned()
}

/// The standard error output of a command that must fail with this code.
#[track_caller]
fn fails(code: i32, args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    stderr
}

fn royal() -> String {
    example("royal")
}

fn example(name: &str) -> String {
    format!("{}/../../config/examples/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_reaches_a_node_that_speaks_tls() {
    let home = Home::new();
    let pem = Pem::new(home.path());
    let args = pem.args();
    let server = home.with_args(&args.each_ref().map(String::as_str)).start();
    let (port, ca) = (server.address().port(), pem.certificate.display().to_string());
    let (encrypted, bare) = (format!("https://localhost:{port}"), format!("localhost:{port}"));
    let tls = ["--address", &encrypted, "--ca", &ca];
    done(&[&["import", &royal()], &tls[..]].concat());
    assert!(done(&[&["admin", "status"], &tls[..]].concat()).contains("ready"));
    // A file of authorities is enough.
    let nodes = done(&["admin", "sessions", "--address", &bare, "--ca", &ca]);
    assert!(nodes.contains("hamlet-tonight") && nodes.contains("on sale"), "{nodes}");
    done(&[&["book", "session/hamlet-tonight", "--best", "2", "--yes"], &tls[..]].concat());
    let mut watch = Command::new(BOXOFFICE);
    let watch = watch.args(["watch", "hamlet-tonight", "--lines"]).args(tls).env("BOXOFFICE_ADMIN_TOKEN", ADMIN);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("the program runs");
    let first = BufReader::new(watch.stdout.take().expect("a pipe")).lines().nth(1);
    watch.kill().and_then(|()| watch.wait()).expect("it ends");
    assert!(first.is_some_and(|line| line.is_ok_and(|line| line.contains("first seen"))), "it shows the map");
    let out = tempfile::tempdir().expect("a directory");
    let report = out.path().display().to_string();
    let small = [
        "--set",
        "open_loop.flows=5",
        "--set",
        "shop.products=5",
        "--set",
        "shop.stock=1000",
        "--set",
        "expect.done=20",
        "--set",
        "expect.units_sold=100",
        "--set",
        "expect.units_left=4900",
        "--set",
        "expect.total=100000",
    ];
    done(&[&["load", "seed-cart", "--quiet", "--out", &report], &tls[..], &small[..]].concat());

    // In plain text the port says at once what it speaks. Without the authority its certificate is not trusted.
    let begun = Instant::now();
    for command in [&["admin", "status"][..], &["book", "hamlet-tonight", "A1", "--yes"], &["watch", "hamlet-tonight"]]
    {
        let words = fails(3, &[command, &["--address", &bare]].concat());
        assert!(
            words.contains("speaks TLS") && words.contains("--address https://") && words.contains("--ca"),
            "{words}"
        );
    }
    let words = fails(3, &["load", "seed-cart", "--quiet", "--address", &bare, "--out", &report]);
    assert!(words.contains("speaks TLS"), "{words}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let other = Pem::new(out.path()).certificate.display().to_string();
    let words = fails(3, &["admin", "status", "--address", &encrypted, "--ca", &other]);
    assert!(words.contains("no encrypted connection"), "{words}");
    // The operators' port speaks plain text.
    let words = fails(3, &["admin", "status", "--address", &server.operators().to_string(), "--ca", &ca]);
    assert!(words.contains("does not speak TLS"), "{words}");
    done(&["admin", "status", "--address", &format!("http://{}", server.operators()), "--ca", &ca]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_joins_members_that_speak_tls() {
    let home = Home::new();
    let pem = Pem::new(home.path());
    let secret = home.path().join("peers.secret").display().to_string();
    let peers = |free: SocketAddr| {
        ["--peers-listen".to_owned(), free.to_string(), "--peers-secret-file".into(), secret.clone()]
    };
    let args: Vec<String> = pem.args().into_iter().chain(peers(free_address())).collect();
    let founder = home.with_args(&args.iter().map(String::as_str).collect::<Vec<_>>()).start();
    let port = founder.address().port();
    let joiner = |join: &str, ca: bool| {
        let mut args: Vec<String> = peers(free_address()).into();
        args.extend(["--join".into(), join.into()]);
        if ca {
            args.extend(["--join-ca".into(), pem.certificate.display().to_string()]);
        }
        Home::new().with_args(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let begun = Instant::now();
    let refused = joiner(&format!("localhost:{port}"), false).refused();
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("speak TLS") && refused.stderr.contains("--join-ca"), "{}", refused.stderr);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let home = joiner(&format!("https://localhost:{port}"), true);
    let joined = home.start();
    let members = eventually("both serve", async || {
        let members = done(&["admin", "nodes", "--address", &founder.operators().to_string()]);
        (members.lines().filter(|line| line.contains("serving")).count() == 2).then_some(members)
    })
    .await;
    // The table names the commit of each program, as the program itself does.
    let version = done(&["--version"]);
    let version = version.trim().trim_start_matches("boxoffice ");
    let commit = version.strip_prefix(concat!(env!("CARGO_PKG_VERSION"), "+"));
    assert!(commit.is_some_and(|commit| commit == "unknown" || commit.len() == 12), "{version}");
    assert!(members.contains(version), "{version} is not in {members}");

    // A node that serves and is healthy is neither replaced nor removed without --force, however many there are.
    for what in ["replace", "remove"] {
        let words = fails(1, &["admin", what, "2", "--address", &founder.operators().to_string()]);
        assert!(words.contains("node 2 serves and is healthy") && words.contains("--force"), "{words}");
    }
    let after = done(&["admin", "nodes", "--address", &founder.operators().to_string()]);
    assert_eq!(after.lines().filter(|line| line.contains("serving")).count(), 2, "{after}");
    done(&["admin", "replace", "2", "--force", "--address", &founder.operators().to_string()]);
    joined.kill();
    founder.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_objects_has_nothing_else_and_a_file_has_no_colours() {
    let server = Home::new().with_args(&["--log", "info", "--log-json"]).start();
    server.signal(rustix::process::Signal::TERM);
    let (status, log) = server.ended();
    assert!(status.success(), "{log}");
    let messages: Vec<String> = log
        .lines()
        .map(|line| {
            let object: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?} is no object in {log}"));
            object["fields"]["message"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    for word in ["leads", "serves", "stopping", "stopped"] {
        assert!(messages.iter().any(|message| message == word), "{word:?} is missing: {messages:?}");
    }
    // A start that fails says so in an object as well.
    let refused = Home::with_config("[node]\nshards = 0\n").with_args(&["--log-json"]).refused();
    let object: Value = serde_json::from_str(refused.stderr.trim()).expect("one object");
    assert!(object["fields"]["message"].as_str().is_some_and(|message| message.contains("node.shards")), "{object}");
    // The standard error output of these nodes is no terminal.
    let server = Home::new().with_args(&["--log", "info"]).start();
    server.signal(rustix::process::Signal::TERM);
    let (_, log) = server.ended();
    assert!(log.contains("serves") && !log.contains('\u{1b}'), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_listed_and_canceled_and_orders_are_refunded_by_either_id() {
    let server = Home::new().start();
    let at = ["--address", &server.operators().to_string()].map(str::to_owned);
    let with = |args: &[&str]| -> Vec<String> { args.iter().map(|arg| (*arg).to_owned()).chain(at.clone()).collect() };
    let done = |args: &[&str]| done(&with(args).iter().map(String::as_str).collect::<Vec<_>>());
    done(&["import", &royal()]);
    let order = |text: &str| -> String {
        let words = text.split(|char: char| !char.is_ascii_hexdigit()).find(|word| word.len() == 32);
        words.unwrap_or_else(|| panic!("no order in {text}")).to_owned()
    };
    let bare = order(&done(&["book", "hamlet-tonight", "--best", "2", "--yes"]));
    let kind = order(&done(&["book", "session/hamlet-tonight", "--best", "1", "--yes"]));
    done(&["admin", "audit", &bare]);
    done(&["admin", "history", "hamlet-tonight", "--limit", "3"]);
    done(&["admin", "refund", &bare, "--reason", "ill"]);
    done(&["admin", "refund", &format!("order/{kind}"), "--reason", "ill"]);
    done(&["admin", "block", "session/hamlet-tonight", "A1"]);
    let listed: Value = serde_json::from_str(&done(&["admin", "sessions", "--json"])).expect("a list");
    let sessions = listed.as_array().expect("a list");
    let tonight = sessions.iter().find(|session| session["session"] == "hamlet-tonight").expect("it is listed");
    assert_eq!((&tonight["counts"]["held"], &tonight["state"]), (&0.into(), &"on sale".into()), "{tonight}");
    assert!(done(&["admin", "cancel", "session/hamlet-tonight", "--reason", "fire"]).contains("is canceled"));
    let listed = done(&["admin", "sessions", "--venue", "venue/royal"]);
    let line = listed.lines().find(|line| line.starts_with("hamlet-tonight"));
    assert!(line.is_none_or(|line| line.ends_with("canceled")), "{listed}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_checked_without_a_start() {
    let home = Home::new();
    let check = |home: &Home| {
        let output = home.command().arg("--check").output().expect("the program runs");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, words) = check(&home);
    assert!(code == Some(0) && words.contains("the configuration is good"), "{words}");
    assert!(!home.data_dir().exists(), "nothing is made");
    home.write_config("[listen]\ntls_certificate = \"none.pem\"\ntls_key = \"none.key\"\n");
    let (code, words) = check(&home);
    assert!(code == Some(2) && words.contains("none.pem"), "{words}");
    home.write_config("[carts]\nhold_ttl_max_ms = 60000\nhold_ttl_ms = 60001\n");
    let (code, words) = check(&home);
    assert!(
        code == Some(2) && words.contains("carts.hold_ttl_ms: 60001 is more than carts.hold_ttl_max_ms"),
        "{words}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_offers_what_does_not_exist_is_refused() {
    // The first start has no data yet, because a node must serve before anything can be imported.
    let home = Home::with_config("[log]\nsegment_bytes = 1_048_576\n\n[page]\nproducts = [\"progamme\"]\n");
    let server = home.start();
    done(&["import", &example("corner"), "--address", &server.operators().to_string()]);
    server.stop();
    let refused = home.refused();
    let place = format!("{}: line 5: page.products: there is no product progamme", home.config_file().display());
    assert!(refused.code == Some(2) && refused.stderr.contains(&place), "{refused:?}");
    home.write_config("[log]\nsegment_bytes = 1_048_576\n\n[page]\nproducts = [\"programme\"]\n");
    home.start().stop();
    home.write_config("[log]\nsegment_bytes = 1_048_576\n\n[page]\nresources = [\"programme\"]\n");
    assert!(home.refused().stderr.contains("line 5: page.resources: there is no resource programme"));
}

#[test]
fn a_word_that_was_meant_is_named() {
    let words = fails(2, &["admin", "stauts"]);
    assert!(words.contains("'status'"), "{words}");
    let words = fails(2, &["serve", "--listne", "1"]);
    assert!(words.contains("'--listen'"), "{words}");
}

/// Every command explains itself, also in a narrow window and without a terminal.
#[test]
fn every_command_has_help_without_colours() {
    let mut left: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        let mut command = Command::new(BOXOFFICE);
        command.args(&path).arg("--help").env("COLUMNS", "40").env("NO_COLOR", "1");
        let output = command.output().expect("the program runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && text.contains("Usage:") && !text.contains('\u{1b}'), "{path:?}: {text}");
        seen += 1;
        let commands = text.split("Commands:").nth(1).unwrap_or_default().lines();
        // A command stands two columns from the edge, and its text further in.
        let names = commands
            .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   ")));
        left.extend(names.filter(|name| *name != "help" && !name.starts_with('-')).map(|name| {
            let mut deeper = path.clone();
            deeper.push(name.to_owned());
            deeper
        }));
    }
    assert!(seen > 30, "{seen} commands");
}
