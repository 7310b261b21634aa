//! The sale of a house to one party after the other, each grant judged by what the plan shows.

use std::{collections::BTreeSet, sync::Arc};

use boxoffice_core::{
    ask::{Ask, Opening, Reply},
    command::{BestWish, Want},
    event::{Event, SessionEvent},
    host::{Effect, Host, Input, Turn},
    id::{CartId, Entity, HoldId, RequestHash},
    refusal::Refusal,
    rules::Rules,
    seat::SeatSet,
    state_map::State,
    time::Timestamp,
};

use super::plans::Plan;
use crate::script::{id, new_session};

/// How the parties sat.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Parties of two or more that got seats.
    pub(crate) parties: u32,
    /// Of these, the ones in several places, because no piece was long enough.
    pub(crate) parted: u32,
    /// People of parted parties without a neighbour of their party.
    pub(crate) alone: u32,
    /// Grants that left a single free seat beside them, because every choice did.
    pub(crate) stranded: u32,
}

pub(crate) struct Sale<'a> {
    plan: &'a Plan,
    host: Host<u32>,
    pub(crate) free: BTreeSet<u32>,
    holds: u64,
    pub(crate) rates: Rates,
}

impl<'a> Sale<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Sale<'a> {
        let session = new_session("s", &plan.layout, 1_000_000, 2_000_000, None);
        let layout = Arc::clone(&plan.layout);
        let opening = Opening { venue: id("venue"), session, layout, zone: Default::default() };
        let entity = Entity::Session(id("s"));
        let state = State::first(&entity, &Event::Session(SessionEvent::Opened(opening)));
        let host = Host::new(entity, Some(Arc::new(state)), Arc::new(Rules::default()));
        Sale { plan, host, free: (0..plan.layout.seats()).collect(), holds: 0, rates: Rates::default() }
    }

    /// Takes seats away by name.
    pub(crate) fn take(&mut self, seats: &[u32]) {
        for some in seats.chunks(20) {
            let seats =
                SeatSet::new(some.iter().map(|index| self.plan.layout.seat(*index))).expect("up to twenty seats");
            let granted = self.ask(Want::seats(seats, false)).expect("they are free");
            assert_eq!(granted, some);
        }
    }

    /// Asks for the best seats, and judges the answer. Returns whether there were any.
    pub(crate) fn best(&mut self, wish: &BestWish) -> bool {
        let before = self.free.clone();
        let answer = self.ask(Want::Best(wish.clone()));
        let best = best_by_points(self.plan, &before, wish);
        let people = usize::from(wish.count);
        match (&answer, best) {
            (Ok(seats), Some(best)) => {
                let apart = seats.windows(2).any(|pair| pair[1] != pair[0] + 1 || !self.plan.beside[pair[0] as usize]);
                assert!(!apart, "{wish:?} sits across an aisle: {seats:?} instead of {best:?}");
                assert_eq!(seats, &best, "not the best seats for {wish:?}");
                self.rates.stranded += u32::from(strands(self.plan, &before, seats));
            }
            (Ok(seats), None) => {
                assert!(wish.split, "{wish:?} got {seats:?}, which are not side by side");
                self.rates.parted += 1;
                if wish.accessible == 0 {
                    let alone = alone(self.plan, seats);
                    let least = least_alone(&pieces(self.plan, &before, wish), people);
                    assert_eq!(alone, least, "{wish:?} sits alone without need: {seats:?}");
                    self.rates.alone += alone as u32;
                }
            }
            (Err(Refusal::NoAdjacentSeats { .. }), None) => {
                let fitting: usize = pieces(self.plan, &before, wish).iter().sum();
                let short = wish.accessible > 0 || fitting < people;
                assert!(!wish.split || short, "{wish:?} is refused although {fitting} seats are free");
            }
            (answer, best) => panic!("{wish:?} got {answer:?} instead of {best:?}"),
        }
        self.rates.parties += u32::from(answer.is_ok() && people > 1);
        answer.is_ok()
    }

    /// Asks the session for a hold, and takes what it grants.
    fn ask(&mut self, want: Want) -> Result<Vec<u32>, Refusal> {
        self.holds += 1;
        let cart = CartId(self.holds.into());
        let hold = HoldId { cart, request: RequestHash(self.holds), part: 0, attempt: 0 };
        let ask = Ask::Hold {
            hold,
            revision: 1,
            want,
            life_ms: 1_800_000,
            holder: None,
            desk: false,
            code: None,
            attributes: Vec::new(),
            customer: None,
        };
        let mut turn = Turn::default();
        self.host.handle(Timestamp(1_000), Input::Ask { from: Entity::Cart(cart), ask }, &mut turn);
        if let Some(Event::Session(SessionEvent::SeatsHeld { seats, .. })) = turn.events.first() {
            let seats: Vec<u32> =
                seats.iter().map(|seat| self.plan.layout.index(*seat).expect("a seat of the plan")).collect();
            for seat in &seats {
                assert!(self.free.remove(seat), "seat {seat} is held twice");
            }
            return Ok(seats);
        }
        let effects = turn.now.into_iter().chain(turn.committed).chain(turn.read);
        let refusal = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply { reply: Reply::Refused { refusal, .. }, .. } => Some(refusal),
            _ => None,
        });
        Err(refusal.expect("a hold is granted or refused"))
    }
}

pub(crate) fn wish(count: u16) -> BestWish {
    BestWish { count, category: None, section: None, accessible: 0, split: false, buy_as: Default::default() }
}

/// Whether a seat fits a wish, apart from the number of accessible ones.
fn fits(plan: &Plan, wish: &BestWish, index: u32) -> bool {
    let category = plan.categories[index as usize].to_string();
    let row = usize::from(plan.layout.seat(index).row);
    let in_section = wish.section.is_none() || plan.layout.rows()[row].section == wish.section;
    in_section && wish.category.as_ref().is_none_or(|wanted| wanted.as_str() == category)
}

/// The neighbour before and after a seat.
fn sides(plan: &Plan, index: u32) -> [Option<u32>; 2] {
    let before = index.checked_sub(1).filter(|before| plan.beside[*before as usize]);
    [before, plan.beside[index as usize].then_some(index + 1)]
}

/// Whether these seats, which are side by side, leave a free seat without a free neighbour that had one.
fn strands(plan: &Plan, free: &BTreeSet<u32>, run: &[u32]) -> bool {
    let left = |index: &u32| free.contains(index) && !run.contains(index);
    let ends = [sides(plan, run[0])[0], sides(plan, run[run.len() - 1])[1]];
    ends.into_iter().flatten().any(|end| left(&end) && !sides(plan, end).iter().flatten().any(&left))
}

/// The best of all runs of seats that are side by side.
pub(crate) fn best_by_points(plan: &Plan, free: &BTreeSet<u32>, wish: &BestWish) -> Option<Vec<u32>> {
    let good = |index: &u32| free.contains(index) && fits(plan, wish, *index);
    let runs = (0..plan.layout.seats()).filter_map(|first| {
        let next = |index: &u32| sides(plan, *index)[1].filter(good);
        let run: Vec<u32> =
            std::iter::successors(Some(first).filter(good), next).take(usize::from(wish.count)).collect();
        let accessible = run.iter().filter(|index| plan.accessible[**index as usize]).count();
        (run.len() == usize::from(wish.count) && accessible == usize::from(wish.accessible)).then_some(run)
    });
    let rank = |run: &Vec<u32>| {
        let distance: u64 = run.iter().map(|index| plan.distances[*index as usize]).sum();
        (strands(plan, free, run), distance, run[0])
    };
    runs.min_by_key(rank)
}

/// The lengths of all pieces of free seats that fit a wish without accessible seats.
fn pieces(plan: &Plan, free: &BTreeSet<u32>, wish: &BestWish) -> Vec<usize> {
    let mut pieces = Vec::new();
    let mut goes_on = false;
    for index in 0..plan.layout.seats() {
        if free.contains(&index) && fits(plan, wish, index) && !plan.accessible[index as usize] {
            if goes_on {
                *pieces.last_mut().expect("a piece was begun") += 1;
            } else {
                pieces.push(1);
            }
            goes_on = plan.beside[index as usize];
        } else {
            goes_on = false;
        }
    }
    pieces
}

/// How many of a party have no neighbour of theirs.
fn alone(plan: &Plan, seats: &[u32]) -> usize {
    let lone = |index: &&u32| !sides(plan, **index).iter().flatten().any(|side| seats.contains(side));
    seats.iter().filter(lone).count()
}

/// The fewest of a party that must sit alone, over all ways to spread it over these pieces.
fn least_alone(pieces: &[usize], people: usize) -> usize {
    let mut least: Vec<Option<usize>> = vec![None; people + 1];
    least[0] = Some(0);
    for &piece in pieces {
        for seated in (1..=people).rev() {
            let ways = (1..=piece.min(seated)).filter_map(|here| Some(least[seated - here]? + usize::from(here == 1)));
            least[seated] = ways.chain(least[seated]).min();
        }
    }
    least[people].expect("there are enough seats")
}
