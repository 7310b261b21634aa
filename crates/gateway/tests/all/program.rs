//! The program prints its address, keeps its ledger, ends at a signal, and refuses invalid arguments.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_boxoffice-gateway");
const KEY: &str = "000000000000000000000000000000ab-1";

fn exchange(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the gateway listens");
    stream.write_all(request.as_bytes()).expect("the gateway reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the gateway answers");
    answer
}

fn get(address: &str, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
}

fn post(address: &str, path: &str, key: &str, body: &str) -> String {
    let length = body.len();
    exchange(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ),
    )
}

#[test]
fn the_program_serves_until_it_gets_a_signal() {
    let mut child = Command::new(PROGRAM)
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it prints a line");
    let address = line.trim().strip_prefix("boxoffice-gateway listens on http://").expect("an address").to_owned();

    let body = format!(
        r#"{{"key":"{KEY}","amount":{{"amount":500,"currency":"EUR"}},"source":"ok","order":"000000000000000000000000000000ab"}}"#
    );
    let unknown = get(&address, &format!("/authorizations/{KEY}"));
    assert!(unknown.starts_with("HTTP/1.1 404"), "{unknown}");
    let authorized = r#"{"status":"authorized","reference":"auth_1","amount":{"amount":500,"currency":"EUR"}}"#;
    let answer = post(&address, "/authorizations", KEY, &body);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(authorized), "{answer}");
    assert!(get(&address, &format!("/authorizations/{KEY}")).ends_with(authorized));
    for (path, key, body, status) in [
        ("/authorizations", KEY, body.replace("500", "501"), 409),
        ("/authorizations", KEY, body.replace("500", "0"), 400),
        ("/authorizations", KEY, body.replace("ab-1", "ab-1-void"), 400),
        ("/authorizations", "another", body.clone(), 400),
        ("/authorizations", KEY, "{".to_owned(), 400),
        ("/captures", KEY, body.clone(), 400),
        ("/nothing", KEY, body.clone(), 404),
        ("/authorizations", KEY, " ".repeat(70_000), 413),
    ] {
        let answer = post(&address, path, key, &body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} {key}: {answer}");
        assert!(answer.contains("\"error\":"), "{answer}");
    }
    let ledger = get(&address, "/ledger");
    let totals = r#""totals":{"EUR":{"authorized":500,"captured":0,"voided":0,"refunded":0}}"#;
    assert!(ledger.contains(totals), "{ledger}");

    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("a process");
    kill_process(pid, Signal::TERM).expect("it is there");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn invalid_arguments_are_refused() {
    for (args, message) in [
        (&["--webhook", "http://127.0.0.1:1/"][..], "--secret"),
        (&["--webhook", "https://127.0.0.1:1/", "--secret", "s"][..], "http://"),
        (&["--decline-share", "1.5"][..], "a share is a number from 0 to 1"),
        (&["--timeout-share", "NaN"][..], "a share is a number from 0 to 1"),
        (&["--listen", "nowhere"][..], "--listen"),
        (&["--listen", "192.0.2.1:1"][..], "cannot listen on 192.0.2.1:1"),
    ] {
        let output = Command::new(PROGRAM).args(args).output().expect("the program starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}
