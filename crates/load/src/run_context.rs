//! The state that all flows of a run share.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use boxoffice_core::{
    id::{CartToken, Entity, Id},
    time::Timestamp,
};
use boxoffice_workload::{
    arrival::FlowNumber,
    flow::{Picker, PickerError},
    goods::{Goods, Slot},
    run_seed::RunSeed,
};
use rand::Rng;

use crate::{
    booking_registry::BookingRegistry,
    live_stats::LiveStats,
    scenario::{CalendarSpec, FlowKind, PickSpec, Scenario},
    seat_blocks::{RecentHolds, SeatBlockPool},
};

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The state that all flows of a run share.
pub(crate) struct RunContext {
    pub(crate) scenario: Scenario,
    pub(crate) run_seed: RunSeed,
    pub(crate) picker: Option<Picker>,
    pub(crate) goods: Goods,
    pub(crate) seat_blocks: Option<SeatBlockPool>,
    pub(crate) bookings: BookingRegistry,
    /// The first instant that flows can book of a resource.
    calendar_from: Timestamp,
    weights: [u32; 5],
    /// Which shard granted a request when.
    pub(crate) live_stats: LiveStats,
    /// Seats that the last flows got and keep.
    pub(crate) recent_holds: RecentHolds,
    /// The open loop starts no more flows.
    pub(crate) stop_arrivals: AtomicBool,
    pub(crate) flows_ended: AtomicBool,
    /// Arrivals of the open loop so far.
    pub(crate) arrived: AtomicU64,
    /// Flows that were started.
    started: AtomicU64,
    pub(crate) start: Instant,
}

impl RunContext {
    pub(crate) fn new(
        scenario: &Scenario,
        prefix: &str,
        seed: u64,
        now_ms: u64,
        shards: u16,
        start: Instant,
    ) -> Result<RunContext, PickerError> {
        let picker = scenario.picker(prefix, seed)?;
        let sells_out = scenario.flow.as_ref().filter(|flow| flow.pick == PickSpec::SellOut);
        let seat_blocks = sells_out.zip(picker.as_ref()).map(|(flow, picker)| SeatBlockPool::new(picker, flow.seats));
        Ok(RunContext {
            scenario: scenario.clone(),
            run_seed: RunSeed { prefix: prefix.to_owned(), seed },
            picker,
            goods: scenario.goods(prefix),
            seat_blocks,
            bookings: BookingRegistry::default(),
            // Two midnights ahead, so that every booking has a whole day of notice.
            calendar_from: Timestamp((now_ms / DAY_MS + 2) * DAY_MS),
            weights: scenario.weights(),
            live_stats: LiveStats::new(shards),
            recent_holds: RecentHolds::default(),
            stop_arrivals: AtomicBool::new(false),
            flows_ended: AtomicBool::new(false),
            arrived: AtomicU64::new(0),
            started: AtomicU64::new(0),
            start,
        })
    }

    /// Microseconds since the run's start, and 0 before it.
    pub(crate) fn now_us(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_micros() as u64
    }

    /// What a flow buys.
    pub(crate) fn kind(&self, number: FlowNumber) -> FlowKind {
        FlowKind::ALL[self.run_seed.kind(number, &self.weights)]
    }

    /// The token of a flow's cart. As with real clients, the cart lives in the shard of the first entity that the flow
    /// wants, unless the scenario wants carts in any shard.
    pub(crate) fn token_beside(&self, number: FlowNumber, entity: &Entity) -> CartToken {
        match self.scenario.carts_are_beside() {
            true => self.run_seed.token_beside(number, entity),
            false => self.run_seed.token(number),
        }
    }

    /// The flow's customer, by number. `None` if the scenario has no customers.
    pub(crate) fn customer(&self, number: FlowNumber) -> Option<u32> {
        let customers = self.goods.customers;
        (customers > 0).then(|| self.run_seed.rng(number, u32::MAX - 2).random_range(0..customers))
    }

    pub(crate) fn customer_id(&self, customer: Option<u32>) -> Option<Id> {
        customer.map(|customer| self.goods.customer_id(customer))
    }

    pub(crate) fn count_started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of offered flows. If it depends on how flows end, this is the number of started flows.
    pub(crate) fn offered(&self) -> u64 {
        match self.seat_blocks {
            Some(_) => self.started.load(Ordering::Relaxed),
            None if self.scenario.overload.is_some() || self.scenario.onsale.is_some() => {
                self.started.load(Ordering::Relaxed)
            }
            None if self.scenario.faults.kills > 0 => self.arrived.load(Ordering::Relaxed),
            None => self.scenario.offered(),
        }
    }

    /// The whole time that flows can book.
    pub(crate) fn calendar(&self) -> Slot {
        match &self.scenario.calendar {
            Some(calendar) => self.slot(calendar, 0, calendar.steps),
            None => Slot { begin: self.calendar_from, end: self.calendar_from },
        }
    }

    /// A slot of `steps` steps that begins at step `first` of the calendar.
    pub(crate) fn slot(&self, calendar: &CalendarSpec, first: u32, steps: u32) -> Slot {
        let at = |step: u32| self.calendar_from.after(u64::from(step) * u64::from(calendar.step_minutes) * 60_000);
        Slot { begin: at(first), end: at(first + steps) }
    }

    /// A slot of random length at a random step of the calendar.
    pub(crate) fn random_slot(&self, calendar: &CalendarSpec, random: &mut impl Rng) -> Slot {
        let steps = random.random_range(1..=calendar.steps_max);
        let first = random.random_range(0..=calendar.steps - steps);
        self.slot(calendar, first, steps)
    }
}
