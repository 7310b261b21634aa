//! Boxoffice: one node of the program itself or a cluster of three, with `fsync` always, through its client library.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use boxoffice_bench::admin_token;
use boxoffice_client::{AdminToken, Cart, Client, ClientConfig, Currency, Error, Money, recorded};
use boxoffice_core::id::{Entity, Id};
use boxoffice_load::{LaunchConfig, LocalCluster, create_house, create_products, machine::process_cpu};
use boxoffice_workload::{goods::Goods, house::House};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    Nodes, PRICE,
    child::{Server, directory_in, free_address},
    drive::{BASKET, Basket, Bought, Failed, Opening, Purchase, Till, Verified},
    starting,
};

/// Reads under way at once while the sales are counted.
const READS_UNDER_WAY: usize = 64;

/// Buffers of connections that many clients share, in bytes. Those of one client stay small.
const SHARED_BUFFER_BYTES: usize = 64 * 1024;

/// The code of `seats_taken`.
const SEATS_TAKEN: u16 = 201;

/// The code of `out_of_stock`.
const OUT_OF_STOCK: u16 = 401;

/// Shards of a cluster, with the directory.
const SHARDS: usize = 33;

/// Copies of each shard of a cluster of three.
const REPLICAS: u32 = 3;

/// A private node, or a private cluster.
pub(crate) struct Boxoffice {
    processes: Processes,
    addresses: Vec<String>,
    /// Whether its clients send to leaders.
    to_leaders: bool,
}

enum Processes {
    One(Server),
    /// The nodes end before their directory is removed.
    Three(LocalCluster, #[expect(dead_code, reason = "it is there to be dropped")] TempDir),
}

/// The program beside this one, if it is there.
pub(crate) fn find() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name("boxoffice");
    program.is_file().then_some(program)
}

fn operator(address: String) -> ClientConfig {
    ClientConfig { admin_token: Some(AdminToken(admin_token().into())), ..ClientConfig::new([address]) }
}

impl Boxoffice {
    /// Starts it with its data in a directory of its own.
    pub(crate) async fn start(
        program: &Path,
        (nodes, to_leaders): (Nodes, bool),
        directory: &Path,
    ) -> Result<Boxoffice, Failed> {
        let directory = directory_in(directory, "boxoffice")?;
        let started = match nodes {
            Nodes::One => Boxoffice::start_one(program, directory).await?,
            Nodes::Three => Boxoffice::start_three(program, directory).await?,
        };
        let boxoffice = Boxoffice { to_leaders, ..started };
        for place in 0..boxoffice.addresses.len() {
            let durability = boxoffice.client(place, 1).await?.status().await?.value.durability;
            if durability.fsync != "always" {
                return Err(format!("a node runs with fsync {}, not always", durability.fsync).into());
            }
            if nodes == Nodes::Three && durability.replicas < REPLICAS {
                return Err(format!("a node promises {} copies, not {REPLICAS}", durability.replicas).into());
            }
        }
        Ok(boxoffice)
    }

    async fn start_one(program: &Path, directory: TempDir) -> Result<Boxoffice, Failed> {
        let address = free_address()?.to_string();
        let mut command = Command::new(program);
        command.env("BOXOFFICE_ADMIN_TOKEN", admin_token());
        command.args(["serve", "--fsync", "always", "--listen", &address, "--ops-listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(directory.path().join("data"));
        let mut server = Server::start(command, directory, Signal::TERM)?;
        let config = || operator(address.clone());
        starting(&mut server, || async { Client::connect(config()).await?.status().await.map(drop) }).await?;
        Ok(Boxoffice { processes: Processes::One(server), addresses: vec![address], to_leaders: false })
    }

    /// Starts three nodes as `boxoffice load --nodes 3` does. One founds the cluster, the others join it.
    async fn start_three(program: &Path, directory: TempDir) -> Result<Boxoffice, Failed> {
        let files = directory.path().join("node");
        let (config, admin_token) = (String::new(), admin_token().to_owned());
        let launch = LaunchConfig {
            program: program.to_owned(),
            files,
            fsync: "always",
            config,
            admin_token,
            is_shipped: false,
            log: None,
            certificate: None,
            port: None,
        };
        let cluster = LocalCluster::start(3, launch)?;
        cluster.wait_until_placed().await?;
        let addresses = cluster.addresses();
        let boxoffice = Boxoffice { processes: Processes::Three(cluster, directory), addresses, to_leaders: false };
        let shards = boxoffice.client(0, 1).await?.nodes().await?.value.places.len();
        if shards != SHARDS {
            return Err(format!("the cluster has {shards} shards, not {SHARDS}").into());
        }
        Ok(boxoffice)
    }

    pub(crate) fn nodes(&self) -> Nodes {
        match self.processes {
            Processes::One(_) => Nodes::One,
            Processes::Three(..) => Nodes::Three,
        }
    }

    pub(crate) fn to_leaders(&self) -> bool {
        self.to_leaders
    }

    /// Processor time used so far by all nodes.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        match &self.processes {
            Processes::One(server) => server.cpu(),
            Processes::Three(cluster, _) => cluster.pids().into_iter().map(process_cpu).sum(),
        }
    }

    /// A connection to a node. The nodes are taken in turn.
    async fn client(&self, place: usize, buffers: usize) -> Result<Client, Failed> {
        let mut config = operator(self.addresses[place % self.addresses.len()].clone());
        config.buffer_bytes = config.buffer_bytes.max(buffers);
        config.to_leaders = self.to_leaders;
        Ok(Client::connect(config).await?)
    }

    /// Makes the sessions of a house.
    pub(crate) async fn prepare(&self, house: &House) -> Result<(), Failed> {
        let price = Money { amount: PRICE, currency: Currency::new("EUR").expect("a currency") };
        Ok(create_house(&self.addresses, AdminToken(admin_token().into()), house, price).await?)
    }

    /// Makes the products of a shop.
    pub(crate) async fn prepare_shop(&self, goods: &Goods) -> Result<(), Failed> {
        let currency = Currency::new("EUR").expect("a currency");
        Ok(create_products(&self.addresses, AdminToken(admin_token().into()), goods, currency).await?)
    }

    /// Counts units and orders.
    pub(crate) async fn verify_shop(&self, goods: &Goods, baskets: &[Basket]) -> Result<Verified, Failed> {
        let client = self.client(0, SHARED_BUFFER_BYTES).await?;
        let mut verified = Verified::default();
        for product in 0..goods.products {
            let audit = client.audit_product(&goods.product_id(product)).await?.value;
            let counts = audit.counts;
            if !audit.violations.is_empty() || counts.held != 0 || counts.free + counts.sold != goods.stock {
                return Err(format!("product {} is wrong: {counts:?} {:?}", audit.product, audit.violations).into());
            }
            verified.seats_sold += counts.sold;
        }
        for chunk in baskets.chunks(READS_UNDER_WAY) {
            let mut orders = JoinSet::new();
            for basket in chunk {
                let (client, order) = (client.clone(), basket.cart.order());
                let mut wanted = basket.products.map(|product| Entity::Product(goods.product_id(product)));
                wanted.sort_unstable();
                orders.spawn(async move {
                    let order = client.order_get(order).await?.value.order;
                    let mut bought: Vec<Entity> = order.lines.iter().map(|line| line.entity.clone()).collect();
                    bought.sort_unstable();
                    let once = order.lines.iter().all(|line| line.content.quantity() == 1);
                    if bought == wanted && once {
                        return Ok(());
                    }
                    Err::<(), Failed>(format!("order {} has {bought:?}, not {wanted:?}", order.id).into())
                });
            }
            while let Some(order) = orders.join_next().await {
                order??;
                verified.orders += 1;
            }
        }
        Ok(verified)
    }

    /// Opens this many connections.
    pub(crate) async fn connect(
        &self,
        house: &House,
        goods: &Goods,
        connections: usize,
    ) -> Result<Vec<BoxofficeTill>, Failed> {
        let sessions: Arc<[Id]> = (0..house.sessions_all()).map(|session| house.session_id(session)).collect();
        let products: Arc<[Id]> = (0..goods.products).map(|product| goods.product_id(product)).collect();
        let buffers = if connections <= 16 { SHARED_BUFFER_BYTES } else { 0 };
        let mut tills = Vec::new();
        for place in 0..connections {
            tills.push(BoxofficeTill {
                client: self.client(place, buffers).await?,
                sessions: sessions.clone(),
                products: products.clone(),
            });
        }
        Ok(tills)
    }

    /// Counts what is sold, seat by seat and order by order.
    pub(crate) async fn verify(&self, house: &House, carts: &[Purchase]) -> Result<Verified, Failed> {
        let client = self.client(0, SHARED_BUFFER_BYTES).await?;
        let mut verified = Verified::default();
        let sessions: Vec<Id> = (0..house.sessions_all()).map(|session| house.session_id(session)).collect();
        for chunk in sessions.chunks(READS_UNDER_WAY) {
            let mut audits = JoinSet::new();
            for session in chunk {
                let (client, session) = (client.clone(), session.clone());
                audits.spawn(async move { client.audit_session(&session).await });
            }
            while let Some(audit) = audits.join_next().await {
                let audit = audit??.value;
                let sold: u64 = audit.sales.iter().map(|sale| u64::from(sale.portion.quantity())).sum();
                if !audit.violations.is_empty() || sold != u64::from(audit.counts.sold) {
                    return Err(format!("session {} is wrong: {audit:?}", audit.session).into());
                }
                verified.seats_sold += sold;
            }
        }
        for chunk in carts.chunks(READS_UNDER_WAY) {
            let mut orders = JoinSet::new();
            for purchase in chunk {
                let (client, session) = (client.clone(), house.session_id(purchase.choice.session));
                let (order, seats) = (purchase.cart.order(), purchase.choice.seats.clone());
                orders.spawn(async move {
                    let order = client.order_get(order).await?.value.order;
                    let session = Entity::Session(session);
                    let lines = order.lines.iter().filter(|line| line.entity == session);
                    let bought = lines.flat_map(|line| line.content.seats().iter().map(|seat| seat.seat));
                    let mut bought: Vec<_> = bought.collect();
                    bought.sort_unstable();
                    if bought == seats.as_slice() {
                        return Ok(());
                    }
                    Err::<(), Failed>(format!("order {} has {bought:?}, not {seats:?}", order.id).into())
                });
            }
            while let Some(order) = orders.join_next().await {
                order??;
                verified.orders += 1;
            }
        }
        Ok(verified)
    }
}

/// One connection to a node.
#[derive(Clone)]
pub(crate) struct BoxofficeTill {
    client: Client,
    /// Ids of sessions by number.
    sessions: Arc<[Id]>,
    /// Ids of products by number.
    products: Arc<[Id]>,
}

impl Till for BoxofficeTill {
    async fn buy(&self, purchase: &Purchase, opening: Opening) -> Result<Bought, Failed> {
        let cart = Cart::with_token(&self.client, purchase.token);
        if opening == Opening::First {
            cart.open(None, None).await?;
        }
        let session = &self.sessions[purchase.choice.session as usize];
        match cart.hold_seats(session, purchase.choice.seats.as_slice().iter().copied()).await {
            Ok(_) => {}
            Err(Error::Refused(no)) if no.code == SEATS_TAKEN => return Ok(Bought::Refused),
            Err(error) => return Err(error.into()),
        }
        let order = cart.checkout(recorded("card", "peers"), None).await?.value.order;
        let due = PRICE * purchase.choice.seats.len() as i64;
        if order.total.amount == due {
            Ok(Bought::Sold)
        } else {
            Err(format!("a total of {}, not {due}", order.total.amount).into())
        }
    }

    async fn order(&self, basket: &Basket) -> Result<Bought, Failed> {
        let cart = Cart::with_token(&self.client, basket.token);
        for product in basket.products {
            match cart.hold_stock(&self.products[product as usize], 1).await {
                Ok(_) => {}
                Err(Error::Refused(no)) if no.code == OUT_OF_STOCK => return Ok(Bought::Refused),
                Err(error) => return Err(error.into()),
            }
        }
        let order = cart.checkout(recorded("card", "peers"), None).await?.value.order;
        let due = PRICE * BASKET as i64;
        if order.total.amount == due {
            Ok(Bought::Sold)
        } else {
            Err(format!("a total of {}, not {due}", order.total.amount).into())
        }
    }
}
