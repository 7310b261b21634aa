//! One flow: a customer who wants something, and either buys it, is refused, abandons it or fails. The flow records
//! every answer for the audit.

mod booking;
mod checkout;
mod goods;
mod seats;
mod shards;

use std::sync::Arc;

use boxoffice_client::{At, Cart, Client, Entity, Error};
use boxoffice_core::id::Id;
use boxoffice_wire::reply::No;
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Good,
    history::{CartRecord, ChangeRecord, Outcome, Span},
};

pub(crate) use self::seats::held_seats;
use crate::{run_context::RunContext, scenario::FlowKind};

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlowOutcome {
    /// The flow bought or booked what it wanted.
    Done,
    /// The last request was refused, for this reason.
    Refused(Box<str>),
    /// The flow left with something in its cart.
    Abandoned,
    /// The flow failed, for this reason.
    Failed(Box<str>),
}

/// The failure reason if the client gave up without knowing the outcome of its last request.
pub(crate) const OUTCOME_UNKNOWN: &str = "unknown";

/// A flow and its records. Times are microseconds since the run's start.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The scheduled start.
    pub(crate) intended_us: u64,
    /// The actual start.
    pub(crate) started_us: u64,
    pub(crate) ended_us: u64,
    /// The time for which it paused before its checkout.
    pub(crate) thought_us: u64,
    pub(crate) outcome: FlowOutcome,
    pub(crate) retried: u32,
    pub(crate) opened: Option<Span>,
    pub(crate) record: CartRecord,
    /// Changes of bookings that need no cart.
    pub(crate) changes: Vec<ChangeRecord>,
}

impl Flow {
    /// A flow that is about to begin.
    pub(crate) fn new(intended_us: u64, started_us: u64, record: CartRecord) -> Flow {
        Flow {
            intended_us,
            started_us,
            ended_us: started_us,
            thought_us: 0,
            outcome: FlowOutcome::Abandoned,
            retried: 0,
            opened: None,
            record,
            changes: Vec::new(),
        }
    }

    /// A flow that the generator did not start.
    pub(crate) fn not_started(context: &RunContext, number: FlowNumber, intended_us: u64, why: &str) -> Flow {
        let record = CartRecord::new(context.run_seed.token(number).cart());
        Flow { outcome: FlowOutcome::Failed(why.into()), ..Flow::new(intended_us, context.now_us(), record) }
    }

    /// The time from the intended start to the end, without the pause.
    pub(crate) fn latency_us(&self) -> u64 {
        self.latency_from_us(self.intended_us)
    }

    /// The time from this start to the end, without the pause.
    pub(crate) fn latency_from_us(&self, start_us: u64) -> u64 {
        self.ended_us.saturating_sub(start_us + self.thought_us)
    }

    /// Records the cart's version in an answer.
    pub(crate) fn note_version(&mut self, at: &[At]) {
        self.record.versions.extend(self.cart_version(at));
    }

    fn cart_version(&self, at: &[At]) -> Option<u64> {
        at.iter().find(|at| at.entity == Entity::Cart(self.record.cart)).map(|at| at.version)
    }
}

/// Runs a flow to its end. Without an intended start, the actual start is the intended one. A flow with a `block` tries
/// the seats of that block instead of choosing its own.
pub(crate) async fn run(
    context: Arc<RunContext>,
    client: Client,
    number: FlowNumber,
    intended_us: Option<u64>,
    block: Option<FlowNumber>,
) -> Flow {
    context.count_started();
    let token = match first_wanted(&context, number, block) {
        Some(entity) => context.token_beside(number, &entity),
        None => context.run_seed.token(number),
    };
    let customer = context.customer(number);
    let mut cart = Cart::with_token(&client, token);
    if let Some(customer) = context.customer_id(customer) {
        cart = cart.with_customer(&customer);
    }
    let started_us = context.now_us();
    let gateway = context.scenario.gateway.is_some();
    let record = CartRecord { customer, gateway, ..CartRecord::new(cart.id()) };
    let mut flow = Flow::new(intended_us.unwrap_or(started_us), started_us, record);
    flow.outcome = match context.kind(number) {
        FlowKind::Seats => seats::buy(&context, &cart, number, block, &mut flow).await,
        FlowKind::Units => goods::buy_units(&context, &cart, number, &mut flow).await,
        FlowKind::Places => goods::buy_places(&context, &cart, number, &mut flow).await,
        FlowKind::Slots => goods::buy_slot(&context, &cart, number, &mut flow).await,
        FlowKind::Bookings => booking::change(&context, &client, number, &mut flow).await,
    };
    flow.ended_us = context.now_us();
    if context.live_stats.is_enabled() {
        context.live_stats.record(flow.successes(&context));
    }
    flow
}

/// The first entity of which a flow puts something into its cart. `None` if the flow needs no cart. A contending flow
/// may want another entity.
fn first_wanted(context: &RunContext, number: FlowNumber, block: Option<FlowNumber>) -> Option<Entity> {
    let good = match context.kind(number) {
        FlowKind::Seats => {
            let picker = context.picker.as_ref()?;
            let choice = picker.choose(block.unwrap_or(number), 0);
            return Some(Entity::Session(picker.house().session_id(choice.session)));
        }
        FlowKind::Units => Good::Product(*goods::products(context, number).first()?),
        FlowKind::Places => goods::area(context, number, 0),
        FlowKind::Slots => goods::slot(context, number, 0),
        FlowKind::Bookings => return None,
    };
    Some(context.goods.entity(good))
}

pub(crate) fn version_of(at: &[At], session: &Id) -> Option<u64> {
    at.iter().find(|at| matches!(&at.entity, Entity::Session(id) if id == session)).map(|at| at.version)
}

/// The outcome of a call with this result. `more` reads what a refusal says besides its code.
fn call_outcome<T, A, N>(
    result: &Result<T, Error>,
    answer: impl FnOnce(&T) -> A,
    more: impl FnOnce(&No) -> N,
) -> Outcome<A, N> {
    match result {
        Ok(value) => Outcome::Granted(answer(value)),
        Err(Error::Refused(no)) => Outcome::Refused { code: no.code, more: more(no) },
        Err(error) if error.may_have_happened() => Outcome::Unknown,
        Err(_) => Outcome::NotDone,
    }
}

fn outcome_of(error: &Error) -> FlowOutcome {
    match error {
        Error::Refused(no) => FlowOutcome::Refused(no.name.as_str().into()),
        Error::Failed(fail) => FlowOutcome::Failed(fail.kind.name().into()),
        Error::Unknown(_) => FlowOutcome::Failed(OUTCOME_UNKNOWN.into()),
        Error::Closed(_) => FlowOutcome::Failed("closed".into()),
        Error::Protocol(_) => FlowOutcome::Failed("not of the protocol".into()),
    }
}
