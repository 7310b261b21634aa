//! Machines join by an invitation, and the secret of the nodes: who makes it, who gets it, and who is told it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use boxoffice_core::command::Machine;
use boxoffice_wire::joining;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::free_address,
    common::{ADMIN, BOXOFFICE, Refused, Server, eventually, http},
};

/// The secret behind customers' tokens.
const CUSTOMERS: &str = "what the tokens of customers are made with";

/// Exit codes of the program.
const REFUSED: i32 = 1;
const USAGE: i32 = 2;

/// A machine: a folder of its own, and the addresses of its node.
struct Computer {
    dir: TempDir,
    client: SocketAddr,
    peers: SocketAddr,
    /// Whether operators and customers have credentials.
    is_closed: bool,
}

impl Computer {
    fn new(is_closed: bool) -> Computer {
        let dir = tempfile::Builder::new().prefix("boxoffice-test-").tempdir().expect("a temporary directory");
        Computer { dir, client: free_address(), peers: free_address(), is_closed }
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn secret_file(&self) -> PathBuf {
        self.data_dir().join("peers.secret")
    }

    /// `boxoffice serve` or `boxoffice join` on this machine.
    fn command(&self, what: &str) -> Command {
        let config = self.dir.path().join("boxoffice.toml");
        if !config.exists() {
            fs::write(&config, "[log]\nsegment_bytes = 262_144\n\n[node]\nshards = 2\n").expect("a written file");
        }
        let mut command = Command::new(BOXOFFICE);
        command.arg(what).arg("--config").arg(config).arg("--data-dir").arg(self.data_dir());
        command.args(["--listen", &self.client.to_string(), "--ops-listen", "127.0.0.1:0"]);
        command.args(["--peers-listen", &self.peers.to_string()]);
        command.env("BOXOFFICE_DRAIN_MS", "0").env("NO_COLOR", "1");
        if self.is_closed {
            command.env("BOXOFFICE_ADMIN_TOKEN", ADMIN).env("BOXOFFICE_CUSTOMER_SECRET", CUSTOMERS);
        }
        command
    }

    fn serves(&self, command: Command) -> Server {
        Server::spawn(command).unwrap_or_else(|refused| panic!("it does not serve: {refused:?}"))
    }

    fn serve(&self) -> Server {
        self.serves(self.command("serve"))
    }

    /// Pastes a line into `boxoffice join`.
    fn join(&self, line: &str) -> Result<Server, Refused> {
        self.join_by(self.command("join"), line)
    }

    fn join_by(&self, command: Command, line: &str) -> Result<Server, Refused> {
        let pasted = self.dir.path().join("pasted");
        fs::write(&pasted, format!("{line}\n")).expect("a written file");
        Server::spawn_reading(command, Stdio::from(File::open(pasted).expect("a file")))
    }
}

fn refused(started: Result<Server, Refused>, code: i32, words: &[&str]) {
    let refused = match started {
        Ok(server) => panic!("it serves at {}, but it must be refused", server.address()),
        Err(refused) => refused,
    };
    assert_eq!(refused.code, Some(code), "{}", refused.stderr);
    for word in words {
        assert!(refused.stderr.contains(word), "{word:?} is not named: {}", refused.stderr);
    }
}

/// The output of `boxoffice admin` at a node's operators' port.
fn admin(server: &Server, token: Option<&str>, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(BOXOFFICE);
    command.args(["admin", "--address", &server.operators().to_string()]).args(args);
    command.env_remove("BOXOFFICE_ADMIN_TOKEN");
    if let Some(token) = token {
        command.env("BOXOFFICE_ADMIN_TOKEN", token);
    }
    let output = command.output().expect("the program runs");
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("text")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn invite(server: &Server, token: Option<&str>) -> String {
    let line = admin(server, token, &["invite", "--for", "10m"]).expect("an invitation");
    assert_eq!(line.lines().count(), 1, "one line to paste: {line}");
    line.trim().to_owned()
}

/// The ids of the members that are not gone, as this node knows them.
async fn members(server: &Server, token: Option<&str>) -> Vec<u64> {
    let (status, answer) = http::post_as(token, server.operators(), "admin.nodes", None, &json!({})).await;
    assert_eq!(status, 200, "{answer}");
    let members = answer["ok"]["members"].as_array().expect("members");
    members
        .iter()
        .filter(|member| member["state"] != "gone")
        .map(|member| member["node"].as_u64().expect("an id"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_machines_become_a_cluster_by_two_pastes() {
    let computers = [Computer::new(true), Computer::new(true), Computer::new(true)];
    let [one, two, three] = &computers;
    let founder = one.serve();
    assert_eq!(fs::metadata(one.secret_file()).expect("it is made").permissions().mode() & 0o777, 0o600);
    let line = invite(&founder, Some(ADMIN));

    // What is no invitation is refused before anything is written.
    for (wrong, word) in [("", "paste the line"), ("hello", "begins with"), (&line[..line.len() - 9], "not whole")] {
        refused(two.join(wrong), USAGE, &[word, "boxoffice admin invite"]);
        assert!(!two.data_dir().exists(), "{wrong:?}");
    }
    // Other credentials, so that only the invitation lets the machine in.
    let stranger = |computer: &Computer, what: &str| {
        let mut command = computer.command(what);
        command.env("BOXOFFICE_ADMIN_TOKEN", "an admin token that no other node knows");
        command
    };
    let second = two.join_by(stranger(two, "join"), &line).unwrap_or_else(|refused| panic!("{refused:?}"));
    let secret = |computer: &Computer| fs::read_to_string(computer.secret_file()).expect("a secret");
    assert_eq!(secret(two), secret(one));
    assert_eq!(fs::metadata(two.secret_file()).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(members(&founder, Some(ADMIN)).await, [1, 2]);

    // The invitation is used up. The secret alone is not enough.
    refused(three.join_by(stranger(three, "join"), &line), REFUSED, &["not_invited", "boxoffice admin invite"]);
    let mut alone = stranger(three, "serve");
    alone.args(["--join", &one.client.to_string()]);
    refused(Server::spawn(alone), REFUSED, &["not_invited"]);
    assert_eq!(members(&founder, Some(ADMIN)).await, [1, 2]);

    // Another line, from the second node, where nobody but its own operators may invite.
    admin(&second, Some(ADMIN), &["invite"]).expect_err("it has another admin token");
    let token = Some("an admin token that no other node knows");
    let third = three.join_by(stranger(three, "join"), &invite(&second, token)).unwrap_or_else(|no| panic!("{no:?}"));
    eventually("three members serve", async || (members(&founder, Some(ADMIN)).await == [1, 2, 3]).then_some(())).await;

    // A member starts again without an invitation, also by the same line.
    second.stop();
    two.serves(stranger(two, "serve")).stop();
    let second = two.join_by(stranger(two, "join"), &line).unwrap_or_else(|refused| panic!("{refused:?}"));

    // One whose disk was lost needs an invitation again.
    third.kill();
    fs::remove_dir_all(three.data_dir()).expect("the disk is lost");
    eventually("the member is replaced", async || admin(&founder, Some(ADMIN), &["replace", "3"]).ok()).await;
    refused(three.join_by(stranger(three, "join"), &line), REFUSED, &["not_invited"]);
    let line = invite(&founder, Some(ADMIN));
    let mut again = stranger(three, "join");
    again.args(["--node", "3"]);
    let third = three.join_by(again, &line).unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!(members(&founder, Some(ADMIN)).await, [1, 2, 3]);
    [third, second, founder].into_iter().for_each(Server::kill);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_vouches_for_a_machine() {
    let (one, two, three, four) = (Computer::new(true), Computer::new(true), Computer::new(true), Computer::new(true));
    let founder = one.serve();
    let key = admin(&founder, Some(ADMIN), &["key", "create", "chief", "--role", "admin"]).expect("a key");
    let weak = admin(&founder, Some(ADMIN), &["key", "create", "till", "--role", "desk"]).expect("a key");
    let joins = |computer: &Computer| {
        let mut command = computer.command("serve");
        command.args(["--join", &one.client.to_string()]).arg("--peers-secret-file").arg(one.secret_file());
        command
    };
    // The same admin token is enough, and is not told to the node that is asked.
    let second = two.serves(joins(&two));
    // A key with the role admin as well, another one not.
    let other_token = |mut command: Command| {
        command.env("BOXOFFICE_ADMIN_TOKEN", "an admin token that no other node knows");
        command
    };
    let with_key = |computer: &Computer, key: &str| {
        let file = computer.dir.path().join("key");
        fs::write(&file, key).expect("a written file");
        let mut command = other_token(joins(computer));
        command.arg("--join-key-file").arg(file);
        command
    };
    refused(Server::spawn(with_key(&three, &weak)), REFUSED, &["admin.join"]);
    refused(Server::spawn(other_token(joins(&three))), REFUSED, &["not_invited"]);
    let third = three.serves(with_key(&three, &key));
    assert_eq!(members(&founder, Some(ADMIN)).await, [1, 2, 3]);
    // Another secret is worth nothing, whoever vouches.
    let mut command = four.command("serve");
    command.args(["--join", &one.client.to_string()]).env("BOXOFFICE_PEERS_SECRET", "0123456789abcdef0123456789abcdef");
    refused(Server::spawn(command), REFUSED, &["wrong_secret"]);
    assert_eq!(members(&founder, Some(ADMIN)).await, [1, 2, 3]);
    [third, second, founder].into_iter().for_each(Server::kill);
}

/// Containers get their secrets from one environment, and start in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_one_environment_start_in_any_order() {
    let computers = [Computer::new(true), Computer::new(true), Computer::new(true)];
    let command = |number: usize| {
        let mut command = computers[number].command("serve");
        command.env("BOXOFFICE_PEERS_SECRET", "0123456789abcdef0123456789abcdef");
        command.args(["--node", &(number + 1).to_string()]);
        if number > 0 {
            command.args(["--join", &computers[0].client.to_string()]);
        }
        command
    };
    let waiting = [2, 1].map(|number| {
        let command = command(number);
        std::thread::spawn(move || Server::spawn(command))
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let founder = computers[0].serves(command(0));
    let others = waiting.map(|start| tokio::task::block_in_place(|| start.join()).expect("no panic"));
    let others = others.map(|started| started.unwrap_or_else(|refused| panic!("{refused:?}")));
    eventually("three members", async || (members(&founder, Some(ADMIN)).await == [1, 2, 3]).then_some(())).await;
    others.into_iter().chain([founder]).for_each(Server::kill);
}

/// The configuration of releases before: several nodes on loopback, no secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_without_a_secret_are_told_how_to_share_one() {
    let computers = [Computer::new(false), Computer::new(false), Computer::new(false)];
    let [one, two, three] = &computers;
    let joins = |computer: &Computer, more: &[&str]| {
        let mut command = computer.command("serve");
        command.args(["--join", &one.client.to_string()]).args(more);
        command
    };
    let founder = one.serve();
    for computer in [two, three] {
        let words = ["peers.secret_file", "which the first node makes", "boxoffice admin invite"];
        refused(Server::spawn(joins(computer, &[])), USAGE, &words);
    }
    founder.stop();
    // The remedy: one file for all. Those that join may start first, and wait for it.
    let fresh = [Computer::new(false), Computer::new(false), Computer::new(false)];
    let shared = fresh[0].dir.path().join("shared.secret").display().to_string();
    let file = ["--peers-secret-file", &shared];
    let join = |computer: &Computer| {
        let mut command = computer.command("serve");
        command.args(["--join", &fresh[0].client.to_string()]).args(file);
        std::thread::spawn(move || Server::spawn(command))
    };
    let waiting = [join(&fresh[1]), join(&fresh[2])];
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut command = fresh[0].command("serve");
    command.args(file);
    let founder = fresh[0].serves(command);
    let others = waiting.map(|start| tokio::task::block_in_place(|| start.join()).expect("no panic"));
    let others = others.map(|started| started.unwrap_or_else(|refused| panic!("{refused:?}")));
    eventually("three members", async || (members(&founder, None).await == [1, 2, 3]).then_some(())).await;
    others.into_iter().chain([founder]).for_each(Server::kill);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_is_changed_while_nodes_serve() {
    let computers = [Computer::new(false), Computer::new(false), Computer::new(false)];
    let (old, new) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let file = |computer: &Computer| computer.dir.path().join("secret");
    let write = |computer: &Computer, text: &str| fs::write(file(computer), text).expect("a written file");
    let start = |number: usize| {
        let computer = &computers[number];
        let mut command = computer.command("serve");
        command.arg("--peers-secret-file").arg(file(computer));
        if number > 0 {
            command.args(["--join", &computers[0].client.to_string()]);
        }
        computer.serves(command)
    };
    computers.iter().for_each(|computer| write(computer, old));
    let mut servers: Vec<Server> = (0..3).map(start).collect();
    let linked = async |servers: &[Server]| {
        eventually("the leader of each shard hears both followers", async || {
            let mut led = 0;
            for server in servers {
                let (_, answer) = http::post_as(None, server.operators(), "admin.status", None, &json!({})).await;
                let shards = answer["ok"]["shards"].as_array()?.clone();
                let is_heard = |shard: &&Value| {
                    let followers = shard["followers"].as_array().map_or(&[][..], Vec::as_slice);
                    shard["role"] == "leader"
                        && followers.len() == 2
                        && followers.iter().all(|one| one["heard"] == true)
                };
                led += shards.iter().filter(is_heard).count();
            }
            // Two data shards, and the directory's.
            (led == 3).then_some(())
        })
        .await;
    };
    eventually("three members", async || (members(&servers[0], None).await == [1, 2, 3]).then_some(())).await;
    linked(&servers).await;
    for (step, text) in [("both", format!("{new} {old}")), ("the new one", new.to_owned())] {
        for number in [1, 0, 2] {
            let server = servers.remove(number);
            server.stop();
            write(&computers[number], &text);
            servers.insert(number, start(number));
            println!("node {} has {step}", number + 1);
            linked(&servers).await;
        }
    }
    // The old one is worth nothing now.
    let stranger = Computer::new(false);
    let mut command = stranger.command("serve");
    command.args(["--join", &computers[0].client.to_string()]).env("BOXOFFICE_PEERS_SECRET", old);
    refused(Server::spawn(command), REFUSED, &["wrong_secret"]);
    servers.into_iter().for_each(Server::kill);
}

/// What a stranger behind a proxy on the node's machine tried: the secrets that earlier releases contained.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_of_earlier_releases_opens_nothing() {
    let computer = Computer::new(true);
    let mut command = computer.command("serve");
    let config = computer.dir.path().join("proxy.toml");
    let text = "[listen]\nanonymous = \"none\"\npublic_url = \"https://tickets.example\"\nproxies = [\"127.0.0.1\"]\n";
    fs::write(&config, text).expect("a written file");
    command.arg("--config").arg(config);
    let server = computer.serves(command);
    let machine = Machine {
        disk: 7,
        peer: "127.0.0.1:9".into(),
        client: "127.0.0.1:9".into(),
        program: "0.1.0".into(),
        versions: None,
    };
    let real = fs::read_to_string(computer.secret_file()).expect("a secret");
    let (_, nodes) = http::post_as(Some(ADMIN), server.operators(), "admin.nodes", None, &json!({})).await;
    let before = nodes["ok"]["members"].clone();
    let hello = admin(&server, Some(ADMIN), &["status", "--json"]).expect("a status");
    let status: Value = serde_json::from_str(&hello).expect("JSON");
    let cluster = status["cluster"].as_str().unwrap_or_default().to_owned();
    let public =
        ["nobody but this machine", "three-nodes-on-one-machine", "nodes-of-one-load-run", "known-to-these-nodes-only"];
    for (secret, expected) in public.map(|secret| (secret, 107)).into_iter().chain([(real.trim(), 812)]) {
        let token = joining::token(secret.as_bytes());
        let proof = joining::written(&joining::proof(secret.as_bytes(), &cluster, None, &machine));
        let disk = format!("{:032x}", machine.disk);
        let body =
            json!({"disk": disk, "peer": "127.0.0.1:9", "client": "127.0.0.1:9", "program": "0.1.0", "proof": proof});
        let headers =
            format!("authorization: Bearer {token}\r\nx-forwarded-for: 203.0.113.7\r\nidempotency-key: {expected}\r\n");
        let (_, text) = http::raw_post(server.address(), "/v1/admin.join", &headers, &body.to_string()).await;
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["no"]["code"], expected, "{secret}: {answer}");
    }
    let (_, nodes) = http::post_as(Some(ADMIN), server.operators(), "admin.nodes", None, &json!({})).await;
    assert_eq!(nodes["ok"]["members"], before);
    server.kill();
}

/// Where a secret may stand that is told to nobody.
struct Places {
    /// Files that ship, and those that the nodes write.
    files: Vec<PathBuf>,
    /// Logs and outputs.
    texts: Vec<String>,
}

impl Places {
    /// The places in which one of these secrets stands. A place where it belongs is not among the files.
    fn telling(&self, secrets: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        let mut look = |place: String, bytes: &[u8]| {
            for secret in secrets {
                assert!(secret.len() >= 16, "{secret:?} is too short to be looked for");
                if bytes.windows(secret.len()).any(|part| part == secret.as_bytes()) {
                    found.push(place.clone());
                }
            }
        };
        for (number, text) in self.texts.iter().enumerate() {
            look(format!("output {number}"), text.as_bytes());
        }
        for process in fs::read_dir("/proc").expect("processes").flatten() {
            let command_line = process.path().join("cmdline");
            look(command_line.display().to_string(), &fs::read(&command_line).unwrap_or_default());
        }
        // The program has hundreds of megabytes, so `grep` looks.
        let patterns = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(patterns.path(), secrets.join("\n")).expect("a written file");
        let mut grep = Command::new("grep");
        grep.args(["--files-with-matches", "--text", "--fixed-strings", "--file"])
            .arg(patterns.path())
            .args(&self.files);
        let output = grep.output().expect("grep runs");
        // 1 is "nothing found". Files may have gone meanwhile.
        assert!(output.status.code() != Some(127), "there is no grep");
        found.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
        found
    }
}

/// All files below a folder.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(files_below(&path)),
            path => files.push(path),
        }
    }
    files
}

/// The values of the variables of a process that have secrets.
fn secrets_of(pid: u32) -> Vec<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).expect("an environment");
    let variables = environment.split(|byte| *byte == 0).filter_map(|variable| std::str::from_utf8(variable).ok());
    let secrets = variables
        .filter_map(|variable| variable.split_once('='))
        .filter(|(name, _)| name.starts_with("BOXOFFICE_") && (name.ends_with("_SECRET") || name.ends_with("_TOKEN")));
    secrets.map(|(_, value)| value.to_owned()).collect()
}

/// What the demo prints until it sells, and how many nodes it names.
fn demo_output(demo: &mut Child) -> (String, usize) {
    let lines = BufReader::new(demo.stdout.take().expect("the output is piped")).lines().map_while(Result::ok);
    let told: Vec<String> = lines.take_while(|line| !line.starts_with("Ctrl-C")).collect();
    let nodes = told.iter().filter(|line| line.trim().starts_with("http://") && line.ends_with('/')).count();
    (told.join("\n"), nodes)
}

/// A demo. Its nodes end with it, also when the test fails.
struct RunningDemo(Child);

impl Drop for RunningDemo {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        // It may have ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = tokio::task::block_in_place(|| self.0.wait());
    }
}

/// The processes that a process has started.
fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads").flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let text = children.collect::<Vec<_>>().join(" ");
    text.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_stands_where_others_read() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let mut places = Places { files: files_below(&config), texts: Vec::new() };
    places.files.push(BOXOFFICE.into());
    // The file that the example's first node makes is not shipped.
    places.files.retain(|file| !file.ends_with("cluster-3/peers.secret"));

    // A demo: its nodes' tokens and secrets.
    let files = tempfile::tempdir().expect("a directory");
    let mut demo = Command::new(BOXOFFICE);
    demo.args(["demo", "--buyers", "2"]).env("TMPDIR", files.path());
    let demo = demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut demo = RunningDemo(demo);
    let (told, nodes) = demo_output(&mut demo.0);
    places.texts.push(told);
    let mut secrets = Vec::new();
    let pids: Vec<u32> = children_of(demo.0.id());
    assert_eq!((nodes, pids.len()), (3, 3), "three nodes");
    for pid in &pids {
        let of_node = secrets_of(*pid);
        assert_eq!(of_node.len(), 2, "an admin token and the secret of the nodes");
        secrets.extend(of_node);
    }
    // A machine that joins by an invitation.
    let (one, two) = (Computer::new(true), Computer::new(true));
    let founder = one.serve();
    let line = invite(&founder, Some(ADMIN));
    let second = two.join(&line).unwrap_or_else(|refused| panic!("{refused:?}"));
    secrets.push(line.clone());
    secrets.push(fs::read_to_string(one.secret_file()).expect("a secret").trim().to_owned());
    secrets.extend([ADMIN, CUSTOMERS].map(str::to_owned));
    places.texts.extend([founder.stderr(), second.stderr()]);
    for computer in [&one, &two] {
        let known = [computer.secret_file(), computer.dir.path().join("pasted")];
        places.files.extend(files_below(computer.dir.path()).into_iter().filter(|file| !known.contains(file)));
    }
    // The demo's own files, logs among them.
    places.files.extend(files_below(files.path()));
    let found = places.telling(&secrets);
    assert!(found.is_empty(), "secrets stand in {found:?}");

    // The judge sees a secret in an argument, in a log and in a file.
    let planted = "a-secret-that-is-planted".to_owned();
    // The line that it prints says that its arguments can be read. It reads another one, because a shell becomes its last command
    // and the argument would be gone.
    let waits = ["-c", "echo begun; read -r line; :", &planted];
    let mut argument = Command::new("sh");
    let argument = argument.args(waits).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut argument = argument.spawn().expect("a process");
    let mut begun = String::new();
    BufReader::new(argument.stdout.take().expect("a pipe")).read_line(&mut begun).expect("a line");
    let in_argument = places.telling(std::slice::from_ref(&planted));
    let _ = argument.kill();
    let _ = argument.wait();
    assert!(in_argument.iter().any(|place| place.contains("cmdline")), "{in_argument:?}");
    places.texts.push(format!("the token is {planted}"));
    fs::write(files.path().join("planted"), &planted).expect("a written file");
    places.files.push(files.path().join("planted"));
    assert_eq!(places.telling(&[planted]).len(), 2, "a log and a file");

    drop(demo);
    [second, founder].into_iter().for_each(Server::kill);
}
