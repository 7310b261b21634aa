//! Files of others: spreadsheets as people save them, a second import of a changed plan, lists of products, codes and prices, and large
//! halls.

use std::{fs, net::SocketAddr, process::Command, time::Instant};

use serde_json::{Value, json};

use crate::common::{ADMIN, Answer, BOXOFFICE, Encoding, Home, Port, Rng, eventually, http};

/// The output of `boxoffice import` of a file, and its exit code.
fn import(
    home: &Home,
    address: SocketAddr,
    name: &str,
    bytes: impl AsRef<[u8]>,
    args: &[&str],
) -> (Option<i32>, String) {
    let file = home.path().join(name);
    fs::write(&file, bytes).expect("a file");
    let mut command = Command::new(BOXOFFICE);
    command.args(["import", "--address", &address.to_string()]).arg(&file).args(args);
    let output = command.env("BOXOFFICE_ADMIN_TOKEN", ADMIN).output().expect("the program runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (output.status.code(), text)
}

/// The number of seats of a hall, or `None` without one.
async fn seats(desk: &Port, hall: &str) -> Option<u64> {
    let Answer::Ok(view, _) = desk.read("hall.get", json!({"venue": "v", "id": hall})).await else { return None };
    let rows = view["layout"]["rows"].as_array()?.clone();
    let runs = |row: &Value| row["runs"].as_array().cloned().unwrap_or_default();
    Some(rows.iter().flat_map(runs).filter_map(|run| run["count"].as_u64()).sum())
}

const HALL: [&str; 6] = ["--venue", "v", "--zone", "Europe/Berlin", "--hall", "h"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spreadsheet_is_understood_as_a_whole_or_refused_in_words() {
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let desk = server.port(Encoding::Json).await;
    for (text, words) in [
        ("A;1;12,50\n", "can be read in 2 ways"),
        ("row,chairs\nA,1\n", "none of them is the seat; call it `seat`"),
        ("row,seat\nA,1\nA,\u{ff11}\n", "two seats of row A look the same"),
        ("row,seat\nA,1\n\u{410},1\n", "two rows of the hall look the same, `A` and `А` (U+0410)"),
    ] {
        let (code, said) = import(&home, address, "seats.csv", text, &HALL);
        assert!(code == Some(2) && said.contains(words), "{code:?} {said}");
        assert_eq!(seats(&desk, "h").await, None, "{text}");
    }
    let german =
        b"Reihe;Platz;Kategorie;Preis;\r\n1;1;S\xfcd;12,50;\r\n1;10;S\xfcd;12,5;\r\n1;2;S\xfcd;12,50;\r\n;;;;\r\n";
    let args = [&HALL[..], &["--session", "s", "--starts-at", "+1d 19:30"]].concat();
    // What it would do is shown, and not done.
    let (code, said) = import(&home, address, "seats.csv", german, &[&args[..], &["--check"]].concat());
    assert_eq!(code, Some(0), "{said}");
    for words in [
        "row ← Reihe, seat ← Platz, category ← Kategorie, price ← Preis; semicolons between the columns, Windows-1252",
        "came in text order and are sorted by number",
        "1   1  2 10",
        "would make   session s (3 seats in h",
        "Nothing was changed.",
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    assert_eq!(seats(&desk, "h").await, None);
    desk.read("session.get", json!({"id": "s"})).await.no(701, "not_found");
    let (code, said) = import(&home, address, "seats.csv", german, &args);
    assert!(code == Some(0) && said.contains("sud 12.50 EUR"), "{said}");
    assert_eq!(seats(&desk, "h").await, Some(3));
    // Importing again changes nothing.
    let (code, said) = import(&home, address, "seats.csv", german, &args);
    assert!(code == Some(0) && said.contains("3 there already"), "{said}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_import_takes_no_seat_out_that_is_on_sale() {
    let mut rng = Rng::of_test("a_second_import_takes_no_seat_out_that_is_on_sale");
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let desk = server.port(Encoding::Json).await;
    let session = ["--session", "s", "--starts-at", "+1d 19:30", "--price", "*=1000"];
    let args = [&HALL[..], &session].concat();
    let whole = "row,seat,category\nA,1,a\nA,2,a\nA,99,a\n";
    let less = whole.replace("A,99,a\n", "");
    assert_eq!(import(&home, address, "seats.csv", whole, &args).0, Some(0));
    let refused = |said: &str, words: &str| assert!(said.contains(words), "{words} is not in {said}");

    // A seat that is free, held and sold.
    let (code, said) = import(&home, address, "seats.csv", &less, &args);
    assert_eq!(code, Some(1), "{said}");
    refused(&said, "seats are taken out that are on sale: session s has A99 free");
    assert_eq!(seats(&desk, "h").await, Some(3), "nothing is changed");
    let (guest, token) = (Port::guest(address, Encoding::Json).await, rng.token());
    let hold = json!({"token": token, "session": "s", "seats": [[0, 2]]});
    guest.ask("cart.hold_seats", "hold", hold).await.ok();
    refused(&import(&home, address, "seats.csv", &less, &args).1, "session s has A99 held");
    // With another hall in the file, that one is not made either.
    let halls = json!([
        {"id": "new", "layout": {"rows": 1, "seats": 2}},
        {"id": "h", "layout": {"rows": [{"label": "A", "count": 2, "category": "a"}]}},
    ]);
    let file = json!({"venues": [{"id": "v", "name": "V", "halls": halls}]}).to_string();
    let (code, said) = import(&home, address, "halls.json", file, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(seats(&desk, "new").await, None, "{said}");
    guest.ask("cart.release", "free", json!({"token": token, "line": 1})).await.ok();

    // A seat that is blocked may go. The session keeps its plan, and says so.
    desk.ask("session.block", "block", json!({"id": "s", "seats": [[0, 2]]})).await.ok();
    let (code, said) = import(&home, address, "seats.csv", &less, &args);
    assert_eq!(code, Some(1), "{said}");
    refused(&said, "changed  hall h of v (2 seats; taken out: A99)");
    refused(&said, "it is there already: its plan differs (taken out: A99). A session keeps its place");
    assert_eq!(seats(&desk, "h").await, Some(2));
    // A change that takes nothing out is named.
    let other = less.replace("A,2,a", "A,2,b") + "B,1,b\n";
    let (_, said) = import(&home, address, "seats.csv", &other, &args);
    refused(&said, "changed  hall h of v (3 seats; new: B1; category b instead of a: A2)");
    refused(&said, "its plan differs (taken out: A99; new: B1; category b instead of a: A2)");
    server.stop();
}

/// A file with other prices changes what is on sale from then on. What is held keeps its price.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_import_changes_the_terms_of_a_session() {
    let mut rng = Rng::of_test("a_second_import_changes_the_terms_of_a_session");
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let file = |adult: u32, max: u32| {
        let types = json!([{"id": "adult"}, {"id": "child", "prices": {"a": 300}}]);
        let offers = json!([{"id": "all", "types": ["adult"]}, {"id": "few", "types": ["child"], "counters": ["few"]}]);
        let session = json!({"id": "s", "hall": "h", "title": "t", "starts_at": "+1d 19:30", "ends_at": "+2h",
            "prices": {"a": adult}, "price_types": types, "offers": offers, "counters": [{"id": "few", "max": max}]});
        let halls = json!([{"id": "h", "layout": {"rows": 1, "seats": 8, "category": "a"}}]);
        let venue = json!({"id": "v", "name": "V", "zone": "Europe/Vienna", "halls": halls, "sessions": [session]});
        json!({"currency": "EUR", "venues": [venue]}).to_string()
    };
    assert_eq!(import(&home, address, "house.json", file(1_000, 2), &[]).0, Some(0));
    let (guest, token) = (Port::guest(address, Encoding::Json).await, rng.token());
    let hold = json!({"token": token, "session": "s", "seats": [[0, 0], [0, 1]], "types": ["child", "adult"]});
    guest.ask("cart.hold_seats", "hold", hold).await.ok();
    // What would change is said before, and nothing is changed.
    let (code, said) = import(&home, address, "house.json", file(1_200, 3), &["--check"]);
    assert_eq!(code, Some(0), "{said}");
    for words in ["its price of a is 1000 minor units of EUR, not 1200", "its counter few is at most 2, not at most 3"]
    {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    let price = async || guest.read("session.get", json!({"id": "s"})).await.ok()["prices"]["a"]["amount"].clone();
    assert_eq!(price().await, 1_000);
    let (code, said) = import(&home, address, "house.json", file(1_200, 3), &[]);
    assert!(code == Some(0) && said.contains("changed"), "{said}");
    assert_eq!(price().await, 1_200);
    let cart = guest.read("cart.get", json!({"token": token})).await.ok();
    assert_eq!(cart["lines"][0]["prices"], json!([300, 1_000]));
    // The counter is never lower than what it has sold.
    let more = json!({"token": token, "session": "s", "seats": [[0, 2], [0, 3]], "types": ["child"]});
    guest.ask("cart.hold_seats", "more", more).await.ok();
    let (code, said) = import(&home, address, "house.json", file(1_200, 2), &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("counter few cannot be lower than the 3 that are held and sold"), "{said}");
    let (code, said) = import(&home, address, "house.json", file(1_200, 3), &[]);
    assert!(code == Some(0) && said.contains("there already"), "{said}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_products_are_imported_from_a_list() {
    const PRODUCTS: usize = 5_000;
    let home = Home::new();
    let server = home.start();
    let lines =
        (0..PRODUCTS).map(|number| format!("{number};Artikel {number};{},50;{}\n", number % 90 + 1, number + 1));
    let list = format!("Artikelnummer;Bezeichnung;Preis;Bestand\n{}", lines.collect::<String>());
    let began = Instant::now();
    let (code, said) = import(&home, server.address(), "products.csv", &list, &[]);
    println!("{PRODUCTS} products in {:?}", began.elapsed());
    assert!(code == Some(0) && said.contains("5000 made"), "{}", said.lines().last().unwrap_or_default());
    // A connection from before would have missed its pings.
    let desk = server.port(Encoding::Json).await;
    let product = desk.read("product.get", json!({"id": "4999"})).await.ok();
    assert_eq!((&product["name"], &product["price"]["amount"]), (&json!("Artikel 4999"), &json!(5_050)));
    // Another price changes one product, which keeps what the list does not say.
    let list = list.replace("4999;Artikel 4999;50,50", "4999;Artikel 4999;7,00");
    let put = json!({"id": "4999", "name": "Artikel 4999", "stock": 5_000, "price": {"amount": 5_050, "currency": "EUR"},
        "properties": {"colour": "red"}});
    desk.ask("product.put", "colour", put).await.ok();
    let (_, said) = import(&home, server.address(), "products.csv", &list, &[]);
    assert!(said.contains("1 changed, 4999 there already"), "{}", said.lines().last().unwrap_or_default());
    let desk = server.port(Encoding::Json).await;
    let product = desk.read("product.get", json!({"id": "4999"})).await.ok();
    assert_eq!((&product["price"]["amount"], &product["properties"]["colour"]), (&json!(700), &json!("red")));
    server.stop();
}

/// A list of prices changes what is on sale from then on, and nothing that it does not name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_prices_changes_sessions() {
    let mut rng = Rng::of_test("a_list_of_prices_changes_sessions");
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let types = json!([{"id": "adult"}, {"id": "child", "prices": {"a": 300}, "area_prices": {"yard": 100}}]);
    let session = |id: &str, starts_at: &str| {
        json!({"id": id, "hall": "h", "title": "t", "starts_at": starts_at, "ends_at": "+2h", "price_types": types,
            "prices": {"a": 1_000, "b": 600}, "areas": [{"id": "yard", "capacity": 9, "price": 200}],
            "comments": "of the file", "limits": {"per_order": 6}})
    };
    let rows = json!([{"label": "A", "count": 8, "category": "a"}, {"label": "B", "count": 8, "category": "b"}]);
    let venue = json!({"id": "v", "name": "V", "zone": "Europe/Vienna", "halls": [{"id": "h", "layout": {"rows": rows}}],
        "sessions": [session("s", "+1d 19:30"), session("other", "+2d 19:30")]});
    let house = json!({"currency": "EUR", "venues": [venue]}).to_string();
    assert_eq!(import(&home, address, "house.json", house, &[]).0, Some(0));
    let (guest, desk) = (Port::guest(address, Encoding::Json).await, server.port(Encoding::Json).await);
    let token = rng.token();
    let hold = json!({"token": token, "session": "s", "seats": [[0, 0], [0, 1]], "types": ["child", "adult"]});
    guest.ask("cart.hold_seats", "hold", hold).await.ok();
    let of = |session: &str, adult: &str, child: &str| {
        format!(
            "{session};adult;a;;{adult}\r\n{session};adult;b;;6,00\r\n{session};adult;;yard;2,00\r\n{session};child;a;;{child}\r\n\
             {session};child;b;;not sold\r\n{session};child;;yard;1,00\r\n"
        )
    };
    let header = "\u{feff}session;price_type;category;area;price\r\n";
    let same = [header, &of("s", "10,00", "3,00"), &of("other", "10,00", "3,00")].concat();
    let (code, said) = import(&home, address, "prices.csv", &same, &[]);
    assert!(code == Some(0) && said.contains("2 there already"), "{code:?} {said}");

    // What would change is said before, and nothing is changed.
    let list = [header, &of("s", "12,50", ""), &of("other", "10,00", "3,00")].concat();
    let changed = [
        "semicolons between the columns, UTF-8, ',' before the decimals",
        "its price of a is 1000 minor units of EUR, not 1250",
        "its price type child is \"\" a 300 yard 100, not \"\" yard 100",
    ];
    let says = |said: &str, words: &[&str]| {
        for words in words {
            assert!(said.contains(words), "{words} is not in {said}");
        }
    };
    let read = async || desk.read("session.get", json!({"id": "s", "layout": false})).await.ok();
    let before = read().await;
    let (code, said) = import(&home, address, "prices.csv", &list, &["--check"]);
    assert_eq!(code, Some(0), "{said}");
    says(&said, &changed);
    says(
        &said,
        &["would change session s (6 prices)", "1 would be changed", "1 there already", "Nothing was changed."],
    );
    assert_eq!(read().await, before);
    let (code, said) = import(&home, address, "prices.csv", &list, &[]);
    assert_eq!(code, Some(0), "{said}");
    says(&said, &changed);
    says(&said, &["1 changed, 1 there already"]);
    let after = read().await;
    assert_eq!((&after["prices"]["a"]["amount"], &after["prices"]["b"]["amount"]), (&json!(1_250), &json!(600)));
    assert_eq!(
        (&after["comments"], &after["limits"], &after["sale"]["terms"]),
        (&before["comments"], &before["limits"], &json!(1))
    );
    let cart = guest.read("cart.get", json!({"token": token})).await.ok();
    assert_eq!(cart["lines"][0]["prices"], json!([300, 1_000]), "what is held keeps its price");
    let late = json!({"token": token, "session": "s", "seats": [[0, 2]], "types": ["child"]});
    guest.ask("cart.hold_seats", "late", late).await.no(213, "not_sold_as");
    let (code, said) = import(&home, address, "prices.csv", &list, &[]);
    assert!(code == Some(0) && said.contains("2 there already"), "{said}");

    // A file that leaves prices out is refused as long as it does not say that they stay.
    let one = "session,price_type,category,price\ns,adult,b,7.00\n";
    let (code, said) = import(&home, address, "prices.csv", one, &[]);
    assert_eq!(code, Some(1), "{said}");
    says(
        &said,
        &["the file does not name 3 prices that it has: adult in category a, adult in area yard, child in area yard"],
    );
    assert_eq!(read().await["prices"]["b"]["amount"], 600);
    let (code, said) = import(&home, address, "prices.csv", one, &["--keep-absent"]);
    assert_eq!(code, Some(0), "{said}");
    let after = read().await;
    assert_eq!((&after["prices"]["a"]["amount"], &after["prices"]["b"]["amount"]), (&json!(1_250), &json!(700)));

    // One session that does not fit leaves the others as they are asked for.
    let list = "session,price_type,category,price\nnone,adult,b,9.00\nother,adult,b,9.00\n";
    let (code, said) = import(&home, address, "prices.csv", list, &["--keep-absent"]);
    assert_eq!(code, Some(1), "{said}");
    says(
        &said,
        &[
            "refused  session none (1 price): session none is not known (701 not_found)",
            "changed  session other (1 price)",
        ],
    );
    // Files and options that are not meant.
    for (list, options, words) in [
        (
            "session,price_type,category,price\ns,adult,b,1.234\n",
            &["--keep-absent"][..],
            "line 2, column 4 (price): 1.234 may be",
        ),
        ("session,price_type,category,price\ns,adult,b,x\n", &["--keep-absent"], "\"x\" is no price"),
    ] {
        let (code, said) = import(&home, address, "prices.csv", list, options);
        assert_eq!(code, Some(1), "{said}");
        says(&said, &[words]);
    }
    for (list, options, words) in [
        ("session,price_type,category,price\ns,adult,,9\n", &[][..], "line 2: there is neither a category nor an area"),
        (one, &["--venue", "v"], "--venue is for files of seats"),
        ("code,group,uses\nA,b,1\n", &["--keep-absent"], "--keep-absent is for lists of prices"),
        ("name,price,stock\nCup,1.00,1\n", &["--keep-absent"], "--keep-absent is for lists of prices"),
    ] {
        let (code, said) = import(&home, address, "prices.csv", list, options);
        assert_eq!(code, Some(2), "{said}");
        says(&said, &[words]);
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_codes_are_imported_from_a_list() {
    const CODES: usize = 10_000;
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let lines = (0..CODES).map(|number| format!("READER-{number},readers,2\n"));
    let list = format!("code,group,uses\n{}", lines.collect::<String>());
    let (code, said) = import(&home, address, "codes.csv", &list, &["--check"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("would make   a code of readers (2 uses), 10000 times\n10000 would be made\n"), "{said}");
    let desk = server.port(Encoding::Json).await;
    desk.read("code.get", json!({"code": "READER-0"})).await.no(218, "code_not_valid");
    let began = Instant::now();
    let (code, said) = import(&home, address, "codes.csv", &list, &[]);
    println!("{CODES} codes in {:?}", began.elapsed());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("made     a code of readers (2 uses), 10000 times\n10000 made\n"), "{said}");
    assert!(!said.contains("READER"), "{said}");
    // A connection from before would have missed its pings.
    let desk = server.port(Encoding::Json).await;
    for number in [0, CODES - 1] {
        let view = desk.read("code.get", json!({"code": format!("READER-{number}")})).await.ok();
        assert_eq!(view, json!({"group": "readers", "uses": 2, "held": 0, "sold": 0}));
    }
    // A list without the column `ended` leaves an ended code ended, and one with it does not.
    let ended = json!({"code": "READER-7", "group": "readers", "uses": 2, "ended": true});
    desk.ask("code.put", "end", ended).await.ok();
    let more = list.replace("READER-8,readers,2", "READER-8,readers,3");
    let (code, said) = import(&home, address, "codes.csv", &more, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("changed  a code of readers (3 uses)\n") && said.contains("1 changed, 9999 there already"),
        "{said}"
    );
    let desk = server.port(Encoding::Json).await;
    assert_eq!(desk.read("code.get", json!({"code": "READER-7"})).await.ok()["ended"], true);
    let (_, said) = import(&home, address, "codes.csv", "code;group;uses;ended\r\nREADER-7;readers;2;no\r\n", &[]);
    assert!(said.contains("1 changed"), "{said}");
    let view = desk.read("code.get", json!({"code": "READER-7"})).await.ok();
    assert_eq!(view.get("ended"), None, "{view}");
    // What is wrong is named by its line, and then nothing of the file is put.
    let wrong = format!("{list}MORE-1,readers,1\nMORE-2,readers,many\n");
    let (code, said) = import(&home, address, "codes.csv", &wrong, &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("line 10003, column 3 (uses): \"many\" is no number of uses"), "{said}");
    desk.read("code.get", json!({"code": "MORE-1"})).await.no(218, "code_not_valid");
    server.stop();
}

/// A spreadsheet of rows of 20 seats on arcs, in sections of 25 rows.
fn stadium(seats: usize) -> String {
    let mut text = String::from("section,row,seat,category,x,y\n");
    for index in 0..seats {
        let (section, row, seat) = (index / 500, index / 20 % 25, index % 20);
        let angle = (section * 24 + seat) as f64 / (seats / 500 * 24) as f64 * std::f64::consts::TAU;
        let radius = (seats / 500 * 24) as f64 * 110.0 / std::f64::consts::TAU + 90.0 * row as f64;
        let (x, y) = ((radius * angle.sin()).round(), (radius * angle.cos()).round());
        text += &format!("S{section},{},{},c{},{x},{y}\n", row + 1, seat + 1, section % 4);
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_thousand_seats_with_points_fit() {
    let mut rng = Rng::of_test("two_hundred_thousand_seats_with_points_fit");
    for all in [100_000, 200_000] {
        let home = Home::with_config("[log]\nsegment_bytes = 67_108_864\n");
        let server = home.start();
        let began = Instant::now();
        let session = ["--session", "s", "--starts-at", "+1d 19:30", "--price", "*=1000"];
        let args = [&HALL[..], &session].concat();
        let (code, said) = import(&home, server.address(), "stadium.csv", stadium(all), &args);
        println!("{all} seats with points in {:?}", began.elapsed());
        assert_eq!(code, Some(0), "{said}");
        let desk = server.port(Encoding::MsgPack).await;
        let counts = desk.read("session.get", json!({"id": "s", "layout": false})).await.ok()["counts"].clone();
        assert_eq!(counts["free"], json!(all));
        let guest = Port::guest(server.address(), Encoding::Json).await;
        let best = json!({"token": rng.token(), "session": "s", "count": 4});
        guest.ask("cart.hold_best", "best", best).await.ok();
        let (status, layout) = http::get(server.address(), "/v1/sessions/s/layout").await;
        println!("{all} seats: the layout has {} bytes as JSON", layout.len());
        assert_eq!(status, 200);
        server.stop();
        // From the disk again.
        let server = home.start();
        let desk = server.port(Encoding::MsgPack).await;
        let counts = desk.read("session.get", json!({"id": "s", "layout": false})).await.ok()["counts"].clone();
        assert_eq!((&counts["free"], &counts["held"]), (&json!(all - 4), &json!(4)));
        assert_eq!(seats(&desk, "h").await, Some(all as u64));
        server.stop();
    }
}

/// The resident memory of a process, in MiB.
fn memory_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its state");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_of_a_large_hall_have_one_copy_of_its_layout() {
    const SEATS: usize = 100_000;
    const SESSIONS: usize = 40;
    /// What a copy of the layout takes, in MiB, and less than a session of its own would.
    const COPY_MIB: u64 = 2;
    let home = Home::with_config("[log]\nsegment_bytes = 67_108_864\n");
    let server = home.start();
    let began = Instant::now();
    let (code, said) = import(&home, server.address(), "stadium.csv", stadium(SEATS), &HALL);
    assert_eq!(code, Some(0), "{said}");
    let before = memory_mib(server.pid());
    let session = |number: usize| {
        json!({"id": format!("s{number}"), "hall": "h", "title": "t", "starts_at": format!("+{}d 19:30", number + 1),
            "ends_at": "+3h", "prices": {"*": 1_000}})
    };
    let sessions: Vec<Value> = (0..SESSIONS).map(session).collect();
    let file =
        json!({"currency": "EUR", "venues": [{"id": "v", "name": "v", "zone": "Europe/Berlin", "sessions": sessions}]});
    let (code, said) = import(&home, server.address(), "sessions.json", file.to_string(), &[]);
    assert_eq!(code, Some(0), "{said}");
    let after = memory_mib(server.pid());
    println!("{SESSIONS} sessions of {SEATS} seats in {:?}: {before} MiB, then {after} MiB", began.elapsed());
    server.stop();
    let began = Instant::now();
    let server = home.start();
    println!("started again in {:?} with {} MiB", began.elapsed(), memory_mib(server.pid()));
    let desk = server.port(Encoding::MsgPack).await;
    let counts = desk.read("session.get", json!({"id": "s39", "layout": false})).await.ok()["counts"].clone();
    assert_eq!(counts["free"], json!(SEATS));
    // What the start itself needed is given back some time after it.
    let bound = before + SESSIONS as u64 * COPY_MIB;
    eventually("the memory is that of one layout", async || Some(()).filter(|()| memory_mib(server.pid()) < bound))
        .await;
    server.stop();
}
