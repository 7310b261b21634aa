//! One purchase: a hold that opens the cart, then the checkout. Between them the page watches its cart. It is recorded like every
//! flow.

use boxoffice_client::{At, Entity, Order, recorded};
use boxoffice_core::id::{CartToken, Id};
use boxoffice_wire::{Encoding, Op, body, envelope::with_patience, reply::request, view::Held};
use boxoffice_workload::{
    arrival::FlowNumber,
    flow::Choice,
    history::{Bought, CartRecord, CheckoutRecord, HoldOutcome, HoldRecord, Outcome, Span},
};
use bytes::BytesMut;

use crate::{
    flow::{Flow, FlowOutcome, OUTCOME_UNKNOWN, held_seats, version_of},
    run_context::RunContext,
};

/// The index of a purchase in the buyers' list.
pub(super) type PurchaseId = usize;

/// A purchase of an obeying client that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitingPurchase {
    /// Its buyer came at this time, and no request was sent. It has no seats in mind yet.
    New { came_us: u64, phase: usize },
    /// Its hold was refused as `busy`.
    Again(PurchaseId),
}

/// The flow group of the buyers. No other flow is in it.
const GROUP: u32 = u32::MAX;

/// The request that is under way, or is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Hold,
    Watch,
    Checkout,
}

pub(super) struct Purchase {
    pub(super) connection: usize,
    pub(super) step: Step,
    /// Its client obeys `retry_after_ms`.
    pub(super) obeys: bool,
    /// The number of the block of seats that it wants.
    pub(super) block: u32,
    /// When its buyer came.
    pub(super) came_us: u64,
    /// When its client gives up.
    pub(super) deadline_us: u64,
    /// When the hold was sent that was granted.
    pub(super) began_us: u64,
    /// The feed of its cart, as long as it is watched.
    pub(super) feed: Option<u64>,
    /// The phase in which its buyer came.
    pub(super) phase: usize,
    /// When the request under way was sent.
    pub(super) called_us: u64,
    pub(super) is_sent: bool,
    /// The generation of its slot in the buyers' list. An answer to an earlier purchase of the slot has another
    /// generation.
    pub(super) generation: u32,
    number: u32,
    token: CartToken,
    choice: Choice,
    pub(super) flow: Flow,
}

impl Purchase {
    /// Purchase number `number`, which wants the seats of `block`. Its buyer came at `came_us`.
    pub(super) fn new(context: &RunContext, number: u32, block: u32, came_us: u64) -> Purchase {
        let picker = context.picker.as_ref().expect("the scenario check requires seats for [overload]");
        let house = picker.house();
        let block_number = FlowNumber { group: block % house.groups, index: block / house.groups };
        let choice = picker.choose(block_number, 0);
        let session = Entity::Session(house.session_id(choice.session));
        let token = context.token_beside(FlowNumber { group: GROUP, index: number }, &session);
        Purchase {
            connection: 0,
            step: Step::Hold,
            obeys: false,
            block,
            came_us,
            deadline_us: came_us + context.scenario.connect.deadline_ms * 1_000,
            began_us: came_us,
            feed: None,
            phase: 0,
            called_us: came_us,
            is_sent: false,
            generation: 0,
            number,
            token,
            choice,
            flow: Flow::new(came_us, came_us, CartRecord::new(token.cart())),
        }
    }

    /// Writes the next request. A repeat has the same request id.
    pub(super) fn write(&self, context: &RunContext, id: u64, now_us: u64, frame: &mut BytesMut) {
        let left_ms = (self.deadline_us.saturating_sub(now_us) / 1_000).max(1);
        let (step, op) = match self.step {
            Step::Hold => ('h', Op::CartHoldSeats),
            Step::Watch => ('w', Op::Watch),
            Step::Checkout => ('c', Op::CartCheckout),
        };
        let rid = format!("{step}{:x}", self.number);
        match self.step {
            Step::Hold => {
                let seats = self.choice.seats.as_slice().to_vec();
                let body = body::HoldSeats::of(self.token, self.session_id(context), seats);
                let mut plain = BytesMut::new();
                request(Encoding::MsgPack, &mut plain, id, op, Some(&rid), Some(left_ms), &body);
                // The buyer gives up when the client does.
                frame.unsplit(with_patience(Encoding::MsgPack, &plain, left_ms));
            }
            Step::Watch => {
                let (entity, token) = (Some(Entity::Cart(self.token.cart())), Some(self.token));
                let body = body::Watch { entity, sessions: None, token, resume: None };
                request(Encoding::MsgPack, frame, id, op, None, Some(left_ms), &body);
            }
            Step::Checkout => {
                let body = body::Checkout::of(self.token, recorded("card", "overload").into());
                request(Encoding::MsgPack, frame, id, op, Some(&rid), Some(left_ms), &body);
            }
        }
    }

    /// The hold was granted. The page watches its cart then.
    pub(super) fn held(&mut self, context: &RunContext, held: &Held, at: &[At], watches: bool, now_us: u64) {
        self.flow.note_version(at);
        self.note_hold(Outcome::Granted(held_seats(held, at, &self.session_id(context))), now_us);
        self.step = if watches { Step::Watch } else { Step::Checkout };
        self.began_us = self.called_us;
    }

    /// The checkout was granted.
    pub(super) fn bought(&mut self, context: &RunContext, order: &Order, at: &[At], now_us: u64) {
        self.flow.note_version(at);
        let version = version_of(at, &self.session_id(context));
        let sold = version.map(|version| (self.choice.session, version)).into_iter().collect();
        self.note_checkout(Outcome::Granted(Bought { order: order.id, total: order.total.amount, sold }), now_us);
        self.end(FlowOutcome::Done, now_us);
    }

    /// The last request was finally refused, with this code and name.
    pub(super) fn refused(&mut self, code: u16, name: &str, now_us: u64) {
        match self.step {
            Step::Hold => self.note_hold(Outcome::Refused { code, more: Vec::new() }, now_us),
            Step::Watch => {}
            Step::Checkout => self.note_checkout(Outcome::Refused { code, more: () }, now_us),
        }
        self.end(FlowOutcome::Refused(name.into()), now_us);
    }

    /// The client gives up. The outcome of its last request is unknown, or the request certainly did not happen.
    pub(super) fn gave_up(&mut self, is_unknown: bool, now_us: u64) {
        match (self.step, is_unknown) {
            (Step::Hold, true) => self.note_hold(Outcome::Unknown, now_us),
            (Step::Hold, false) => self.note_hold(Outcome::NotDone, now_us),
            (Step::Watch, _) => {}
            (Step::Checkout, true) => self.note_checkout(Outcome::Unknown, now_us),
            (Step::Checkout, false) => self.note_checkout(Outcome::NotDone, now_us),
        }
        self.end(FlowOutcome::Failed(if is_unknown { OUTCOME_UNKNOWN } else { "busy" }.into()), now_us);
    }

    fn note_hold(&mut self, outcome: HoldOutcome, now_us: u64) {
        let span = Span { called_us: self.called_us, returned_us: now_us };
        let (session, seats) = (self.choice.session, self.choice.seats.clone());
        self.flow.record.holds.push(HoldRecord { session, seats, span, outcome });
    }

    fn note_checkout(&mut self, outcome: Outcome<Bought>, now_us: u64) {
        let span = Span { called_us: self.called_us, returned_us: now_us };
        self.flow.record.checkout = Some(CheckoutRecord { span, outcome });
    }

    fn session_id(&self, context: &RunContext) -> Id {
        let picker = context.picker.as_ref().expect("the picker existed when the purchase began");
        picker.house().session_id(self.choice.session)
    }

    fn end(&mut self, end: FlowOutcome, now_us: u64) {
        self.flow.outcome = end;
        self.flow.ended_us = now_us;
    }
}
