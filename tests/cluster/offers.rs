//! A theatre sells price types under offers with a begin and a counter, and changes its terms, while each leader is killed once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boxoffice_client::{
    AdminToken, Allotment, Area, Cart, Client, ClientConfig, CodeDetails, Content, Counter, Currency, Entity, Error,
    Id, Layout, MapState, Money, NewSession, Offer, Offering, Order, PriceChange, PriceType, Seat, SessionChange,
    SessionExtras, SessionView, Timestamp, Title, VenueDetails, recorded,
};
use boxoffice_core::layout::{Labels, Row, Run};
use boxoffice_shard::ring;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    THREE,
    cluster::Cluster,
    common::{ADMIN, Rng, eventually},
};

/// Rows of the house, in four categories from the stage to the back.
const ROWS: u16 = 30;
/// Seats of a row, so the house has 1 200 of them.
const SEATS: u16 = 40;
const CATEGORIES: [(&str, i64); 4] = [("stalls", 9_000), ("circle", 7_000), ("balcony", 5_000), ("gallery", 2_500)];
/// Seats that the house keeps for itself.
const HOUSE_SEATS: u16 = 60;
/// At most so many people under 26.
const YOUNG: u32 = 100;
/// Buyers at once for the last three of them.
const RUSH: u64 = 50;
const HOUR_MS: u64 = 3_600_000;
/// How long a buyer asks whose leader died.
const IN_DOUBT: Duration = Duration::from_secs(20);

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("a currency") }
}

fn house() -> Layout {
    let row = |number: u16| Row {
        label: format!("{}", number + 1).into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: SEATS,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: id(CATEGORIES[usize::from(number) * CATEGORIES.len() / usize::from(ROWS)].0),
            accessible: false,
            points: Vec::new(),
        }],
    };
    Layout::new((0..ROWS).map(row).collect(), None).expect("a house")
}

fn price_type(name: &str, rate: i64) -> PriceType {
    let mut prices: Vec<(Id, i64)> =
        CATEGORIES.iter().map(|(category, price)| (id(category), price * rate / 100)).collect();
    prices.sort();
    // The first type has the prices of the session.
    let (prices, area_prices) = if rate == 100 { (vec![], vec![]) } else { (prices, vec![(id("yard"), 1_000)]) };
    PriceType { id: id(name), name: name.into(), names: Default::default(), prices, area_prices, tax: None }
}

fn offer(name: &str, types: &[&str]) -> Offer {
    Offer {
        id: id(name),
        name: name.into(),
        names: Default::default(),
        types: types.iter().map(|name| id(name)).collect(),
        categories: vec![],
        areas: vec![],
        from: None,
        until: None,
        closed: false,
        desk: false,
        change: None,
        per_order: None,
        counters: vec![],
        allotments: vec![],
        code_group: None,
        attributes: vec![],
        per_customer: None,
    }
}

/// The seats that the house keeps, in the last rows.
fn house_seats() -> Vec<Seat> {
    let all = (0..ROWS).flat_map(|row| (0..SEATS).map(move |seat| Seat { row, seat }));
    all.skip(usize::from(ROWS * SEATS - HOUSE_SEATS)).collect()
}

fn kept(release_at: Option<Timestamp>) -> Allotment {
    let seats = house_seats();
    Allotment {
        id: id("house"),
        name: "House".into(),
        names: Default::default(),
        seats,
        release_at,
        released: false,
        companions: false,
    }
}

/// A code is shown by many members at once, before everybody may buy, while the leaders of the code and of the session die: no use is
/// lost, and none is used twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_has_its_uses_while_leaders_die() {
    /// Uses of the code, and members who show it, each for two seats.
    const USES: u32 = 11;
    const MEMBERS: u16 = 20;
    let mut cluster = Cluster::start(THREE).await;
    let (desk, guest) = (connect(&cluster, Some(ADMIN)).await, connect(&cluster, None).await);
    let session = id("preview");
    let now = self::now();
    let (opens_at, starts_at) = (now.after(24 * HOUR_MS), now.after(48 * HOUR_MS));
    open_house(&desk).await;
    let members = Offer {
        code_group: Some(id("members")),
        change: Some(PriceChange::Percent(1_000)),
        ..offer("members", &["adult"])
    };
    let mut offering = offering(opens_at, starts_at);
    offering.offers.push(members);
    desk.session_create(&id("globe"), new_session(&session, starts_at, offering)).await.expect("a session");
    let details = |ended| CodeDetails { group: id("members"), uses: USES, ended, by_order: false };
    let code = id("GLOBE-7Q2M");
    desk.code_put(&code, details(false)).await.expect("a code");
    let entity = Entity::Session(session.clone());
    let hidden = desk.code_get(&code).await.expect("the code").at[0].entity.clone();
    assert!(!hidden.to_string().contains("GLOBE"), "{hidden}");

    // Nobody else buys yet, and a wrong code is like none that is known.
    let offers = view(&guest, &session).await.offering.as_ref().map(|offering| offering.offers.len());
    assert_eq!(offers, Some(2), "guests do not see the offer of members");
    let wrong = Cart::beside(&guest, &entity);
    let no = wrong.hold_seats(&session, [Seat { row: 0, seat: 0 }]).code(Some(&id("globe-7q2m"))).await;
    assert_eq!(refusal(&no.expect_err("its case matters")).0, 218);

    let mut rush = JoinSet::new();
    for member in 0..MEMBERS {
        let (desk, session, code) = (desk.clone(), session.clone(), code.clone());
        let guest = guest.clone().with_deadline(IN_DOUBT);
        rush.spawn(async move {
            let cart = Cart::beside(&guest, &Entity::Session(session.clone()));
            let seats = [0, 1].map(|seat| Seat { row: member, seat });
            // The last use is for one seat.
            let held = match cart.hold_seats(&session, seats).code(Some(&code)).await {
                Err(error) if error.refusal().is_some_and(|no| no.code == 214) => {
                    cart.hold_seats(&session, [seats[0]]).code(Some(&code)).await
                }
                other => other,
            };
            if held.as_ref().is_err_and(|error| error.refusal().is_none()) {
                give_up(&desk, &cart).await;
                return Ok(None);
            }
            held?;
            let cart = Cart::with_token(&desk, cart.token());
            Ok::<_, Error>(Some(cart.checkout(recorded("card", "4711"), None).await?.value))
        });
    }
    let of_code = kill_leader(&mut cluster, &hidden).await;
    sleep(Duration::from_millis(150)).await;
    cluster.start_node(of_code).await;
    cluster.ready().await;
    let of_session = kill_leader(&mut cluster, &entity).await;
    let mut orders: Vec<Order> = Vec::new();
    while let Some(ended) = rush.join_next().await {
        match ended.expect("no panic") {
            Ok(order) => orders.extend(order),
            Err(error) => {
                let (code, words) = refusal(&error);
                // All members come from one network, and those who come too late seem to guess.
                assert!([109, 212, 214, 218].contains(&code), "{code}: {words}");
                assert!(!words.contains("GLOBE"), "{words}");
            }
        }
    }
    cluster.start_node(of_session).await;
    cluster.ready().await;
    let tickets = orders.iter().flat_map(|order| &order.lines).flat_map(|line| line.content.seats());
    let mut bought = 0;
    for seat in tickets {
        let bought_as = seat.bought_as.as_deref().expect("bought under an offer");
        assert_eq!((&bought_as.offer, &bought_as.code_group), (&Some(id("members")), &Some(id("members"))));
        assert_eq!(seat.price, bought_as.list_price * 9 / 10);
        bought += 1;
    }
    let settled = eventually("every use is bought or free", async || {
        let view = desk.code_get(&code).await.ok()?.value;
        (view.held == 0).then_some(view.sold)
    });
    assert_eq!(settled.await, bought, "uses are tickets");
    assert!((1..=u64::from(USES)).contains(&bought), "{bought} of {USES}");
    // What is left sells, and what is paid back sells again.
    let buy = async |seats: &[Seat]| {
        let cart = Cart::beside(&desk, &entity);
        cart.hold_seats(&session, seats.iter().copied()).code(Some(&code)).await?;
        Ok::<Order, Error>(cart.checkout(recorded("card", "1"), None).await?.value)
    };
    for (_, seat) in (bought..u64::from(USES)).zip(1..) {
        buy(&[Seat { row: 24, seat }]).await.expect("a use is left");
    }
    let no = buy(&[Seat { row: 24, seat: 0 }]).await.expect_err("all are used");
    assert_eq!(refusal(&no).0, 218);
    let first = &orders[0];
    let seats = first.lines[0].content.seats().len() as u64;
    desk.order_refund(first.id, None, "ill").await.expect("paid back");
    let again = eventually("its uses are free again", async || {
        let view = desk.code_get(&code).await.ok()?.value;
        (view.sold == u64::from(USES) - seats).then_some(())
    });
    again.await;
    buy(&[Seat { row: 24, seat: 0 }]).await.expect("a use is free again");
    desk.code_put(&code, details(true)).await.expect("it is ended");
    let audit = desk.audit_session(&session).await.expect("an audit").value;
    assert_eq!(audit.violations, Vec::<smol_str::SmolStr>::new());
    cluster.stop();
}

/// Adults and carers from `opens_at` on, people under 26 as long as there are any left, and the desk at any time.
fn offering(opens_at: Timestamp, starts_at: Timestamp) -> Offering {
    let until = Some(Timestamp(starts_at.0 - HOUR_MS));
    let web = |of: Offer| Offer { from: Some(opens_at), until, ..of };
    Offering {
        price_types: vec![price_type("adult", 100), price_type("under26", 50), price_type("carer", 20)],
        offers: vec![
            web(offer("web", &["adult", "carer"])),
            web(Offer { counters: vec![id("young")], ..offer("young", &["under26"]) }),
            Offer { desk: true, ..offer("desk", &["adult", "carer"]) },
        ],
        counters: vec![Counter { id: id("young"), max: YOUNG }],
        allotments: vec![kept(None)],
    }
}

/// The venue with its hall and its title.
async fn open_house(desk: &Client) {
    let venue = VenueDetails {
        name: "Globe".into(),
        city: "London".into(),
        position: None,
        comments: "".into(),
        zone: Some("Europe/London".into()),
        address: "".into(),
    };
    desk.venue_put(&id("globe"), venue).await.expect("a venue");
    desk.hall_put(&id("globe"), &id("main"), "Main", house().into()).await.expect("a hall");
    let title =
        Title { name: "Hamlet".into(), director: "".into(), cast: vec![], comments: "".into(), duration_ms: None };
    desk.title_put(&id("hamlet"), title).await.expect("a title");
}

fn yard() -> Area {
    Area { id: id("yard"), name: "Yard".into(), capacity: 50, price: euros(2_000), names: Default::default() }
}

fn new_session(session: &Id, starts_at: Timestamp, offering: Offering) -> NewSession {
    NewSession {
        id: session.clone(),
        hall: id("main"),
        title: id("hamlet"),
        starts_at,
        ends_at: starts_at.after(3 * HOUR_MS),
        prices: CATEGORIES.iter().map(|(category, price)| (id(category), euros(*price))).collect(),
        extras: SessionExtras { areas: vec![yard()], offering: Some(offering.into()), ..Default::default() },
    }
}

async fn connect(cluster: &Cluster, token: Option<&str>) -> Client {
    let nodes: Vec<String> = cluster.running().into_iter().map(|node| cluster.client(node).to_string()).collect();
    let admin_token = token.map(|token| AdminToken(token.into()));
    let client = Client::connect(ClientConfig { admin_token, ..ClientConfig::new(nodes) }).await;
    // On a slow machine, a new leader takes a while.
    client.expect("a connection").with_deadline(Duration::from_secs(60))
}

/// True time, by the clock of this machine, which the nodes share.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(since.as_millis().try_into().expect("before the end of time"))
}

fn refusal(error: &Error) -> (u16, String) {
    let no = error.refusal().unwrap_or_else(|| panic!("no refusal: {error}"));
    (no.code, no.message.clone())
}

async fn view(client: &Client, session: &Id) -> SessionView {
    eventually("the session is read", async || client.session_get(session).await.ok()).await.value
}

/// Kills the leader of this entity's shard and starts the node again, while `meanwhile` goes on.
async fn kill_leader(cluster: &mut Cluster, entity: &Entity) -> u64 {
    let shards = (cluster.leaders().await.len() - 1).try_into().expect("a few shards");
    let shard = ring::shard_of(entity.hash_prefix(), shards);
    let leader =
        eventually("the shard has a leader", async || cluster.leaders().await.get(&u64::from(shard)).copied()).await;
    cluster.kill(leader);
    leader
}

/// Cancels a cart whose hold was in doubt: while an attempt may have been granted, the client takes no refusal of a later one for final.
async fn give_up(desk: &Client, cart: &Cart) {
    let canceled = Cart::with_token(desk, cart.token()).cancel().await;
    assert!(canceled.as_ref().err().is_none_or(|error| error.refusal().is_some()), "{canceled:?}");
}

/// Buys these seats as these types. The order, or the refusal of the hold.
async fn buy(guest: &Client, desk: &Client, session: &Id, seats: &[Seat], types: &[&str]) -> Result<Order, Error> {
    let cart = Cart::beside(guest, &Entity::Session(session.clone()));
    let types = types.iter().map(|name| id(name));
    let held = cart.hold_seats(session, seats.iter().copied()).types(types).await;
    if held.as_ref().is_err_and(|error| error.refusal().is_none()) {
        give_up(desk, &cart).await;
    }
    held?;
    let cart = Cart::with_token(desk, cart.token());
    Ok(cart.checkout(recorded("card", "4711"), None).await?.value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_theatre_sells_price_types_while_leaders_die() {
    let mut cluster = Cluster::start(THREE).await;
    let mut rng = Rng::of_test("a_theatre_sells_price_types_while_leaders_die");
    let (desk, guest) = (connect(&cluster, Some(ADMIN)).await, connect(&cluster, None).await);
    let session = id("premiere");
    let now = self::now();
    let (opens_at, starts_at) = (now.after(4_000), now.after(48 * HOUR_MS));
    open_house(&desk).await;
    let yard = yard();
    let new = new_session(&session, starts_at, offering(opens_at, starts_at));
    desk.session_create(&id("globe"), new).await.expect("a session");
    let entity = Entity::Session(session.clone());

    // Before the sale opens, guests learn when it does, and nothing of the desk's offer.
    let early = buy(&guest, &desk, &session, &[Seat { row: 0, seat: 0 }], &["adult"]).await.expect_err("too early");
    let (code, words) = refusal(&early);
    assert_eq!(code, 212, "{words}");
    assert!(words.contains("Europe/London"), "{words}");
    let (theirs, ours) = (view(&guest, &session).await, view(&desk, &session).await);
    let offers = |view: &SessionView| view.offering.as_ref().map_or(0, |offering| offering.offers.len());
    assert_eq!((offers(&theirs), offers(&ours)), (2, 3));
    assert_eq!(theirs.sale.as_ref().and_then(|sale| sale.opens_at), Some(opens_at));
    let mut watch = guest.watch(&session);
    let map: &MapState = watch.next().await.expect("a map");
    assert_eq!(map.sale().and_then(|sale| sale.opens_at), Some(opens_at));

    // The leader dies at the instant of the opening. Whoever asks then is served by its successor.
    let wait = opens_at.0.saturating_sub(self::now().0 + 300);
    sleep(Duration::from_millis(wait)).await;
    let first = kill_leader(&mut cluster, &entity).await;
    let mut sold: Vec<Order> = Vec::new();
    let first_seat = [Seat { row: 0, seat: 0 }];
    let opened =
        eventually("the sale has opened", async || match buy(&guest, &desk, &session, &first_seat, &["adult"]).await {
            Ok(order) => Some(order),
            Err(error) => {
                assert!(error.refusal().is_none_or(|no| no.code == 212), "{error}");
                None
            }
        });
    sold.push(opened.await);
    cluster.start_node(first).await;
    let told = eventually("watchers are told of the opening", async || {
        let map = watch.next().await.ok()?;
        map.sale().is_some_and(|sale| sale.opens_at.is_none()).then_some(())
    });
    told.await;

    // Many at once for the last three under 26, whose leader dies as well.
    cluster.ready().await;
    let mut seat = (0..ROWS).flat_map(|row| (0..SEATS).map(move |seat| Seat { row, seat })).skip(1);
    while sold.len() < 1 + (YOUNG as usize - 4) / 8 {
        let seats: Vec<Seat> = seat.by_ref().take(8).collect();
        sold.push(buy(&guest, &desk, &session, &seats, &["under26"]).await.expect("there are some left"));
    }
    sold.push(buy(&guest, &desk, &session, &[seat.next().expect("a seat")], &["under26"]).await.expect("one more"));
    let mut rush = JoinSet::new();
    for _ in 0..RUSH {
        let (desk, session) = (desk.clone(), session.clone());
        let guest = guest.clone().with_deadline(IN_DOUBT);
        let seats = [seat.next().expect("a seat"), seat.next().expect("a seat")];
        rush.spawn(async move {
            let mixed = buy(&guest, &desk, &session, &seats, &["under26", "carer"]).await;
            (seats, mixed)
        });
    }
    sleep(Duration::from_millis(rng.below(40) as u64)).await;
    let second = kill_leader(&mut cluster, &entity).await;
    let mut mixed = 0;
    while let Some(ended) = rush.join_next().await {
        match ended.expect("no panic") {
            (_, Ok(order)) => {
                mixed += 1;
                sold.push(order);
            }
            // The leader died, and nobody knows.
            (_, Err(error)) if error.refusal().is_none() => {}
            (_, Err(error)) => {
                let (code, words) = refusal(&error);
                assert_eq!(code, 214, "{words}");
                assert!(words.contains("none left; adult for") && words.contains("carer for"), "{words}");
            }
        }
    }
    cluster.start_node(second).await;
    cluster.ready().await;
    assert!(mixed <= 3, "three were left, and {mixed} are sold");
    // Those who gave up may have had one.
    for _ in mixed..3 {
        let seats = [seat.next().expect("a seat"), seat.next().expect("a seat")];
        sold.push(buy(&guest, &desk, &session, &seats, &["under26", "carer"]).await.expect("one is left"));
    }
    let seats = [seat.next().expect("a seat")];
    let none = buy(&guest, &desk, &session, &seats, &["under26"]).await.expect_err("none is left");
    assert_eq!(refusal(&none).0, 214);

    // A hold keeps its price while prices rise and the yard grows; a repeat gets the same.
    let held = Cart::beside(&guest, &entity);
    held.hold_places(&session, &id("yard"), 2).types([id("adult")]).await.expect("held");
    let change = SessionChange {
        expect: Some(0),
        prices: Some(CATEGORIES.iter().map(|(category, price)| (id(category), euros(price * 2))).collect()),
        areas: Some([Area { capacity: 250, price: euros(4_000), ..yard }].into_iter().map(Into::into).collect()),
        ..SessionChange::of(session.clone())
    };
    let changed = desk.session_change(&change).await.expect("dearer").value;
    assert_eq!(changed.terms, 1, "{changed:?}");
    let third = kill_leader(&mut cluster, &entity).await;
    let late = desk.session_change(&change).await.expect_err("somebody has changed it since");
    assert_eq!(refusal(&late).0, 215);
    held.hold_places(&session, &id("yard"), 1).types([id("adult")]).await.expect("held");
    let bill = Cart::with_token(&desk, held.token()).checkout(recorded("card", "1"), None).await.expect("paid").value;
    let prices: Vec<(u32, i64)> = bill
        .lines
        .iter()
        .map(|line| match &line.content {
            Content::Places { quantity, price, .. } => (*quantity, *price),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(prices, [(2, 2_000), (1, 4_000)]);
    cluster.start_node(third).await;
    cluster.ready().await;

    // The house keeps seats, from which only its desk sells. They are released when the leader dies once more.
    let of_house = house_seats();
    let blocked = buy(&guest, &desk, &session, &of_house[..1], &["adult"]).await.expect_err("it is kept");
    let (code, words) = refusal(&blocked);
    assert!(code == 204 && !words.contains("house"), "{code}: {words}");
    let of_desk = buy(&desk, &desk, &session, &of_house[..2], &["carer"]).await.expect("the desk sells it");
    sold.push(of_desk);
    let release_at = self::now().after(3_000);
    let allotments = Some([kept(Some(release_at))].into_iter().map(Into::into).collect());
    let change = SessionChange { allotments, ..SessionChange::of(session.clone()) };
    desk.session_change(&change).await.expect("a release is set");
    let counts = view(&guest, &session).await.counts;
    assert_eq!(counts.blocked, u32::from(HOUSE_SEATS) - 2);
    sleep(Duration::from_millis(release_at.0.saturating_sub(self::now().0 + 200))).await;
    let fourth = kill_leader(&mut cluster, &entity).await;
    let released = eventually("the seats of the house are released", async || {
        match buy(&guest, &desk, &session, &of_house[2..4], &["adult"]).await {
            Ok(order) => Some(order),
            Err(error) => {
                assert!(error.refusal().is_none_or(|no| no.code == 204), "{error}");
                None
            }
        }
    });
    sold.push(released.await);
    assert!(self::now() >= release_at, "not before their time");
    cluster.start_node(fourth).await;
    cluster.ready().await;
    let told = eventually("watchers are told of the release", async || {
        let map = watch.next().await.ok()?;
        (map.counts().blocked == 0).then_some(())
    });
    told.await;

    // Everything is as it was told: money, types, counters and allotments.
    let audit = desk.audit_session(&session).await.expect("an audit").value;
    assert_eq!(audit.violations, Vec::<smol_str::SmolStr>::new());
    let of = |order: &Order, name: &str| -> usize {
        let seats = order.lines.iter().flat_map(|line| line.content.seats());
        seats.filter(|it| it.bought_as.as_ref().and_then(|of| of.price_type.as_ref()) == Some(&id(name))).count()
    };
    assert_eq!(sold.iter().map(|order| of(order, "under26")).sum::<usize>(), YOUNG as usize);
    let view = view(&desk, &session).await;
    let released = view.sale.as_ref().map(|sale| (sale.released.clone(), sale.kept.clone()));
    assert_eq!(released, Some((vec![id("house")], vec![0])));
    assert_eq!(view.sale.as_ref().map(|sale| sale.counted.clone()), Some(vec![u64::from(YOUNG)]));
    assert_eq!(
        u64::from(view.counts.sold),
        sold.iter().flat_map(|order| &order.lines).map(|line| line.content.seats().len() as u64).sum::<u64>()
    );
    for order in &sold {
        let again = desk.order_get(order.id).await.expect("the order").value;
        assert_eq!((again.total, &again.lines), (order.total, &order.lines));
    }
    cluster.stop();
}
