//! One flow: a customer who opens a cart, holds seats, and buys or goes away; everything it was told is written down.

use std::{sync::Arc, time::Instant};

use boxoffice_client::{At, Cart, Client, Entity, Error, recorded};
use boxoffice_core::{id::Id, refusal::TakenSeat};
use boxoffice_workload::{
    arrival::FlowNumber,
    flow::Picker,
    history::{CartRecord, CheckoutOutcome, CheckoutRecord, HoldOutcome, HoldRecord, Span},
};

use crate::scenario::FlowSpec;

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It bought.
    Done,
    /// It was refused in the end, for this reason.
    Refused(Box<str>),
    /// It went away with seats in its cart.
    Abandoned,
    /// It failed, for this reason.
    Failed(Box<str>),
}

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
}

/// What all flows of a run share.
pub(crate) struct Plan {
    pub(crate) picker: Picker,
    pub(crate) spec: FlowSpec,
    pub(crate) start: Instant,
}

impl Plan {
    /// Microseconds since the run's start; 0 before it.
    pub(crate) fn now_us(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_micros() as u64
    }

    /// A flow that was never started.
    pub(crate) fn not_started(&self, number: FlowNumber, intended_us: u64, why: &str) -> Flow {
        let now_us = self.now_us();
        Flow {
            intended_us,
            started_us: now_us,
            ended_us: now_us,
            end: End::Failed(why.into()),
            retried: 0,
            opened: None,
            record: CartRecord::new(self.picker.token(number).cart()),
        }
    }
}

/// Runs a flow to its end. Without an intended start it is the actual one.
pub(crate) async fn run(plan: Arc<Plan>, client: Client, number: FlowNumber, intended_us: Option<u64>) -> Flow {
    let token = plan.picker.token(number);
    let cart = Cart::with_token(&client, token);
    let started_us = plan.now_us();
    let mut flow = Flow {
        intended_us: intended_us.unwrap_or(started_us),
        started_us,
        ended_us: started_us,
        end: End::Abandoned,
        retried: 0,
        opened: None,
        record: CartRecord::new(cart.id()),
    };
    flow.end = buy(&plan, &cart, number, &mut flow).await;
    flow.ended_us = plan.now_us();
    flow
}

async fn buy(plan: &Plan, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> End {
    if plan.spec.open_first {
        let called_us = plan.now_us();
        let opened = cart.open(None, None).await;
        flow.opened = Some(Span { called_us, returned_us: plan.now_us() });
        match opened {
            Ok(reply) => flow.note_version(&reply.at),
            Err(error) => return ended(&error),
        }
    }

    let mut attempt = 0;
    loop {
        let choice = plan.picker.choose(number, attempt);
        let session = plan.picker.house().session_id(choice.session);
        let called_us = plan.now_us();
        let held = cart.hold_seats(&session, choice.seats.as_slice().iter().copied()).await;
        let span = Span { called_us, returned_us: plan.now_us() };
        let outcome = match &held {
            Ok(reply) => {
                flow.note_version(&reply.at);
                let seats = reply.value.lines.iter().flat_map(|line| line.content.seats());
                HoldOutcome::Granted {
                    session_version: version_of(&reply.at, &session),
                    deadline: reply.value.deadline,
                    price: seats.map(|seat| seat.price).sum(),
                }
            }
            Err(Error::Refused(no)) => {
                let named = no.seats.iter().zip(&no.states).map(|(&seat, &state)| TakenSeat { seat, state });
                HoldOutcome::Refused { code: no.code, named: named.collect() }
            }
            Err(error) if error.may_have_happened() => HoldOutcome::Unknown,
            Err(_) => HoldOutcome::NotDone,
        };
        flow.record.holds.push(HoldRecord { session: choice.session, seats: choice.seats, span, outcome });
        match held {
            Ok(_) => break,
            Err(Error::Refused(_)) if attempt < plan.spec.retries => {
                attempt += 1;
                flow.retried += 1;
            }
            Err(error) => return ended(&error),
        }
    }

    if plan.picker.abandons(number, plan.spec.abandon_percent) {
        return End::Abandoned;
    }
    check_out(plan, cart, flow).await
}

async fn check_out(plan: &Plan, cart: &Cart, flow: &mut Flow) -> End {
    let called_us = plan.now_us();
    let bought = cart.checkout(recorded("card", "load-run"), None).await;
    let span = Span { called_us, returned_us: plan.now_us() };
    let (outcome, end) = match bought {
        Ok(reply) => {
            flow.note_version(&reply.at);
            let order = &reply.value.order;
            let sessions = flow.record.holds.iter().filter(|hold| matches!(hold.outcome, HoldOutcome::Granted { .. }));
            let house = plan.picker.house();
            let version = |session: u32| version_of(&reply.at, &house.session_id(session));
            let sold = sessions.filter_map(|hold| Some((hold.session, version(hold.session)?))).collect();
            (CheckoutOutcome::Bought { order: order.id, total: order.total.amount, sold }, End::Done)
        }
        Err(error) => {
            let outcome = match &error {
                Error::Refused(no) => CheckoutOutcome::Refused { code: no.code },
                error if error.may_have_happened() => CheckoutOutcome::Unknown,
                _ => CheckoutOutcome::NotDone,
            };
            (outcome, ended(&error))
        }
    };
    flow.record.checkout = Some(CheckoutRecord { span, outcome });
    end
}

impl Flow {
    /// Writes down the cart's version of an answer.
    fn note_version(&mut self, at: &[At]) {
        let cart = at.iter().find(|at| at.entity == Entity::Cart(self.record.cart));
        self.record.versions.extend(cart.map(|at| at.version));
    }
}

fn version_of(at: &[At], session: &Id) -> Option<u64> {
    at.iter().find(|at| matches!(&at.entity, Entity::Session(id) if id == session)).map(|at| at.version)
}

fn ended(error: &Error) -> End {
    match error {
        Error::Refused(no) => End::Refused(no.name.as_str().into()),
        Error::Failed(fail) => End::Failed(fail.kind.name().into()),
        Error::Unknown(_) => End::Failed("unknown".into()),
        Error::Closed(_) => End::Failed("closed".into()),
        Error::Protocol(_) => End::Failed("not of the protocol".into()),
    }
}
