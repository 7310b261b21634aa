//! PostgreSQL 15 with `fsync` and `synchronous_commit` on: one prepared function call a step, each a transaction of its own.
//! The schema and its reasons are in `postgres.sql`.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use boxoffice_workload::{goods::Goods, house::House};
use bytes::BytesMut;
use rustix::process::Signal;
use tokio_postgres::{
    Client, Config, NoTls, Statement,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use crate::{
    PRICE, Verified,
    child::{Server, User, free_address},
    drive::{BASKET, Basket, Bought, Failed, Purchase, Till},
    starting,
};

/// Memory for pages: everything of a run fits.
const SHARED_BUFFERS: &str = "512MB";

/// Backends at most: a connection for each of 256 clients, and some.
const CONNECTIONS_MAX: &str = "300";

/// A private cluster.
pub(crate) struct Postgres {
    server: Server,
    config: Config,
}

impl Postgres {
    /// Makes a cluster in a directory of its own and starts it; `bin` holds `initdb` and `postgres`.
    pub(crate) async fn start(bin: &Path) -> Result<Postgres, Failed> {
        let directory = tempfile::Builder::new().prefix("peers-postgres-").tempdir()?;
        // PostgreSQL refuses to run as root.
        let user = if rustix::process::geteuid().is_root() { Some(unprivileged_user()?) } else { None };
        if let Some(user) = user {
            user.own(directory.path())?;
        }
        let data = directory.path().join("data");

        let mut initdb = Command::new(bin.join("initdb"));
        initdb.current_dir(directory.path()).arg("--pgdata").arg(&data);
        initdb.args(["--auth", "trust", "--username", "peers", "--encoding", "UTF8", "--locale", "C"]);
        if let Some(user) = user {
            user.take_over(&mut initdb);
        }
        let made =
            initdb.output().map_err(|error| format!("cannot start {}: {error}", bin.join("initdb").display()))?;
        if !made.status.success() {
            return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr)).into());
        }

        let address = free_address()?;
        let mut postgres = Command::new(bin.join("postgres"));
        postgres.current_dir(directory.path()).arg("-D").arg(&data);
        // No checkpoint and no vacuum falls into a run: both would also disturb the systems measured beside.
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={}", address.port()),
            "unix_socket_directories=",
            "fsync=on",
            "synchronous_commit=on",
            &format!("shared_buffers={SHARED_BUFFERS}"),
            &format!("max_connections={CONNECTIONS_MAX}"),
            "max_wal_size=16GB",
            "min_wal_size=1GB",
            "checkpoint_timeout=1d",
            "autovacuum=off",
            "jit=off",
        ] {
            postgres.arg("-c").arg(setting);
        }
        if let Some(user) = user {
            user.take_over(&mut postgres);
        }
        // SIGINT is PostgreSQL's fast shutdown.
        let mut server = Server::start(postgres, directory, Signal::INT)?;

        let mut config = Config::new();
        config.host("127.0.0.1").port(address.port()).user("peers").dbname("postgres");
        starting(&mut server, || async { config.connect(NoTls).await.map(drop) }).await?;
        let postgres = Postgres { server, config };
        let client = postgres.client().await?;
        client.batch_execute(include_str!("postgres.sql")).await?;
        for name in ["fsync", "synchronous_commit", "full_page_writes"] {
            let row = client.query_one(&format!("SHOW {name}"), &[]).await?;
            let value: &str = row.get(0);
            if value != "on" {
                return Err(format!("PostgreSQL runs with {name} {value}, not on").into());
            }
        }
        Ok(postgres)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    async fn client(&self) -> Result<Client, Failed> {
        let (client, connection) = self.config.connect(NoTls).await?;
        // It ends when the client is dropped; what goes wrong before, the client's requests report.
        tokio::spawn(connection);
        Ok(client)
    }

    /// Makes the sessions of a house.
    pub(crate) async fn prepare(&self, house: &House) -> Result<(), Failed> {
        let client = self.client().await?;
        let seats = house.seats_of_session() as i32;
        let last = house.sessions_all() as i32 - 1;
        client
            .execute(
                "INSERT INTO sessions SELECT $1 || '-' || n, $2, $3, array_fill(NULL::uuid, ARRAY[$3::integer]), \
                 array_fill(false, ARRAY[$3::integer]) FROM generate_series(0, $4) AS n",
                &[&house.prefix, &PRICE, &seats, &last],
            )
            .await?;
        // What a server has done anyway before its day begins. No checkpoint: after one, every page is logged whole once.
        for statement in ["VACUUM ANALYZE sessions", "VACUUM ANALYZE carts", "VACUUM ANALYZE orders"] {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Makes the products of a shop.
    pub(crate) async fn prepare_shop(&self, goods: &Goods) -> Result<(), Failed> {
        let client = self.client().await?;
        let last = goods.products as i32 - 1;
        client
            .execute(
                "INSERT INTO products SELECT $1 || '-' || n, $2, $3, 0, 0 FROM generate_series(0, $4) AS n",
                &[&goods.prefix, &goods.unit_price, &(goods.stock as i64), &last],
            )
            .await?;
        for statement in ["VACUUM ANALYZE products", "VACUUM ANALYZE baskets", "VACUUM ANALYZE basket_orders"] {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Counts units and orders.
    pub(crate) async fn verify_shop(&self, goods: &Goods, baskets: &[Basket]) -> Result<Verified, Failed> {
        let client = self.client().await?;
        let row = client
            .query_one(
                "SELECT sum(sold)::bigint, count(*) FILTER (WHERE held <> 0 OR free + sold <> $2) FROM products \
                 WHERE id LIKE $1 || '-%'",
                &[&goods.prefix, &(goods.stock as i64)],
            )
            .await?;
        let (sold, wrong): (i64, i64) = (row.get(0), row.get(1));
        if wrong != 0 {
            return Err(format!("{wrong} products do not add up").into());
        }
        let mut verified = Verified { seats_sold: sold as u64, orders: 0 };
        let order = client.prepare("SELECT products, quantities FROM basket_orders WHERE cart = $1").await?;
        for basket in baskets {
            let row = client.query_one(&order, &[&Uuid(basket.cart.0)]).await?;
            let got: (Vec<String>, Vec<i32>) = (row.get(0), row.get(1));
            let wanted = (basket.products.map(|product| product_id(goods, product)).to_vec(), vec![1; BASKET]);
            if got != wanted {
                return Err(format!("the order of cart {} is {got:?}, not {wanted:?}", basket.cart).into());
            }
            verified.orders += 1;
        }
        Ok(verified)
    }

    /// Connects so many times.
    pub(crate) async fn connect(
        &self,
        house: &House,
        goods: &Goods,
        connections: usize,
    ) -> Result<Vec<PostgresTill>, Failed> {
        let mut tills = Vec::new();
        for _ in 0..connections {
            let client = self.client().await?;
            let open = client.prepare("SELECT open_cart($1)").await?;
            let hold = client.prepare("SELECT hold_seats($1, $2, $3)").await?;
            let checkout = client.prepare("SELECT checkout($1, $2)").await?;
            let add = client.prepare("SELECT add_to_basket($1, $2, $3)").await?;
            let order = client.prepare("SELECT order_basket($1, $2)").await?;
            tills.push(PostgresTill {
                desk: Arc::new(Desk { client, open, hold, checkout, add, order }),
                house: Arc::new(house.clone()),
                goods: Arc::new(goods.clone()),
            });
        }
        Ok(tills)
    }

    /// Counts what is sold, seat by seat and order by order.
    pub(crate) async fn verify(&self, house: &House, carts: &[Purchase]) -> Result<Verified, Failed> {
        let client = self.client().await?;
        let row = client
            .query_one(
                "SELECT count(*) FILTER (WHERE is_sold), count(*) FILTER (WHERE is_sold AND owner IS NULL), \
                 (SELECT sum(free) FROM sessions WHERE id LIKE $1 || '-%') \
                 FROM sessions, unnest(sold, owners) AS seat(is_sold, owner) WHERE id LIKE $1 || '-%'",
                &[&house.prefix],
            )
            .await?;
        let (sold, ownerless, free): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let seats = i64::from(house.sessions_all()) * i64::from(house.seats_of_session());
        if ownerless != 0 || free != seats - sold {
            return Err(
                format!("{sold} of {seats} seats sold, {ownerless} of them to nobody, {free} counted free").into()
            );
        }
        let mut verified = Verified { seats_sold: sold as u64, orders: 0 };
        let order = client.prepare("SELECT session, seats FROM orders WHERE cart = $1").await?;
        for purchase in carts {
            let row = client.query_one(&order, &[&Uuid(purchase.cart.0)]).await?;
            let got: (String, Vec<i32>) = (row.get(0), row.get(1));
            let wanted = (session_id(house, purchase.choice.session), seat_numbers(house, purchase));
            if got != wanted {
                return Err(format!("the order of cart {} is {got:?}, not {wanted:?}", purchase.cart).into());
            }
            verified.orders += 1;
        }
        Ok(verified)
    }
}

/// Where Debian puts the programs of version 15, or the directory of the first `initdb` on the path.
pub(crate) fn find_bin() -> Option<PathBuf> {
    let debian = PathBuf::from("/usr/lib/postgresql/15/bin");
    let path = std::env::var_os("PATH")?;
    std::iter::once(debian).chain(std::env::split_paths(&path)).find(|bin| bin.join("initdb").is_file())
}

fn unprivileged_user() -> Result<User, Failed> {
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::named(name)? {
            return Ok(user);
        }
    }
    Err("PostgreSQL refuses to run as root and there is no user postgres or nobody; run as another user".into())
}

fn session_id(house: &House, session: u32) -> String {
    format!("{}-{session}", house.prefix)
}

fn product_id(goods: &Goods, product: u32) -> String {
    format!("{}-{product}", goods.prefix)
}

fn seat_numbers(house: &House, purchase: &Purchase) -> Vec<i32> {
    let seats = purchase.choice.seats.as_slice().iter();
    seats.map(|seat| i32::from(seat.row as i16) * i32::from(house.seats as i16) + i32::from(seat.seat as i16)).collect()
}

/// 128 bits as PostgreSQL's `uuid`.
#[derive(Clone, Copy, Debug)]
struct Uuid(u128);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    to_sql_checked!();
}

struct Desk {
    client: Client,
    open: Statement,
    hold: Statement,
    checkout: Statement,
    add: Statement,
    order: Statement,
}

/// One connection, which is one backend process; requests of several clients are pipelined.
#[derive(Clone)]
pub(crate) struct PostgresTill {
    desk: Arc<Desk>,
    house: Arc<House>,
    goods: Arc<Goods>,
}

impl Till for PostgresTill {
    async fn buy(&self, purchase: &Purchase) -> Result<Bought, Failed> {
        let Desk { client, open, hold, checkout, .. } = &*self.desk;
        let cart = Uuid(purchase.cart.0);
        client.query_one(open, &[&cart]).await?;
        let session = session_id(&self.house, purchase.choice.session);
        let row = client.query_one(hold, &[&cart, &session, &seat_numbers(&self.house, purchase)]).await?;
        let taken: Vec<i32> = row.get(0);
        if !taken.is_empty() {
            return Ok(Bought::Refused);
        }
        let row = client.query_one(checkout, &[&cart, &"card"]).await?;
        let total: i64 = row.get(0);
        let due = PRICE * purchase.choice.seats.len() as i64;
        if total == due { Ok(Bought::Sold) } else { Err(format!("a total of {total}, not {due}").into()) }
    }

    async fn order(&self, basket: &Basket) -> Result<Bought, Failed> {
        let Desk { client, add, order, .. } = &*self.desk;
        let cart = Uuid(basket.cart.0);
        for product in basket.products {
            let row = client.query_one(add, &[&cart, &product_id(&self.goods, product), &1i32]).await?;
            let granted: bool = row.get(0);
            if !granted {
                return Ok(Bought::Refused);
            }
        }
        let row = client.query_one(order, &[&cart, &"card"]).await?;
        let total: i64 = row.get(0);
        let due = PRICE * BASKET as i64;
        if total == due { Ok(Bought::Sold) } else { Err(format!("a total of {total}, not {due}").into()) }
    }
}
