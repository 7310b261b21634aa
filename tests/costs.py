#!/usr/bin/env python3
"""Compares the cost of a purchase in instructions and allocations, part by part, with tests/costs.txt.

    tests/costs.py EXECUTABLE             fails on a rise of more than 3 %, and prints where
    tests/costs.py EXECUTABLE --update    writes the file again

EXECUTABLE is the test executable of boxoffice-node, built as `.ci/run` builds it:

    export RUSTC_WORKSPACE_WRAPPER="$PWD/tests/rustc" CLIPPY_DRIVER="$(rustc --print sysroot)/bin/clippy-driver"
    CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 cargo test --workspace --all-targets --no-run

The measured functions are in crates/node/src/costs.rs. valgrind counts instructions of a simulated processor, independent of the
machine's load. The build is that of the tests, which optimizes less than a release, so the counts are comparable only with each other.
Another compiler, C library or valgrind gives other counts. Then nothing is compared.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).resolve().parent / "costs.txt"
TEST = "costs::purchases_that_are_counted_are_made"
PURCHASES = 64
RISE_MAX = 0.03

# Each part is a function of crates/node/src/costs.rs, with its description.
PARTS = {
    "purchase": "all of it",
    "request": "two requests are read",
    "decide": "cart and session decide on them",
    "encode": "what happened is encoded",
    "log": "it goes through the engine",
    "apply": "the leader applies it",
    "follow": "a follower decodes and applies it",
    "answer": "two answers are encoded",
}

# Places that a part is broken down into: a crate and its module. Smaller ones are not written.
PLACES = 20

Cost = collections.namedtuple("Cost", "instructions allocations places")


def place_of(function):
    """The crate and the module of a function."""
    path = re.search(r"([A-Za-z_]\w*)::(\w+)", function)
    return f"{path[1]}::{path[2]}" if path else "C library"


def read(profile):
    """The instructions of each place."""
    names, places = {}, collections.Counter()
    function, is_of_callee = None, False

    def name(text):
        number, _, rest = text.partition(" ")
        if rest:
            names[number] = re.sub(r"'\d+$", "", rest)
        return names[number]

    for line in profile.splitlines():
        key, is_key, value = line.partition("=")
        if is_key and key == "fn":
            function = name(value)
        elif is_key and key == "cfn":
            name(value)
        elif is_key and key == "calls":
            is_of_callee = True
        elif line[:1] in "+-*0123456789" and line:
            # The line after `calls` has the cost of the callee, which is counted at the callee itself.
            if not is_of_callee:
                places[place_of(function)] += int(line.split()[1])
            is_of_callee = False
    return places


def test(command, what):
    """Runs the test. Returns its output."""
    command = [*command, "--exact", TEST, "--test-threads=1", "--nocapture"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0 or "1 passed" not in ended.stdout:
        sys.exit(f"{what} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def allocations_of(executable):
    """The number of allocations of each part."""
    printed = re.findall(r"allocations of (\w+): (\d+)", test([executable], "allocations"))
    counts = {part: int(count) / PURCHASES for part, count in printed}
    return {"purchase": sum(counts.values()), **counts}


def measure(executable, part, allocations):
    with tempfile.TemporaryDirectory() as directory:
        profile = pathlib.Path(directory) / "profile"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", "--compress-pos=no"]
        command += ["--collect-atstart=no", f"--toggle-collect=*costs*::cost_{part}*", executable]
        test(command, part)
        places = read(profile.read_text())
    if not places:
        sys.exit(f"no cost was measured for {part}: is there a function cost_{part} in crates/node/src/costs.rs?")
    places = {place: count // PURCHASES for place, count in places.items()}
    return Cost(sum(places.values()), allocations, places)


def tools():
    """The tools whose versions change the counts."""
    versions = [["rustc", "--version"], ["valgrind", "--version"], ["getconf", "GNU_LIBC_VERSION"]]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for command in versions]
    return ", ".join(outputs)


def written(costs):
    lines = [
        "What a purchase in two requests costs: instructions, allocations, and the instructions of the places that take most.",
        "Made by `tests/costs.py EXECUTABLE --update`; a rise is a decision.",
        "",
        tools(),
    ]
    for part, cost in costs.items():
        lines += ["", f"{part} {cost.instructions} {cost.allocations:.1f}  {PARTS[part]}"]
        largest = sorted(cost.places.items(), key=lambda entry: -entry[1])[:PLACES]
        lines += [f"  {place} {count}" for place, count in largest]
    return "\n".join(lines) + "\n"


def known():
    """Reads the tools and the costs from the file."""
    costs, made_by, part = {}, "", None
    for line in FILE.read_text().splitlines():
        if line.startswith("rustc "):
            made_by = line
        elif entry := re.fullmatch(r"  (\S+|C library) (\d+)", line):
            costs[part].places[entry[1]] = int(entry[2])
        elif entry := re.fullmatch(r"(\w+) (\d+) ([\d.]+)  .*", line):
            part = entry[1]
            costs[part] = Cost(int(entry[2]), float(entry[3]), {})
    return made_by, costs


def compare(part, before, now):
    """Prints a part, and the places whose cost rose. Returns whether it rose too much."""
    more = now.instructions / before.instructions - 1
    print(f"{part:9} {now.instructions:8} instructions {more:+6.1%}, {now.allocations:6.1f} allocations ({before.allocations:.1f})")
    rose = more > RISE_MAX or now.allocations > before.allocations * (1 + RISE_MAX) + 0.5
    if rose:
        # A place that is not in the file cost less than every place that is.
        least = min(before.places.values())
        changes = {place: count - before.places.get(place, least) for place, count in now.places.items()}
        for place, change in sorted(changes.items(), key=lambda entry: -entry[1])[:PLACES]:
            if change > 0:
                print(f"          {change:+8} in {place} ({before.places.get(place, f'less than {least}')} before)")
    return rose


def main():
    executable, update = sys.argv[1], sys.argv[2:] == ["--update"]
    allocations = allocations_of(executable)
    costs = {part: measure(executable, part, allocations[part]) for part in PARTS}
    if update:
        FILE.write_text(written(costs))
        print(f"{FILE} is written")
        return
    made_by, before = known()
    if made_by != tools():
        print(f"not compared: the file was made with {made_by}, this machine has {tools()}")
        return
    rose = [part for part in PARTS if compare(part, before[part], costs[part])]
    if rose:
        sys.exit(f"{', '.join(rose)} cost over {RISE_MAX:.0%} more: find the cause, or accept the new counts with --update")


if __name__ == "__main__":
    main()
