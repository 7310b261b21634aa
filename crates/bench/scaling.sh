#!/usr/bin/env bash
# How replication scales, on a machine with few cores: bench `node` with 1, 2 and 4 replicators, each of which gets only a part of
# a core, by control groups, so that it is what sets the pace. Needs root. Arguments: percent of a core (10), seconds a run (8),
# clients (1024).
set -euo pipefail
cd "$(dirname "$0")/../.."
percent=${1:-10} seconds=${2:-8} clients=${3:-1024}
period_us=10000
if [ -d /sys/fs/cgroup/cpu ]; then groups=/sys/fs/cgroup/cpu; else groups=/sys/fs/cgroup; fi
made=()
clean() {
    for group in "${made[@]}"; do rmdir "$group" 2>/dev/null || true; done
}
trap clean EXIT

# A group for one thread.
limit() {
    local process=$1 thread=$2 group
    if [ "$groups" = /sys/fs/cgroup ]; then
        # A group of threads is below that of their process.
        local above=$groups/boxoffice-scaling-$process
        if [ ! -d "$above" ]; then
            mkdir "$above" && made=("$above" "${made[@]}")
            echo "$process" > "$above/cgroup.procs"
            echo +cpu > "$above/cgroup.subtree_control" 2>/dev/null || true
        fi
        group=$above/$thread
        mkdir "$group" && made=("$group" "${made[@]}")
        echo threaded > "$group/cgroup.type"
        echo "$((period_us * percent / 100)) $period_us" > "$group/cpu.max"
        echo "$thread" > "$group/cgroup.threads"
    else
        group=$groups/boxoffice-scaling-$thread
        mkdir "$group" && made=("$group" "${made[@]}")
        echo $period_us > "$group/cpu.cfs_period_us"
        echo $((period_us * percent / 100)) > "$group/cpu.cfs_quota_us"
        echo "$thread" > "$group/tasks"
    fi
}

cargo build --release -p boxoffice-bench --bin node
for replicating in 1 2 4; do
    echo "replicators: $replicating, $percent % of a core each"
    target/release/node --fsync always --clients "$clients" --seconds "$seconds" --replicating $replicating &
    process=$!
    # They begin with the node, and there is time until the first row.
    found=0
    for _ in $(seq 100); do
        threads=$(grep -l '^replication' /proc/$process/task/*/comm 2>/dev/null | cut -d/ -f5 || true)
        found=$(wc -w <<< "$threads")
        [ "$found" -eq $replicating ] && break
        sleep 0.02
    done
    [ "$found" -eq $replicating ] || { echo "found $found replicators" >&2; kill $process; exit 1; }
    for thread in $threads; do limit $process "$thread"; done
    wait $process
done
