//! Watches of every kind against a real node with a real client listener.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    access::Role,
    answer::StockCounts,
    command::{HoldPolicy, Limits, ProductDetails},
    id::OrderId,
    money::{Currency, Money},
};
use boxoffice_edge::{Certificate, Edge, EdgeConfig, TlsFiles, WebConfig};
use boxoffice_env::World;
use boxoffice_node::{
    config::{NodeConfig, ReplicationConfig},
    node::{Node, Runtimes},
};
use boxoffice_storage::fsync::Fsync;
use rcgen::{CertificateParams, KeyPair};
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};

use crate::{
    Cart, CartState, Client, ClientConfig, Encoding, Error, Id, LivePurchases, PurchaseCursor, TlsAuthorities, Watch,
    recorded,
};

/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

fn id(text: &str) -> Id {
    Id::new(text).expect("a valid id")
}

async fn buy(client: &Client) -> OrderId {
    let cart = Cart::new(client).with_customer(&id("ada"));
    cart.hold_stock(&id("mug"), 1).await.expect("held");
    cart.checkout(recorded("card", "t"), None).await.expect("sold").value.id
}

/// The orders of the next purchases, up to the cursor `to`.
async fn purchases(watch: &mut Watch<LivePurchases>, to: u64) -> Vec<OrderId> {
    let mut orders = Vec::new();
    while watch.state().is_none_or(|state| state.cursor().cursor < to) {
        let state = timeout(TIMEOUT, watch.next()).await.expect("purchases in time").expect("a state");
        orders.extend(state.new_purchases().iter().map(|purchase| purchase.order));
    }
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_every_kind_work_in_both_encodings() {
    watch_everything(WebConfig::default(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_every_kind_work_over_tls() {
    let files = tempfile::tempdir().expect("a directory");
    let pem = |name: &str, hosts: &[&str]| {
        let key = KeyPair::generate().expect("a key");
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let certificate = CertificateParams::new(hosts).expect("names").self_signed(&key).expect("a certificate");
        let file = |kind: &str| files.path().join(format!("{name}.{kind}"));
        std::fs::write(file("pem"), certificate.pem()).expect("a written file");
        std::fs::write(file("key"), key.serialize_pem()).expect("a written file");
        (certificate.pem(), TlsFiles { certificate: file("pem"), key: file("key") })
    };
    let ((shown, served), (other, _)) = (pem("node", &["127.0.0.1"]), pem("other", &["127.0.0.1"]));
    let web = || {
        let certificate = Certificate::load(served.clone()).expect("valid files");
        WebConfig { certificate: Some(Arc::new(certificate)), ..WebConfig::default() }
    };
    let trusting = |text: &str| Some(TlsAuthorities::from_pem(text.as_bytes()).expect("an authority"));
    watch_everything(web(), trusting(&shown)).await;

    // Another authority, and a client that does not encrypt.
    let node = Served::start(web()).await;
    for (tls, words) in [(trusting(&other), "no encrypted connection"), (None, "this port speaks TLS")] {
        let deadline = Duration::from_millis(300);
        let client = Client::connect(ClientConfig { tls, deadline, ..ClientConfig::new([node.address.clone()]) }).await;
        let refused = client.expect_err("no connection").to_string();
        assert!(refused.contains(words), "{refused}");
    }
    node.stop().await;
}

/// A node on a free port.
struct Served {
    _data: tempfile::TempDir,
    node: Node,
    address: String,
    edge: JoinHandle<()>,
}

impl Served {
    async fn start(web: WebConfig) -> Served {
        let data = tempfile::tempdir().expect("a directory");
        let config = NodeConfig {
            replication: ReplicationConfig {
                data_dir: data.path().join("data"),
                shards: 2,
                fsync: Fsync::Never,
                log_segment_bytes: 1 << 20,
                ..ReplicationConfig::default()
            },
            ..NodeConfig::default()
        };
        let (selling, watching) = (Handle::current(), Handle::current());
        let runtimes = Runtimes { selling, watching };
        let node = Node::start(config, World::standalone(), &runtimes).expect("a node");
        while node.handle().ready().is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut edge = EdgeConfig { anonymous: Some(Role::Admin), web, ..EdgeConfig::default() };
        edge.listen.set_port(0);
        let handle = Arc::new(node.handle().clone());
        let edge = Edge::bind(edge, handle, runtimes).expect("a free port");
        let address = edge.local_addr().to_string();
        let edge = tokio::spawn(edge.run(std::future::pending()));
        Served { _data: data, node, address, edge }
    }

    async fn stop(self) {
        self.edge.abort();
        self.node.stop(10_000).await.expect("an orderly stop");
    }
}

/// Buys, and follows with every kind of watch, in both encodings.
async fn watch_everything(web: WebConfig, tls: Option<TlsAuthorities>) {
    let served = Served::start(web).await;

    let mut orders = Vec::new();
    for encoding in Encoding::ALL {
        let config = ClientConfig { encoding, tls: tls.clone(), ..ClientConfig::new([served.address.clone()]) };
        let client = Client::connect(config).await.expect("a connection");
        let before = orders.len() as u64;
        // Each round buys one unit, then two.
        let sold = before / 2 * 3;
        let details = ProductDetails {
            name: "Mug".into(),
            properties: Vec::new(),
            blob: Vec::new(),
            price: Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") },
            stock: 100,
            hold: HoldPolicy::AtAdd,
            hold_ttl_ms: None,
            limits: Limits::default(),
            tax: None,
        };
        client.product_put(&id("mug"), details).await.expect("a product");

        let from = PurchaseCursor { epoch: None, cursor: before };
        let mut bought = client.watch_purchases(&id("ada"), from);
        let (order, received) = tokio::join!(buy(&client), purchases(&mut bought, before + 1));
        orders.push(order);
        assert_eq!(received, [order]);

        let mut stock = client.watch_product(&id("mug"));
        let first = *timeout(TIMEOUT, stock.next()).await.expect("a state").expect("a state").counts();
        assert_eq!(first, StockCounts { free: 99 - sold, held: 0, sold: sold + 1 });

        let cart = Cart::new(&client).with_customer(&id("ada"));
        cart.open(None, None).await.expect("opened");
        let mut mine = cart.watch();
        let opened = timeout(TIMEOUT, mine.next()).await.expect("a state").expect("a state");
        assert_eq!(opened.cart().state, CartState::Active);
        cart.hold_stock(&id("mug"), 2).await.expect("held");
        orders.push(cart.checkout(recorded("card", "t"), None).await.expect("sold").value.id);
        let end = loop {
            match timeout(TIMEOUT, mine.next()).await.expect("it ends") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(&end, Error::Refused(no) if no.code == 301 && no.name == "cart_not_active"), "{end:?}");
        assert_eq!(mine.state().expect("its last state").cart().order, orders.last().copied());
        assert_eq!(purchases(&mut bought, before + 2).await, orders[before as usize + 1..]);
        while stock.state().expect("a state").counts().sold < sold + 3 {
            timeout(TIMEOUT, stock.next()).await.expect("a state").expect("a state");
        }
        // A later watch with an older cursor gets all purchases after that cursor, and in another epoch all of them.
        let mut all = client.watch_purchases(&id("ada"), PurchaseCursor::default());
        assert_eq!(purchases(&mut all, before + 2).await, orders);
        let epoch = all.state().expect("a state").cursor().epoch;
        let after =
            client.purchases(&id("ada"), PurchaseCursor { epoch, cursor: before + 1 }, None).await.expect("a page");
        assert_eq!((after.value.epoch, after.value.purchases.len()), (epoch, 1));
        let before_a_restore = PurchaseCursor { epoch: Some(epoch.expect("an epoch") ^ 1), cursor: before + 1 };
        let anew = client.purchases(&id("ada"), before_a_restore, None).await.expect("a page");
        assert_eq!((anew.value.epoch, anew.value.purchases.len() as u64), (epoch, before + 2));
        assert_eq!(purchases(&mut client.watch_purchases(&id("ada"), before_a_restore), before + 2).await, orders);
    }
    served.stop().await;
}
