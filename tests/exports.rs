//! `boxoffice export`: what it writes is what the node answers, with the names that people know.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::common::{ADMIN, BOXOFFICE, Buyers, Encoding, Home, Port, Record, Rng, Server, Shopper, Theatre, fixture};

/// Runs the command. Returns the exit code, what it wrote, and what it said besides.
fn export(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(BOXOFFICE);
    let output =
        command.arg("export").args(args).env("BOXOFFICE_ADMIN_TOKEN", ADMIN).output().expect("the program runs");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    (output.status.code(), out, err)
}

fn lines(args: &[&str]) -> Vec<Value> {
    let (code, text, why) = export(args);
    assert_eq!(code, Some(0), "{args:?}: {why}");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Runs the program and reads its first line only, as `head -1` does. Returns the exit code.
fn read_one_line(args: &[&str]) -> Option<i32> {
    let mut child = Command::new(BOXOFFICE).args(args).stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(!line.is_empty(), "{args:?}");
    child.wait().expect("it ends").code()
}

fn back_up(server: &Server, dir: &Path) {
    let mut command = Command::new(BOXOFFICE);
    command.arg("backup").arg(dir).args(["--address", &server.operators().to_string()]);
    assert!(command.env("BOXOFFICE_ADMIN_TOKEN", ADMIN).status().expect("the program runs").success());
}

/// An order of two seats, places, units and an hour, by a customer, refunded in part.
async fn mixed_order(port: &Arc<Port>, rng: &mut Rng) -> String {
    let items = json!({"items": [
        {"op": "venue.put", "rid": "o1", "body": {"id": "opera", "name": "Opera, \"the old\"", "city": "Copenhagen", "zone": "Europe/Copenhagen"}},
        {"op": "hall.put", "rid": "o2", "body": {"venue": "opera", "id": "big", "name": "Big", "layout": {"rows": 2, "seats": 4}}},
        {"op": "title.put", "rid": "o3", "body": {"id": "tosca", "name": "=Tosca"}},
        {"op": "session.create", "rid": "o4", "body": {"id": "tosca-1", "venue": "opera", "hall": "big", "title": "tosca",
            "starts_at": "2030-07-01T17:30:00Z", "ends_at": "2030-07-01T20:00:00Z",
            "prices": {"standard": {"amount": 4_500, "currency": "EUR"}}}},
    ]});
    port.read("batch", items).await.ok();
    fixture::event(port, "race", 50, json!({})).await;
    fixture::product(port, "programme", 10, json!({"name": "A programme"})).await;
    fixture::room(port, "box", json!({"name": "The royal box"})).await;
    let shopper = Shopper::new(port, rng);
    shopper.ask("cart.open", json!({"ttl_ms": 600_000, "customer": "ann"})).await.ok();
    shopper.seats("tosca-1", json!([[1, 2], [1, 3]])).await.ok();
    shopper.places("race", "yard", 3).await.ok();
    shopper.stock("programme", 2).await.ok();
    shopper.slot("box", "2030-07-01T08:00:00Z".into(), "2030-07-01T09:30:00Z".into()).await.ok();
    shopper.checkout().await.ok();
    let refund = json!({"order": shopper.cart(), "lines": [3], "reason": "sold out"});
    port.ask("order.refund", "refund", refund).await.ok();
    shopper.cart()
}

/// An order of seats and places of a session with price types, one seat with a code, held before and after a change of the terms.
async fn order_under_terms(port: &Arc<Port>, rng: &mut Rng) -> String {
    let types = json!([
        {"id": "adult", "tax": {"rate": 2_000, "code": "standard"}},
        {"id": "child", "prices": {"standard": 700}, "area_prices": {"yard": 300}},
    ]);
    let offers = json!([
        {"id": "all"},
        {"id": "members", "types": ["adult"], "code_group": "members", "amount_off": 500},
    ]);
    let euro = |amount: u32| json!({"amount": amount, "currency": "EUR"});
    let items = json!({"items": [
        {"op": "venue.put", "rid": "t1", "body": {"id": "globe", "name": "Globe", "city": "London", "zone": "Europe/London"}},
        {"op": "hall.put", "rid": "t2", "body": {"venue": "globe", "id": "big", "name": "Big", "layout": {"rows": 1, "seats": 6}}},
        {"op": "title.put", "rid": "t3", "body": {"id": "lear", "name": "Lear"}},
        {"op": "session.create", "rid": "t4", "body": {"id": "lear-1", "venue": "globe", "hall": "big", "title": "lear",
            "starts_at": "2030-07-01T17:30:00Z", "ends_at": "2030-07-01T20:00:00Z", "prices": {"standard": euro(2_400)},
            "areas": [{"id": "yard", "name": "Yard", "capacity": 9, "price": euro(600)}],
            "price_types": types, "offers": offers}},
        {"op": "code.put", "rid": "t5", "body": {"code": "LEAR-7", "group": "members", "uses": 1}},
    ]});
    port.read("batch", items).await.ok();
    let shopper = Shopper::new(port, rng);
    let hold = |body: Value| {
        let mut body = body;
        body["token"] = json!(shopper.token);
        body["session"] = json!("lear-1");
        body
    };
    // The code has one use, which the first seat takes.
    let seats =
        hold(json!({"seats": [[0, 0], [0, 1], [0, 2]], "types": ["adult", "adult", "child"], "code": "LEAR-7"}));
    port.ask("cart.hold_seats", "t6", seats).await.ok();
    port.ask("session.change", "t7", json!({"id": "lear-1", "prices": {"standard": euro(2_500)}})).await.ok();
    port.ask("cart.hold_seats", "t8", hold(json!({"seats": [[0, 3]], "types": ["adult"]}))).await.ok();
    port.ask("cart.hold_places", "t9", hold(json!({"area": "yard", "quantity": 2, "types": ["child"]}))).await.ok();
    shopper.checkout().await.ok();
    shopper.cart()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_says_what_each_seat_was_bought_as() {
    let mut rng = Rng::of_test("an_export_says_what_each_seat_was_bought_as");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let (with_terms, without) = (order_under_terms(&port, &mut rng).await, mixed_order(&port, &mut rng).await);
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    back_up(&server, &backup);
    let dir = backup.display().to_string();
    let orders = lines(&["orders", "--backup", &dir]);
    let order = |id: &str| orders.iter().find(|order| order["order"] == id).expect("the order");
    let said = |line: &Value| {
        let columns = [
            "prices",
            "price_types",
            "offers",
            "code_groups",
            "list_prices",
            "tax_rates",
            "tax_codes",
            "taxes",
            "terms",
        ];
        columns.map(|column| line[column].to_string()).join(" ")
    };
    let shown: Vec<String> = order(&with_terms)["lines"].as_array().expect("lines").iter().map(said).collect();
    assert_eq!(
        shown,
        [
            "[1900,2400,700] [\"adult\",\"adult\",\"child\"] [\"members\",\"all\",\"all\"] [\"members\",null,null] [2400,2400,700] \
             [2000,2000,null] [\"standard\",\"standard\",null] [317,400,null] [0,0,0]",
            "[2500] [\"adult\"] [\"all\"] [null] [2500] [2000] [\"standard\"] [417] [1]",
            "[] [\"child\"] [\"all\"] [null] [300] [null] [null] [null] [1]",
        ]
    );
    // It is what the node tells.
    let told = port.read("order.get", json!({"order": with_terms})).await.ok();
    let bought = &told["lines"][0]["bought_as"];
    assert_eq!((&bought[0]["offer"], &bought[0]["list_price"]), (&json!("members"), &json!(2_400)));
    // What was bought as nothing says so.
    for line in order(&without)["lines"].as_array().expect("lines") {
        for column in
            ["price_types", "offers", "code_groups", "list_prices", "tax_rates", "tax_codes", "taxes", "terms"]
        {
            assert_eq!(line[column], Value::Null, "{column} of {line}");
        }
    }
    let (code, text, why) = export(&["orders", "--backup", &dir, "--csv"]);
    assert_eq!(code, Some(0), "{why}");
    let header = text.lines().next().expect("the names");
    assert!(
        header.ends_with(",price_types,offers,code_groups,list_prices,tax_rates,tax_codes,taxes,terms"),
        "{header}"
    );
    let row = "\"adult, adult, child\",\"members, all, all\",\"members, , \",\"2400, 2400, 700\",\"2000, 2000, \",\
               \"standard, standard, \",\"317, 400, \",\"0, 0, 0\"\n";
    assert!(text.contains(row), "{text}");
    assert!(!text.contains("LEAR-7"), "an export has no code");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_has_every_order_with_the_names_that_people_know() {
    let mut rng = Rng::of_test("an_export_has_every_order_with_the_names_that_people_know");
    // Small segments and frequent snapshots, so that orders are in the store too.
    let home = Home::with_config("[node]\nshards = 3\n\n[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 60\n");
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let theatre = Theatre::open(&port, 6, (10, 20), None).await;
    let mut buyers = Buyers::start(&server, &theatre, Record::default(), 6, &mut rng).await;
    buyers.orders(150).await;
    buyers.stop().await;
    let mixed = mixed_order(&port, &mut rng).await;
    let files = tempfile::tempdir().expect("a directory");
    let backup = files.path().join("backup");
    back_up(&server, &backup);
    let dir = backup.display().to_string();
    let audit = fixture::audit(&port).await;

    // Every order, by id, and each with the money that the node tells.
    let orders = lines(&["orders", "--backup", &dir]);
    let ids: Vec<&str> = orders.iter().map(|order| order["order"].as_str().expect("an id")).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    assert_eq!(json!(ids.len()), audit["orders"]);
    for order in &orders {
        let told = port.read("order.get", json!({"order": order["order"]})).await.ok();
        assert_eq!((&order["total"], &order["currency"]), (&told["total"]["amount"], &told["total"]["currency"]));
        let lines = order["lines"].as_array().expect("lines");
        assert_eq!(lines.len(), told["lines"].as_array().expect("lines").len());
        let sum: i64 = lines.iter().map(|line| line["amount"].as_i64().expect("a number")).sum();
        assert_eq!(json!(sum), order["total"]);
        for line in lines
            .iter()
            .filter(|line| line["entity"].as_str().is_some_and(|entity| entity.starts_with("session/hamlet")))
        {
            let seats = line["seats"].as_array().expect("seats");
            assert_eq!(json!(seats.len()), line["quantity"], "{line}");
            assert_eq!((&line["title"], &line["venue"]), (&json!("hamlet"), &json!("Royal")), "{line}");
        }
    }
    let order = orders.iter().find(|order| order["order"] == mixed.as_str()).expect("the order");
    assert_eq!(
        (&order["customer"], &order["zone"], &order["refunded"]),
        (&json!("ann"), &json!("Europe/Copenhagen"), &json!(700))
    );
    assert!(order["at"].as_str().is_some_and(|at| at.ends_with("+01:00") || at.ends_with("+02:00")), "{order}");
    let seats = &order["lines"][0];
    assert_eq!(seats["seats"], json!(["B3", "B4"]), "{order}");
    assert_eq!((&seats["title"], &seats["venue"]), (&json!("=Tosca"), &json!("Opera, \"the old\"")));
    assert_eq!((&seats["begin"], &seats["prices"]), (&json!("2030-07-01T19:30:00+02:00"), &json!([4_500, 4_500])));
    let [places, units, hours] = [1, 2, 3].map(|line| &order["lines"][line]);
    assert_eq!((&places["area"], &places["quantity"], &places["amount"]), (&json!("yard"), &json!(3), &json!(3_000)));
    assert_eq!((&units["title"], &units["is_refunded"]), (&json!("A programme"), &json!(true)));
    assert_eq!((&hours["title"], &hours["begin"]), (&json!("The royal box"), &json!("2030-07-01T10:00:00+02:00")));

    // It goes on behind an id.
    let rest = lines(&["orders", "--backup", &dir, "--after", ids[ids.len() / 2]]);
    assert_eq!(rest, orders[ids.len() / 2 + 1..]);
    // The same without a backup, from the node.
    assert_eq!(lines(&["orders", "--address", &server.operators().to_string()]), orders);

    // A reader that has enough.
    let data = home.data_dir().display().to_string();
    for args in [&["export", "orders", "--backup", &dir][..], &["verify", &dir]] {
        assert_eq!(read_one_line(args), Some(0), "{args:?}");
    }

    // As CSV, in a file that is read by its owner alone.
    let file = files.path().join("orders.csv");
    let to = file.display().to_string();
    assert_eq!(export(&["orders", "--backup", &dir, "--csv", "--to", &to]).0, Some(0));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).expect("text");
    let rows = orders.iter().map(|order| order["lines"].as_array().expect("lines").len()).sum::<usize>();
    assert_eq!(text.lines().count(), 1 + rows, "no text here has a line end");
    assert!(text.starts_with("order,at,zone,customer,total,"), "{}", text.lines().next().unwrap_or_default());
    assert!(
        text.contains(",'=Tosca,\"Opera, \"\"the old\"\"\",big,2030-07-01T19:30:00+02:00,"),
        "no formula, and quoted"
    );
    let (code, _, why) = export(&["orders", "--backup", &dir, "--to", &to]);
    assert!(code == Some(2) && why.contains("cannot make"), "a file that is there is kept: {why}");

    // The other kinds.
    let sessions = lines(&["sessions", "--backup", &dir]);
    assert_eq!(sessions.len(), theatre.sessions.len() + 2);
    for session in sessions.iter().filter(|session| session["venue"] == "royal") {
        let id = session["session"].as_str().expect("an id");
        let map = theatre.map(&port, id).await;
        let counts = ["seats_free", "seats_held", "seats_sold"].map(|count| session[count].as_u64());
        assert_eq!(counts, [map.free, map.held, map.sold].map(Some), "{id}");
    }
    let bookings = lines(&["bookings", "--backup", &dir]);
    let booked = &bookings[0]["bookings"][0];
    assert_eq!((&booked["state"], &booked["order"]), (&json!("sold"), &json!(mixed)));
    let customers = lines(&["customers", "--backup", &dir]);
    let ann = customers.iter().find(|customer| customer["customer"] == "ann").expect("ann");
    assert_eq!(ann["purchases"][0]["order"], json!(mixed));
    server.stop();
    assert_eq!(read_one_line(&["inspect", &data, "--turns"]), Some(0));
}
