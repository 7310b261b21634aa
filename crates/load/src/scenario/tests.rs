use super::*;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse("small", "small.toml", text, &[]).map_err(|error| error.to_string())
}

const SMALL: &str = r#"about = "small"

[house]
groups = 1
venues = 2
sessions = 3
rows = 5
seats = 16
price = 1000

[flow]
seats = 5
pick = "next"

[closed_loop]
clients = 4
flows = 96
"#;

fn changed(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from:?} is not in the text");
    parse(&SMALL.replacen(from, to, 1)).expect_err("the scenario is invalid")
}

#[test]
fn built_in_scenarios_are_valid() {
    for name in names() {
        let scenario = Scenario::load(name, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, name);
    }
    let theatre = Scenario::load("seed-theatre", &[]).expect("it is built in");
    assert_eq!(theatre.offered(), 25_000);
    assert_eq!(theatre.house("r").sessions_all(), 40_000);
    assert_eq!(theatre.open_loop_schedule().map(|context| context.rate()), Some(1_000.0));
    assert_eq!(Scenario::load("closed-theatre", &[]).expect("it is built in").offered(), 200_000);
}

#[test]
fn an_unknown_key_is_refused_with_file_and_line() {
    let error = changed("venues = 2", "venues = 2\nvenus = 3");
    assert!(error.starts_with("small.toml:6: unknown field `venus`, expected one of `groups`, `venues`"), "{error}");
    let error = changed("about", "abuot = 1\nabout");
    assert!(error.starts_with("small.toml:1: unknown field `abuot`"), "{error}");
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_file_and_line() {
    let error = changed("rows = 5", "rows = \"five\"");
    assert_eq!(error, "small.toml:7: invalid type: string \"five\", expected u16");
    let error = changed("seats = 16", "seats = -1");
    assert!(error.starts_with("small.toml:8: invalid value: integer `-1`"), "{error}");
    let error = changed("\"next\"", "\"best\"");
    assert!(error.starts_with("small.toml:13: unknown variant `best`"), "{error}");
}

#[test]
fn an_invalid_value_is_refused_by_key() {
    assert_eq!(changed("rows = 5", "rows = 0"), "small.toml:7: house.rows is 0: give 1 to 500");
    assert_eq!(changed("clients = 4", "clients = 0"), "small.toml:16: closed_loop.clients is 0: give 1 to 100000");
    assert_eq!(changed("seats = 5", "seats = 21"), "small.toml:12: flow.seats is 21: give 1 to 20");
    assert_eq!(
        changed("price = 1000", "price = 1000\ncurrency = \"euro\""),
        "small.toml:10: house.currency is euro: give three capital letters, as EUR"
    );
    assert_eq!(
        changed("flows = 96", "flows = 97"),
        "small.toml:6: house.sessions: 97 flows a group need 97 blocks of seats, but the house has 96; \
         add sessions or take fewer flows"
    );
    assert_eq!(
        changed("pick = \"next\"", "pick = \"next\"\nretries = 2"),
        "small.toml:14: flow.retries is 2: only flows that pick at random have other seats to try; give 0"
    );
}

#[test]
fn flows_need_something_to_buy() {
    let shop = "\n[shop]\nproducts = 4\nstock = 10\nprice = 1\n";
    let error = parse(&format!("{SMALL}{shop}[cart]\nadds = 5\npick = \"distinct\"\n")).expect_err("5 of 4");
    assert!(error.contains("cart.adds is 5: there are fewer products"), "{error}");
    let error = parse(&format!("{SMALL}{shop}[cart]\nadds = 2\n")).expect_err("seats or units?");
    assert!(error.contains("there are several things to buy; weigh them in [mix]"), "{error}");
    let mixed = format!("{SMALL}{shop}[cart]\nadds = 2\n[mix]\nseats = 3\nunits = 1\n");
    assert_eq!(parse(&mixed).expect("both").weights(), [3, 1, 0, 0, 0]);
    let error = parse(&mixed.replace("units = 1", "places = 1")).expect_err("no places");
    assert!(error.contains("flows have nothing to do"), "{error}");
}

#[test]
fn the_seed_cart_has_the_rate_of_the_seed_theatre() {
    let cart = Scenario::load("seed-cart", &[]).expect("it is built in");
    assert_eq!((cart.offered(), cart.open_loop_schedule().map(|context| context.rate())), (25_000, Some(1_000.0)));
    let goods = cart.goods("r");
    assert_eq!((goods.products, goods.stock), (1_000, 1_000_000));
    let n0 = Scenario::load("n0", &[]).expect("it is built in");
    assert_eq!((n0.house("r").sessions_all(), n0.house("r").seats_of_session()), (240, 200));
    assert_eq!(Scenario::load("resident", &[]).expect("it is built in").house("r").sessions_all(), 240_000);
}

#[test]
fn a_scenario_has_exactly_one_loop() {
    let error = parse(SMALL.split("[closed_loop]").next().expect("a head")).expect_err("no loop");
    assert_eq!(error, "small.toml: there is neither [open_loop] nor [closed_loop]; give one of them");
    let both = format!("{SMALL}\n[open_loop]\nflows = 1\ngap_us = 1\n");
    let error = parse(&both).expect_err("two loops");
    assert_eq!(error, "small.toml:15: there is an open loop and a closed one; leave one out");
}

#[test]
fn settings_change_values_and_their_errors_name_them() {
    let set = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Scenario::parse("small", "small.toml", SMALL, &settings).map_err(|error| error.to_string())
    };
    let scenario =
        set(&["closed_loop.clients=64", "flow.pick=random", "flow.retries=2", "about=other"]).expect("right");
    assert_eq!(scenario.closed_loop.as_ref().map(|closed| closed.clients), Some(64));
    let flow = scenario.flow.as_ref().expect("it buys seats");
    assert_eq!((flow.pick, flow.retries), (PickSpec::Random, 2));
    assert_eq!(scenario.about, "other");

    let error = set(&["closed_loop.cliens=64"]).expect_err("no such key");
    assert!(error.starts_with("--set closed_loop.cliens=64: unknown field `cliens`"), "{error}");
    assert_eq!(set(&["house.rows=0"]).expect_err("0 rows"), "--set house.rows: house.rows is 0: give 1 to 500");
    assert_eq!(
        set(&["clients"]).expect_err("no value"),
        "--set \"clients\" is not key=value with a key like closed_loop.clients"
    );
}

#[test]
fn a_scenario_name_ignores_case() {
    assert_eq!(Scenario::load("N0", &[]).expect("it comes with the program").name, "n0");
}

#[test]
fn an_unknown_scenario_is_an_error() {
    let error = Scenario::load("seed-opera", &[]).expect_err("there is none").to_string();
    assert_eq!(
        error,
        "there is no scenario \"seed-opera\": it is neither a file nor one of seed-theatre, seed-theatre-contended, \
         closed-theatre, one-seat, seed-cart, seed-cart-hot, closed-cart, ga-olympics, calendar-rush, expiry-storm, \
         mixed, n0, n1, n4, watchers, slow-watchers, resident, overload, hoarders, onsale"
    );
}

#[test]
fn invalid_faults_are_refused() {
    let with = |more: &str| parse(&format!("{SMALL}\n{more}"));
    assert!(with("[faults]\nkill_at_ms = 500\nadd_at_ms = 900").is_ok_and(|scenario| scenario.faults.any()));
    assert!(parse(SMALL).is_ok_and(|scenario| !scenario.faults.any()));
    let error = with("[faults]\nkills = 3").expect_err("a closed loop ends by itself");
    assert!(error.contains("faults.kills is 3: repeated kills need an [open_loop]"), "{error}");
    let error = with("[faults]\nkill_at_ms = 100000000").expect_err("more than a day");
    assert!(error.starts_with("small.toml:20: faults.kill_at_ms is 100000000: give at most a day"), "{error}");
    let error = with("[reads]\nper_second = 0").expect_err("none");
    assert!(error.contains("reads.per_second is 0: give 1 to"), "{error}");
    let error = parse(&SMALL.replacen("pick = \"next\"", "pick = \"random\"\ncontend_percent = 5", 1));
    assert!(error.expect_err("random").contains("flow.contend_percent is 5: it needs flow.pick"));
}

#[test]
fn flows_go_on_while_nodes_are_killed_repeatedly() {
    let settings = ["faults.kills=3".to_owned(), "house.venues=100".into()];
    let n1 = Scenario::load("n1", &settings).expect("the scenario is valid");
    assert_eq!(n1.offered(), 100 * 16 * 100, "one flow for each block of seats");
    let usual = Scenario::load("N1", &[]).expect("it is built in");
    assert_eq!((usual.offered(), usual.house("r").sessions_all()), (212_000, 80_000));
}

/// A time that is left out would last several times as long as the others.
#[test]
fn a_faster_evening_divides_every_time_of_the_shares() {
    let shipped: toml::Table = include_str!("../../../../config/boxoffice.toml").parse().expect("it is TOML");
    let fast = Scenario::load("hoarders", &["hoarders.speed=6".to_owned()]).expect("it is valid");
    let config = fast.hoarders.expect("it has hoarders").node_config("127.0.0.1:1");
    let config: toml::Table = config.parse().expect("it is TOML");
    let fairness = |of: &toml::Table| of["fairness"].as_table().expect("the shares").clone();
    let faster = fairness(&config);
    let times = fairness(&shipped).into_iter().filter(|(key, _)| key.ends_with("_seconds") || key.ends_with("_ms"));
    let divided = times.map(|(key, time)| (key, (time.as_integer().expect("a number") / 6).into()));
    assert_eq!(faster, divided.collect::<toml::Table>());
}

#[test]
fn hoarders_have_one_session_and_nodes_as_shipped() {
    let load = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Scenario::load("hoarders", &settings).map_err(|error| error.to_string())
    };
    let usual = load(&[]).expect("it is built in");
    let spec = usual.hoarders.as_ref().expect("it has hoarders");
    let config = spec.node_config("127.0.0.1:1");
    assert!(config.contains("anonymous = \"sell\"") && !config.contains("[fairness]"), "{config}");
    assert_eq!((spec.hoarding(), usual.harms_nodes()), (10, false));
    let fast = load(&["hoarders.speed=20", "hoarders.run=office", "hoarders.kills=true"]).expect("it is valid");
    let spec = fast.hoarders.as_ref().expect("it has hoarders");
    assert!(
        spec.node_config("127.0.0.1:1")
            .contains("whole_seconds = 1\nseat_seconds = 180\nbonus_seconds = 12\nlife_min_ms = 9000\n")
    );
    assert_eq!((spec.hoarding(), fast.harms_nodes()), (0, true));
    let error = load(&["house.sessions=2"]).expect_err("two sessions");
    assert!(error.contains("it needs a [house] of one session"), "{error}");
    assert_eq!(
        load(&["hoarders.speed=0"]).expect_err("never"),
        "--set hoarders.speed: hoarders.speed is 0: give 1 to 60"
    );
}

#[test]
fn stages_take_the_place_of_a_constant_rate() {
    let open = |text: &str| SMALL.split("[closed_loop]").next().expect("a head").to_owned() + "[open_loop]\n" + text;
    let stages = "[[open_loop.stages]]\nper_second = 2\nto_per_second = 6\nseconds = 10\n[[open_loop.stages]]\nper_second = 5\nseconds = 2\n";
    let scenario = parse(&open(stages)).expect("a scenario");
    assert_eq!(scenario.offered(), 50);
    assert_eq!(scenario.open_loop_schedule().map(|plan| plan.span().as_secs()), Some(11));
    for (text, word) in [("flows = 5\n", "leave out flows, gap_us"), ("gap_us = 5\n", "leave out flows, gap_us")] {
        let error = parse(&open(&format!("{text}{stages}"))).expect_err("one or the other");
        assert!(error.contains(word), "{error}");
    }
    let error = parse(&open(&stages.replace("seconds = 2", "seconds = 0"))).expect_err("no time");
    assert!(error.contains("open_loop.stages is 0: give 1 to 86400 seconds"), "{error}");
    let error = parse(&open("flows = 5\n")).expect_err("no gap");
    assert!(error.contains("open_loop.gap_us is 0"), "{error}");
}

#[test]
fn a_curve_is_read_from_a_file_beside_the_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    let head = SMALL.split("[closed_loop]").next().expect("a head").to_owned();
    let path = folder.path().join("sale.toml");
    std::fs::write(&path, head + "[open_loop]\ncurve = \"sale.csv\"\n").expect("written");
    let load = || Scenario::load(path.to_str().expect("text"), &[]).map_err(|error| error.to_string());
    assert!(load().expect_err("no curve").contains("sale.csv"));
    std::fs::write(folder.path().join("sale.csv"), "0,2\n10,8\n11,2\n21,0\n").expect("written");
    let scenario = load().expect("a scenario");
    assert_eq!((scenario.offered(), scenario.open_loop_schedule().map(|plan| plan.span().as_secs())), (48, Some(20)));
    std::fs::write(folder.path().join("sale.csv"), "0,2\nten,8\n").expect("written");
    let error = load().expect_err("no number");
    assert!(error.contains("sale.csv:2: ") && error.contains("is no line of a curve"), "{error}");
}
