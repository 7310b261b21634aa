#!/usr/bin/env bash
# Builds the program tuned by a profile of itself at work, about a quarter faster than `dist`: target/pgo/dist/boxoffice, and
# `peers` beside it. Builds everything twice, which takes about a quarter of an hour on a quiet machine. It needs llvm-profdata of
# LLVM 19 or newer: the component llvm-tools of the toolchain or, where LLVM_PROFDATA says so or Debian has it, another one.
set -euo pipefail
cd "$(dirname "$0")/../.."
host=$(rustc -vV | sed -n 's/^host: //p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
if [ ! -x "$profdata" ]; then
    profdata=${LLVM_PROFDATA:-$(command -v llvm-profdata-19 || true)}
fi
if [ ! -x "$profdata" ]; then
    rustup component add llvm-tools
    profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
fi
profiles=$PWD/target/pgo/profiles
rm -rf "$profiles"

RUSTFLAGS="-Cprofile-generate=$profiles" cargo build --profile dist -p boxoffice --bin boxoffice --target-dir target/pgo
program=target/pgo/dist/boxoffice
# What it is tuned for: cinemas at their peak and a theatre, on three nodes and on one. The verdicts do not matter here, for
# fewer flows are offered than the scenarios expect, and a program that counts is slow.
export LLVM_PROFILE_FILE=$profiles/%m_%p.profraw
"$program" load n1 --nodes 3 --set open_loop.flows=30000 --set open_loop.gap_us=900 --set reads.per_second=3000 || true
"$program" load seed-theatre --nodes 3 --set open_loop.flows=8000 || true
"$program" load seed-theatre --set open_loop.flows=8000 || true
"$profdata" merge -o "$profiles/merged.profdata" "$profiles"/*.profraw

RUSTFLAGS="-Cprofile-use=$profiles/merged.profdata" \
    cargo build --profile dist -p boxoffice -p boxoffice-bench --bin boxoffice --bin peers --target-dir target/pgo
