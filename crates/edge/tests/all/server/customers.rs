//! Customers with tokens, over WebSocket and HTTP. Bookings as guests see them.

use boxoffice_core::{access::Role, refusal::Conflict};
use boxoffice_edge::EdgeConfig;
use boxoffice_env::secret::Secret;
use boxoffice_wire::{
    Encoding, Op, customer,
    reply::{BookingPage, Reply},
};
use serde_json::{Value, json};

use crate::{
    http_client::HttpClient,
    server::common::{Client, TestServer, cart, hold, id, in_both, refused, request, token},
};

const ADMIN: &str = "open sesame, please, and quickly!";
const SECRET: &str = "the secret of the shop";

fn guarded() -> TestServer {
    TestServer::with(EdgeConfig {
        admin_token: Some(ADMIN.into()),
        customer_secret: Some(Secret(SECRET.into())),
        origins: vec!["https://shop.example".into()],
        ..EdgeConfig::default()
    })
}

fn token_of(name: &str) -> String {
    customer::token(SECRET.as_bytes(), &id(name))
}

/// Every request that names a customer.
fn requests_of(encoding: Encoding, customer: &str) -> Vec<(Op, Value)> {
    let (begin, end) = slot(encoding);
    let holds = [
        (Op::CartHoldSeats, json!({"session": "hamlet", "seats": [[0, 1]]})),
        (Op::CartHoldBest, json!({"session": "free3", "count": 2})),
        (Op::CartHoldPlaces, json!({"session": "free3", "area": "yard", "quantity": 1})),
        (Op::CartHoldStock, json!({"product": "pen", "quantity": 1})),
        (Op::CartHoldSlot, json!({"resource": "room", "begin": begin, "end": end})),
        (Op::CartHoldAll, json!({"lines": [{"product": "pen", "quantity": 1}]})),
        (Op::CartOpen, json!({})),
        (Op::CartCheckout, json!({"payment": {"recorded": {"method": "card", "transaction_id": "4711"}}})),
    ];
    let with_token = |(op, mut body): (Op, Value)| {
        body["token"] = json!(token(1));
        body["customer"] = json!(customer);
        (op, body)
    };
    let purchases = (Op::CustomerPurchases, json!({"customer": customer}));
    holds.into_iter().map(with_token).chain([purchases]).collect()
}

/// Three hours of an evening.
fn slot(encoding: Encoding) -> (Value, Value) {
    match encoding {
        Encoding::Json => (json!("2030-04-12T19:00:00Z"), json!("2030-04-12T22:00:00Z")),
        Encoding::MsgPack => (json!(1_902_250_800_000_u64), json!(1_902_261_600_000_u64)),
    }
}

/// Which of the orders 1 (of Ada), 2 (of Bob) and 3 (without a customer) may be read.
async fn orders_read(client: &mut Client) -> Vec<u128> {
    let mut read = Vec::new();
    for number in [1, 2, 3] {
        client.send(70, Op::OrderGet, json!({"order": cart(number).order().to_string()})).await;
        match client.code().await.1 {
            0 => read.push(number),
            code => assert_eq!(code, 108, "order {number}"),
        }
    }
    read
}

fn sell(server: &TestServer) {
    server.node.orders.lock().extend([(cart(1), Some(id("ada"))), (cart(2), Some(id("bob"))), (cart(3), None)]);
}

/// Checks whether every request with this customer reaches the node or is refused before it.
async fn check(server: &TestServer, client: &mut Client, customer: &str, reaches: bool) {
    for (op, body) in requests_of(client.encoding, customer) {
        let before = server.node.keys.lock().len();
        client.send(50, op, body).await;
        let (answered, code) = client.code().await;
        let came = server.node.keys.lock().len() - before;
        assert_eq!((answered, code != 108, came == 1), (Some(50), reaches, reaches), "{} of {customer}", op.name());
    }
    client.send(60, Op::Watch, json!({"entity": format!("customer/{customer}")})).await;
    let (answered, code) = client.code().await;
    assert_eq!((answered, code), (Some(60), if reaches { 0 } else { 108 }), "watch of {customer}");
    if reaches {
        // The feed's first frame.
        client.frame().await;
    }
}

async fn connect_with_hello(server: &TestServer, encoding: Encoding, hello: Value) -> Client {
    let mut client = Client::connect(server.address, encoding).await;
    client.send(1, Op::Hello, hello).await;
    assert_eq!(client.code().await, (Some(1), 0));
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_acts_for_the_customer_of_its_token() {
    in_both(|encoding| async move {
        let server = guarded();
        sell(&server);
        let mut guest = Client::connect(server.address, encoding).await;
        check(&server, &mut guest, "ada", false).await;
        assert_eq!(orders_read(&mut guest).await, [3]);
        guest.is_alive().await;
        // In the hello, also later on the same connection.
        guest.send(1, Op::Hello, json!({"customer": "ada", "customer_token": token_of("ada")})).await;
        assert_eq!(guest.code().await, (Some(1), 0));
        let mut ada = guest;
        check(&server, &mut ada, "ada", true).await;
        assert_eq!(orders_read(&mut ada).await, [1, 3]);
        check(&server, &mut ada, "bob", false).await;
        // In headers.
        let shown = token_of("ada");
        let headers = [("boxoffice-customer", "ada"), ("boxoffice-customer-token", shown.as_str())];
        let upgrade = request(server.address, encoding.subprotocol(), &headers);
        let mut ada = Client::connect_with(upgrade, encoding).await;
        check(&server, &mut ada, "ada", true).await;
        check(&server, &mut ada, "bob", false).await;
        // A connection acts for one customer. A repeated hello changes nothing.
        ada.send(2, Op::Hello, json!({"customer": "bob", "customer_token": token_of("bob")})).await;
        assert_eq!(ada.code().await, (Some(2), 108));
        for hello in [json!({"customer": "ada", "customer_token": token_of("ada")}), json!({"client": "till 3"})] {
            ada.send(3, Op::Hello, hello).await;
            assert_eq!(ada.code().await, (Some(3), 0));
        }
        assert_eq!(orders_read(&mut ada).await, [1, 3]);
        // Operators act for every customer.
        let mut operator = connect_with_hello(&server, encoding, json!({"token": ADMIN})).await;
        check(&server, &mut operator, "ada", true).await;
        check(&server, &mut operator, "bob", true).await;
        assert_eq!(orders_read(&mut operator).await, [1, 2, 3]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_token_is_refused_by_name() {
    let server = guarded();
    let address = server.address;
    let (ada, bob, upper) = (token_of("ada"), token_of("bob"), token_of("ada").to_uppercase());
    let wrong = [Some(bob.as_str()), Some(&ada[1..]), Some(upper.as_str()), Some(""), Some(ADMIN), None];
    for encoding in Encoding::ALL {
        for token in wrong {
            let mut client = Client::connect(address, encoding).await;
            client.send(1, Op::Hello, json!({"customer": "ada", "customer_token": token})).await;
            assert_eq!(client.code().await, (Some(1), 107), "{token:?}");
            assert_eq!(client.close_code().await, 4001, "{token:?}");
        }
        // A token without its customer is a bad request, and the connection stays open.
        let mut client = Client::connect(address, encoding).await;
        for hello in [json!({"customer_token": ada}), json!({"customer": "a b", "customer_token": ada})] {
            client.send(1, Op::Hello, hello).await;
            assert_eq!(client.code().await, (Some(1), 101));
        }
        client.is_alive().await;
        // An invalid customer token is refused even with a valid admin token.
        client.send(2, Op::Hello, json!({"token": ADMIN, "customer": "ada", "customer_token": bob})).await;
        assert_eq!(client.code().await, (Some(2), 107));
    }
    for token in wrong.into_iter().filter(|token| *token != Some("")) {
        let mut headers = vec![("boxoffice-customer", "ada")];
        headers.extend(token.map(|token| ("boxoffice-customer-token", token)));
        assert_eq!(refused(request(address, "boxoffice.v1.json", &headers)).await, 401, "{token:?}");
        // For any op on any path.
        for path in ["/v1/session.map?id=hamlet", "/v1/sessions/hamlet/map", "/v1/customer.purchases?customer=ada"] {
            let response = HttpClient::connect(address).await.get(path, &headers).await;
            assert_eq!((response.status, response.code()), (401, 107), "{path} {token:?}");
        }
    }
    let response =
        HttpClient::connect(address).await.get("/v1/session.map?id=hamlet", &[("boxoffice-customer", "a b")]).await;
    assert_eq!((response.status, response.code()), (400, 101));
    let twice = [("boxoffice-customer", "ada"), ("boxoffice-customer", "ada"), ("boxoffice-customer-token", &ada)];
    let response = HttpClient::connect(address).await.get("/v1/session.map?id=hamlet", &twice).await;
    assert_eq!((response.status, response.code()), (400, 101));
    assert_eq!(refused(request(address, "boxoffice.v1.json", &[("boxoffice-customer-token", &ada)])).await, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers_are_checked_over_http_as_well() {
    let server = guarded();
    sell(&server);
    let (ada, bob, operator) = (token_of("ada"), token_of("bob"), format!("Bearer {ADMIN}"));
    let callers: [(Vec<(&str, &str)>, bool); 4] = [
        (vec![], false),
        (vec![("boxoffice-customer", "bob"), ("boxoffice-customer-token", &bob)], false),
        (vec![("Boxoffice-Customer", "ada"), ("Boxoffice-Customer-Token", &ada)], true),
        (vec![("authorization", &operator)], true),
    ];
    for (headers, reaches) in callers {
        let mut http_client = HttpClient::connect(server.address).await;
        for (number, (op, body)) in requests_of(Encoding::Json, "ada").into_iter().enumerate() {
            let rid = format!("{number}");
            let mut all = vec![("idempotency-key", rid.as_str())];
            all.extend_from_slice(&headers);
            let before = server.node.keys.lock().len();
            let response = http_client.post(&format!("/v1/{}", op.name()), &all, &body.to_string()).await;
            let came = server.node.keys.lock().len() - before;
            assert_eq!((response.code() != 108, came == 1), (reaches, reaches), "{} {headers:?}", op.name());
            assert_eq!(response.status == 403, !reaches, "{} {headers:?}", op.name());
        }
        let response = http_client.get("/v1/customer.purchases?customer=ada", &headers).await;
        assert_eq!(response.code() != 108, reaches, "{headers:?}");
        for (number, readable) in [(1, reaches), (3, true)] {
            let path = format!("/v1/order.get?order={}", cart(number).order());
            let response = http_client.get(&path, &headers).await;
            let expected = if readable { (200, 0) } else { (403, 108) };
            assert_eq!((response.status, response.code()), expected, "{path} {headers:?}");
            let shown = String::from_utf8_lossy(&response.body).contains("\"ada\"");
            assert_eq!(shown, readable && number == 1, "{path} {headers:?}");
        }
    }
    // Pages may send the headers.
    let asked = [("origin", "https://shop.example"), ("access-control-request-method", "POST")];
    let response = HttpClient::connect(server.address).await.ask("OPTIONS", "/v1/order.get", &asked, b"").await;
    let taken = response.header("access-control-allow-headers").expect("a list").to_owned();
    let taken: Vec<&str> = taken.split(", ").collect();
    assert!(taken.contains(&"boxoffice-customer") && taken.contains(&"boxoffice-customer-token"), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_of_a_batch_are_checked_one_by_one() {
    let server = TestServer::strict(EdgeConfig {
        anonymous: Some(Role::Desk),
        admin_token: Some(ADMIN.into()),
        customer_secret: Some(Secret(SECRET.into())),
        ..EdgeConfig::default()
    });
    sell(&server);
    let open =
        |rid: &str, name: &str| json!({"op": "cart.open", "rid": rid, "body": {"token": token(1), "customer": name}});
    let order = |number| json!({"op": "order.get", "body": {"order": cart(number).order().to_string()}});
    let purchases = |name: &str| json!({"op": "customer.purchases", "body": {"customer": name}});
    let items = json!({"items": [
        open("1", "ada"), open("2", "bob"), order(1), order(2), order(3), purchases("bob"), purchases("ada"),
        {"op": "no.op"},
    ]});
    // The node of these tests knows no customers: 701.
    let expected = [0, 108, 0, 108, 0, 108, 701, 102];
    for encoding in Encoding::ALL {
        let mut ada =
            connect_with_hello(&server, encoding, json!({"customer": "ada", "customer_token": token_of("ada")})).await;
        ada.send(9, Op::Batch, items.clone()).await;
        let (answered, reply) = ada.answer::<Vec<Reply<()>>>().await;
        let Reply::Ok(replies, _) = reply else { panic!("{reply:?}") };
        let code = |reply: &Reply<()>| match reply {
            Reply::Ok(..) => 0,
            Reply::No(no) => no.code,
            Reply::Fail(fail) => fail.kind.code(),
        };
        assert_eq!((answered, replies.iter().map(code).collect::<Vec<_>>()), (Some(9), expected.to_vec()));
    }
    let ada = token_of("ada");
    let headers = [("boxoffice-customer", "ada"), ("boxoffice-customer-token", ada.as_str())];
    let response =
        HttpClient::connect(server.address).await.post("/v1/batch", &headers, &items.to_string()).await.json();
    let response = response["ok"]["items"].as_array().expect("items");
    let codes: Vec<u16> =
        response.iter().map(|item| item["no"]["code"].as_u64().map_or(0, |code| code as u16)).collect();
    assert_eq!(codes, expected);
}

/// For a front end that authenticates its customers. Every caller may name any customer, whatever tokens it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_secret_every_caller_may_name_any_customer() {
    in_both(|encoding| async move {
        let server = TestServer::with(EdgeConfig { admin_token: Some(ADMIN.into()), ..EdgeConfig::default() });
        sell(&server);
        let mut guest =
            connect_with_hello(&server, encoding, json!({"customer": "bob", "customer_token": "anything"})).await;
        check(&server, &mut guest, "ada", true).await;
        assert_eq!(orders_read(&mut guest).await, [1, 2, 3]);
        let headers = [("boxoffice-customer", "b o b")];
        let response =
            HttpClient::connect(server.address).await.get("/v1/customer.purchases?customer=ada", &headers).await;
        assert_eq!(response.code(), 701);
    })
    .await;
}

/// Name, details and presence of an order, for each booking of a room, and the cursor.
async fn bookings(client: &mut Client, cursor: Option<&str>) -> (Vec<(String, String, bool)>, String) {
    let (from, to) = slot(client.encoding);
    let body = json!({"resource": "room", "from": from, "to": to, "limit": 2, "cursor": cursor});
    client.send(20, Op::ResourceBookings, body).await;
    let (_, reply) = client.answer::<BookingPage>().await;
    let Reply::Ok(BookingPage { bookings, cursor }, _) = reply else { panic!("{reply:?}") };
    let response = bookings.iter().map(|booking| {
        assert!(booking.begin < booking.end, "the times stay");
        (booking.booking.to_string(), booking.details.to_string(), booking.order.is_some())
    });
    (response.collect(), cursor.expect("a full page").to_string())
}

/// The conflicts of a slot, from each op that reports them.
async fn reasons(client: &mut Client) -> Vec<String> {
    let mut reasons = Vec::new();
    let (begin, end) = slot(client.encoding);
    let slot = json!({"resource": "room", "begin": begin, "end": end});
    let line = json!({"token": token(5), "resource": "room", "begin": begin, "end": end});
    let lines = json!({"token": token(5), "lines": [slot, slot]});
    client.send(21, Op::ResourceIsAvailable, slot.clone()).await;
    let (_, reply) = client.answer::<boxoffice_wire::reply::Available>().await;
    let Reply::Ok(available, _) = reply else { panic!("{reply:?}") };
    let response =
        |conflict: &Conflict| [conflict.why.to_string(), conflict.booking.clone().unwrap_or_default().to_string()];
    reasons.extend(available.conflicts.iter().flat_map(response));
    for (op, body) in [(Op::CartHoldSlot, line), (Op::CartHoldAll, lines)] {
        client.send(22, op, body).await;
        let (_, reply) = client.answer::<()>().await;
        let Reply::No(no) = reply else { panic!("{reply:?}") };
        assert_eq!(no.code, 501);
        reasons.extend(no.conflicts.iter().flat_map(response));
        for line in &no.lines {
            reasons.extend(line.conflicts.iter().flat_map(response));
        }
    }
    assert_eq!(reasons.len(), 10, "{reasons:?}");
    reasons
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_see_bookings_without_their_owners() {
    in_both(|encoding| async move {
        let hold = hold();
        let server = TestServer::with(EdgeConfig { admin_token: Some(ADMIN.into()), ..EdgeConfig::default() });
        let mut operator = connect_with_hello(&server, encoding, json!({"token": ADMIN})).await;
        let everything =
            vec![("choir".to_owned(), "with a piano".to_owned(), false), (hold.clone(), String::new(), true)];
        assert_eq!(bookings(&mut operator, None).await.0, everything);
        assert!(reasons(&mut operator).await.iter().all(|why| why.starts_with(&hold)));
        let mut guest = Client::connect(server.address, encoding).await;
        let (response, cursor) = bookings(&mut guest, None).await;
        let (choir, other) = (&response[0], &response[1]);
        assert_eq!(choir, &("choir".to_owned(), String::new(), false));
        assert_eq!(other, &(hold.clone(), String::new(), false), "everybody sees the same name");
        assert!(cursor.ends_with(&format!("/{hold}")), "{cursor}");
        assert!(!cursor.contains(&cart(7).to_string()), "{cursor}");
        // The next page continues all the same.
        bookings(&mut guest, Some(&cursor)).await;
        let after = server.node.bookings_after.lock().last().cloned().flatten().expect("the page has a cursor");
        assert_eq!(after.1.text(), hold);
        // A cursor in any other form does not reach the resource.
        let pages = server.node.bookings_after.lock().len();
        let (millis, digits) = cursor.split_once("/hold:").expect("it names the booking of a cart");
        for changed in [
            format!("{millis}/hold:{}", &digits[1..]),
            format!("{millis}/hold:0{digits}"),
            format!("{millis}/hold:{}", digits.to_uppercase()),
            format!("{millis}/hold/{}/00000000000000aa/0/1", cart(7)),
            format!("0{millis}/hold:{digits}"),
        ] {
            let (from, to) = slot(encoding);
            let body = json!({"resource": "room", "from": from, "to": to, "limit": 2, "cursor": changed});
            guest.send(23, Op::ResourceBookings, body).await;
            assert_eq!(guest.code().await, (Some(23), 101), "{changed}");
        }
        assert_eq!(server.node.bookings_after.lock().len(), pages);
        for why in reasons(&mut guest).await {
            let is_hidden = why == other.0 || why.starts_with(&other.0) && why.ends_with("is there from 19 to 22");
            assert!(is_hidden, "{why}");
        }
        // Over HTTP too.
        let path = "/v1/resource.bookings?resource=room&from=2030-04-12T19:00:00Z&to=2030-04-12T22:00:00Z";
        let response = HttpClient::connect(server.address).await.get(path, &[]).await;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        let hidden = [cart(7).to_string(), "piano".into(), "order".into()];
        assert!(response.status == 200 && hidden.iter().all(|word| !text.contains(word.as_str())), "{text}");
        let bearer = format!("Bearer {ADMIN}");
        let response = HttpClient::connect(server.address).await.get(path, &[("authorization", &bearer)]).await;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert!(hidden.iter().all(|word| text.contains(word.as_str())), "{text}");
        // Staff see everything.
        let open = TestServer::with(EdgeConfig::default());
        let mut anonymous = Client::connect(open.address, encoding).await;
        assert_eq!(bookings(&mut anonymous, None).await.0, everything);
    })
    .await;
}

/// A customer that has shown its token is no stranger: it may buy for itself where strangers may watch, or nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers_with_tokens_may_buy_where_strangers_may_not() {
    for anonymous in [None, Some(Role::Watch), Some(Role::Sell)] {
        let server = TestServer::strict(EdgeConfig {
            anonymous,
            admin_token: Some(ADMIN.into()),
            customer_secret: Some(Secret(SECRET.into())),
            ..EdgeConfig::default()
        });
        let open = |customer: Option<&str>| json!({"token": token(1), "customer": customer});
        let (buys, watches) = (anonymous == Some(Role::Sell), anonymous.is_some());
        let mut guest = Client::connect(server.clients, Encoding::Json).await;
        guest.send(1, Op::CartOpen, open(None)).await;
        assert_eq!(guest.code().await, (Some(1), if buys { 0 } else { 107 }), "{anonymous:?}");
        guest.send(2, Op::SessionMap, json!({"id": "hamlet"})).await;
        assert_eq!(guest.code().await, (Some(2), if watches { 0 } else { 107 }), "{anonymous:?}");
        // The same connection after its hello.
        guest.send(3, Op::Hello, json!({"customer": "ada", "customer_token": token_of("ada")})).await;
        assert_eq!(guest.code().await, (Some(3), 0));
        let shown = token_of("ada");
        let headers = [("boxoffice-customer", "ada"), ("boxoffice-customer-token", shown.as_str())];
        let upgraded =
            Client::connect_with(request(server.clients, "boxoffice.v1.json", &headers), Encoding::Json).await;
        for mut ada in [guest, upgraded] {
            let hold = json!({"token": token(1), "session": "free3", "count": 2, "customer": "ada"});
            let pay = json!({"token": token(1), "customer": "ada", "payment": {"gateway": {"source": "ok"}}});
            let recorded = json!({"method": "card", "transaction_id": "1"});
            let recorded = json!({"token": token(1), "payment": {"recorded": recorded}});
            // The test's node knows no adjacent seats, and its disk is full.
            for (op, body, code) in [
                (Op::SessionMap, json!({"id": "hamlet"}), 0),
                (Op::CartOpen, open(Some("ada")), 0),
                (Op::CartHoldBest, hold, 206),
                (Op::CartCheckout, pay, 905),
                (Op::CartOpen, open(Some("bob")), 108),
                (Op::CartCheckout, recorded, 108),
                (Op::VenuePut, json!({"id": "v", "name": "V"}), 108),
                (Op::AdminStatus, json!({}), 108),
            ] {
                ada.send(9, op, body).await;
                assert_eq!(ada.code().await, (Some(9), code), "{anonymous:?}: {}", op.name());
            }
        }
        let mut http = HttpClient::connect(server.clients).await;
        let mut asked = async |op: Op, body: serde_json::Value| {
            let headers = [headers[0], headers[1], ("idempotency-key", "r")];
            http.post(&format!("/v1/{}", op.name()), &headers, &body.to_string()).await.code()
        };
        assert_eq!(asked(Op::CartOpen, open(Some("ada"))).await, 0);
        assert_eq!(asked(Op::CartOpen, open(Some("bob"))).await, 108);
        assert_eq!(asked(Op::VenuePut, json!({"id": "v", "name": "V"})).await, 108);
        // Every cart of a customer is a guest's, with a guest's life.
        assert!(server.node.connections.lock().iter().all(|guest| *guest));
    }
}
