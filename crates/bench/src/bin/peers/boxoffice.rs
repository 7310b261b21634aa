//! Boxoffice: one node of the program itself with `fsync` always, spoken to through its client library.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use boxoffice_client::{Cart, Client, ClientConfig, Currency, Error, Money, recorded};
use boxoffice_core::id::{Entity, Id};
use boxoffice_load::make_house;
use boxoffice_workload::house::House;
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::{
    PRICE, Verified,
    child::{Server, free_address},
    drive::{Bought, Failed, Purchase, Till},
    starting,
};

/// Reads under way while everything is counted.
const READS_UNDER_WAY: usize = 64;

/// Buffers of connections that many clients share; those of one client stay small.
const SHARED_BUFFER_BYTES: usize = 64 * 1024;

/// The number of `seats_taken`.
const SEATS_TAKEN: u16 = 201;

/// A private node.
pub(crate) struct Boxoffice {
    server: Server,
    address: String,
}

/// The program beside this one, if it is there.
pub(crate) fn find() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name("boxoffice");
    program.is_file().then_some(program)
}

impl Boxoffice {
    /// Starts it with its data in a directory of its own.
    pub(crate) async fn start(program: &Path) -> Result<Boxoffice, Failed> {
        let directory = tempfile::Builder::new().prefix("peers-boxoffice-").tempdir()?;
        let address = free_address()?.to_string();
        let mut command = Command::new(program);
        command.args(["serve", "--fsync", "always", "--listen", &address, "--data-dir"]);
        command.arg(directory.path().join("data"));
        let mut server = Server::start(command, directory, Signal::TERM)?;
        let config = || ClientConfig::new([address.clone()]);
        starting(&mut server, || async { Client::connect(config()).await?.status().await.map(drop) }).await?;
        let boxoffice = Boxoffice { server, address };
        let status = boxoffice.client(1).await?.status().await?.value;
        if status.durability.fsync != "always" {
            return Err(format!("the node runs with fsync {}, not always", status.durability.fsync).into());
        }
        Ok(boxoffice)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    async fn client(&self, buffers: usize) -> Result<Client, Failed> {
        let mut config = ClientConfig::new([self.address.clone()]);
        config.buffer_bytes = config.buffer_bytes.max(buffers);
        Ok(Client::connect(config).await?)
    }

    /// Makes the sessions of a house.
    pub(crate) async fn prepare(&self, house: &House) -> Result<(), Failed> {
        let price = Money { amount: PRICE, currency: Currency::new("EUR").expect("a currency") };
        Ok(make_house(std::slice::from_ref(&self.address), house, price).await?)
    }

    /// Connects so many times.
    pub(crate) async fn connect(&self, house: &House, connections: usize) -> Result<Vec<BoxofficeTill>, Failed> {
        let sessions: Arc<[Id]> = (0..house.sessions_all()).map(|session| house.session_id(session)).collect();
        let buffers = if connections <= 16 { SHARED_BUFFER_BYTES } else { 0 };
        let mut tills = Vec::new();
        for _ in 0..connections {
            tills.push(BoxofficeTill { client: self.client(buffers).await?, sessions: sessions.clone() });
        }
        Ok(tills)
    }

    /// Counts what is sold, seat by seat and order by order.
    pub(crate) async fn verify(&self, house: &House, carts: &[Purchase]) -> Result<Verified, Failed> {
        let client = self.client(SHARED_BUFFER_BYTES).await?;
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

/// One connection to the node.
#[derive(Clone)]
pub(crate) struct BoxofficeTill {
    client: Client,
    /// Ids of sessions by number.
    sessions: Arc<[Id]>,
}

impl Till for BoxofficeTill {
    async fn buy(&self, purchase: &Purchase) -> Result<Bought, Failed> {
        let cart = Cart::with_token(&self.client, purchase.token);
        cart.open(None, None).await?;
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
}
