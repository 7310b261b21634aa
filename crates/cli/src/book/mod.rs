//! `boxoffice book`: a purchase at the terminal, or in one go.

mod input;
mod live;
mod receipt;
mod state;
#[cfg(test)]
mod tests;

use std::{io::IsTerminal, pin::pin};

use boxoffice_client::{
    BestWish, Cart, Client, Entity, Error, Figure, Held, Id, Reply, SeatState, SessionView, recorded,
};

pub use receipt::refusal;

use crate::{
    args::{Book, NodeArgs},
    draw::{Names, Plan, draw},
    failure::{Failure, Outcome},
    ids,
    node_client::{self, options, say},
    watch::{headline, session, stop_requested},
};

/// The recorded method of payment.
const METHOD: &str = "terminal";

/// Buys seats.
pub fn run(args: &Book) -> Outcome {
    let id = ids::id_of("session", &args.session)?;
    let alone = args.yes || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal();
    if alone && args.best.is_none() && args.seats.is_empty() {
        let why = if args.yes {
            "with --yes no question is asked"
        } else {
            "this is no terminal, so no question can be asked"
        };
        return Err(Failure::Usage(format!(
            "{why}: name seats, as in `boxoffice book {id} B5 B6 --yes`, or say --best 2"
        )));
    }
    if alone && !args.yes {
        return Err(Failure::Usage("this is no terminal, so no question can be asked: check out with --yes".into()));
    }
    node_client::block_on(async {
        let client = args.node_args.connect().await?;
        let session = session(&client, &id, &args.node_args).await?;
        let names = Names::of(&session.layout);
        let wanted = wanted(args, &names)?;
        let code = args.code.as_deref().map(|code| ids::id_of("code", code)).transpose()?;
        let price_type = args.price_type.as_deref().map(|of| ids::id_of("price type", of)).transpose()?;
        if alone {
            let purchase = Purchase { client, session, names, node_args: &args.node_args };
            let choice = wanted.expect("seats or how many were asked for above");
            return purchase.alone(Wanted { choice, price_type, code }).await;
        }
        live::sell(&client, session, (wanted, price_type, code), &args.node_args).await
    })
}

/// The seats on the command line, and what they are bought as.
struct Wanted {
    choice: SeatChoice,
    price_type: Option<Id>,
    code: Option<Id>,
}

/// The seats on the command line.
enum SeatChoice {
    /// These seats, by index.
    Seats(Vec<u32>),
    /// This many of the best seats.
    Best(u16),
}

fn wanted(args: &Book, names: &Names) -> Result<Option<SeatChoice>, Failure> {
    if let Some(count) = args.best {
        return Ok(Some(SeatChoice::Best(count)));
    }
    if args.seats.is_empty() {
        return Ok(None);
    }
    let seats = names.read(args.seats.iter().map(String::as_str)).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Some(SeatChoice::Seats(seats)))
}

async fn hold(cart: &Cart, session: &SessionView, wanted: &Wanted) -> Result<Reply<Held>, Error> {
    let (types, code) = (|| wanted.price_type.iter().cloned(), wanted.code.as_ref());
    match &wanted.choice {
        SeatChoice::Seats(indexes) => {
            let seats = indexes.iter().map(|index| session.layout.seat(*index));
            cart.hold_seats(&session.id, seats).types(types()).code(code).await
        }
        SeatChoice::Best(count) => {
            let input = BestWish { count: *count, category: None, section: None, accessible: 0, split: false };
            cart.hold_best(&session.id, input).types(types()).code(code).await
        }
    }
}

/// A purchase without questions.
struct Purchase<'a> {
    client: Client,
    session: SessionView,
    names: Names,
    node_args: &'a NodeArgs,
}

impl Purchase<'_> {
    /// Holds, shows the hold, checks out. Releases the seats if it is stopped in between.
    async fn alone(&self, wanted: Wanted) -> Outcome {
        let cart = Cart::beside(&self.client, &Entity::Session(self.session.id.clone()));
        let mut stop = pin!(stop_requested());
        let held = tokio::select! {
            biased;
            held = hold(&cart, &self.session, &wanted) => held,
            () = &mut stop => return self.stopped(&cart).await,
        };
        let held = held.map_err(|error| self.failure(error))?.value;
        let shown = tokio::select! {
            biased;
            shown = self.show(&held) => shown,
            () = &mut stop => return self.stopped(&cart).await,
        };
        if let Err(failure) = shown {
            // A hold that cannot be shown is not bought. If the cancel fails, the seats are free at the deadline.
            let _ = cart.cancel().await;
            return Err(failure);
        }
        // A checkout cannot be taken back, so its answer is awaited.
        let (payment, shown) = (recorded(METHOD, cart.id().to_string()), held.lines_version);
        let expect = Figure { lines: Some(shown), ..Figure::default() };
        match cart.checkout(payment, None).expecting(expect).await {
            Ok(reply) => {
                let order = &reply.value;
                for line in receipt::order(order, &self.session.layout, &self.names) {
                    say(&line);
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, Error::Refused(_)) {
                    // If the cancel fails, the seats are free at the deadline.
                    let _ = cart.cancel().await;
                }
                Err(in_doubt(error, &cart.id().order().to_string(), self.node_args))
            }
        }
    }

    async fn show(&self, held: &Held) -> Outcome {
        say(&headline(&self.session));
        let map = self.client.session_map(&self.session.id).await.map_err(|error| self.node_args.failure(error))?.value;
        let layout = self.session.layout.clone();
        let states = unpack(&map.seats, layout.seats());
        let seats = held.lines.iter().flat_map(|line| line.content.seats());
        let own = seats.filter_map(|priced| layout.index(priced.seat)).collect();
        let plan = Plan { prices: self.session.prices.clone(), layout, states, own };
        for line in draw(&plan, &options()) {
            say(&line);
        }
        say("");
        Ok(())
    }

    async fn stopped(&self, cart: &Cart) -> Outcome {
        cart.cancel().await.map_err(|error| self.node_args.failure(error))?;
        Err(Failure::Refused("stopped before anything was bought; the seats are given back".into()))
    }

    fn failure(&self, error: Error) -> Failure {
        match error.refusal() {
            Some(no) => Failure::Refused(format!(
                "{}; nothing was held. `boxoffice watch {}` shows what is free",
                receipt::refusal(no, &self.session.layout, &self.names),
                self.session.id
            )),
            None => self.node_args.failure(error),
        }
    }
}

/// The failure of a checkout, which may have happened all the same.
fn in_doubt(error: Error, order: &str, node_args: &NodeArgs) -> Failure {
    if !error.may_have_happened() {
        return node_args.failure(error);
    }
    Failure::Unreachable(format!(
        "no answer to the checkout: whether order {order} was made is not known here. `boxoffice admin audit cart/{order} \
         --address {}` tells, once the node answers",
        node_args.host_and_port()
    ))
}

/// The states of a packed map. Missing seats count as blocked.
fn unpack(packed: &[u8], seats: u32) -> Vec<SeatState> {
    let state = |index: u32| {
        let byte = packed.get(index as usize / 4).copied().unwrap_or(u8::MAX);
        match byte >> (index % 4 * 2) & 3 {
            0 => SeatState::Free,
            1 => SeatState::Held,
            2 => SeatState::Sold,
            _ => SeatState::Blocked,
        }
    };
    (0..seats).map(state).collect()
}
