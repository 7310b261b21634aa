//! One flow: a customer who wants something, gets it or not, and buys or goes away; everything it was told is written down.

mod booking;
mod goods;
mod pay;
mod seats;

use std::sync::Arc;

use boxoffice_client::{At, Cart, Client, Entity, Error, Reply};
use boxoffice_core::id::Id;
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Good,
    history::{CartRecord, ChangeRecord, Span},
};

use crate::{plan::Plan, scenario::Kind};

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It bought, or booked what it wanted.
    Done,
    /// It was refused in the end, for this reason.
    Refused(Box<str>),
    /// It went away with something in its cart.
    Abandoned,
    /// It failed, for this reason.
    Failed(Box<str>),
}

/// Why a flow failed whose client gave up without knowing the outcome of its last request.
pub(crate) const UNKNOWN: &str = "unknown";

/// A flow that has ended. Times are microseconds since the run's start.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) intended_us: u64,
    pub(crate) started_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) end: End,
    pub(crate) retried: u32,
    pub(crate) opened: Option<Span>,
    pub(crate) record: CartRecord,
    /// What it did to bookings that need no cart.
    pub(crate) changes: Vec<ChangeRecord>,
}

impl Flow {
    /// A flow that is about to begin.
    pub(crate) fn new(intended_us: u64, started_us: u64, record: CartRecord) -> Flow {
        Flow {
            intended_us,
            started_us,
            ended_us: started_us,
            end: End::Abandoned,
            retried: 0,
            opened: None,
            record,
            changes: Vec::new(),
        }
    }

    /// A flow that was never started.
    pub(crate) fn not_started(plan: &Plan, number: FlowNumber, intended_us: u64, why: &str) -> Flow {
        let record = CartRecord::new(plan.run_seed.token(number).cart());
        Flow { end: End::Failed(why.into()), ..Flow::new(intended_us, plan.now_us(), record) }
    }

    /// Writes down the cart's version of an answer.
    fn note_version<T>(&mut self, reply: &Reply<T>) {
        let cart = reply.at.iter().find(|at| at.entity == Entity::Cart(self.record.cart));
        self.record.versions.extend(cart.map(|at| at.version));
    }
}

/// Runs a flow to its end. Without an intended start it is the actual one. `block` are the seats it has to try, if that is
/// not for it to choose.
pub(crate) async fn run(
    plan: Arc<Plan>,
    client: Client,
    number: FlowNumber,
    intended_us: Option<u64>,
    block: Option<FlowNumber>,
) -> Flow {
    plan.begin();
    let token = match first_wanted(&plan, number, block) {
        Some(entity) => plan.token_beside(number, &entity),
        None => plan.run_seed.token(number),
    };
    let customer = plan.customer(number);
    let mut cart = Cart::with_token(&client, token);
    if let Some(customer) = plan.customer_id(customer) {
        cart = cart.with_customer(&customer);
    }
    let started_us = plan.now_us();
    let gateway = plan.scenario.gateway.is_some();
    let record = CartRecord { customer, gateway, ..CartRecord::new(cart.id()) };
    let mut flow = Flow::new(intended_us.unwrap_or(started_us), started_us, record);
    flow.end = match plan.kind(number) {
        Kind::Seats => seats::buy(&plan, &cart, number, block, &mut flow).await,
        Kind::Units => goods::buy_units(&plan, &cart, number, &mut flow).await,
        Kind::Places => goods::buy_places(&plan, &cart, number, &mut flow).await,
        Kind::Slots => goods::buy_slot(&plan, &cart, number, &mut flow).await,
        Kind::Bookings => booking::change(&plan, &client, number, &mut flow).await,
    };
    flow.ended_us = plan.now_us();
    plan.pulse.note(&plan, &flow);
    flow
}

/// The first thing that a flow puts into its cart; `None` if it needs none. A flow that contends may want another one.
fn first_wanted(plan: &Plan, number: FlowNumber, block: Option<FlowNumber>) -> Option<Entity> {
    let good = match plan.kind(number) {
        Kind::Seats => {
            let picker = plan.picker.as_ref()?;
            let choice = picker.choose(block.unwrap_or(number), 0);
            return Some(Entity::Session(picker.house().session_id(choice.session)));
        }
        Kind::Units => Good::Product(*goods::products(plan, number).first()?),
        Kind::Places => goods::area(plan, number, 0),
        Kind::Slots => goods::slot(plan, number, 0),
        Kind::Bookings => return None,
    };
    Some(plan.goods.entity(good))
}

pub(crate) fn version_of(at: &[At], session: &Id) -> Option<u64> {
    at.iter().find(|at| matches!(&at.entity, Entity::Session(id) if id == session)).map(|at| at.version)
}

fn ended(error: &Error) -> End {
    match error {
        Error::Refused(no) => End::Refused(no.name.as_str().into()),
        Error::Failed(fail) => End::Failed(fail.kind.name().into()),
        Error::Unknown(_) => End::Failed(UNKNOWN.into()),
        Error::Closed(_) => End::Failed("closed".into()),
        Error::Protocol(_) => End::Failed("not of the protocol".into()),
    }
}
