//! Redis 7 with `appendonly yes` and `appendfsync always`. Each step is one Lua script, and the state is in hashes.
//!
//! `s:<session>`: `price`, `free`, and a field for every taken seat (`h` or `s` and the cart). `c:<cart>`: state, deadline,
//! session, seats. `o:<cart>`: the order. `p:<product>`: `price`, `free`, `held`, `sold`. A shop's cart has a field for each
//! product. Scripts run one at a time, so each step is atomic. With a replica, `WAIT 1` follows every step in the same pipeline.

use std::{io, net::SocketAddr, path::Path, process::Command, sync::Arc, time::Duration};

use boxoffice_workload::{goods::Goods, house::House};
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, aio::MultiplexedConnection};
use rustix::process::Signal;

use crate::{
    Nodes, PRICE,
    child::{Server, directory_in, free_address},
    drive::{BASKET, Basket, Bought, Failed, Opening, Purchase, Till, Verified},
    starting,
};

const OPEN: &str = r"
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'state', 'active', 'deadline', now[1] + 1800)
return 1
";

/// A hold of a cart that was opened before.
const HOLD: &str = r"
local cart = redis.call('HMGET', KEYS[2], 'state', 'deadline')
if cart[1] ~= 'active' then return {-1} end
local now = redis.call('TIME')
if tonumber(cart[2]) <= tonumber(now[1]) then return {-2} end
";

/// A hold that opens its cart.
const HOLD_ANEW: &str = r"
if redis.call('EXISTS', KEYS[2]) == 1 then return {-1} end
local now = redis.call('TIME')
";

/// The rest of both scripts.
const HOLD_SEATS: &str = r"
local states = redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
local taken = {}
for i = 1, #states do
  if states[i] then taken[#taken + 1] = ARGV[i + 1] end
end
if #taken > 0 then return taken end
local set = {}
for i = 2, #ARGV do
  set[#set + 1] = ARGV[i]
  set[#set + 1] = 'h' .. ARGV[1]
end
redis.call('HSET', KEYS[1], unpack(set))
redis.call('HINCRBY', KEYS[1], 'free', 1 - #ARGV)
redis.call('HSET', KEYS[2], 'state', 'active', 'session', KEYS[1], 'seats', table.concat(ARGV, ' ', 2), 'deadline', now[1] + 1800)
return {}
";

const CHECKOUT: &str = r"
local cart = redis.call('HMGET', KEYS[2], 'state', 'deadline', 'seats')
if cart[1] ~= 'active' or not cart[3] then return 0 end
local now = redis.call('TIME')
if tonumber(cart[2]) <= tonumber(now[1]) then return 0 end
local seats = {}
for seat in string.gmatch(cart[3], '%S+') do seats[#seats + 1] = seat end
local states = redis.call('HMGET', KEYS[1], unpack(seats))
local set = {}
for i = 1, #seats do
  if states[i] ~= 'h' .. ARGV[1] then return redis.error_reply('a hold is gone') end
  set[#set + 1] = seats[i]
  set[#set + 1] = 's' .. ARGV[1]
end
local price = redis.call('HGET', KEYS[1], 'price')
redis.call('HSET', KEYS[1], unpack(set))
redis.call('HSET', KEYS[2], 'state', 'done')
redis.call('HSET', KEYS[3], 'session', KEYS[1], 'seats', cart[3], 'total', price * #seats, 'at', now[1], 'payment', ARGV[2])
return 1
";

const ADD: &str = r"
local cart = redis.call('HMGET', KEYS[2], 'state', 'deadline')
local now = redis.call('TIME')
if cart[1] and (cart[1] ~= 'active' or tonumber(cart[2]) <= tonumber(now[1])) then return -1 end
if tonumber(redis.call('HGET', KEYS[1], 'free')) < tonumber(ARGV[1]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'free', -ARGV[1])
redis.call('HINCRBY', KEYS[1], 'held', ARGV[1])
redis.call('HINCRBY', KEYS[2], KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'state', 'active', 'deadline', now[1] + 1800)
return 1
";

const ORDER: &str = r"
local cart = redis.call('HMGET', KEYS[1], 'state', 'deadline')
local now = redis.call('TIME')
if cart[1] ~= 'active' or tonumber(cart[2]) <= tonumber(now[1]) then return -1 end
local total = 0
local order = {}
for i = 3, #KEYS do
  local quantity = redis.call('HGET', KEYS[1], KEYS[i])
  if not quantity then return redis.error_reply('a line is gone') end
  redis.call('HINCRBY', KEYS[i], 'held', -quantity)
  redis.call('HINCRBY', KEYS[i], 'sold', quantity)
  total = total + quantity * redis.call('HGET', KEYS[i], 'price')
  order[#order + 1] = KEYS[i]
  order[#order + 1] = quantity
end
redis.call('HSET', KEYS[1], 'state', 'done')
redis.call('HSET', KEYS[2], 'total', total, 'at', now[1], 'payment', ARGV[1], unpack(order))
return total
";

/// How long a step may wait for the replica, in milliseconds.
const WAIT_MS: u64 = 10_000;

/// A private Redis, with a replica or without.
pub(crate) struct Redis {
    primary: Server,
    replica: Option<Server>,
    client: Client,
}

impl Redis {
    /// Starts it with its files in a directory of its own.
    pub(crate) async fn start(program: &str, nodes: Nodes, directory: &Path) -> Result<Redis, Failed> {
        let address = free_address()?;
        let own = directory_in(directory, "redis")?;
        let mut command = server(program, address, own.path());
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]);
        // Otherwise the primary waits for more replicas before it copies its data to the first one.
        command.args(["--repl-diskless-sync-delay", "0"]);
        let mut primary = Server::start(command, own, Signal::TERM)?;
        let client = Client::open(format!("redis://{address}"))?;
        starting(&mut primary, || async { client.get_multiplexed_async_connection().await.map(drop) }).await?;
        let mut redis = Redis { primary, replica: None, client };
        let settings = [("appendonly", "yes"), ("appendfsync", "always")];
        check_settings(&mut redis.connection().await?, address, &settings).await?;
        if nodes == Nodes::Three {
            redis.replica = Some(redis.start_replica(program, address, directory).await?);
        }
        Ok(redis)
    }

    /// Starts a replica that keeps everything in memory only, and waits until the primary replicates to it.
    async fn start_replica(&self, program: &str, primary: SocketAddr, directory: &Path) -> Result<Server, Failed> {
        let address = free_address()?;
        let own = directory_in(directory, "redis-replica")?;
        let mut command = server(program, address, own.path());
        command.args(["--appendonly", "no", "--replicaof", "127.0.0.1", &primary.port().to_string()]);
        let mut replica = Server::start(command, own, Signal::TERM)?;
        let client = Client::open(format!("redis://{address}"))?;
        starting(&mut replica, || async { client.get_multiplexed_async_connection().await.map(drop) }).await?;
        check_settings(&mut client.get_multiplexed_async_connection().await?, address, &[("appendonly", "no")]).await?;
        let connection = self.connection().await?;
        starting(&mut replica, || async {
            let replication: String =
                redis::cmd("INFO").arg("replication").query_async(&mut connection.clone()).await?;
            let is_online =
                replication.lines().any(|line| line.starts_with("slave0:") && line.contains("state=online"));
            if is_online { Ok(()) } else { Err::<(), Failed>("the primary has no replica that is online".into()) }
        })
        .await?;
        Ok(replica)
    }

    pub(crate) fn nodes(&self) -> Nodes {
        if self.replica.is_some() { Nodes::Three } else { Nodes::One }
    }

    /// Processor time used so far by the primary and the replica.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        std::iter::once(&self.primary).chain(&self.replica).map(Server::cpu).sum()
    }

    async fn connection(&self) -> Result<MultiplexedConnection, Failed> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(Duration::from_secs(30)))
            .set_connection_timeout(Some(Duration::from_secs(10)));
        Ok(self.client.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// Makes the sessions of a house.
    pub(crate) async fn prepare(&self, house: &House) -> Result<(), Failed> {
        let mut connection = self.connection().await?;
        let sessions: Vec<u32> = (0..house.sessions_all()).collect();
        for chunk in sessions.chunks(1_000) {
            let mut pipeline = redis::pipe();
            for &session in chunk {
                pipeline
                    .cmd("HSET")
                    .arg(session_key(house, session))
                    .arg(&[("price", PRICE), ("free", i64::from(house.seats_of_session()))])
                    .ignore();
            }
            pipeline.query_async::<()>(&mut connection).await?;
        }
        Ok(())
    }

    /// Makes the products of a shop.
    pub(crate) async fn prepare_shop(&self, goods: &Goods) -> Result<(), Failed> {
        let mut connection = self.connection().await?;
        let mut pipeline = redis::pipe();
        for product in 0..goods.products {
            let fields = [("price", goods.unit_price), ("free", goods.stock as i64), ("held", 0), ("sold", 0)];
            pipeline.cmd("HSET").arg(product_key(goods, product)).arg(&fields).ignore();
        }
        Ok(pipeline.query_async::<()>(&mut connection).await?)
    }

    /// Counts units and orders.
    pub(crate) async fn verify_shop(&self, goods: &Goods, baskets: &[Basket]) -> Result<Verified, Failed> {
        let mut connection = self.connection().await?;
        let mut verified = Verified::default();
        for product in 0..goods.products {
            let counts: (u64, u64, u64) = redis::cmd("HMGET")
                .arg(product_key(goods, product))
                .arg(&["free", "held", "sold"])
                .query_async(&mut connection)
                .await?;
            if counts.1 != 0 || counts.0 + counts.2 != goods.stock {
                return Err(format!("product {product} has {counts:?} free, held and sold").into());
            }
            verified.seats_sold += counts.2;
        }
        for chunk in baskets.chunks(1_000) {
            let mut pipeline = redis::pipe();
            for basket in chunk {
                let keys = basket.products.map(|product| product_key(goods, product));
                pipeline.cmd("HMGET").arg(format!("o:{}", basket.cart)).arg(&keys);
            }
            let orders: Vec<Vec<Option<u64>>> = pipeline.query_async(&mut connection).await?;
            for (basket, order) in chunk.iter().zip(orders) {
                if order != [Some(1); BASKET] {
                    return Err(format!("the order of cart {} has {order:?}", basket.cart).into());
                }
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
    ) -> Result<Vec<RedisTill>, Failed> {
        let mut tills = Vec::new();
        for _ in 0..connections {
            let mut connection = self.connection().await?;
            let mut load = async |script: &str| -> Result<Arc<str>, Failed> {
                let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await?;
                Ok(hash.into())
            };
            let (open, checkout) = (load(OPEN).await?, load(CHECKOUT).await?);
            let hold = load(&[HOLD, HOLD_SEATS].concat()).await?;
            let hold_anew = load(&[HOLD_ANEW, HOLD_SEATS].concat()).await?;
            let (add, order) = (load(ADD).await?, load(ORDER).await?);
            let (house, goods) = (Arc::new(house.clone()), Arc::new(goods.clone()));
            let nodes = self.nodes();
            tills.push(RedisTill { connection, nodes, open, hold, hold_anew, checkout, add, order, house, goods });
        }
        Ok(tills)
    }

    /// Counts what is sold, seat by seat and order by order.
    pub(crate) async fn verify(&self, house: &House, carts: &[Purchase]) -> Result<Verified, Failed> {
        let mut connection = self.connection().await?;
        let mut verified = Verified::default();
        for session in 0..house.sessions_all() {
            let fields: Vec<(String, String)> =
                redis::cmd("HGETALL").arg(session_key(house, session)).query_async(&mut connection).await?;
            let sold = fields.iter().filter(|(_, value)| value.starts_with('s')).count() as u64;
            let free = fields.iter().find(|(key, _)| key == "free").map_or("", |(_, value)| value);
            if free.parse() != Ok(u64::from(house.seats_of_session()) - sold) {
                return Err(format!("session {session} counts {free} free seats and has sold {sold}").into());
            }
            verified.seats_sold += sold;
        }
        for chunk in carts.chunks(1_000) {
            let mut pipeline = redis::pipe();
            for purchase in chunk {
                pipeline.cmd("HMGET").arg(format!("o:{}", purchase.cart)).arg(&["session", "seats"]);
            }
            let orders: Vec<(Option<String>, Option<String>)> = pipeline.query_async(&mut connection).await?;
            for (purchase, order) in chunk.iter().zip(orders) {
                let wanted = (
                    Some(session_key(house, purchase.choice.session)),
                    Some(seat_names(house, purchase).collect::<Vec<_>>().join(" ")),
                );
                if order != wanted {
                    return Err(format!("the order of cart {} is {order:?}, not {wanted:?}", purchase.cart).into());
                }
                verified.orders += 1;
            }
        }
        Ok(verified)
    }
}

/// A server that listens at this address and makes no snapshots.
fn server(program: &str, address: SocketAddr, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(["--save", "", "--daemonize", "no"]);
    command
}

async fn check_settings(
    connection: &mut MultiplexedConnection,
    address: SocketAddr,
    wanted: &[(&str, &str)],
) -> Result<(), Failed> {
    let settings: Vec<(String, String)> =
        redis::cmd("CONFIG").arg("GET").arg("append*").query_async(connection).await?;
    for (name, wanted) in wanted {
        if !settings.iter().any(|(key, value)| key == name && value == wanted) {
            return Err(format!("redis at {address} does not run with {name} {wanted}: {settings:?}").into());
        }
    }
    Ok(())
}

fn session_key(house: &House, session: u32) -> String {
    format!("s:{}-{session}", house.prefix)
}

fn product_key(goods: &Goods, product: u32) -> String {
    format!("p:{}-{product}", goods.prefix)
}

fn seat_names<'a>(house: &'a House, purchase: &'a Purchase) -> impl Iterator<Item = String> + 'a {
    let seats = purchase.choice.seats.as_slice().iter();
    seats.map(|seat| (u32::from(seat.row) * u32::from(house.seats) + u32::from(seat.seat)).to_string())
}

/// One multiplexed connection to Redis.
#[derive(Clone)]
pub(crate) struct RedisTill {
    connection: MultiplexedConnection,
    nodes: Nodes,
    open: Arc<str>,
    hold: Arc<str>,
    hold_anew: Arc<str>,
    checkout: Arc<str>,
    add: Arc<str>,
    order: Arc<str>,
    house: Arc<House>,
    goods: Arc<Goods>,
}

impl RedisTill {
    /// Runs a step. With a replica, it waits until the replica has the step. A connection does nothing else meanwhile.
    async fn step<T: FromRedisValue>(&self, step: Cmd) -> Result<T, Failed> {
        let mut connection = self.connection.clone();
        if self.nodes == Nodes::One {
            return Ok(step.query_async(&mut connection).await?);
        }
        let mut pipeline = redis::pipe();
        pipeline.add_command(step).cmd("WAIT").arg(1).arg(WAIT_MS);
        let (answer, replicas): (T, u64) = pipeline.query_async(&mut connection).await?;
        if replicas < 1 {
            return Err(format!("no replica had a step within {WAIT_MS} ms").into());
        }
        Ok(answer)
    }
}

impl Till for RedisTill {
    async fn buy(&self, purchase: &Purchase, opening: Opening) -> Result<Bought, Failed> {
        let cart = purchase.cart.to_string();
        let (session_key, cart_key) = (session_key(&self.house, purchase.choice.session), format!("c:{cart}"));

        let hold_script = match opening {
            Opening::First => {
                let mut open = redis::cmd("EVALSHA");
                open.arg(&*self.open).arg(1).arg(&cart_key);
                let opened: i64 = self.step(open).await?;
                if opened != 1 {
                    return Err(format!("cart {cart} was there before").into());
                }
                &self.hold
            }
            Opening::WithTheHold => &self.hold_anew,
        };

        let mut hold = redis::cmd("EVALSHA");
        hold.arg(&**hold_script).arg(2).arg(&session_key).arg(&cart_key).arg(&cart);
        for seat in seat_names(&self.house, purchase) {
            hold.arg(seat);
        }
        let taken: Vec<i64> = self.step(hold).await?;
        if taken.first().is_some_and(|&first| first < 0) {
            return Err(format!("cart {cart} is not active").into());
        }
        if !taken.is_empty() {
            return Ok(Bought::Refused);
        }

        let mut checkout = redis::cmd("EVALSHA");
        checkout.arg(&*self.checkout).arg(3).arg(&session_key).arg(&cart_key).arg(format!("o:{cart}"));
        checkout.arg(&cart).arg("card");
        let done: i64 = self.step(checkout).await?;
        if done == 1 { Ok(Bought::Sold) } else { Err(format!("cart {cart} could not check out").into()) }
    }

    async fn order(&self, basket: &Basket) -> Result<Bought, Failed> {
        let cart_key = format!("c:{}", basket.cart);
        let keys = basket.products.map(|product| product_key(&self.goods, product));
        for key in &keys {
            let mut add = redis::cmd("EVALSHA");
            add.arg(&*self.add).arg(2).arg(key).arg(&cart_key).arg(1);
            match self.step::<i64>(add).await? {
                1 => {}
                0 => return Ok(Bought::Refused),
                _ => return Err(format!("cart {} is not active", basket.cart).into()),
            }
        }
        let mut order = redis::cmd("EVALSHA");
        order.arg(&*self.order).arg(2 + BASKET).arg(&cart_key).arg(format!("o:{}", basket.cart)).arg(&keys).arg("card");
        let total: i64 = self.step(order).await?;
        let due = PRICE * BASKET as i64;
        if total == due { Ok(Bought::Sold) } else { Err(format!("a total of {total}, not {due}").into()) }
    }
}
