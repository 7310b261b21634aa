//! A theatre sells a whole season of offers while the leaders of the code, of the session and of the carts are killed, once each.
//!
//! Members buy before everybody else, three price types differ in four categories, seats of the house are released, the sale on the web
//! ends before that of the desk, and a matinee gets more places and other prices. Everything is judged by what buyers and watchers were
//! told, with the clock of this machine.

mod buyers;
mod judge;
mod terms;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use boxoffice_core::id::{Entity, Id};
use boxoffice_shard::ring;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use self::{
    buyers::{Buyer, Cart, Outcome, Sale, Show, Who, Wish, now_ms},
    judge::{House, LATE_MS, Tickets, judge},
    terms::{HOUSE_ROWS, MEMBERS, MORE_PLACES, PLACES, ROWS, SEATS, Seat, Times, Type, YARD, YOUNG, row_label},
};
use crate::{
    THREE,
    cluster::{Cluster, Told, Watchers},
    common::{Answer, Encoding, Map, Port, Rng, Theatre, checkout, eventually, read_time},
};

/// As many shards as a cluster has that says nothing else.
const SHARDS: u16 = 32;
/// Uses of the members' code.
const USES: u64 = 90;
/// Guests and members who buy seats of the evening, and guests of the matinee. The desk has one clerk.
const GUESTS: u64 = 4;
const MEMBERS_WHO_BUY: u64 = 5;
const GUESTS_OF_MATINEES: u64 = 2;
/// The times of the sale in moments: the presale, the public sale, the release and the end on the web. A moment is the time that
/// the cluster takes to start, within these bounds.
const MOMENTS: [u64; 4] = [3, 7, 11, 15];
const MOMENT_MS: (u64, u64) = (1_000, 3_000);

fn shard_of(entity: &Entity) -> u16 {
    ring::shard_of(entity.hash_prefix(), SHARDS)
}

fn session(show: Show) -> Entity {
    Entity::Session(Id::new(show.id()).expect("an id"))
}

async fn until(ms: u64) {
    sleep(Duration::from_millis(ms.saturating_sub(now_ms()))).await;
}

/// One seat as this price type.
fn one(seat: Seat, of: Type) -> Wish {
    Wish::Seats(vec![(seat, of)])
}

/// Puts the members' code. Draws codes until one is in another shard than the session.
async fn put_code(cluster: &Cluster, rng: &mut Rng) -> (String, u16) {
    let port = cluster.port(1).await;
    loop {
        let code = format!("GLOBE-{:08X}", rng.next() as u32);
        let put = json!({"code": code, "group": MEMBERS, "uses": USES});
        let Answer::Ok(_, at) = port.ask("code.put", "put", put).await else { panic!("the code is not put") };
        let entity = at.keys().find_map(|name| boxoffice_wire::repr::entity(name)).expect("the entity of the code");
        let shard = shard_of(&entity);
        if shard != shard_of(&session(Show::Gala)) {
            return (code, shard);
        }
        let end = json!({"code": code, "group": MEMBERS, "uses": USES, "ended": true});
        port.ask("code.put", "end", end).await.ok();
    }
}

/// Kills the leader of a shard and starts it again. Returns the time from the kill until the cluster was whole.
async fn kill_leader(cluster: &mut Cluster, rng: &mut Rng, (what, shard): (&str, u16)) -> (u64, u64) {
    let leader = eventually("the shard has a leader", async || cluster.leaders().await.get(&u64::from(shard)).copied());
    let leader = leader.await;
    let killed = now_ms();
    cluster.kill(leader);
    sleep(Duration::from_millis(rng.below(400) as u64)).await;
    cluster.start_node(leader).await;
    cluster.ready().await;
    println!("node {leader}, which leads {what} in shard {shard}, was killed; whole after {} ms", now_ms() - killed);
    (killed, now_ms())
}

/// The venue, its hall and its title.
async fn open_house(cluster: &Cluster) {
    let venue = json!({"id": "globe", "name": "Globe", "city": "London", "zone": terms::ZONE});
    cluster.admin("venue.put", venue).await;
    let hall = json!({"venue": "globe", "id": "main", "name": "Main", "layout": terms::layout()});
    cluster.admin("hall.put", hall).await;
    cluster.admin("title.put", json!({"id": "hamlet", "name": "Hamlet"})).await;
}

/// Reads until the node answers. A shard may lose its leader on a slow machine.
async fn read(port: &Port, op: &str, body: Value) -> Value {
    eventually(op, async || match port.read(op, body.clone()).await {
        Answer::Fail(_) => None,
        answer => Some(answer.ok()),
    })
    .await
}

/// Cancels the carts of buyers who do not know what they have, until nothing is held.
async fn settle_doubts(cluster: &Cluster, carts: &[Cart], theatre: &Theatre) {
    let desk = cluster.port(cluster.running()[0]).await;
    eventually("nothing is held", async || {
        for cart in carts.iter().filter(|cart| cart.is_in_doubt()) {
            // There may be no cart.
            let _ = desk.ask("cart.cancel", "cancel", json!({"token": cart.token})).await;
        }
        for session in &theatre.sessions {
            let seen = read(&desk, "session.get", json!({"id": session, "layout": false})).await;
            if seen["counts"]["held"] != 0 || seen["areas"][0]["held"] != 0 {
                return None;
            }
        }
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_theatre_sells_its_season_while_leaders_of_three_shards_die() {
    let mut rng = Rng::of_test("a_theatre_sells_its_season_while_leaders_of_three_shards_die");
    let began = Instant::now();
    let mut cluster = Cluster::start_with_shards(THREE, SHARDS.into()).await;
    let moment_ms = (began.elapsed().as_millis() as u64).clamp(MOMENT_MS.0, MOMENT_MS.1);
    open_house(&cluster).await;
    let (code, code_shard) = put_code(&cluster, &mut rng).await;
    let session_shard = shard_of(&session(Show::Gala));
    let cart_shard = loop {
        let shard = 1 + rng.below(SHARDS.into()) as u16;
        if shard != session_shard && shard != code_shard {
            break shard;
        }
    };
    println!("shards: code {code_shard}, session {session_shard}, carts {cart_shard}; a moment is {moment_ms} ms");

    // Both sessions, of which the matinee is on sale.
    let [presale, public, release, web_end] = MOMENTS.map(|moments| now_ms() + moments * moment_ms);
    let times = Times { presale, public, release, web_end };
    let mut house = House {
        times,
        gala: terms::gala(&times),
        matinee: [terms::matinee(&times), terms::matinee(&times)],
        changed: (0, 0),
        tomorrow: 0,
    };
    for (show, terms) in [(Show::Matinee, &house.matinee[0]), (Show::Gala, &house.gala)] {
        cluster.admin("session.create", terms::session(show.id(), &times, terms, show == Show::Gala)).await;
    }
    let sessions = vec![Show::Gala.id().to_owned(), Show::Matinee.id().to_owned()];
    let theatre = Theatre { sessions, rows: ROWS, seats: SEATS, price: 0, goods: None };
    let nodes: Vec<_> = cluster.running().into_iter().map(|id| (id, cluster.client(id))).collect();
    let mut watchers = Watchers::start_as(nodes, &theatre, None);

    // Early ones are told when to come again, members another time than everybody. So are searches.
    let width = u16::MAX / SHARDS + 1;
    let first = (cart_shard - 1) * width;
    let sale = Arc::new(Sale { code, prefixes: first..first + (width - 1), is_over: AtomicBool::new(false) });
    let buyer = |who: Who, rng: &mut Rng| {
        let seed = rng.next();
        let client = if who == Who::Desk { cluster.failover_client(seed) } else { cluster.failover_guest(seed) };
        Buyer::new(who, client, rng.fork(seed), &sale)
    };
    let each = [Who::Member, Who::Guest, Who::Guest, Who::Desk];
    let [mut member, mut guest, mut patron, mut clerk] = each.map(|who| buyer(who, &mut rng));
    for (early, who) in [(&mut member, "a member"), (&mut guest, "a guest")] {
        let hold = early.buy(Show::Gala, one([0, 0], Type::Adult)).await;
        assert_eq!(hold.code(), Some(212), "{who} comes early: {hold:#?}");
    }
    let hold = guest.buy(Show::Gala, one([HOUSE_ROWS.start, 0], Type::Adult)).await;
    assert_eq!(hold.code(), Some(204), "the seat is kept: {hold:#?}");
    let hold = clerk.buy(Show::Gala, one([HOUSE_ROWS.start, 0], Type::Adult)).await;
    assert!(hold.is_held(), "the desk sells it: {hold:#?}");
    let found = eventually("a search says when the sale opens", async || {
        let found = cluster.read(1, "session.search", json!({"venue": "globe"})).await?;
        let found = found["sessions"].as_array()?.iter().find(|found| found["id"] == "gala")?.clone();
        found.get("opens_at").map(read_time)
    });
    assert_eq!(found.await, public);

    // All buy. The first leader dies while members do.
    let mut buyers = JoinSet::new();
    for (who, count) in [(Who::Member, MEMBERS_WHO_BUY), (Who::Guest, GUESTS), (Who::Desk, 1)] {
        (0..count).for_each(|_| _ = buyers.spawn(buyer(who, &mut rng).shop()));
    }
    (0..GUESTS_OF_MATINEES).for_each(|_| _ = buyers.spawn(buyer(Who::Guest, &mut rng).shop_matinees()));
    until(presale + moment_ms + rng.below(500) as u64).await;
    let mut kills = vec![kill_leader(&mut cluster, &mut rng, ("the code", code_shard)).await];

    // The second one dies when the sale opens for everybody.
    until(public - rng.below(300) as u64).await;
    kills.push(kill_leader(&mut cluster, &mut rng, ("the session", session_shard)).await);

    // The matinee gets more places, and from tomorrow another price. A hold from before keeps its own.
    let many = guest.buy(Show::Matinee, Wish::Places(PLACES + 1, Type::Adult)).await;
    assert_eq!(many.code(), Some(205), "{many:#?}");
    let seats = |rows: Range<u16>| rows.flat_map(|row| (0..SEATS).map(move |seat| [row, seat]));
    let mut seat = seats(0..ROWS);
    while !patron.take(Show::Matinee, one(seat.next().expect("a free seat"), Type::Adult)).await.is_held() {}
    let tomorrow = now_ms() + 2 * moment_ms;
    (house.tomorrow, house.matinee[1]) = (tomorrow, terms::matinee_from(tomorrow, &times));
    let mut change = house.matinee[1].body("first");
    (change["id"], change["expect"]) = (Show::Matinee.id().into(), 0.into());
    let asked = now_ms();
    let changed = cluster.admin("session.change", change).await;
    house.changed = (asked, now_ms());
    assert_eq!(changed["terms"], 1, "{changed}");
    let many = guest.buy(Show::Matinee, Wish::Places(PLACES + 1, Type::Adult)).await;
    assert!(many.is_held(), "{many:#?}");

    // Until tomorrow the desk sells at the price of the web, too, because that is the cheapest.
    while !clerk.buy(Show::Matinee, one(seat.next().expect("a free seat"), Type::Adult)).await.is_held() {}

    // The third one dies when the seats of the house are released.
    until(tomorrow.max(release - rng.below(300) as u64)).await;
    kills.push(kill_leader(&mut cluster, &mut rng, ("the carts", cart_shard)).await);
    until(release + LATE_MS).await;
    let mut of_house = seats(HOUSE_ROWS);
    while guest.buy(Show::Gala, one(of_house.next().expect("a free seat"), Type::Adult)).await.code() == Some(201) {}
    patron.pay().await;
    until(tomorrow + LATE_MS).await;
    let dearer = guest.buy(Show::Matinee, Wish::Places(1, Type::Adult)).await;
    let Outcome::Held(line) = &dearer.outcome else { panic!("there are places: {dearer:#?}") };
    assert_eq!(line["bought_as"][0]["offer"], "web-dearer");

    // The sale on the web ends, and the desk goes on.
    until(web_end + LATE_MS).await;
    for (late, who) in [(&mut member, "a member"), (&mut guest, "a guest")] {
        let mut free = seats(0..ROWS);
        while late.buy(Show::Gala, one(free.next().expect("a free seat"), Type::Adult)).await.code() == Some(201) {}
        let hold = late.last();
        assert!(matches!(hold.code(), Some(109 | 212 | 218)), "{who} comes late: {hold:#?}");
    }
    sale.is_over.store(true, Relaxed);
    let mut carts: Vec<Cart> = buyers.join_all().await.into_iter().flatten().collect();
    carts.extend([member, guest, patron].into_iter().flat_map(|buyer| buyer.carts));
    cluster.ready().await;
    settle_doubts(&cluster, &carts, &theatre).await;
    let mut free = seats(0..ROWS);
    while !clerk.buy(Show::Gala, one(free.next().expect("a free seat"), Type::Adult)).await.is_held() {}
    let sold_out = loop {
        let hold = clerk.buy(Show::Gala, one(free.next().expect("a free seat"), Type::Under26)).await;
        if hold.code() == Some(214) {
            break hold.clone();
        }
    };
    println!("the desk sells until {:?}", sold_out.outcome);
    carts.extend(clerk.carts);
    settle_doubts(&cluster, &carts, &theatre).await;

    let sold = judge(&house, &carts);
    has_happened(&house, &carts, &kills);
    check_counts(&cluster, &sold, &sale.code, carts.iter().any(Cart::is_in_doubt)).await;
    check_watchers(&cluster, &mut watchers, (&theatre, &house), &sold).await;
    check_receipts(&cluster, &house, &carts).await;
    cluster.converged().await;
    cluster.stop();
    println!("{:?} in all", began.elapsed());
}

/// Checks that the story was told: each of its events met buyers.
fn has_happened(house: &House, carts: &[Cart], kills: &[(u64, u64)]) {
    let times = &house.times;
    let holds = || carts.iter().flat_map(|cart| &cart.holds);
    let mut refused: BTreeMap<u64, u64> = BTreeMap::new();
    holds().filter_map(|hold| hold.code()).for_each(|code| *refused.entry(code).or_default() += 1);
    let orders = carts.iter().filter(|cart| cart.order.is_some()).count();
    let in_doubt = carts.iter().filter(|cart| cart.is_in_doubt()).count();
    println!("{} carts, {orders} orders, {in_doubt} in doubt, refusals {refused:?}", carts.len());
    let granted = |what: &str, fits: &dyn Fn(&buyers::Hold) -> bool| {
        assert!(holds().any(|hold| hold.is_held() && fits(hold)), "{what}");
    };
    granted("members buy before everybody", &|hold| hold.who == Who::Member && hold.answered < times.public);
    granted("guests buy", &|hold| hold.who == Who::Guest && hold.show == Show::Gala);
    let of_house = |hold: &buyers::Hold| hold.wish.seats().iter().any(|([row, _], _)| HOUSE_ROWS.contains(row));
    granted("guests buy seats of the house", &|hold| {
        of_house(hold) && hold.show == Show::Gala && hold.who == Who::Guest
    });
    granted("the desk sells after the web", &|hold| hold.who == Who::Desk && hold.asked > times.web_end);
    for (killed, whole) in kills {
        granted("buyers buy while a leader is down", &|hold| hold.asked < *whole && hold.answered > *killed);
    }
    let kept_its_price = carts.iter().any(|cart| {
        let paid = cart.order.as_ref().map(|(_, paid)| *paid);
        cart.holds.iter().all(|hold| hold.show == Show::Matinee && hold.answered <= house.changed.0)
            && paid >= Some(house.changed.1)
    });
    assert!(kept_its_price, "a hold from before the change is paid after it");
}

/// Checks what the nodes count, and what they say of the code.
async fn check_counts(cluster: &Cluster, sold: &BTreeMap<Show, Tickets>, code: &str, in_doubt: bool) {
    let of_gala = &sold[&Show::Gala];
    assert_eq!(of_gala.young, YOUNG, "as many are under 26 as may be");
    assert!(sold[&Show::Matinee].young <= YOUNG);
    let more = sold[&Show::Matinee].places;
    assert!(more > PLACES && more <= PLACES + MORE_PLACES, "{more} standing places");
    assert!(
        of_gala.beside_code == 0 || of_gala.by_code == USES || in_doubt,
        "members pay more while the code has uses"
    );
    assert!((1..=USES).contains(&of_gala.by_code), "{} uses", of_gala.by_code);
    println!("{} seats, {} with the code; {more} places of the matinee", of_gala.seats.len(), of_gala.by_code);
    for node in cluster.running() {
        let desk = cluster.port(node).await;
        let uses = eventually("every use is bought or free", async || {
            let uses = read(&desk, "code.get", json!({"code": code})).await;
            (uses["held"] == 0).then(|| uses["sold"].clone())
        });
        assert_eq!(uses.await, of_gala.by_code, "uses of the code are tickets");
        for (show, tickets) in sold {
            let seen = read(&desk, "session.get", json!({"id": show.id(), "layout": false})).await;
            let area = &seen["areas"][0];
            let counts = json!([seen["counts"]["sold"], seen["counts"]["held"], area["sold"], area["held"]]);
            assert_eq!(counts, json!([tickets.seats.len(), 0, tickets.places, 0]), "{seen}");
            assert_eq!(seen["sale"]["counted"], json!([tickets.young]), "{seen}");
            if *show == Show::Gala {
                let allotments = json!([seen["sale"]["released"], seen["sale"]["kept"]]);
                assert_eq!(allotments, json!([["house"], [0]]), "{seen}");
            }
            let audit = read(&desk, "admin.audit", json!({"entity": session(*show).to_string()})).await;
            assert_eq!(audit["violations"], json!([]), "{audit}");
        }
        eventually("searches tell that everything has opened", async || {
            let found = cluster.read(node, "session.search", json!({"venue": "globe"})).await?;
            found["sessions"].as_array()?.iter().all(|found| found.get("opens_at").is_none()).then_some(())
        })
        .await;
    }
}

/// Checks the maps of all nodes, and that the watcher at each has seen what happened.
async fn check_watchers(
    cluster: &Cluster,
    watchers: &mut Watchers,
    (theatre, house): (&Theatre, &House),
    sold: &BTreeMap<Show, Tickets>,
) {
    let nodes = cluster.running();
    for (show, tickets) in sold {
        let letter = |index: u16| if tickets.seats.contains(&[index / SEATS, index % SEATS]) { 's' } else { '.' };
        let expected: String = (0..ROWS * SEATS).map(letter).collect();
        for node in &nodes {
            let guest = Port::guest(cluster.client(*node), Encoding::Json).await;
            let map: Map = theatre.map(&guest, show.id()).await;
            assert_eq!(map.seats, expected, "the map of {show:?} at node {node}");
            watchers.expect_map(&[*node], show.id(), &map).await;
        }
    }
    for node in nodes {
        let (gala, matinee) = (watchers.told(node, Show::Gala.id()), watchers.told(node, Show::Matinee.id()));
        let opens_at = |expected: u64| move |told: &Told| told.opens_at == Some(expected);
        let is_open = |told: &Told| told.opens_at.is_none();
        seen((node, "the opening"), &gala, opens_at(house.times.public), is_open);
        seen((node, "the release"), &gala, |told| told.blocked > 0, |told| told.blocked == 0);
        let more = PLACES + MORE_PLACES;
        seen((node, "more places"), &matinee, |told| told.places == PLACES, |told| told.places == more);
        seen((node, "other prices"), &matinee, opens_at(house.tomorrow), is_open);
    }
}

/// Checks that a watcher was told of a change, with another mark, and of none that takes it back.
fn seen((node, what): (u64, &str), told: &[Told], before: impl Fn(&Told) -> bool, after: impl Fn(&Told) -> bool) {
    let last = told.iter().rposition(before).unwrap_or_else(|| panic!("node {node}, before {what}: {told:#?}"));
    let next = told[last + 1..].first();
    let is_told = next.is_some_and(|next| after(next) && next.version > told[last].version);
    assert!(is_told, "node {node} tells of {what}: {told:#?}");
}

/// Changes all names, and checks that every order says at every node what was bought in the words of its time.
async fn check_receipts(cluster: &Cluster, house: &House, carts: &[Cart]) {
    for (show, terms) in [(Show::Gala, &house.gala), (Show::Matinee, &house.matinee[1])] {
        let mut names = terms.named("next year's");
        names["id"] = show.id().into();
        cluster.admin("session.change", names).await;
    }
    let nodes = cluster.running().into_iter().map(async |node| {
        let guest = Port::guest(cluster.client(node), Encoding::BOTH[node as usize % 2]).await;
        for cart in carts {
            let Some((order, _)) = &cart.order else { continue };
            let again = eventually("a repeat is answered", async || {
                match guest.ask("cart.checkout", "pay", checkout(&cart.token)).await {
                    Answer::Fail(_) => None,
                    answer => Some(answer.ok()),
                }
            });
            let again = again.await;
            let same = |name: &str| again[name] == order[name];
            assert!(["id", "lines", "total"].into_iter().all(same), "a repeat is another order: {again}");
            let told = eventually("the order has settled", async || {
                let told = read(&guest, "order.get", json!({"order": order["id"], "names": true})).await;
                (told["settling"] == false).then_some(told)
            });
            check_receipt(order, &told.await);
        }
    });
    join_all(nodes).await;
}

/// Checks an order with its names against the order that its buyer got.
fn check_receipt(order: &Value, told: &Value) {
    assert_eq!((&told["lines"], &told["total"], told.get("refunds")), (&order["lines"], &order["total"], None));
    let lines = order["lines"].as_array().expect("lines");
    let [session] = &told["sessions"].as_array().expect("sessions")[..] else { panic!("one session: {told}") };
    assert_eq!(session["session"], lines[0]["session"]);
    // The names that the lines need, by the version of the terms.
    let mut needed: BTreeMap<u64, BTreeMap<String, String>> = BTreeMap::new();
    let mut seats: BTreeMap<Seat, Value> = BTreeMap::new();
    for line in lines {
        for bought_as in line["bought_as"].as_array().expect("bought under an offer") {
            let names = needed.entry(bought_as["terms"].as_u64().expect("a version")).or_default();
            for part in ["price_type", "offer"] {
                let id = bought_as[part].as_str().expect("an id");
                names.insert(id.to_owned(), format!("first {id}"));
            }
            if line.get("area").is_some() {
                names.insert(YARD.to_owned(), "Yard".to_owned());
            }
        }
        for seat in line.get("seats").and_then(Value::as_array).into_iter().flatten() {
            let [row, number]: Seat = serde_json::from_value(seat.clone()).expect("a seat");
            let named = json!({"seat": seat, "row": row_label(row), "label": (number + 1).to_string()});
            seats.insert([row, number], named);
        }
    }
    assert_eq!(session["seats"], json!(seats.into_values().collect::<Vec<_>>()), "{told}");
    let mut found: BTreeMap<u64, BTreeMap<String, String>> = BTreeMap::new();
    for terms in session["terms"].as_array().expect("terms") {
        let names = found.entry(terms["terms"].as_u64().expect("a version")).or_default();
        for named in ["areas", "price_types", "offers"].iter().filter_map(|part| terms[part].as_array()).flatten() {
            let text = |name: &str| named[name].as_str().expect("a text").to_owned();
            names.insert(text("id"), text("name"));
        }
    }
    assert_eq!(found, needed, "{told}");
}
