#!/usr/bin/env bash
# Builds the program tuned by profiles of itself at work: target/pgo/dist/boxoffice, with `peers` beside it. The first profile tells
# the compiler what to inline (PGO). The second one tells BOLT where to put each piece of code, so that what runs lies together.
# Builds everything twice: about 20 minutes on a quiet machine with 2 cores.
#
# It needs llvm-profdata and llvm-bolt of LLVM 19 or newer. Where Debian has them, it installs them.
set -euo pipefail
cd "$(dirname "$0")/../.."

need() { # command, Debian package
    command -v "$1" >/dev/null 2>&1 && return
    echo "installing $2" >&2
    if [ "$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq "$2" >&2; else
        sudo apt-get update -qq && sudo apt-get install -y -qq "$2" >&2
    fi
}
need llvm-profdata-19 llvm-19
need llvm-bolt-19 bolt-19

built=$PWD/target/pgo/dist
profiles=$PWD/target/pgo/profiles
rm -rf "$profiles"
mkdir -p "$profiles"

# Cinemas at their peak and a theatre, on three nodes and on one. The verdicts do not matter here: fewer flows are offered than the
# scenarios expect, and a program that counts is slow.
train() { # program
    "$1" load n1 --nodes 3 --set open_loop.flows=30000 --set open_loop.gap_us=900 --set reads.per_second=3000 || true
    "$1" load seed-theatre --nodes 3 --set open_loop.flows=8000 || true
    "$1" load seed-theatre --set open_loop.flows=8000 || true
}

RUSTFLAGS="-Cprofile-generate=$profiles" cargo build --profile dist -p boxoffice --bin boxoffice --target-dir target/pgo
(cd "$profiles" && LLVM_PROFILE_FILE=$profiles/%m_%p.profraw train "$built/boxoffice")
llvm-profdata-19 merge -o "$profiles/merged.profdata" "$profiles"/*.profraw

# BOLT moves functions, for which it must know each place that names one.
RUSTFLAGS="-Cprofile-use=$profiles/merged.profdata -Clink-arg=-Wl,--emit-relocs" \
    cargo build --profile dist -p boxoffice -p boxoffice-bench --bin boxoffice --bin peers --features boxoffice-bench/peers --target-dir target/pgo

# The path of the runtime is relative to the directory above that of llvm-bolt.
llvm-bolt-19 "$built/boxoffice" -instrument -o "$profiles/counting" --instrumentation-file="$profiles/layout" \
    --instrumentation-file-append-pid --runtime-instrumentation-lib=llvm-19/lib/libbolt_rt_instr.a
(cd "$profiles" && train "$profiles/counting")
merge-fdata-19 "$profiles"/layout.*.fdata >"$profiles/layout.merged"
llvm-bolt-19 "$built/boxoffice" -o "$profiles/laid-out" -data="$profiles/layout.merged" -icf=1 \
    -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions -split-all-cold -split-eh
mv "$profiles/laid-out" "$built/boxoffice"
