//! The log in a process of its own, with power cuts and disk failures.
//!
//! Builds the preload library `tests/faults/shim.c`, which other tests use with the whole program. Without a C compiler these
//! tests print so and test nothing.

#![allow(clippy::disallowed_methods, reason = "a test reaches the disk and the clock as it likes")]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxoffice_env::{OsDisk, OsRng};

use crate::log::{Kind, Log, LogConfig, LogError, Recovery, SEGMENT_BYTES_MIN, Start};

const DIR: &str = "BOXOFFICE_FAULT_DIR";
const CONTROL: &str = "BOXOFFICE_FAULT_CONTROL";
const SIGKILL: i32 = 9;

fn open(dir: &Path, replay: &mut dyn FnMut(u64, &[u8])) -> Result<(Log, Recovery), LogError> {
    let config = LogConfig { retry_ms: 20, ..LogConfig::new(1, SEGMENT_BYTES_MIN) };
    let (disk, rng) = (Arc::new(OsDisk), Arc::new(OsRng));
    Log::open(disk, rng, &dir.join("log"), config, Start::New, &mut |record| {
        replay(record.seq, record.payload);
    })
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7) as u8).collect()
}

/// The sizes of the records in the log after the process ended.
fn recovered(dir: &Path) -> (Recovery, Vec<usize>) {
    let mut sizes = Vec::new();
    let (_, recovery) = open(dir, &mut |_, bytes| {
        assert_eq!(bytes, payload(bytes.len()));
        sizes.push(bytes.len());
    })
    .expect("the log opens after the fault");
    (recovery, sizes)
}

/// Not a test: the process with the log. It executes commands from its standard input.
#[test]
#[ignore = "the other tests start it as a process of its own"]
fn process_with_a_log() {
    let dir = PathBuf::from(std::env::var_os("BOXOFFICE_TEST_LOG").expect("started by a test"));
    let (mut log, _) = open(&dir, &mut |_, _| {}).expect("the log opens");
    println!("\n> ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("a command");
        let done = match line.split_once(' ') {
            Some(("append", bytes)) => {
                let bytes = payload(bytes.parse().expect("a number"));
                log.append(Kind::Ordinary, &[&bytes], &[])
            }
            _ if line == "sync" => log.sync().map(|()| log.synced_seq()),
            _ => panic!("unknown command {line}"),
        };
        match done {
            Ok(seq) => println!("> ok {seq}"),
            Err(error) => println!("> {error}"),
        }
    }
}

/// Not a test: a process that writes files in many ways and reads them back before any sync.
#[test]
#[ignore = "another test starts it as a process of its own"]
fn process_with_files() {
    let dir = PathBuf::from(std::env::var_os("BOXOFFICE_TEST_LOG").expect("started by a test"));
    let options = || OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = options().open(dir.join("one")).expect("a file");
    file.write_all(b"seat by seat").expect("room");
    let parts = [IoSlice::new(b" and "), IoSlice::new(b"row by row")];
    assert_eq!(file.write_vectored(&parts).expect("room"), 15);
    file.write_all_at(b"SEAT", 8).expect("room");
    let mut added = OpenOptions::new().append(true).open(dir.join("one")).expect("a file");
    added.write_all(b".").expect("room");
    drop(added);
    let whole = "seat by SEAT and row by row.";
    assert_eq!(std::fs::read_to_string(dir.join("one")).expect("text"), whole);
    assert_eq!(std::fs::metadata(dir.join("one")).expect("a file").len(), 28);
    assert_eq!(file.metadata().expect("a file").len(), 28);
    assert_eq!(file.seek(SeekFrom::End(-1)).expect("a place"), 27);
    let mut last = String::new();
    file.read_to_string(&mut last).expect("text");
    assert_eq!(last, ".");
    file.set_len(12).expect("a shorter file");
    file.set_len(14).expect("a longer file");
    assert_eq!(std::fs::read(dir.join("one")).expect("bytes"), b"seat by SEAT\0\0");

    let two = options().open(dir.join("two")).expect("a file");
    two.write_all_at(b"kept", 0).expect("room");
    two.sync_all().expect("a sync");
    two.write_all_at(b"lost", 0).expect("room");
    std::fs::rename(dir.join("two"), dir.join("three")).expect("a name");
    assert_eq!(std::fs::read(dir.join("three")).expect("bytes"), b"lost");
    std::fs::write(dir.join("gone"), b"x").expect("room");
    std::fs::remove_file(dir.join("gone")).expect("removed");
    println!("\n> ready");
    std::io::stdin().read_line(&mut last).expect("a command");
}

/// The other process.
struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stdin: Option<ChildStdin>,
}

impl Process {
    fn start(dir: &Path, shim: Option<&Path>) -> Process {
        Process::start_named("process_with_a_log", dir, shim)
    }

    fn start_named(name: &str, dir: &Path, shim: Option<&Path>) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("this test's program"));
        command.args([&format!("tests::faults::{name}"), "--exact", "--ignored", "--nocapture"]);
        command.env("BOXOFFICE_TEST_LOG", dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(shim) = shim {
            command.env("LD_PRELOAD", shim).env(DIR, dir).env(CONTROL, dir.join("control"));
        }
        let mut child = command.spawn().expect("the process starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let stdin = child.stdin.take();
        let mut process = Process { child, stdout, stdin };
        assert_eq!(process.answer().as_deref(), Some("ready"));
        process
    }

    fn answer(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line).expect("the process's output") == 0 {
                return None;
            }
            if let Some(answer) = line.trim_end().strip_prefix("> ") {
                return Some(answer.to_owned());
            }
        }
    }

    /// Executes a command. `None` if the process dies of it.
    fn send(&mut self, command: &str) -> Option<String> {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{command}").expect("the process listens");
        self.answer()
    }

    fn send_ok(&mut self, command: &str) -> u64 {
        let answer = self.send(command).expect("the process lives");
        let seq = answer.strip_prefix("ok ").unwrap_or_else(|| panic!("{command}: {answer}"));
        seq.parse().expect("a number")
    }

    fn kill(mut self) {
        self.child.kill().expect("the process is killed");
        self.child.wait().expect("the process ends");
    }

    fn exit_signal(mut self) -> Option<i32> {
        self.child.wait().expect("the process ends").signal()
    }

    fn stop(mut self) {
        self.stdin = None;
        assert!(self.child.wait().expect("the process ends").success());
    }
}

/// Builds the preload library, once for each test so that none waits for another.
fn shim(dir: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/faults/shim.c");
    let library = dir.join("shim.so");
    let built = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .args(["-ldl", "-lpthread"])
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "the preload library does not build");
            Some(library)
        }
        Err(error) => {
            eprintln!("not tested, there is no C compiler: {error}");
            None
        }
    }
}

fn order(dir: &Path, faults: &str) {
    std::fs::write(dir.join("control.new"), faults).expect("the order is written");
    std::fs::rename(dir.join("control.new"), dir.join("control")).expect("the order is given");
}

/// A directory for data, and the library beside it.
fn place() -> Option<(tempfile::TempDir, PathBuf, PathBuf)> {
    let outer = tempfile::tempdir().expect("a directory");
    let library = shim(outer.path())?;
    let dir = outer.path().join("data");
    std::fs::create_dir(&dir).expect("a directory below");
    Some((outer, dir, library))
}

#[test]
fn a_killed_process_loses_unsynced_data_only_with_the_shim() {
    let Some((_outer, dir, library)) = place() else {
        return;
    };
    let mut process = Process::start(&dir, Some(&library));
    for _ in 0..5 {
        process.send_ok("append 300");
    }
    assert_eq!(process.send_ok("sync"), 5);
    assert_eq!(process.send_ok("append 1000"), 6);
    assert_eq!(process.send_ok("append 2000"), 7);
    process.kill();
    let (recovery, sizes) = recovered(&dir);
    assert_eq!((sizes, recovery.torn_end), (vec![300; 5], None));

    // Without it the page cache survives, so a kill alone does not test durability.
    let mut process = Process::start(&dir, None);
    assert_eq!(process.send_ok("append 1000"), 6);
    process.kill();
    assert_eq!(recovered(&dir).1, [300, 300, 300, 300, 300, 1000]);
}

#[test]
fn a_process_sees_its_writes_and_the_disk_only_synced_ones() {
    let Some((_outer, dir, library)) = place() else {
        return;
    };
    Process::start_named("process_with_files", &dir, Some(&library)).kill();
    assert_eq!(std::fs::read(dir.join("one")).expect("bytes"), [0; 14]);
    assert_eq!(std::fs::read(dir.join("three")).expect("bytes"), b"kept");
    // An orderly end loses nothing.
    Process::start_named("process_with_files", &dir, Some(&library)).stop();
    assert_eq!(std::fs::read(dir.join("one")).expect("bytes"), b"seat by SEAT\0\0");
    assert_eq!(std::fs::read(dir.join("three")).expect("bytes"), b"lost");
}

#[test]
fn durable_records_outlive_a_power_cut_over_many_segments() {
    let Some((_outer, dir, library)) = place() else {
        return;
    };
    let mut process = Process::start(&dir, Some(&library));
    let mut expected = Vec::new();
    for number in 0..60 {
        let bytes = 1_000 + number * 500;
        process.send_ok(&format!("append {bytes}"));
        expected.push(bytes);
        if number % 3 == 2 {
            process.send_ok("sync");
        }
    }
    process.send_ok("append 77");
    process.kill();
    let (recovery, sizes) = recovered(&dir);
    assert_eq!(sizes, expected);
    assert!(recovery.segments > 3, "{recovery:?}");
}

#[test]
fn a_record_torn_at_any_byte_is_cut_off() {
    let Some((_outer, dir, library)) = place() else {
        return;
    };
    // A record of 3000 bytes takes 3072. Of one or two bytes of it all may be zeros by chance, as if nothing had been written.
    for torn in [0, 3, 7, 8, 55, 63, 64, 65, 100, 512, 700, 2_048, 3_064, 3_071, 3_072] {
        let _ = std::fs::remove_dir_all(dir.join("log"));
        let mut process = Process::start(&dir, Some(&library));
        process.send_ok("append 500");
        process.send_ok("sync");
        process.send_ok("append 3000");
        order(&dir, &format!("torn {torn} .log\n"));
        assert_eq!(process.send("sync"), None, "a power cut");
        assert_eq!(process.exit_signal(), Some(SIGKILL));
        order(&dir, "");
        let (recovery, sizes) = recovered(&dir);
        match torn {
            0 => assert_eq!((sizes, recovery.torn_end), (vec![500], None)),
            3_072 => assert_eq!((sizes, recovery.torn_end), (vec![500, 3_000], None)),
            _ => {
                assert_eq!(sizes, [500]);
                let cut = recovery.torn_end.expect("the torn record is reported");
                assert_eq!((cut.seq, cut.bytes <= torn), (2, true));
                assert_eq!(recovered(&dir).0.torn_end, None, "the torn record was removed");
            }
        }
    }
}

#[test]
fn a_full_disk_is_refused_by_name_and_recovers() {
    let Some((_outer, dir, library)) = place() else {
        return;
    };
    let mut process = Process::start(&dir, Some(&library));
    order(&dir, "enospc\n");
    let mut appended = 0;
    let refusal = loop {
        let answer = process.send("append 5000").expect("the process lives");
        match answer.starts_with("ok ") {
            true => appended += 1,
            false => break answer,
        }
    };
    assert!(refusal.starts_with("the log is full: "), "{refusal}");
    process.send_ok("sync");
    order(&dir, "");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !process.send("append 5000").expect("the process lives").starts_with("ok ") {
        assert!(Instant::now() < deadline, "the log does not recover");
        std::thread::sleep(Duration::from_millis(10));
    }
    process.send_ok("sync");
    process.stop();
    assert_eq!(recovered(&dir).1, vec![5_000; appended + 1]);
}

#[test]
fn a_failed_sync_is_the_end_and_a_slow_one_is_slow() {
    let Some((_outer, dir, library)) = place() else {
        return;
    };
    let mut process = Process::start(&dir, Some(&library));
    process.send_ok("append 10");
    order(&dir, "slow 300 .log\n");
    let begun = Instant::now();
    assert_eq!(process.send_ok("sync"), 1);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    process.send_ok("append 20");
    order(&dir, "eio .log\n");
    let failed = process.send("sync").expect("the process lives");
    assert!(failed.starts_with("cannot sync ") && failed.contains("os error 5"), "{failed}");
    order(&dir, "");
    let after = process.send("sync").expect("the process lives");
    assert!(after.starts_with("the log cannot be used any more: "), "{after}");
    process.stop();
    // The system counts the pages of a failed sync as written, so an unacknowledged record may be complete.
    assert_eq!(recovered(&dir).1, [10, 20]);
}
