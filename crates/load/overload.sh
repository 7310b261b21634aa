#!/usr/bin/env bash
# Measures how a node behaves under overload, and judges the medians of several rounds. A round is two runs of the scenario
# `overload`, each against a new node: with purchases of two requests, and with the page's three. The node has one core, the load
# the others. Nothing else should run on the machine. Five rounds take about two hours. `--continue` keeps the runs that DIR has.
#
#     crates/load/overload.sh                        # five rounds, all phases of 20 s
#     crates/load/overload.sh --rounds 1 --short     # to see that it works: a few minutes, and no verdict
#     crates/load/overload.sh --continue             # five rounds, of which DIR may have some
#     crates/load/overload.sh --node-cores 0 --load-cores 1,2 --out /tmp/overload
#
# More arguments after `--` go to each run, such as `-- --set overload.percents=[300]`. The last line says whether every promise
# was kept, and DIR/last/report.html has all figures.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=5 short= continue= node_cores=0 load_cores=1 out=target/overload program=
while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=$2; shift 2 ;;
        --short) short=1; shift ;;
        --continue) continue=1; shift ;;
        --node-cores) node_cores=$2; shift 2 ;;
        --load-cores) load_cores=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        --program) program=$2; shift 2 ;;
        --) shift; break ;;
        *) sed -n '2,13p' "$0" >&2; exit 2 ;;
    esac
done
if [ -z "$program" ]; then
    cargo build --release -p boxoffice --bin boxoffice
    program=target/release/boxoffice
fi

[ -n "$continue" ] || rm -rf "$out"
mkdir -p "$out"
export BOXOFFICE_ADMIN_TOKEN_FILE=$out/token
"$program" admin token > "$out/token"
node=
stop() {
    if [ -n "$node" ]; then
        kill "$node" 2> /dev/null || true
        wait "$node" 2> /dev/null || true
        node=
    fi
}
trap stop EXIT

settings=(--set 'overload.crowded=[200,300]')
if [ -n "$short" ]; then
    settings=(
        --set 'overload.crowded=[200]' --set 'overload.percents=[80,300]' --set 'overload.obeying=[200]'
        --set overload.phase_ms=3000 --set overload.settle_ms=2000 --set overload.recovery_ms=2000
        --set overload.capacity_ms=2000 --set overload.redraws=0 --set overload.judged=false --set house.sessions=100
    )
fi

reports=()
failed=0
for round in $(seq "$rounds"); do
    for watches in false true; do
        name=$round-$([ "$watches" = true ] && echo three || echo two)
        [ "$round" = "$rounds" ] && [ "$watches" = true ] && name=last
        if [ "$name" != last ] && [ -f "$out/$name/report.json" ]; then
            reports+=("\"$out/$name/report.json\"")
            continue
        fi
        rm -rf "$out/data"
        address=127.0.0.1:7411
        taskset -c "$node_cores" "$program" serve --config config/open.toml --listen $address \
            --data-dir "$out/data" > "$out/$name.log" 2>&1 &
        node=$!
        for _ in $(seq 100); do
            curl -sf "http://$address/readyz" > /dev/null && break
            sleep 0.1
        done
        # Only the last run has all rounds and judges.
        judged=(--set overload.judged=false)
        [ "$name" = last ] && judged=()
        earlier=$(IFS=,; echo "[${reports[*]}]")
        result=0
        taskset -c "$load_cores" "$program" load overload --address $address --quiet --out "$out/$name" \
            "${settings[@]}" "${judged[@]}" --set "overload.watches=$watches" --set "overload.earlier=$earlier" "$@" || result=$?
        [ "$result" = 0 ] || failed=$result
        [ -f "$out/$name/report.json" ] || exit "$result"
        reports+=("\"$out/$name/report.json\"")
        stop
        rm -rf "$out/data"
    done
done
[ "$failed" = 0 ] && echo "overload: every promise of every run was kept" || echo "overload: at least one run failed"
exit "$failed"
