#!/usr/bin/env bash
# Bench `peers` from nothing: installs the peers if they are missing, builds, compares. Arguments go to the bench.
set -euo pipefail
cd "$(dirname "$0")/../.."
crates/bench/setup-peers.sh
cargo build --profile dist -p boxoffice -p boxoffice-bench --bin boxoffice --bin peers --features boxoffice-bench/peers
exec target/dist/peers "$@"
