//! Parties sit side by side, also where only the points of a plan tell its aisles.
//!
//! The judges work out neighbours from what is drawn, and never ask the layout for them.

mod plans;
mod sale;

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::Answer,
    command::{BestWish, Command, Want, WantedLine},
    id::Entity,
    layout::{Labels, Layout, PITCH_USUAL, Point, Row, Run},
    refusal::Refusal,
    rules::Rules,
    seat::SeatSet,
};

use self::{
    plans::{Plan, house, random_rows, small},
    sale::{Rates, Sale, best_by_points, wish},
};
use crate::{
    fixture::Fixture,
    random_runs::{Rng, scaled},
    script::{cart, hold_lines, id},
};

/// Small plans with gaps, curves, accessible and taken seats. Neighbours are worked out from the points.
#[test]
fn best_seats_of_small_plans_are_side_by_side_by_their_points() {
    (0..scaled(1_500)).for_each(small_plan);
}

pub(crate) fn small_plan(seed: u64) {
    let mut rng = Rng(seed);
    let plan = small(&mut rng);
    for index in 0..plan.layout.seats() {
        let right = plan.beside[index as usize].then_some(index + 1);
        assert_eq!(plan.layout.right_neighbour(index), right, "seed {seed}: the seat after {index}");
    }
    let mut sale = Sale::of(&plan);
    let taken: Vec<u32> = (0..plan.layout.seats()).filter(|_| rng.below(4) == 0).collect();
    sale.take(&taken);
    for _ in 0..6 {
        let count = 1 + rng.below(5) as u16;
        let accessible = rng.below(u64::from(count) + 3).saturating_sub(3) as u16;
        let category = (rng.below(3) == 0).then(|| plan.layout.categories()[0].clone());
        sale.best(&BestWish { category, accessible, split: rng.below(2) == 0, ..wish(count) });
    }
}

/// Whole houses until nothing is left, to parties of one to eight.
#[test]
fn whole_houses_are_sold_side_by_side() {
    let mut all = Rates::default();
    let seeds = scaled(100);
    for seed in 0..seeds {
        let rates = whole_house(seed);
        all.parties += rates.parties;
        all.parted += rates.parted;
        all.alone += rates.alone;
        all.stranded += rates.stranded;
    }
    let percent = |count: u32| f64::from(count) * 100.0 / f64::from(all.parties);
    println!(
        "{seeds} houses: {} parties of two or more, {:.2} % in several places, {:.2} people alone and {:.2} seats left alone \
         a hundred parties, none of them without need",
        all.parties,
        percent(all.parted),
        percent(all.alone),
        percent(all.stranded),
    );
}

pub(crate) fn whole_house(seed: u64) -> Rates {
    let mut rng = Rng(seed ^ 0x5eed);
    let rows = random_rows(&mut rng);
    let unit = [1.0, 1.0, 0.3, 12.0][rng.below(4) as usize];
    let plan = house(&mut rng, &rows, unit);
    let mut sale = Sale::of(&plan);
    let taken: Vec<u32> = (0..plan.layout.seats()).filter(|_| rng.below(12) == 0).collect();
    sale.take(&taken);
    while !sale.free.is_empty() {
        let count = match rng.below(100) {
            0..10 => 1,
            10..55 => 2,
            55..67 => 3,
            67..87 => 4,
            percent => 5 + (percent % 4) as u16,
        };
        let together = sale.best(&wish(count));
        // A party that does not fit takes what there is, or leaves. Then somebody comes alone.
        if !together && (rng.below(2) == 0 || !sale.best(&BestWish { split: true, ..wish(count) })) {
            assert!(sale.best(&wish(1)), "seed {seed}: seats are left, but none for one");
        }
    }
    sale.rates
}

/// 27 rows with 1 011 seats and 82 aisles of up to eleven seat widths, which only the points show.
fn large_house(seed: u64) -> Plan {
    let rows: Vec<(usize, usize)> =
        (0..27).map(|row| (if row < 12 { 38 } else { 37 }, if row == 0 { 4 } else { 3 })).collect();
    house(&mut Rng(seed), &rows, 1.0)
}

/// No pair and no four sits across an aisle, however many fit.
#[test]
pub(crate) fn nobody_sits_across_an_aisle_of_a_large_house() {
    for seed in 0..scaled(3) {
        let plan = large_house(seed);
        assert_eq!((plan.layout.rows().len(), plan.layout.seats(), plan.layout.parted_by_points()), (27, 1_011, 82));
        assert!(plan.layout.pitch().is_some_and(|pitch| PITCH_USUAL.contains(&pitch)), "{:?}", plan.layout.pitch());
        for count in [2, 4] {
            let mut sale = Sale::of(&plan);
            while sale.best(&wish(count)) {}
            let pieces: Vec<u32> = (0..1_011_u32)
                .collect::<Vec<_>>()
                .chunk_by(|one, _| plan.beside[*one as usize])
                .map(|piece| piece.len() as u32 / u32::from(count))
                .collect();
            let fit: u32 = pieces.iter().sum();
            println!(
                "{} holds of {count} were granted, and at most {fit} fit into the pieces of rows",
                sale.rates.parties
            );
            assert!(sale.rates.parties > fit / 2, "{} of {fit} holds of {count}", sale.rates.parties);
        }
    }
}

/// A plan in another unit has the same neighbours, and its pitch tells the unit.
#[test]
fn a_plan_in_a_wrong_unit_has_its_neighbours() {
    for (unit, pitch) in [(1.0, 80..=130), (0.2, 17..=23), (40.0, 3_600..=4_400)] {
        let plan = house(&mut Rng(5), &[(20, 2), (17, 3), (12, 0)], unit);
        let right: Vec<bool> = (0..49).map(|index| plan.layout.right_neighbour(index).is_some()).collect();
        assert_eq!(right, plan.beside, "unit {unit}");
        assert!(plan.layout.pitch().is_some_and(|found| pitch.contains(&found)), "{:?} {pitch:?}", plan.layout.pitch());
    }
}

fn row(label: &str, section: &str, runs: &[(u16, &[i32])]) -> Row {
    let mut first = 1;
    let run = |&(gap, xs): &(u16, &[i32])| {
        let labels = Labels::Numbers { first, step: 1 };
        first += xs.len() as i32;
        let points = xs.iter().map(|x| Point { x: *x, y: 0 }).collect();
        Run { gap, count: xs.len() as u16, labels, category: id("a"), accessible: false, points }
    };
    Row { label: label.into(), section: Some(id(section)), runs: runs.iter().map(run).collect() }
}

/// The neighbours of a layout as a picture, a line a row.
fn picture(rows: Vec<Row>) -> String {
    let layout = Layout::new(rows, None).expect("a good layout");
    let row = |row: u16| -> String {
        let seats = layout.row_seats(row);
        seats.map(|seat| if layout.right_neighbour(seat).is_some() { "o-" } else { "o " }).collect()
    };
    (0..layout.rows().len() as u16).map(|number| row(number).trim_end().to_owned()).collect::<Vec<_>>().join("/")
}

#[test]
fn a_short_row_takes_the_distance_of_its_section() {
    let rows = vec![
        row("1", "stalls", &[(0, &[0, 100, 200, 300, 400])]),
        // Nothing but an aisle, and an aisle beside one pair.
        row("2", "stalls", &[(0, &[0, 300])]),
        row("3", "stalls", &[(0, &[0, 300, 400])]),
        // Gap lines leave it one distance.
        row("4", "stalls", &[(0, &[0]), (1, &[200, 500]), (1, &[700])]),
        // In a box the seats are far from each other.
        row("1", "box", &[(0, &[0, 300])]),
        // Exactly one and a half is near, and a little more is not.
        row("5", "stalls", &[(0, &[0, 100, 200, 350]), (0, &[450, 601])]),
        // Two aisles and two pairs: the shorter of both medians counts.
        row("6", "stalls", &[(0, &[0, 300, 400, 700, 800])]),
        // Seats of which one has no point are parted by gap lines only. Two seats at one place are neighbours.
        row("7", "stalls", &[(0, &[0, 0, 100, 100, 200])]),
    ];
    let mut unpointed = row("8", "stalls", &[(0, &[0, 100, 200]), (0, &[900, 901])]);
    unpointed.runs[1].points.clear();
    let rows = rows.into_iter().chain([unpointed]).collect();
    let expected = "o-o-o-o-o/o o/o o-o/o o o o/o-o/o-o-o-o-o o/o o-o o-o/o-o-o-o-o/o-o-o-o-o";
    assert_eq!(picture(rows), expected);
}

/// Without a focal point the best seats are those before the middle of the front edge of the points, where the page draws the stage.
#[test]
fn the_stage_of_points_is_in_the_middle_of_their_front_edge() {
    let xs: Vec<i32> = (0..11).map(|seat| 5_000 + seat * 100).collect();
    let layout = Layout::new(vec![row("1", "a", &[(0, &xs)])], None).expect("a good layout");
    let nearest = (0..11).min_by_key(|index| layout.distance(*index));
    assert_eq!((nearest, layout.distance(5), layout.distance(0)), (Some(5), 0, 500));
}

/// A request for named and best seats gets both in any order of its lines, and answers them in that order.
#[test]
pub(crate) fn named_seats_are_held_before_best_ones() {
    (0..scaled(200)).for_each(named_and_best);
}

fn named_and_best(seed: u64) {
    let mut rng = Rng(seed);
    let plan = small(&mut rng);
    let seats = plan.layout.seats();
    let first = rng.below(u64::from(seats)) as u32;
    let named: Vec<u32> = (first..seats.min(first + 1 + rng.below(3) as u32)).collect();
    let wish = BestWish { split: rng.below(2) == 0, ..wish(1 + rng.below(3) as u16) };
    let left: BTreeSet<u32> = (0..seats).filter(|index| !named.contains(index)).collect();
    let session = || Entity::Session(id("s"));
    let set = SeatSet::new(named.iter().map(|index| plan.layout.seat(*index))).expect("one to three seats");
    let by_name = || WantedLine::new(session(), Want::seats(set.clone(), false));
    let by_wish = || WantedLine::new(session(), Want::Best(wish.clone()));
    let hold = |lines: Vec<WantedLine>| -> Result<Vec<Vec<u32>>, Refusal> {
        let mut fixture = Fixture::new(Rules::default());
        crate::catalogue::open(&mut fixture, &plan.layout, &["s"]);
        let ticket = fixture.send(Some("all"), Command::Cart(cart("a"), hold_lines(lines)));
        fixture.run();
        let outcome = fixture.answers[&ticket].clone()?;
        let Answer::Held(held) = outcome.answer else { panic!("not a hold: {outcome:?}") };
        let index = |seat| plan.layout.index(seat).expect("a seat of the plan");
        let lines =
            held.lines.iter().map(|line| line.content.seats().iter().map(|priced| index(priced.seat)).collect());
        Ok(lines.collect())
    };
    let one = hold(vec![by_name(), by_wish()]);
    let mut other = hold(vec![by_wish(), by_name()]);
    if let Some(best) = best_by_points(&plan, &left, &wish) {
        assert_eq!(one, Ok(vec![named, best]), "seed {seed}: {wish:?}");
    }
    if let Ok(lines) = &mut other {
        lines.reverse();
    }
    let granted = |outcome: &Result<Vec<Vec<u32>>, Refusal>| outcome.clone().ok();
    assert_eq!(granted(&one), granted(&other), "seed {seed}: the order of the lines decides: {one:?} {other:?}");
}
