#!/usr/bin/env python3
"""All checks of `tests/run`, in an order that keeps the processors busy. `tests/run` installs the required packages.

1. Format, and the licences of packages if cargo-deny is installed.
2. The build of all targets by clippy, which compiles as it lints. Meanwhile the packages of the API's and the page's tests are installed.
3. The tests, and the cost of a purchase in instructions. Most tests wait for timers and child processes, so two executables run at a
   time, and a third one that hardly uses a processor. The planted bugs, the examples of the documentation and a program outside the
   workspace are built beside them at the lowest priority.
4. The page's tests.

A failure stops only the phases that depend on it. The report at the end lists failures with the names of the tests.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = TARGET / "debug" / "boxoffice"

# A program outside the workspace that uses the client library, like a shop's program.
WINDOW = ROOT / "examples/box-office-window"
WINDOW_PACKAGE = ["--manifest-path", str(WINDOW / "Cargo.toml")]

# The kinds of targets that have tests.
TESTED_KINDS = {"lib", "bin", "test"}
# The benches have none.
UNTESTED = "crates/bench"

# Test executables that run at a time. More would only compete for the processor.
AT_ONCE = 2
# These wait for timers nearly all of the time, so one more of them runs at a time.
WAITING = {
    "client boxoffice_client",
    "edge all",
    "links boxoffice_links",
    "payment boxoffice_payment",
    "replication boxoffice_replication",
}

# The longest ones begin first, so that none of them runs alone at the end. The simulation computes, the others wait.
LONGEST_FIRST = ["cli cluster", "sim seeds", "cli whole", "core rules", "node all", "core boxoffice_core", "shard boxoffice_shard"]

LOWEST_PRIORITY = ["nice", "-n", "19"]


class Report:
    """Durations of the phases, and failures."""

    def __init__(self):
        self.lock = threading.Lock()
        self.phases = []
        self.failures = []

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def fail(self, name):
        with self.lock:
            self.failures.append(name)

    def end(self, seconds):
        """Prints the report. Returns the number to exit with."""
        print("\nPhases:")
        for name, took in self.phases:
            print(f"{took:6.0f} s  {name}")
        print(f"{seconds:6.0f} s  in all")
        if self.failures:
            print("\nFailed:")
            for name in self.failures:
                print(f"    {name}")
        else:
            print("\nEverything passed.")
        return 1 if self.failures else 0


REPORT = Report()


class Phase:
    """Measures a phase. Phases may overlap."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.begun = time.monotonic()

    def __exit__(self, *_):
        took = time.monotonic() - self.begun
        with REPORT.lock:
            REPORT.phases.append((self.name, took))


Ended = collections.namedtuple("Ended", "code output seconds processor")


def run(command, cwd=ROOT, env=None):
    """Runs a command and keeps its output."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as kept:
        try:
            child = subprocess.Popen(
                command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=kept, stderr=kept
            )
        except OSError as error:
            return Ended(127, str(error), 0, 0)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        kept.seek(0)
        output = kept.read().decode(errors="replace")
    return Ended(child.returncode, output, time.monotonic() - begun, used.ru_utime + used.ru_stime)


# Failed tests, in the output of Rust's test harness and of Node's.
FAILED = re.compile(r"^test (.+) \.\.\. FAILED$|^\s*✖ (.+?)(?: \([0-9.]+ms\))?$", re.MULTILINE)


def check(name, command, cwd=ROOT, env=None, may_warn=True):
    """Runs a command, prints its output when it has ended, and records the failures. Returns whether it succeeded."""
    ended = run(command, cwd, env)
    if ended.code == 0 and not may_warn and re.search(r"^warning\b", ended.output, re.MULTILINE):
        REPORT.fail(f"{name}: warnings")
    verdict = "passed" if ended.code == 0 else f"FAILED with {ended.code}"
    heading = f"── {name}: {verdict} in {ended.seconds:.1f} s, processor time {ended.processor:.1f} s"
    REPORT.say("\n".join([heading, ended.output.strip()]).rstrip())
    if ended.code != 0:
        tests = {one or other for one, other in FAILED.findall(ended.output)}
        for test in sorted(tests - {"failing tests:"}) or [""]:
            REPORT.fail(f"{name} {test}".rstrip())
    return ended.code == 0


def formatted():
    with Phase("format"):
        check("format", ["cargo", "fmt", "--all", "--check"])
        check("format of the program outside the workspace", ["cargo", "fmt", *WINDOW_PACKAGE, "--check"])


def packages():
    """Licences, sources and advisories of packages. cargo-deny takes two minutes to build: it is used where it is.
    tests/packages.rs checks licences, sources and bans everywhere."""
    deny = ["cargo", "deny", "--log-level"]
    if run(["cargo", "deny", "--version"]).code != 0:
        return
    with Phase("cargo-deny"):
        check("licences of packages", [*deny, "error", "check", "licenses", "bans", "sources"])
        # The advisories need the network.
        if run([*deny, "off", "fetch", "db"]).code == 0:
            check("advisories of packages", [*deny, "error", "check", "--disable-fetch", "advisories"])
        else:
            REPORT.say("advisories are not checked: their database cannot be fetched")


def lint_while_compiling():
    """Lets clippy compile the packages of the workspace, see tests/rustc. By itself it would read everything a second time, which
    takes a seventh of the processor time of all phases."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    driver = pathlib.Path(sysroot.strip()) / "bin" / "clippy-driver"
    if not driver.is_file():
        sys.exit("clippy is missing: rustup component add clippy")
    os.environ.update(RUSTC_WORKSPACE_WRAPPER=str(ROOT / "tests/rustc"), CLIPPY_DRIVER=str(driver))


Executable = collections.namedtuple("Executable", "name path package_dir")


def build():
    """Builds everything, and lints it. Returns the executables of tests, or None if the build failed."""
    command = ["cargo", "test", "--workspace", "--tests", "--benches", "--examples", "--no-run", "--message-format=json"]
    found, warned = [], False
    with Phase("build and lints"):
        cargo = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for line in cargo.stdout:
            if not line.startswith("{"):
                continue
            message = json.loads(line)
            if message["reason"] == "compiler-message":
                REPORT.say(message["message"]["rendered"].rstrip())
                warned = warned or message["message"]["level"] == "warning"
            elif message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
                package_dir = pathlib.Path(message["manifest_path"]).parent
                if package_dir == ROOT / UNTESTED or not TESTED_KINDS & set(message["target"]["kind"]):
                    continue
                name = f"{package_dir.name} {message['target']['name']}"
                found.append(Executable(name, message["executable"], package_dir))
        if cargo.wait() != 0:
            REPORT.fail("build and lints")
            return None
    if warned:
        REPORT.fail("build and lints: warnings")
    return found


def test(executable):
    """Runs a test executable as `cargo test` does."""
    environment = {"CARGO": shutil.which("cargo"), "CARGO_MANIFEST_DIR": str(executable.package_dir)}
    check(executable.name, [executable.path], executable.package_dir, environment)


def tests(executables):
    """Runs the test executables, and tests the HTTP API against its document."""
    jobs = {executable.name: lambda executable=executable: test(executable) for executable in executables}
    # Counts are independent of the machine's load, but an incremental build is another program.
    if os.environ.get("CARGO_INCREMENTAL") == "0":
        node = next(executable.path for executable in executables if executable.name == "node boxoffice_node")
        jobs["costs of a purchase"] = lambda: check("costs of a purchase", [ROOT / "tests/costs.py", node])
    jobs["HTTP API"] = lambda: check("HTTP API", [ROOT / "tests/api/run", PROGRAM])
    ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
    ordered = sorted(jobs, key=lambda name: (ranks.get(name, len(ranks)), name))
    queue = collections.deque(name for name in ordered if name not in WAITING)
    light = collections.deque(name for name in ordered if name in WAITING)

    def take(*queues):
        for names in queues:
            while True:
                try:
                    name = names.popleft()
                except IndexError:
                    break
                jobs[name]()

    with Phase("tests"):
        takers = [begin(take, queue, light) for _ in range(AT_ONCE)]
        for thread in [*takers, begin(take, light)]:
            thread.join()


def other_builds():
    """Further builds and their tests, at the lowest priority beside the other tests."""
    with Phase("planted bugs"):
        # Three planted bugs, and the stories of all lines whose mutation no other test noticed, with the rules alone. The rest is
        # in docs/internals/simulation.md. Naming the whole workspace reuses the dependencies that are built already. The rules are
        # not optimized, because building them takes longer than these tests.
        quick = ["--config", "profile.dev.package.boxoffice-core.opt-level=0"]
        planted = ["cargo", "test", *quick, "--workspace", "--features", "boxoffice-core/planted", "--test", "rules", "planted"]
        # Warnings are looked for in the output. With -Dwarnings in CLIPPY_ARGS, which the compiler tracks, cargo would build the whole
        # workspace anew for the next phase.
        check("planted bugs", [*LOWEST_PRIORITY, *planted], env={"BOXOFFICE_BUGS": "3"}, may_warn=False)
    with Phase("examples of the documentation"):
        check("examples of the documentation", [*LOWEST_PRIORITY, "cargo", "test", "--workspace", "--doc"])
    window()


def window():
    """Builds the program outside the workspace, and sells tickets with it at a node."""
    # Not optimized: its packages have other features than those of the workspace, so most are built anew, and it runs for a moment.
    profile = {"CARGO_PROFILE_DEV_OPT_LEVEL": "0", "CARGO_PROFILE_DEV_DEBUG": "false", "CARGO_PROFILE_DEV_LTO": "off"}
    environment = {**profile, "CARGO_TARGET_DIR": str(TARGET)}
    build = [*LOWEST_PRIORITY, "cargo", "build", *WINDOW_PACKAGE, "--locked"]
    with Phase("build of the program outside the workspace"):
        if not check("build of the program outside the workspace", build, env=environment):
            return
    with tempfile.TemporaryDirectory() as data:
        serve = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", data]
        with subprocess.Popen(serve, cwd=data, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as node:
            try:
                operators = re.search(r"operators on http://([^,]+),", node.stdout.readline())[1]
                check("program outside the workspace", [TARGET / "debug" / "box-office-window", operators])
            finally:
                node.terminate()


def installed():
    """Installs the packages that the tests of the API and of the page need."""
    with Phase("packages of the API's and the page's tests"):
        check("packages of the API's tests", [ROOT / "tests/api/run", "--install"])
        check("packages of the page's tests", [ROOT / "tests/page/run", "--install"])


def begin(call, *arguments):
    """Calls `call` in a thread. Its failure fails the whole run."""

    def guarded():
        try:
            call(*arguments)
        except BaseException as error:
            REPORT.fail(f"{call.__name__}: {error!r}")
            raise

    # Ctrl-C ends the program while threads still run.
    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    return thread


RELEASES = ROOT / "tests/releases"


def released():
    """The program of the newest release, built from history. None, with the reason in words, if its commit is not here."""
    names = [path.name for path in RELEASES.iterdir() if (path / "commit").exists()]
    newest = max(names, key=lambda name: [int(number) for number in name.split(".")], default=None)
    if newest is None:
        return None, "no release has a file `commit` with its hash"
    commit = (RELEASES / newest / "commit").read_text().strip()
    if run(["git", "cat-file", "-e", f"{commit}^{{commit}}"]).code != 0:
        return None, f"commit {commit} of release {newest} is not in this clone: fetch the whole history"
    tree = TARGET / "releases" / newest
    if not tree.exists():
        made = run(["git", "worktree", "add", "--detach", str(tree), commit])
        if made.code != 0:
            return None, made.output
    built = run(["cargo", "build", "-q", "--target-dir", str(tree / "target"), "-p", "boxoffice"], tree)
    return (tree / "target/debug/boxoffice", None) if built.code == 0 else (None, built.output)


def long():
    """Runs the checks that take too long to gate a merge."""
    cargo = ["cargo", "test", "--quiet"]
    # Random tests make this many times more runs.
    os.environ["BOXOFFICE_RANDOM"] = "10"
    with Phase("random tests"):
        for package, targets in [("env", ["--lib"]), ("core", ["--lib", "--test", "rules"]), ("shard", ["--lib"]), ("wire", ["--lib"])]:
            check(f"random tests of {package}", [*cargo, "-p", f"boxoffice-{package}", *targets])
    with Phase("clippy"):
        # The gate lints neither the code of planted bugs nor the clients of other stores.
        features = ["--features", "boxoffice-sim/planted,boxoffice-bench/peers,boxoffice-bench/allocations"]
        clippy = ["cargo", "clippy", "--quiet", "--workspace", "--all-targets", *features, "--", "-D", "warnings"]
        check("clippy", clippy)
    with Phase("planted bugs"):
        check("planted bugs of the rules", [*cargo, "-p", "boxoffice-core", "--features", "planted", "--test", "rules", "planted"])
        check("planted bugs of the store", [*cargo, "-p", "boxoffice-env", "--features", "planted", "--lib", "planted"])
        check("planted bugs", [*cargo, "-p", "boxoffice-sim", "--features", "planted", "--test", "planted"])
    with Phase("long faults of clusters"):
        program, why = released()
        if program is None:
            REPORT.say(f"── the released program: {why}")
            REPORT.fail("the released program")
        of_release = {"BOXOFFICE_RELEASED": str(program)} if program else {}
        command = [*cargo, "-p", "boxoffice", "--test", "cluster", "--", "--ignored"]
        check("long faults of clusters", command if program else [*command, "--skip", "released"], env=of_release)
    with Phase("slow seeds"):
        check("slow seeds", [*cargo, "-p", "boxoffice-sim", "--test", "seeds", "--", "--ignored"])
    with Phase("simulation"):
        program = ["cargo", "run", "--release", "--quiet", "--bin", "boxoffice", "--"]
        check("simulation", [*program, "sim", "--seeds", "1000"])
    with Phase("nemesis"):
        check("nemesis", [*cargo, "-p", "boxoffice", "--test", "nemesis", "--", "--minutes", "30"])


def main():
    begun = time.monotonic()
    if sys.argv[1:] == ["long"]:
        long()
        sys.exit(REPORT.end(time.monotonic() - begun))
    if sys.argv[1:]:
        sys.exit("usage: tests/run [-k NAME | long]")
    formatted()
    packages()
    lint_while_compiling()
    installing = begin(installed)
    executables = build()
    installing.join()
    if executables is not None:
        building = begin(other_builds)
        tests(executables)
        with Phase("page"):
            check("page", [ROOT / "tests/page/run", PROGRAM])
        building.join()
    sys.exit(REPORT.end(time.monotonic() - begun))


if __name__ == "__main__":
    main()
