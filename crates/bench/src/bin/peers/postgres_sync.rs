//! PostgreSQL 15 with `fsync` and `synchronous_commit` on. Each step is one call of a prepared function in its own
//! transaction. With a standby, a transaction is on its disk as well before the answer. The schema and its reasons are
//! in `postgres.sql`.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use boxoffice_workload::{goods::Goods, house::House};
use bytes::BytesMut;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio_postgres::{
    Client, Config, NoTls, Statement,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use crate::{
    Nodes, PRICE,
    child::{Server, User, directory_in, free_address},
    drive::{BASKET, Basket, Bought, Failed, Opening, Purchase, Till, Verified},
    starting,
};

/// Memory for pages, enough for a whole run.
const SHARED_BUFFERS: &str = "512MB";

/// The owner of everything in the database.
const USER: &str = "peers";

/// The maximum of backends: a connection for each of 256 clients, and some more.
const CONNECTIONS_MAX: &str = "300";

/// A private PostgreSQL, with a synchronous standby or without.
pub(crate) struct Postgres {
    primary: Server,
    standby: Option<Server>,
    config: Config,
}

impl Postgres {
    /// Makes a primary in a directory of its own and starts it, and the standby. `bin` holds `initdb` and the other programs.
    pub(crate) async fn start(bin: &Path, nodes: Nodes, directory: &Path) -> Result<Postgres, Failed> {
        // PostgreSQL refuses to run as root.
        let user = if rustix::process::geteuid().is_root() { Some(unprivileged_user()?) } else { None };
        let programs = Programs { bin, user };
        let own = programs.directory_in(directory, "postgres")?;
        let data = own.path().join("data");
        let mut initdb = programs.command("initdb", own.path());
        initdb.arg("--pgdata").arg(&data);
        initdb.args(["--auth", "trust", "--username", USER, "--encoding", "UTF8", "--locale", "C"]);
        finish(initdb)?;

        let address = free_address()?;
        let mut primary = Server::start(programs.server(own.path(), address, nodes), own, Signal::INT)?;
        let config = config(address);
        starting(&mut primary, || async { config.connect(NoTls).await.map(drop) }).await?;
        let mut postgres = Postgres { primary, standby: None, config };
        if nodes == Nodes::Three {
            postgres.standby = Some(postgres.start_standby(&programs, address, directory).await?);
        }
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

    /// Copies the primary, starts the copy with the same settings and waits until commits wait for it.
    async fn start_standby(
        &self,
        programs: &Programs<'_>,
        primary: SocketAddr,
        directory: &Path,
    ) -> Result<Server, Failed> {
        let own = programs.directory_in(directory, "postgres-standby")?;
        let mut copy = programs.command("pg_basebackup", own.path());
        copy.arg("--pgdata").arg(own.path().join("data"));
        copy.args(["--host", "127.0.0.1", "--port", &primary.port().to_string(), "--username", USER]);
        copy.args(["--checkpoint", "fast", "--wal-method", "stream", "--write-recovery-conf"]);
        finish(copy)?;
        let mut standby = Server::start(programs.server(own.path(), free_address()?, Nodes::Three), own, Signal::INT)?;
        let client = self.client().await?;
        starting(&mut standby, || async {
            let rows = client.query("SELECT state, sync_state FROM pg_stat_replication", &[]).await?;
            let states: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
            match states.as_slice() {
                [(state, sync)] if state == "streaming" && sync == "sync" => Ok(()),
                others => Err::<(), Failed>(format!("the standbys are {others:?}, not streaming and sync").into()),
            }
        })
        .await?;
        Ok(standby)
    }

    pub(crate) fn nodes(&self) -> Nodes {
        if self.standby.is_some() { Nodes::Three } else { Nodes::One }
    }

    /// Processor time used so far by the primary and the standby, with their backends.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        std::iter::once(&self.primary).chain(&self.standby).map(Server::cpu).sum()
    }

    async fn client(&self) -> Result<Client, Failed> {
        let (client, connection) = self.config.connect(NoTls).await?;
        // The task ends when the client is dropped. The client's requests report earlier errors.
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
        // A server has done this before its day begins. There is no checkpoint. After one, every page is logged whole
        // once.
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

    /// Opens this many connections.
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
            let hold_anew = client.prepare("SELECT hold_seats_anew($1, $2, $3)").await?;
            let checkout = client.prepare("SELECT checkout($1, $2)").await?;
            let add = client.prepare("SELECT add_to_basket($1, $2, $3)").await?;
            let order = client.prepare("SELECT order_basket($1, $2)").await?;
            tills.push(PostgresTill {
                desk: Arc::new(Desk { client, open, hold, hold_anew, checkout, add, order }),
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
            return Err(format!(
                "{sold} of {seats} seats sold, {ownerless} of them without an owner, {free} counted free"
            )
            .into());
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

/// The programs of PostgreSQL, and the user that runs them.
struct Programs<'a> {
    bin: &'a Path,
    user: Option<User>,
}

impl Programs<'_> {
    /// A directory of that user.
    fn directory_in(&self, parent: &Path, name: &str) -> Result<TempDir, Failed> {
        let directory = directory_in(parent, name)?;
        if let Some(user) = self.user {
            user.own(directory.path())?;
        }
        Ok(directory)
    }

    fn command(&self, program: &str, directory: &Path) -> Command {
        // Clients such as pg_basebackup may be installed elsewhere than the server.
        let beside = self.bin.join(program);
        let mut command = Command::new(if beside.is_file() { beside } else { program.into() });
        command.current_dir(directory);
        if let Some(user) = self.user {
            user.take_over(&mut command);
        }
        command
    }

    /// The server of the data in a directory. SIGINT is its fast shutdown.
    fn server(&self, directory: &Path, address: SocketAddr, nodes: Nodes) -> Command {
        let mut postgres = self.command("postgres", directory);
        postgres.arg("-D").arg(directory.join("data"));
        // No checkpoint and no vacuum falls into a run. Both would also disturb the systems that are measured beside it.
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
        if nodes == Nodes::Three {
            postgres.args(["-c", "synchronous_standby_names=*"]);
        }
        postgres
    }
}

fn config(address: SocketAddr) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port()).user(USER).dbname("postgres");
    config
}

/// Runs a program to its end.
fn finish(mut command: Command) -> Result<(), Failed> {
    let program = command.get_program().to_owned();
    let done = command.output().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{} failed: {}", program.display(), String::from_utf8_lossy(&done.stderr)).into())
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
    hold_anew: Statement,
    checkout: Statement,
    add: Statement,
    order: Statement,
}

/// One connection, which is one backend process. Requests of several clients are pipelined.
#[derive(Clone)]
pub(crate) struct PostgresTill {
    desk: Arc<Desk>,
    house: Arc<House>,
    goods: Arc<Goods>,
}

impl Till for PostgresTill {
    async fn buy(&self, purchase: &Purchase, opening: Opening) -> Result<Bought, Failed> {
        let Desk { client, open, hold, hold_anew, checkout, .. } = &*self.desk;
        let cart = Uuid(purchase.cart.0);
        let hold = match opening {
            Opening::First => {
                client.query_one(open, &[&cart]).await?;
                hold
            }
            Opening::WithTheHold => hold_anew,
        };
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
