//! The plan of a run: what all its flows share.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_core::{
    id::{CartToken, Entity, Id},
    time::Timestamp,
};
use boxoffice_workload::{
    arrival::FlowNumber,
    flow::{Choice, Picker, PickerError},
    goods::{Goods, Slot},
    run_seed::RunSeed,
};
use rand::Rng;

use crate::{
    pulse::Pulse,
    scenario::{CalendarSpec, Kind, PickSpec, Scenario},
};

/// How often a client looks for seats that are to be tried again.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What all flows of a run share.
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) run_seed: RunSeed,
    pub(crate) picker: Option<Picker>,
    pub(crate) goods: Goods,
    pub(crate) pool: Option<Pool>,
    pub(crate) diary: Diary,
    /// The first instant that can be booked of a resource.
    calendar_from: Timestamp,
    weights: [u32; 5],
    /// When which shard did something.
    pub(crate) pulse: Pulse,
    /// Seats that somebody has got and keeps: those of the last flows.
    pub(crate) kept: Kept,
    /// No more flows are to begin.
    pub(crate) stop: AtomicBool,
    /// All flows have ended.
    pub(crate) over: AtomicBool,
    /// How many arrivals there were.
    pub(crate) arrived: AtomicU64,
    /// How many flows were begun, where that is not known before.
    begun: AtomicU64,
    pub(crate) start: Instant,
}

impl Plan {
    pub(crate) fn new(
        scenario: &Scenario,
        prefix: &str,
        seed: u64,
        now_ms: u64,
        shards: u16,
        start: Instant,
    ) -> Result<Plan, PickerError> {
        let picker = scenario.picker(prefix, seed)?;
        let sells_out = scenario.flow.as_ref().filter(|flow| flow.pick == PickSpec::SellOut);
        let pool = sells_out.zip(picker.as_ref()).map(|(flow, picker)| Pool::new(picker, flow.seats));
        Ok(Plan {
            scenario: scenario.clone(),
            run_seed: RunSeed { prefix: prefix.to_owned(), seed },
            picker,
            goods: scenario.goods(prefix),
            pool,
            diary: Diary::default(),
            // The midnight after tomorrow's: a whole day of notice for everybody.
            calendar_from: Timestamp((now_ms / DAY_MS + 2) * DAY_MS),
            weights: scenario.weights(),
            pulse: Pulse::new(shards),
            kept: Kept::default(),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            arrived: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            start,
        })
    }

    /// Microseconds since the run's start; 0 before it.
    pub(crate) fn now_us(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_micros() as u64
    }

    /// What a flow buys.
    pub(crate) fn kind(&self, number: FlowNumber) -> Kind {
        Kind::ALL[self.run_seed.kind(number, &self.weights)]
    }

    /// The token of a flow's cart: in the shard of the first thing that it wants, as clients make them, unless the
    /// scenario wants carts in any shard.
    pub(crate) fn token_beside(&self, number: FlowNumber, entity: &Entity) -> CartToken {
        match self.scenario.carts_are_beside() {
            true => self.run_seed.token_beside(number, entity),
            false => self.run_seed.token(number),
        }
    }

    /// Whose the flow is, by number; nobody's where there are no customers.
    pub(crate) fn customer(&self, number: FlowNumber) -> Option<u32> {
        let customers = self.goods.customers;
        (customers > 0).then(|| self.run_seed.rng(number, u32::MAX - 2).random_range(0..customers))
    }

    pub(crate) fn customer_id(&self, customer: Option<u32>) -> Option<Id> {
        customer.map(|customer| self.goods.customer_id(customer))
    }

    /// Counts a flow that is begun.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// How many flows there were to be: as many as were begun where that depends on how they end.
    pub(crate) fn offered(&self) -> u64 {
        match self.pool {
            Some(_) => self.begun.load(Ordering::Relaxed),
            None if self.scenario.overload.is_some() => self.begun.load(Ordering::Relaxed),
            None if self.scenario.faults.kills > 0 => self.arrived.load(Ordering::Relaxed),
            None => self.scenario.offered(),
        }
    }

    /// All the time that is booked.
    pub(crate) fn calendar(&self) -> Slot {
        match &self.scenario.calendar {
            Some(calendar) => self.slot(calendar, 0, calendar.steps),
            None => Slot { begin: self.calendar_from, end: self.calendar_from },
        }
    }

    /// A time of the calendar from step `first` on.
    pub(crate) fn slot(&self, calendar: &CalendarSpec, first: u32, steps: u32) -> Slot {
        let at = |step: u32| self.calendar_from.after(u64::from(step) * u64::from(calendar.step_minutes) * 60_000);
        Slot { begin: at(first), end: at(first + steps) }
    }

    /// Any time of the calendar.
    pub(crate) fn random_slot(&self, calendar: &CalendarSpec, random: &mut impl Rng) -> Slot {
        let steps = random.random_range(1..=calendar.steps_max);
        let first = random.random_range(0..=calendar.steps - steps);
        self.slot(calendar, first, steps)
    }
}

/// The seats of a house that are still to be sold, in blocks.
pub(crate) struct Pool {
    blocks: Mutex<Blocks>,
    /// Blocks that are not sold, wherever they are.
    left: AtomicU32,
}

/// Blocks that nobody is trying to get.
struct Blocks {
    /// Nobody tried these yet.
    fresh: Vec<FlowNumber>,
    /// These are tried again, each from its time on; all wait equally long, so they are in the order of their times.
    again: VecDeque<(Instant, FlowNumber)>,
}

impl Pool {
    fn new(picker: &Picker, seats: u16) -> Pool {
        let house = picker.house();
        let of_group = house.sessions_of_group() * (house.seats_of_session() / u32::from(seats));
        // Blocks are taken from the end: those of the first sessions stand there.
        let blocks = (0..of_group).rev();
        let fresh: Vec<FlowNumber> =
            blocks.flat_map(|index| (0..house.groups).map(move |group| FlowNumber { group, index })).collect();
        let left = AtomicU32::new(fresh.len() as u32);
        Pool { left, blocks: Mutex::new(Blocks { fresh, again: VecDeque::new() }) }
    }

    /// A block that may be tried; `None` when all are sold.
    pub(crate) async fn take(&self) -> Option<FlowNumber> {
        loop {
            {
                let mut blocks = self.blocks.lock().expect("nobody panics with the blocks");
                if blocks.again.front().is_some_and(|(from, _)| *from <= Instant::now()) {
                    return blocks.again.pop_front().map(|(_, block)| block);
                }
                if let Some(block) = blocks.fresh.pop() {
                    return Some(block);
                }
            }
            if self.left.load(Ordering::Relaxed) == 0 {
                return None;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A block that was taken is not sold, and may be tried again after a while, which is the same for all blocks.
    pub(crate) fn give_back(&self, block: FlowNumber, after: Duration) {
        let mut blocks = self.blocks.lock().expect("nobody panics with the blocks");
        blocks.again.push_back((Instant::now() + after, block));
    }

    /// A block that was taken is sold, or nobody knows: it is not tried again.
    pub(crate) fn is_over(&self) {
        self.left.fetch_sub(1, Ordering::Relaxed);
    }

    /// The choice of a block.
    pub(crate) fn choice(picker: &Picker, block: FlowNumber) -> Choice {
        picker.choose(block, 0)
    }
}

/// How many of them are remembered.
const KEPT_MAX: usize = 1_024;

/// Seats that somebody has got and does not give back: whoever wants one of them is refused.
#[derive(Default)]
pub(crate) struct Kept {
    choices: Mutex<VecDeque<Choice>>,
}

impl Kept {
    pub(crate) fn put(&self, choice: &Choice) {
        let mut choices = self.choices.lock().expect("nobody panics with the choices");
        if choices.len() == KEPT_MAX {
            choices.pop_front();
        }
        choices.push_back(choice.clone());
    }

    /// Any of them; `None` while there is none.
    pub(crate) fn any(&self, random: &mut impl Rng) -> Option<Choice> {
        let choices = self.choices.lock().expect("nobody panics with the choices");
        (!choices.is_empty()).then(|| choices[random.random_range(0..choices.len())].clone())
    }
}

/// The bookings that are there by what the clients were told; what a client changes is with that client alone.
#[derive(Default)]
pub(crate) struct Diary {
    /// Resource and number of each.
    bookings: Mutex<Vec<(u32, u32)>>,
    next: AtomicU32,
}

impl Diary {
    /// The number of a booking that was never there.
    pub(crate) fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn put(&self, resource: u32, booking: u32) {
        self.bookings.lock().expect("nobody panics with the bookings").push((resource, booking));
    }

    /// Any booking, for its taker alone; `None` if there is none.
    pub(crate) fn take(&self, random: &mut impl Rng) -> Option<(u32, u32)> {
        let mut bookings = self.bookings.lock().expect("nobody panics with the bookings");
        let count = bookings.len();
        (count > 0).then(|| bookings.swap_remove(random.random_range(0..count)))
    }
}
