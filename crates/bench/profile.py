#!/usr/bin/env python3
"""Where the processor time of a purchase goes, part by part.

    crates/bench/profile.py record PROGRAM PEERS [--nodes 3] [--clients N] [--connections N] [--flows N]
    crates/bench/profile.py draw BEFORE AFTER

`record` starts PEERS (the bench `peers`) with nodes of PROGRAM, samples them with `perf`, and prints the microseconds of each part as
JSON. `draw` prints two of them as a table for docs/internals/performance.md. Both programs must be built with frame pointers:

    RUSTFLAGS=-Cforce-frame-pointers=yes cargo build --release -p boxoffice -p boxoffice-bench --bin boxoffice --bin peers \\
        --features boxoffice-bench/peers --target-dir target/profile
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# Samples a second of each processor, and seconds that are sampled.
HERTZ = 1_999
SECONDS = 6
# Characters of the longest bar.
BAR_MAX = 30

# Decided by the innermost function: (part, pattern).
INNERMOST = (
    ("memory: allocating and freeing", r"^_?mi_|^(malloc|calloc|realloc|free)$"),
    ("memory: copies and comparisons", r"^_*(memmove|memcpy|memcmp|memset|bcmp)"),
)

# Decided by any function of the kernel: (part, pattern). The first that fits counts.
KERNEL = (
    ("kernel: files and syncs", r"fdatasync|fsync|pwrite|ksys_write|vfs_write|fallocate|ext4|statfs|jbd2"),
    ("kernel: sockets", r"sendto|recvfrom|sendmsg|recvmsg|tcp_|epoll|inet_|sock_|net_rx_action|writev"),
    ("kernel: waits and wake-ups of threads", r"futex|schedule|nanosleep|try_to_wake_up|eventfd|finish_task_switch"),
    ("kernel: other", r""),
)

# Decided by the innermost function of a crate: (part, pattern). Modules that are crates now are named as they were in `node`, for
# comparisons with older commits.
CRATES = (
    ("kept state: maps", r"boxoffice_core::(shared_map|state_map|id)::|collections::btree|hashbrown::"),
    ("encoding for the log", r"postcard::|boxoffice_core::packing|boxoffice_storage::codec|boxoffice_node::codec"),
    ("history and store", r"boxoffice_storage::history|boxoffice_node::(past|history)|boxoffice_replication::history|fjall|lsm_tree"),
    ("log", r"boxoffice_storage::|boxoffice_node::log"),
    ("connections and protocol", r"boxoffice_(edge|wire|feeds)::|tungstenite|rmp|serde|bytes::|utf8|blake3|sha2"),
    ("links between nodes", r"boxoffice_links::"),
    ("raft", r"\braft\b|raft_proto|protobuf"),
    ("replication", r"boxoffice_(replication|shard)::|boxoffice_node::(driver|apply|replicat)"),
    ("actors", r"boxoffice_node::|ractor"),
    ("tokio", r"tokio|mio::|futures"),
)
# Rules run twice: an actor decides, and the replication applies.
RULES = re.compile(r"boxoffice_core::")
APPLY = re.compile(r"boxoffice_(replication|shard)::|boxoffice_node::(driver|apply|replicat)")


def part_of(functions):
    """The part of a sample: its functions, innermost first, each with whether it is the kernel's."""
    name, in_kernel = functions[0]
    if in_kernel:
        for part, pattern in KERNEL:
            if any(kernel and re.search(pattern, function) for function, kernel in functions):
                return part
    for part, pattern in INNERMOST:
        if re.search(pattern, name):
            return part
    for at, (function, _) in enumerate(functions):
        for part, pattern in CRATES:
            if re.search(pattern, function):
                return part
        if RULES.search(function):
            is_applied = any(APPLY.search(outer) for outer, _ in functions[at:])
            return "rules: applying" if is_applied else "rules: deciding"
    return "other"


def samples(script):
    """The functions of each sample of `perf script`."""
    for sample in script.split("\n\n"):
        functions = []
        for line in sample.splitlines()[1:]:
            found = re.match(r"\s*([0-9a-f]+) (.*)", line)
            if found:
                functions.append((found[2], len(found[1]) == 16 and found[1].startswith("ffff")))
        if functions:
            yield functions


def children(pid):
    """All processes below one."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [child, *children(child)]
    return found


def record(args):
    peers = [args.peers, "--boxoffice", args.program, "--only", "boxoffice", "--rounds", "1", "--nodes", args.nodes]
    peers += ["--clients", args.clients, "--connections", args.connections, "--flows", args.flows]
    with tempfile.TemporaryDirectory() as directory:
        bench = subprocess.Popen(peers, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            # The set-up before costs the nodes time as well.
            while " begins, " not in (line := bench.stderr.readline()):
                if not line:
                    sys.exit(f"{args.peers} ended before it sold anything")
            data = f"{directory}/perf.data"
            command = ["perf", "record", "-F", str(HERTZ), "--call-graph", "fp", "-o", data]
            command += ["-p", ",".join(children(bench.pid)), "--", "sleep", str(SECONDS)]
            begun = time.monotonic()
            sampled = subprocess.run(command, capture_output=True, text=True)
            if sampled.returncode != 0:
                sys.exit(f"perf failed:\n{sampled.stderr}")
            sampled_seconds = time.monotonic() - begun
            report, _ = bench.communicate()
        finally:
            bench.terminate()
        script = ["perf", "script", "-i", data, "--no-inline", "-F", "comm,ip,sym"]
        script = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    row = re.search(rf"^ *{args.clients} +{args.connections} +Boxoffice .*? +(\d+)(?: +\d+-\d+)? +\S+ +\S+ +(\d+)", report, re.M)
    if not row:
        sys.exit(f"{args.peers} failed:\n{report}")
    if int(args.flows) < int(row[1]) * sampled_seconds:
        sys.exit(f"the round ended before the samples: --flows {args.flows} are too few")
    counts = collections.Counter(part_of(functions) for functions in samples(script))
    a_sample = int(row[2]) / counts.total()
    parts = {part: round(count * a_sample, 1) for part, count in counts.most_common()}
    print(json.dumps({"purchases_per_second": int(row[1]), "us": int(row[2]), "parts": parts}, indent=1))


def draw(args):
    before, after = (json.loads(pathlib.Path(file).read_text()) for file in (args.before, args.after))
    parts = sorted({*before["parts"], *after["parts"]}, key=lambda part: -before["parts"].get(part, 0))
    a_character = max(*before["parts"].values(), *after["parts"].values()) / BAR_MAX
    print("| part | before | after | drawn |\n|---|---|---|---|")
    for part in parts:
        us = [table["parts"].get(part, 0) for table in (before, after)]
        bars = [character * round(time_us / a_character) for character, time_us in zip("░█", us)]
        print(f"| {part} | {us[0]:.0f} | {us[1]:.0f} | {'<br>'.join(bars)} |")
    print(f"| all | {before['us']} | {after['us']} | |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("program")
    recording.add_argument("peers")
    for option, default in (("--nodes", "1"), ("--clients", "256"), ("--connections", "4"), ("--flows", "120000")):
        recording.add_argument(option, default=default)
    recording.set_defaults(run=record)
    drawing = commands.add_parser("draw")
    drawing.add_argument("before")
    drawing.add_argument("after")
    drawing.set_defaults(run=draw)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
