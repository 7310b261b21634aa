//! Starts that are refused: configurations, ports, data directories.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, process::Command};

use boxoffice_core::version::NEWEST;

use super::Stage;
use crate::common::{Encoding, Home, Server};

/// Exit codes of the program.
const USAGE: i32 = 2;
const NODE: i32 = 4;

/// An invalid configuration: the error names file, line and key, and no data directory is made.
#[test]
fn invalid_configurations_are_refused_by_name() {
    let wrong = [
        ("[node]\nid = 1\nshard = 4\n", 3, "shard"),
        ("[nodes]\nid = 1\n", 1, "nodes"),
        ("\n\n[log]\nfsync = \"sometimes\"\n", 4, "log.fsync"),
        ("[log]\nsegment_bytes = 1_000\n", 2, "log.segment_bytes"),
        ("[log]\nsegment_bytes = 262_145\n", 2, "log.segment_bytes"),
        ("[node]\nshards = 0\n", 2, "node.shards"),
        ("[node]\nshards = 70_000\n", 2, "shards"),
        ("[carts]\n# a comment\nhold_ttl_ms = -5\n", 3, "hold_ttl_ms"),
        ("[carts]\nhold_ttl_ms = \"long\"\n", 2, "hold_ttl_ms"),
        ("[listen]\naddress = \"somewhere\"\n", 2, "listen.address"),
        ("[listen]\nadmin_token = \"short\"\n", 2, "listen.admin_token"),
        ("[listen]\nadmin_token = \"thirty-one characters and a dot\"\n", 2, "`boxoffice admin token`"),
        ("[listen]\ncustomer_secret = \"short\"\n", 2, "listen.customer_secret"),
        ("[node\n", 1, ""),
    ];
    for (config, line, key) in wrong {
        let home = Home::with_config(config);
        let refused = home.refused();
        assert_eq!(refused.code, Some(USAGE), "{config}: {}", refused.stderr);
        let named = format!("{}: line {line}: ", home.config_file().display());
        assert!(refused.stderr.contains(&named), "{config}: {}", refused.stderr);
        assert!(refused.stderr.contains(key), "{config}: {}", refused.stderr);
        assert!(!home.data_dir().exists(), "{config}: a data directory was made");
    }
    let home = Home::new();
    fs::remove_file(home.config_file()).expect("removed");
    let refused = home.refused();
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    assert!(refused.stderr.contains(home.config_file().to_str().expect("a path")), "{}", refused.stderr);
    let home = Home::new().with_args(&["--no-such-flag"]);
    let refused = home.refused();
    assert_eq!(refused.code, Some(USAGE), "{}", refused.stderr);
    assert!(refused.stderr.contains("--no-such-flag"), "{}", refused.stderr);
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let home = Home::new();
    let Err(refused) = Server::spawn(home.command_at(&address)) else { panic!("the port is taken") };
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    assert!(refused.stderr.contains(&address) && refused.stderr.contains("in use"), "{}", refused.stderr);
    drop(taken);
    home.start().stop();
}

#[test]
fn a_public_listener_needs_a_token() {
    let home = Home::new();
    home.write_config("[listen]\naddress = \"0.0.0.0:0\"\n\n[log]\nsegment_bytes = 262_144\n");
    let start = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
        command.arg("serve").arg("--data-dir").arg(home.data_dir()).arg("--config").arg(home.config_file()).args(args);
        command.envs(variables.iter().copied());
        let Err(refused) = Server::spawn(command) else { panic!("the node serves without an admin token") };
        (refused.code, refused.stderr)
    };
    let (code, words) = start(&[], &[]);
    assert!(code == Some(USAGE) && words.contains("admin token"), "{words}");
    let short = ("BOXOFFICE_ADMIN_TOKEN", "thirty-one characters and a dot");
    let (code, words) = start(&[short], &[]);
    assert!(code == Some(USAGE) && words.contains("32") && words.contains("`boxoffice admin token`"), "{words}");
    // What the command makes is taken, so only the customer secret is missing.
    let made = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
        let made = command.args(["admin", "token"]).env_remove("BOXOFFICE_ADMIN_TOKEN").output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).expect("text").trim_end().to_owned()
    };
    let token = made();
    assert!(token.len() == 43 && token != made(), "{token}");
    let token = ("BOXOFFICE_ADMIN_TOKEN", token.as_str());
    let (code, words) = start(&[token], &[]);
    assert!(code == Some(USAGE) && words.contains("customer secret"), "{words}");
    // An operators' port that other machines can reach, without any credential.
    let (code, words) = start(&[], &["--listen", "127.0.0.1:0", "--ops-listen", "0.0.0.0:0"]);
    assert!(code == Some(USAGE) && words.contains("ops.listen") && words.contains("admin token"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_that_is_in_use() {
    let mut stage = Stage::new("a_data_directory_that_is_in_use", Encoding::Json).await;
    let refused = stage.home.refused();
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    let named = format!("{} is in use by another process", stage.home.data_dir().display());
    assert!(refused.stderr.contains(&named), "{}", refused.stderr);
    stage.sells().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_data_directory_is_refused() {
    let mut stage = Stage::new("a_foreign_data_directory_is_refused", Encoding::Json).await;
    stage.sells().await;
    let before = stage.counts().await;
    let Stage { server, port, theatre, rng, home } = stage;
    drop(port);
    server.stop();
    let identity = home.data_dir().join("identity.toml");
    let good = fs::read_to_string(&identity).expect("an identity");
    let refuses = |words: &str| {
        let refused = home.refused();
        assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
        assert!(refused.stderr.contains(home.data_dir().to_str().expect("a path")), "{}", refused.stderr);
        assert!(refused.stderr.contains(words), "{words:?} is missing: {}", refused.stderr);
    };
    let edited = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        fs::write(&identity, good.replace(from, to)).expect("written");
    };
    let newer = NEWEST.number() + 1;
    let is = format!("format = {NEWEST}");
    edited(&is, &format!("format = {newer}"));
    let raised_by = NEWEST.release().expect("a release");
    refuses(&format!(
        "was written under version {newer}, this program reads up to {NEWEST}; release {raised_by} raised it"
    ));
    edited(&is, "format = 4");
    refuses("was written under version 4, this program reads from 17 on");
    edited(&is, "format = 2");
    refuses("has format 2, from before placement by hash prefix");
    edited("shards = 32", "shards = 33");
    refuses("the checksum in identity.toml does not match");
    fs::write(&identity, "who am I?").expect("written");
    refuses("identity.toml is malformed");
    fs::remove_file(&identity).expect("removed");
    refuses("identity.toml is missing");
    fs::write(&identity, &good).expect("written");

    home.write_config("[node]\nshards = 16\n");
    refuses("was made for 32 shards, 16 are configured");
    home.write_config("[node]\nid = 2\n");
    refuses("belongs to node 1, this is to be node 2");

    // The refused starts changed nothing.
    home.write_config("[log]\nsegment_bytes = 1_048_576\n");
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    let mut stage = Stage { server, port, theatre, rng, home };
    assert_eq!(stage.counts().await, before);
    stage.sells().await;
}

#[test]
fn a_data_directory_that_cannot_be_written() {
    let home = Home::new();
    fs::write(home.data_dir(), "not a directory").expect("written");
    let refused = home.refused();
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    assert!(refused.stderr.contains(home.data_dir().to_str().expect("a path")), "{}", refused.stderr);
    fs::remove_file(home.data_dir()).expect("removed");

    // Root can write everywhere, so the test runs as an unprivileged user where possible.
    fs::create_dir(home.data_dir()).expect("made");
    fs::set_permissions(home.data_dir(), fs::Permissions::from_mode(0o555)).expect("set");
    let is_root = rustix::process::geteuid().is_root();
    let spawned = if is_root {
        let served = home.command();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("set");
        command.arg(served.get_program()).args(served.get_args());
        let may = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(served.get_program())
            .arg("--version")
            .output();
        match may {
            Ok(output) if output.status.success() => Server::spawn(command),
            _ => return println!("skipped: root cannot become the user nobody here"),
        }
    } else {
        Server::spawn(home.command())
    };
    let Err(refused) = spawned else { panic!("the directory cannot be written") };
    fs::set_permissions(home.data_dir(), fs::Permissions::from_mode(0o755)).expect("set");
    assert_eq!(refused.code, Some(NODE), "{}", refused.stderr);
    assert!(refused.stderr.contains(home.data_dir().to_str().expect("a path")), "{}", refused.stderr);
    assert!(refused.stderr.contains("Permission denied"), "{}", refused.stderr);
    home.start().stop();
}
