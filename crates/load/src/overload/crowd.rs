//! The crowd: buyers on a thread of its own, which cost little more than their frames, so that one processor offers many times
//! what another one can sell.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use boxoffice_client::OrderView;
use boxoffice_core::answer::Held;
use boxoffice_wire::{
    Encoding, FailKind,
    reply::{RawVerdict, Reply, ServerFrame},
};
use bytes::BytesMut;
use mio::{Events, Interest, Poll, Token};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::Instant;

use super::{
    line::Line,
    sale::{Sale, SaleId, Step},
    seen::Seen,
};
use crate::{flow::Flow, plan::Plan};

/// How many bytes are read at once.
const READ_BYTES: usize = 256 * 1024;

/// How often purchases are looked for whose clients give up, in microseconds.
const SWEEP_US: u64 = 100_000;

/// After this time a client that ignores how long it should wait repeats its checkout, in microseconds.
const IMPATIENT_US: u64 = 10_000;

/// How many purchases are begun before answers are read again.
const BEGUN_A_TURN: u64 = 2_048;

/// How buyers come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pressure {
    /// So many clients, each of which begins its next purchase when the last one ended.
    Closed(u32),
    /// So many a second, whatever becomes of them; they wait as long as they are told, or not.
    Open {
        /// How many a second.
        per_s: f64,
        /// Whether they wait.
        obeys: bool,
    },
}

/// All buyers.
pub(super) struct Crowd {
    plan: Arc<Plan>,
    poll: Poll,
    lines: Vec<Line>,
    sales: Vec<Option<Sale>>,
    free: Vec<SaleId>,
    turns: Vec<u32>,
    /// Seats that nobody is trying to get.
    blocks: Vec<u32>,
    /// Checkouts that are to be repeated, with the time, in no order.
    repeats: VecDeque<(u64, SaleId, u32)>,
    next_number: u32,
    next_line: usize,
    seen: Seen,
    flows: Vec<Flow>,
    rng: SmallRng,
    pressure: Pressure,
    began_us: u64,
    /// Purchases begun since the phase began.
    begun: u64,
    under_way: u32,
    swept_us: u64,
    left_holding: u64,
    frame: BytesMut,
}

impl Crowd {
    /// Connects all lines, spread over the nodes.
    pub(super) fn connect(addresses: &[String], lines: u32, plan: Arc<Plan>) -> io::Result<Crowd> {
        let poll = Poll::new()?;
        let mut all = Vec::new();
        for address in addresses.iter().cycle().take(lines as usize) {
            let mut line = Line::connect(address)?;
            poll.registry().register(&mut line.stream, Token(all.len()), Interest::READABLE | Interest::WRITABLE)?;
            all.push(line);
        }
        let picker = plan.picker.as_ref().expect("a scenario with [overload] has seats; it was checked");
        let (house, seats) = (picker.house(), plan.scenario.flow.as_ref().map_or(1, |flow| flow.seats));
        let of_group = house.sessions_of_group() * (house.seats_of_session() / u32::from(seats));
        Ok(Crowd {
            poll,
            lines: all,
            sales: Vec::new(),
            free: Vec::new(),
            turns: Vec::new(),
            blocks: (0..of_group * house.groups).rev().collect(),
            repeats: VecDeque::new(),
            next_number: 0,
            next_line: 0,
            seen: Seen::default(),
            flows: Vec::new(),
            rng: SmallRng::seed_from_u64(plan.run_seed.seed),
            pressure: Pressure::Closed(0),
            began_us: 0,
            begun: 0,
            under_way: 0,
            swept_us: 0,
            left_holding: 0,
            frame: BytesMut::new(),
            plan,
        })
    }

    /// A phase begins.
    pub(super) fn begin(&mut self, pressure: Pressure) {
        self.began_us = self.now_us();
        (self.pressure, self.begun, self.seen) = (pressure, 0, Seen::since(self.began_us));
    }

    /// Microseconds since the run's start.
    pub(super) fn now_us(&self) -> u64 {
        self.plan.now_us()
    }

    /// What was seen since the phase began.
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Sends away all buyers who have nothing and wait for their turn.
    pub(super) fn disperse(&mut self) {
        for line in 0..self.lines.len() {
            while let Some(id) = self.lines[line].waiting.pop_front() {
                self.end_unsent(id);
            }
        }
    }

    /// Begins no more, and waits until everything has ended. How many had got their seats and not bought them.
    pub(super) fn finish(&mut self) -> u64 {
        self.begin(Pressure::Closed(0));
        while self.under_way > 0 {
            self.run(Duration::from_millis(100));
        }
        self.left_holding
    }

    /// The purchases that got anything, as flows.
    pub(super) fn take_flows(&mut self) -> Vec<Flow> {
        std::mem::take(&mut self.flows)
    }

    /// Lets buyers buy for so long.
    pub(super) fn run(&mut self, time: Duration) {
        let until_us = self.now_us() + time.as_micros() as u64;
        let mut events = Events::with_capacity(1_024);
        let mut buffer = vec![0; READ_BYTES];
        while self.now_us() < until_us {
            self.arrive();
            self.begin_waiting();
            self.repeat();
            self.sweep();
            for line in &mut self.lines {
                line.flush().expect("the node keeps its connections open");
            }
            // Arrivals come in groups of a millisecond at the most.
            if self.poll.poll(&mut events, Some(Duration::from_millis(1))).is_err() {
                continue;
            }
            for event in &events {
                self.read(event.token().0, &mut buffer);
            }
        }
    }

    fn arrive(&mut self) {
        let now_us = self.now_us();
        let due = match self.pressure {
            Pressure::Closed(clients) => u64::from(clients.saturating_sub(self.under_way)),
            Pressure::Open { per_s, .. } => {
                let due = ((now_us - self.began_us) as f64 * per_s / 1e6) as u64;
                due.saturating_sub(self.begun)
            }
        };
        for _ in 0..due.min(BEGUN_A_TURN) {
            self.begun += 1;
            self.seen.offered += 1;
            let line = self.next_line;
            self.next_line = (line + 1) % self.lines.len();
            let obeys = !matches!(self.pressure, Pressure::Open { obeys: false, .. });
            // A node that does not read is not sent more: its buyers do not get through.
            let gets_through = obeys || self.lines[line].has_room();
            let Some(block) = gets_through.then(|| self.blocks.pop()).flatten() else {
                self.seen.not_sent += 1;
                continue;
            };
            let id = self.add(block, line, obeys, now_us);
            if obeys {
                self.lines[line].waiting.push_back(id);
            } else {
                self.send(id, now_us);
            }
        }
    }

    fn add(&mut self, block: u32, line: usize, obeys: bool, now_us: u64) -> SaleId {
        let mut sale = Sale::new(&self.plan, self.next_number, block, now_us);
        self.next_number += 1;
        self.under_way += 1;
        (sale.line, sale.obeys) = (line, obeys);
        let id = self.free.pop().unwrap_or_else(|| {
            self.sales.push(None);
            self.turns.push(0);
            self.sales.len() - 1
        });
        sale.turn = self.turns[id];
        self.sales[id] = Some(sale);
        id
    }

    /// Begins what waits for its turn, as far as each line's limit allows.
    fn begin_waiting(&mut self) {
        let (now, now_us) = (Instant::now(), self.now_us());
        for line in 0..self.lines.len() {
            loop {
                let line = &mut self.lines[line];
                if line.waiting.is_empty() || !line.has_room() || !line.limit.try_acquire(now) {
                    break;
                }
                let id = line.waiting.pop_front().expect("one waits");
                let sale = self.sales[id].as_ref().expect("what waits is not over");
                if sale.until_us <= now_us {
                    line.limit.release();
                    self.end_unsent(id);
                } else {
                    self.send(id, now_us);
                }
            }
        }
    }

    fn send(&mut self, id: SaleId, now_us: u64) {
        let sale = self.sales[id].as_mut().expect("it is under way");
        (sale.called_us, sale.is_sent) = (now_us, true);
        self.frame.clear();
        sale.write(&self.plan, (u64::from(sale.turn) << 32) | id as u64, now_us, &mut self.frame);
        self.lines[sale.line].send(&self.frame);
    }

    /// Repeats checkouts that were refused for the moment.
    fn repeat(&mut self) {
        let now_us = self.now_us();
        for _ in 0..self.repeats.len() {
            let Some((at_us, id, turn)) = self.repeats.pop_front() else { return };
            if self.turns[id] != turn {
                continue;
            }
            let line = self.sales[id].as_ref().expect("it is under way").line;
            if at_us > now_us || !self.lines[line].has_room() {
                self.repeats.push_back((at_us, id, turn));
            } else {
                self.send(id, now_us);
            }
        }
    }

    /// Ends what has waited until its deadline.
    fn sweep(&mut self) {
        let now_us = self.now_us();
        if now_us < self.swept_us + SWEEP_US {
            return;
        }
        self.swept_us = now_us;
        for id in 0..self.sales.len() {
            let Some(sale) = &mut self.sales[id] else { continue };
            // The node says itself when the time of a request is over; it may be late.
            if sale.is_sent && sale.until_us + 2_000_000 <= now_us {
                sale.gave_up(true, now_us);
                self.seen.unknown += 1;
                self.lines[sale.line].under_way -= 1;
                if sale.step == Step::Hold && sale.obeys {
                    self.lines[sale.line].limit.release();
                }
                self.over(id, true);
            } else if !sale.is_sent && sale.step == Step::Checkout && sale.until_us <= now_us {
                sale.gave_up(false, now_us);
                self.over(id, true);
            }
        }
    }

    fn read(&mut self, line: usize, buffer: &mut [u8]) {
        let mut frames: Vec<(u64, Told)> = Vec::new();
        let read = self.lines[line].read(buffer, |frame| frames.extend(told(frame)));
        read.expect("the node keeps its connections open");
        let now_us = self.now_us();
        for (id, told) in frames {
            let (id, turn) = ((id & 0xffff_ffff) as SaleId, (id >> 32) as u32);
            if self.turns.get(id) == Some(&turn) && self.sales[id].is_some() {
                self.lines[line].under_way -= 1;
                self.answered(id, told, now_us);
            }
        }
    }

    fn answered(&mut self, id: SaleId, told: Told, now_us: u64) {
        let sale = self.sales[id].as_mut().expect("it was looked at");
        sale.is_sent = false;
        let (line, called_us) = (&mut self.lines[sale.line], sale.called_us);
        let was_paced = sale.step == Step::Hold && sale.obeys;
        if was_paced && !matches!(told, Told::Busy(_)) {
            line.limit.on_answer();
        }
        match told {
            Told::Ok(frame) => match sale.step {
                Step::Hold => {
                    let Some(Reply::Ok(held, at)) = read::<Held>(&frame) else { panic!("a hold without lines") };
                    self.seen.held(called_us, now_us);
                    sale.held(&self.plan, &held, &at, now_us);
                    self.send(id, now_us);
                }
                Step::Checkout => {
                    let Some(Reply::Ok(view, at)) = read::<OrderView>(&frame) else {
                        panic!("a checkout without order")
                    };
                    self.seen.checked_out(called_us, now_us);
                    sale.bought(&self.plan, &view, &at, now_us);
                    self.over(id, false);
                }
            },
            Told::No(code, name) => {
                *self.seen.other.entry(name.clone()).or_default() += 1;
                sale.refused(code, &name, now_us);
                self.over(id, false);
            }
            Told::Busy(retry_after_ms) => {
                self.seen.was_busy(called_us, now_us);
                self.seen.checkouts_refused += u64::from(sale.step == Step::Checkout);
                let wait_ms = f64::from(retry_after_ms) * self.rng.random_range(0.5..1.5);
                if was_paced {
                    line.limit.on_busy(Duration::from_micros((wait_ms * 1e3) as u64), Instant::now());
                }
                match (sale.step, sale.obeys) {
                    (Step::Hold, true) => line.waiting.push_back(id),
                    (Step::Hold, false) => self.end_unsent(id),
                    // Who has something does not give it up.
                    (Step::Checkout, obeys) => {
                        let wait_us = if obeys { (wait_ms * 1e3) as u64 } else { IMPATIENT_US };
                        self.repeats.push_back((now_us + wait_us, id, sale.turn));
                    }
                }
            }
            Told::Failed(kind) => {
                *self.seen.other.entry(kind.name().to_owned()).or_default() += 1;
                self.seen.unknown += u64::from(kind.may_have_happened());
                sale.gave_up(kind.may_have_happened(), now_us);
                self.over(id, kind.may_have_happened());
            }
        }
    }

    /// A purchase whose hold certainly did not happen is over; its seats are for somebody else.
    fn end_unsent(&mut self, id: SaleId) {
        let sale = self.sales[id].take().expect("it is under way");
        self.blocks.push(sale.block);
        self.leave(id);
    }

    /// A purchase is over that may have got its seats; whether its client left something behind.
    fn over(&mut self, id: SaleId, leaves_holding: bool) {
        let sale = self.sales[id].take().expect("it is under way");
        self.left_holding += u64::from(leaves_holding);
        self.plan.begin();
        self.flows.push(sale.flow);
        self.leave(id);
    }

    fn leave(&mut self, id: SaleId) {
        self.turns[id] = self.turns[id].wrapping_add(1) & 0x7fff_ffff;
        self.free.push(id);
        self.under_way -= 1;
    }
}

/// What a request was told.
enum Told {
    /// It was granted, with the frame that says so.
    Ok(Vec<u8>),
    /// It was refused, with this number and name.
    No(u16, String),
    /// The node is overloaded: try again after so many milliseconds.
    Busy(u32),
    /// It failed in another way.
    Failed(FailKind),
}

/// The request that a frame answers, and what it says.
fn told(frame: &[u8]) -> Option<(u64, Told)> {
    let Ok(ServerFrame::Answer(Some(id), verdict, _)) = ServerFrame::read(Encoding::MsgPack, frame) else {
        return None;
    };
    let told = match verdict {
        RawVerdict::Ok(..) => Told::Ok(frame.to_vec()),
        RawVerdict::No(_) | RawVerdict::Fail(_) => match verdict.read::<Held>(Encoding::MsgPack).ok()? {
            Reply::Ok(..) => return None,
            Reply::No(no) => Told::No(no.code, no.name.to_string()),
            Reply::Fail(fail) if fail.kind == FailKind::Busy => Told::Busy(fail.retry_after_ms.unwrap_or(0)),
            Reply::Fail(fail) => Told::Failed(fail.kind),
        },
    };
    Some((id, told))
}

fn read<T: boxoffice_wire::reply::FromAnswer>(frame: &[u8]) -> Option<Reply<T>> {
    match ServerFrame::read(Encoding::MsgPack, frame) {
        Ok(ServerFrame::Answer(_, verdict, _)) => verdict.read(Encoding::MsgPack).ok(),
        _ => None,
    }
}
