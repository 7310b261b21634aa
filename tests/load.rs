//! Every shipped scenario, scaled down, against a node of its own. Everything is really sold and audited.

use std::process::Command;

/// Runs a scenario with these settings. The verdict must be "passed".
#[track_caller]
fn passes(scenario: &str, settings: &[&str]) -> serde_json::Value {
    passes_with(scenario, &[], settings)
}

/// The same with more arguments.
#[track_caller]
fn passes_with(scenario: &str, more: &[&str], settings: &[&str]) -> serde_json::Value {
    let out = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
    command.args(["load", scenario, "--quiet", "--fsync", "never", "--seed", "1", "--out"]).arg(out.path()).args(more);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let output = command.output().expect("the program runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{scenario} ({:?}):\n{stdout}\n{stderr}", output.status.code());
    let page = std::fs::read_to_string(out.path().join("report.html")).expect("a page");
    assert!(page.contains("Every promise holds"), "{scenario}: {page}");
    let text = std::fs::read(out.path().join("report.json")).expect("a report");
    serde_json::from_slice(&text).expect("a report is JSON")
}

#[test]
fn the_seed_cart_and_the_hot_one() {
    let small =
        ["open_loop.flows=25", "shop.stock=1000", "expect.done=100", "expect.units_sold=500", "expect.total=500000"];
    let report = passes("seed-cart", &[&small[..], &["shop.products=20", "expect.units_left=19500"]].concat());
    assert_eq!(report["steps"]["cart.hold_stock"]["seed"]["count"], 500);
    passes("seed-cart-hot", &[&small[..], &["expect.units_left=500"]].concat());
}

#[test]
fn the_closed_cart() {
    passes(
        "closed-cart",
        &[
            "closed_loop.clients=8",
            "closed_loop.flows=100",
            "shop.products=20",
            "expect.done=100",
            "expect.units_sold=500",
            "expect.units_left=19999500",
            "expect.total=500000",
        ],
    );
}

#[test]
fn places_through_a_faulty_gateway() {
    let report = passes(
        "ga-olympics",
        &[
            "open_loop.flows=200",
            "arena.sessions=2",
            "arena.capacity=100",
            "customers=20",
            "gateway.delay_ms=5",
            "gateway.decline_percent=20",
        ],
    );
    assert!(report["flows"]["refused"]["payment_declined"].as_u64() > Some(5), "{}", report["flows"]);
    let findings = &report["audit"]["findings"];
    assert_eq!(findings["purchases"], report["flows"]["done"]);
    assert!(
        findings["charges"].as_u64() > findings["purchases"].as_u64(),
        "declined charges are listed too: {findings}"
    );
}

#[test]
fn bookings_are_what_the_answers_said() {
    let report = passes(
        "calendar-rush",
        &[
            "closed_loop.clients=20",
            "closed_loop.flows=600",
            "calendar.resources=3",
            "rush.wanters=20",
            "rush.wanted=6",
            "connect.connections=2",
        ],
    );
    assert!(report["flows"]["refused"]["slot_taken"].as_u64() >= Some(6 * 19), "{}", report["flows"]);
    assert!(report["audit"]["findings"]["bookings"].as_u64() > Some(5), "{}", report["audit"]["findings"]);
}

#[test]
fn overload_is_shed_and_loses_nothing() {
    let report = passes(
        "overload",
        &[
            "house.venues=2",
            "house.sessions=500",
            "overload.clients=64",
            "overload.capacity_ms=1000",
            "overload.percents=[600]",
            "overload.obeying=[600]",
            "overload.phase_ms=3000",
            "overload.settle_ms=1000",
            "overload.redraws=0",
            "overload.generators=1",
            "overload.recovery_ms=2000",
            "overload.connections=16",
            "overload.judged=false",
        ],
    );
    let overload = &report["overload"];
    let phases = overload["phases"].as_array().expect("there are phases");
    let sum = |of: &str| phases.iter().filter_map(|phase| phase[of].as_u64()).sum::<u64>();
    assert!(sum("refused") > 0, "six times the capacity must be refused in part: {overload}");
    assert_eq!(sum("checkouts_refused"), 0, "a buyer with a seat buys it: {overload}");
    assert_eq!((sum("unknown"), &overload["left_holding"]), (0, &0.into()), "{overload}");
    let obeying = phases.iter().find(|phase| phase["obeys"] == true).expect("a phase with obeying buyers");
    for figure in ["capacity_before", "capacity_after", "idle", "granted", "not_bought"] {
        assert!(obeying[figure].is_number(), "{figure}: {obeying}");
    }
    assert!(obeying["age"]["p50"].as_f64() <= obeying["age"]["p99"].as_f64(), "{obeying}");
    assert_eq!(report["audit"]["findings"]["seats_held"], 0, "no seat stays held: {}", report["audit"]["findings"]);
    assert_eq!(overload["ready"]["not_ready"], 0, "{overload}");
}

/// The page watches its cart. A feed of each purchase would soon be more than one connection may have. Two generators share the
/// seats, and other processes take the node's processors.
#[test]
fn purchases_of_the_page_are_bought_under_overload() {
    let report = passes(
        "overload",
        &[
            "house.venues=2",
            "house.sessions=1000",
            "overload.clients=64",
            "overload.capacity_ms=1000",
            "overload.percents=[]",
            "overload.obeying=[100]",
            "overload.crowded=[100]",
            "overload.phase_ms=3000",
            "overload.settle_ms=1000",
            "overload.recovery_ms=1000",
            "overload.connections=4",
            // A phase that is drawn anew sets the second generator to work if it is behind.
            "overload.redraws=1",
            "overload.watches=true",
            "overload.judged=false",
        ],
    );
    let overload = &report["overload"];
    let phases = overload["phases"].as_array().expect("there are phases");
    let is_crowded = |phase: &&serde_json::Value| phase["crowded"] == true;
    assert!(phases.iter().filter(is_crowded).count() >= 2, "clients of both kinds: {overload}");
    assert!(phases.iter().all(|phase| phase["other"] == serde_json::json!({})), "{overload}");
    assert_eq!(overload["left_holding"], 0, "{overload}");
}

#[test]
fn an_expiry_storm_passes_while_others_buy() {
    let report = passes(
        "expiry-storm",
        &[
            "storm.carts=300",
            "storm.products=3",
            "storm.lead_ms=5000",
            "storm.window_ms=1000",
            "storm.before_ms=500",
            "open_loop.flows=200",
            "open_loop.gap_us=10000",
            "shop.products=10",
            "connect.connections=2",
        ],
    );
    assert_eq!((&report["storm"]["carts"], &report["storm"]["left"]), (&300.into(), &0.into()));
    assert_eq!(report["storm"]["late"]["seed"]["count"], 300);
}

#[test]
fn everything_at_once() {
    let report =
        passes("mixed", &["open_loop.flows=600", "open_loop.gap_us=2000", "house.venues=2", "house.sessions=2"]);
    for op in ["cart.hold_seats", "cart.hold_stock", "cart.hold_places", "cart.hold_slot", "resource.reserve"] {
        assert!(report["steps"][op]["seed"]["count"].as_u64() > Some(10), "{op}: {}", report["steps"]);
    }
}

#[test]
fn a_house_sells_out_although_many_buyers_leave() {
    let report = passes(
        "n0",
        &[
            "house.venues=1",
            "house.sessions=2",
            "house.hold_ttl_ms=300",
            "flow.again_ms=600",
            "closed_loop.clients=16",
            "expect.seats_sold=400",
            "expect.total=400000",
        ],
    );
    assert!(report["flows"]["abandoned"].as_u64() > Some(30), "{}", report["flows"]);
}

#[test]
fn many_sessions_report_their_memory() {
    let report = passes(
        "resident",
        &[
            "house.venues=5",
            "house.sessions=10",
            "closed_loop.clients=4",
            "closed_loop.flows=20",
            "expect.done=20",
            "expect.seats_sold=40",
        ],
    );
    assert!(report["memory"]["set_up"].as_u64() > Some(1_000_000), "{}", report["memory"]);
}

/// Clients and nodes encrypt, with a certificate that is made for the run.
#[test]
fn a_cluster_sells_over_tls() {
    for (nodes, connections) in [("1", 1), ("3", 3)] {
        let report = passes_with(
            "n1",
            &["--nodes", nodes, "--tls"],
            &["house.venues=10", "open_loop.flows=100", "open_loop.gap_us=10000", "reads.per_second=20"],
        );
        assert_eq!(report["server"]["nodes"].as_array().map(Vec::len), Some(connections), "{}", report["server"]);
    }
}

/// The nation's peak, scaled down: 100 carts a second on a cluster of its own. One node is killed and restarted while a fourth
/// one joins. Every node is audited and compared with the clients' record.
#[test]
fn a_cluster_sells_while_a_node_is_killed_and_another_joins() {
    let report = passes_with(
        "n1",
        &["--nodes", "3", "--kill-at", "1", "--add-at", "1.5"],
        &[
            "house.venues=10",
            "open_loop.flows=800",
            "open_loop.gap_us=10000",
            "reads.per_second=100",
            "connect.connections=3",
            "faults.restart_after_ms=2000",
        ],
    );
    assert_eq!(
        (&report["server"]["replicas"], report["server"]["nodes"].as_array().map(Vec::len)),
        (&3.into(), Some(3))
    );
    assert_eq!(report["audit"]["nodes"].as_array().map(Vec::len), Some(4), "{}", report["audit"]);
    let outages = &report["outages"];
    assert!(outages["added"]["votes"].as_u64() > Some(0), "{outages}");
    let kill = &outages["kills"][0];
    assert!(kill["led_next"]["count"].as_u64() == kill["led"].as_u64() && kill["led"].as_u64() > Some(0), "{kill}");
    assert!(kill["caught_up_ms"].as_f64() > kill["up_ms"].as_f64(), "{kill}");
    assert!(
        outages["repeats"]["connection lost"].as_u64().is_some()
            || outages["repeats"]["no connection"].as_u64().is_some()
    );
    let reads = &report["reads"];
    assert!(reads["done"].as_u64() > Some(500), "{reads}");
    assert!(report["flows"]["refused"]["seats_taken"].as_u64() > Some(30), "{}", report["flows"]);
}

#[test]
fn nodes_are_killed_one_after_the_other() {
    let settings = [
        "house.venues=20",
        "open_loop.gap_us=10000",
        "reads.per_second=20",
        "connect.connections=3",
        "faults.pause_ms=500",
    ];
    let report = passes_with("n1", &["--nodes", "3", "--kills", "2"], &settings);
    let outages = &report["outages"];
    assert_eq!(outages["kills"].as_array().map(Vec::len), Some(2), "{outages}");
    let shards = outages["shards"].as_u64().expect("a number") * 2;
    let counted = |which: &str| outages[which]["count"].as_u64().unwrap_or(0);
    assert_eq!(counted("led_gap") + counted("others_gap"), shards, "{outages}");
    let flows = &report["flows"];
    assert!(flows["offered"].as_u64() > Some(100), "flows must last until the last kill is over: {flows}");
}

/// A session with many buyers and many watchers: all is sold, and every watcher's map equals the server's in the end.
#[test]
fn every_watcher_sees_a_rush() {
    let report = passes(
        "n4",
        &[
            "house.rows=5",
            "house.seats=10",
            "open_loop.flows=800",
            "watchers.count=200",
            "connect.connections=4",
            "expect.done=50",
            "expect.seats_sold=50",
            "expect.total=50000",
        ],
    );
    let watchers = &report["watchers"];
    assert_eq!((&watchers["same"], &watchers["different"]), (&200.into(), &0.into()), "{watchers}");
    assert!(watchers["deltas"].as_u64() > Some(200), "{watchers}");
    for lag in ["from_request", "from_answer"] {
        assert_eq!(watchers[lag]["count"], 200 * 50, "every watcher sees every hold: {watchers}");
    }
}

/// Watchers of a killed node resume at another one.
#[test]
fn watchers_outlive_their_node() {
    let report = passes_with(
        "watchers",
        &["--nodes", "3", "--kill-at", "1"],
        &[
            "house.sessions=3",
            "open_loop.flows=300",
            "open_loop.gap_us=10000",
            "watchers.count=90",
            "watchers.sessions=3",
            "faults.restart_after_ms=500",
            "expect.done=300",
            "expect.seats_sold=300",
            "expect.total=300000",
        ],
    );
    let watchers = &report["watchers"];
    assert_eq!((&watchers["same"], &watchers["skipped"]), (&90.into(), &0.into()), "{watchers}");
    assert!(watchers["lost"].as_u64() >= Some(30), "{watchers}");
}

/// Watchers that read 5 kB a second of a feed that wants more are not cut, and their commands are decided at once.
#[test]
fn slow_watchers_are_not_cut() {
    let report = passes(
        "slow-watchers",
        &[
            "open_loop.flows=2000",
            "open_loop.gap_us=12000",
            "watchers.count=60",
            "watchers.slow=40",
            // A machine on which other tests run may need so long.
            "watchers.decided_ms=30000",
            "connect.connections=4",
            "expect.done=2000",
            "expect.seats_sold=20000",
            "expect.total=20000000",
        ],
    );
    let watchers = &report["watchers"];
    assert_eq!((&watchers["same"], &watchers["slow_lost"]), (&60.into(), &0.into()), "{watchers}");
    assert!(watchers["slow_commands"].as_u64() >= Some(40), "{watchers}");
}

/// Six minutes of hoarders, in half a minute. What they hold at minute 5 is judged, and who buys beside them.
#[test]
fn a_hoarded_house_sells_to_others() {
    let report = passes("hoarders", &["hoarders.minutes=6", "hoarders.speed=12", "hoarders.pause_ms=100"]);
    let hoarders = &report["hoarders"];
    let minutes = hoarders["minutes"].as_array().expect("there are minutes");
    let most = minutes.iter().filter_map(|minute| minute["seats"].as_u64()).max();
    assert!(minutes.len() == 6 && most > Some(100), "hoarders take what they may: {hoarders}");
    assert!(hoarders["refused"]["share_reached"].as_u64() > Some(100), "{hoarders}");
    assert_eq!(hoarders["windows"][0]["came"], 60, "{hoarders}");
}

/// A family's carts live for fifteen minutes of the shipped configuration, and a key has no share.
#[test]
fn a_family_and_a_school_are_not_refused() {
    let fast = ["hoarders.minutes=16", "hoarders.speed=20"];
    let report = passes("hoarders", &[&fast[..], &["hoarders.run=family"]].concat());
    assert_eq!(report["hoarders"]["others"]["bought"], 4, "{}", report["hoarders"]);
    let fast = ["hoarders.minutes=4", "hoarders.speed=12"];
    let report = passes("hoarders", &[&fast[..], &["hoarders.run=school"]].concat());
    assert!(report["hoarders"]["told"][0].as_str().is_some_and(|told| told.contains("held 500 seats")), "{report}");
}

/// The settings of an on-sale of 300 codes, which takes a few seconds.
const SMALL_ON_SALE: [&str; 13] = [
    "onsale.codes=300",
    "onsale.early=100",
    "onsale.public=300",
    "onsale.clients=16",
    "onsale.lead_ms=1000",
    "onsale.race_percent=10",
    "onsale.late_percent=10",
    "onsale.cancel_percent=20",
    "onsale.under26_max=30",
    "onsale.allotment_rows=2",
    "house.venues=2",
    "house.rows=20",
    "house.seats=40",
];

/// Members with codes, an opening that buyers wait for, a pool that ends, and allotments that are released by their time and by the desk.
#[test]
fn an_on_sale_sells_what_its_buyers_were_told() {
    let report = passes("onsale", &SMALL_ON_SALE);
    let (onsale, flows) = (&report["onsale"], &report["flows"]);
    assert_eq!(
        (&onsale["used_up"], &onsale["with_code"], &onsale["released"]),
        (&300.into(), &600.into(), &160.into())
    );
    assert_eq!(onsale["under26"], serde_json::json!([60, 60]), "the pools end: {onsale}");
    for refusal in ["code_not_valid", "price_sold_out", "seats_taken"] {
        assert!(flows["refused"][refusal].as_u64() > Some(5), "{refusal}: {flows}");
    }
    let phases = onsale["phases"].as_array().expect("there are phases");
    let early: Vec<Option<u64>> = phases.iter().map(|phase| phase["too_early"].as_u64()).collect();
    assert!(phases.len() == 3 && early[0] == Some(0) && early[1] >= Some(100) && early[2] > Some(0), "{onsale}");
    assert_eq!((&onsale["tickets"], &onsale["total"]), (&flows["seats_sold"], &flows["total"]));
}

/// Bugs that are planted in the node make the run fail, each with a sentence. Only a debug build has them.
#[cfg(debug_assertions)]
#[test]
fn planted_bugs_of_an_on_sale_are_found() {
    for (bug, sentence) in [
        ("a use that counts at the sale", "a code has more uses than it may, "),
        ("an offer that opens early", "a ticket was sold to everybody before the opening, "),
        ("a counter that is not given back", "the pool counts another number than was sold of it"),
        ("a guest gets seats of an allotment", "a seat of an allotment was granted before its release, "),
    ] {
        let out = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
        command.args(["load", "onsale", "--quiet", "--fsync", "never", "--seed", "1", "--out"]).arg(out.path());
        for setting in SMALL_ON_SALE.iter().chain(&["audit.settle_ms=1000"]) {
            command.args(["--set", setting]);
        }
        let output = command.env("BOXOFFICE_PLANTED_CORE", bug).output().expect("the program runs");
        let table = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && table.contains("FAILED: "), "{bug}: {table}");
        assert!(table.lines().any(|line| line.trim_start().starts_with(sentence)), "{bug}: {table}");
        let page = std::fs::read_to_string(out.path().join("report.html")).expect("a page");
        assert!(page.contains(sentence) && !page.contains("Every promise holds"), "{bug}");
    }
}

/// A run is compared with one of the same scenario only, and fails if it is worse by more than allowed.
#[test]
fn a_baseline_of_another_scenario_is_refused() {
    let out = tempfile::tempdir().expect("a temporary directory");
    let small = ["open_loop.flows=5", "shop.products=5", "shop.stock=1000", "expect.done=20", "expect.units_sold=100"];
    let run = |scenario: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
        command
            .args(["load", scenario, "--quiet", "--fsync", "never", "--seed", "1", "--out"])
            .arg(out.path())
            .args(more);
        for setting in small.iter().chain(&["expect.units_left=4900", "expect.total=100000"]) {
            command.args(["--set", setting]);
        }
        let output = command.output().expect("the program runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) = run("seed-cart", &[]);
    assert_eq!(code, Some(0), "{text}");
    let report = out.path().join("report.json");
    let baseline = out.path().join("baseline.json");
    std::fs::copy(&report, &baseline).expect("a copy");
    let baseline = baseline.display().to_string();
    let (code, text) = run("seed-cart", &["--baseline", &baseline, "--worse-max", "100000"]);
    assert_eq!(code, Some(0), "{text}");
    // The same report as if it had been a thousand times quicker.
    let mut quicker: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    for figure in ["p50", "p99"] {
        quicker["done"]["intended"]["percentiles"][figure] = 0.001.into();
    }
    std::fs::write(&baseline, quicker.to_string()).expect("written");
    let (code, text) = run("seed-cart", &["--baseline", &baseline, "--worse-max", "20"]);
    assert!(code == Some(1) && text.contains("p99 ms") && text.contains("20 % are allowed"), "{text}");
    let (code, text) = run("seed-cart-hot", &["--baseline", &baseline]);
    assert!(code == Some(2) && text.contains("the baseline is a run of seed-cart"), "{text}");
}
