//! The best available seats, in stories and in a comparison with an exhaustive search.

use std::{cmp::Reverse, collections::BTreeSet, iter::successors};

use boxoffice_core::{
    answer::Answer,
    command::{BestWish, Command, SessionCommand, Want, WantedLine},
    id::Entity,
    layout::{Labels, Layout, Point, Row, Run},
    refusal::Refusal,
    rules::Rules,
    seat::Seat,
};
use expect_test::expect;

use crate::{
    fixture::Fixture,
    random_runs::{Rng, scaled},
    script::{cart, check, hold_lines, id, layout},
};

#[test]
fn the_middle_of_the_first_row_then_what_is_near() {
    check(
        "hall aaaaaaa/aaaaaaa/aaaaaaa
         session s
         a best s 3
         b best s 2
         c best s 4
         d best s 1
         e best s 7
         f best s 8",
        expect![[r#"
            hall aaaaaaa/aaaaaaa/aaaaaaa -> done
            session s -> 21 free, 0 held, 0 sold, 0 blocked
            a best s 3 -> line 1 s 0.2 0.3 0.4, until 1800.000
                ..aaa..
                .......
                .......
            b best s 2 -> line 1 s 1.2 1.3, until 1800.000
                ..aaa..
                ..bb...
                .......
            c best s 4 -> line 1 s 2.0 2.1 2.2 2.3, until 1800.000
                ..aaa..
                ..bb...
                cccc...
            d best s 1 -> line 1 s 1.4, until 1800.000
                ..aaa..
                ..bbd..
                cccc...
            e best s 7 -> no: no_adjacent_seats, no 7 neighbouring seats are free (11 single ones are)
            f best s 8 -> no: no_adjacent_seats, no 8 neighbouring seats are free (11 single ones are)
        "#]],
    );
}

#[test]
fn no_single_seat_is_left_alone_unless_it_must_be() {
    check(
        "hall aaaaa
         session s
         a best s 2
         b best s 2
         c best s 1",
        expect![[r#"
            hall aaaaa -> done
            session s -> 5 free, 0 held, 0 sold, 0 blocked
            a best s 2 -> line 1 s 0.0 0.1, until 1800.000
                aa...
            b best s 2 -> line 1 s 0.2 0.3, until 1800.000
                aabb.
            c best s 1 -> line 1 s 0.4, until 1800.000
                aabbc
        "#]],
    );
    check(
        "hall aaaaaa/aaaaaa
         session s
         a hold s 0.0
         b best s 4
         c best s 2
         d best s 5",
        expect![[r#"
            hall aaaaaa/aaaaaa -> done
            session s -> 12 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 -> line 1 s 0.0, until 1800.000
                a.....
                ......
            b best s 4 -> line 1 s 1.0 1.1 1.2 1.3, until 1800.000
                a.....
                bbbb..
            c best s 2 -> line 1 s 0.1 0.2, until 1800.000
                acc...
                bbbb..
            d best s 5 -> no: no_adjacent_seats, no 5 neighbouring seats are free (5 single ones are)
        "#]],
    );
    // Every run strands a seat. The rule never prevents a booking.
    check(
        "hall aaa
         session s
         a best s 2
         b best s 1",
        expect![[r#"
            hall aaa -> done
            session s -> 3 free, 0 held, 0 sold, 0 blocked
            a best s 2 -> line 1 s 0.0 0.1, until 1800.000
                aa.
            b best s 1 -> line 1 s 0.2, until 1800.000
                aab
        "#]],
    );
}

#[test]
fn gaps_part_neighbours() {
    check(
        "hall aa_aaa_aa
         session s
         a best s 4
         a best s 3
         b best s 3 split
         c best s 1
         d best s 1",
        expect![[r#"
            hall aa_aaa_aa -> done
            session s -> 7 free, 0 held, 0 sold, 0 blocked
            a best s 4 -> no: no_adjacent_seats, no 4 neighbouring seats are free (7 single ones are)
            a best s 3 -> line 1 s 0.2 0.3 0.4, until 1800.000
                .. aaa ..
            b best s 3 split -> line 1 s 0.0 0.1 0.5, until 1800.000
                bb aaa b.
            c best s 1 -> line 1 s 0.6, until 1800.000
                bb aaa bc
            d best s 1 -> no: no_adjacent_seats, no 1 neighbouring seats are free (0 single ones are)
        "#]],
    );
}

#[test]
fn categories_and_accessible_places() {
    check(
        "hall aaAA/bbbB
         session s
         a best s 2
         b best s 2 category b
         c best s 2 category b
         c best s 2 accessible 1
         d best s 2 accessible 2
         e best s 1
         e best s 1 accessible 1 category b
         f best s 1
         f best s 1 category x
         f best s 0
         f best s 21
         f best s 1 accessible 2",
        expect![[r#"
            hall aaAA/bbbB -> done
            session s -> 8 free, 0 held, 0 sold, 0 blocked
            a best s 2 -> line 1 s 0.0 0.1, until 1800.000
                aa..
                ....
            b best s 2 category b -> line 1 s 1.0 1.1, until 1800.000
                aa..
                bb..
            c best s 2 category b -> no: no_adjacent_seats, no 2 neighbouring seats are free (1 single ones are)
            c best s 2 accessible 1 -> line 1 s 1.2 1.3, until 1800.000
                aa..
                bbcc
            d best s 2 accessible 2 -> line 1 s 0.2 0.3, until 1800.000
                aadd
                bbcc
            e best s 1 -> no: no_adjacent_seats, no 1 neighbouring seats are free (0 single ones are)
            e best s 1 accessible 1 category b -> no: no_adjacent_seats, no 1 neighbouring seats are free (0 single ones are)
            f best s 1 -> no: no_adjacent_seats, no 1 neighbouring seats are free (0 single ones are)
            f best s 1 category x -> no: not_found, category x is not known
            f best s 0 -> no: bad_request, bad request: best available gives 1 to 20 seats, and no more of them accessible
            f best s 21 -> no: bad_request, bad request: best available gives 1 to 20 seats, and no more of them accessible
            f best s 1 accessible 2 -> no: bad_request, bad request: best available gives 1 to 20 seats, and no more of them accessible
        "#]],
    );
}

#[test]
fn a_split_is_even() {
    // Three and three, although five fit into the first row.
    check(
        "hall aaaaa/aaaaa/aa
         session s
         box block s 1.4
         a best s 6 split
         b best s 5 split",
        expect![[r#"
            hall aaaaa/aaaaa/aa -> done
            session s -> 12 free, 0 held, 0 sold, 0 blocked
            box block s 1.4 -> done
                .....
                ....#
                ..
            a best s 6 split -> line 1 s 0.0 0.1 0.2 1.1 1.2 1.3, until 1800.000
                aaa..
                .aaa#
                ..
            b best s 5 split -> line 1 s 0.3 0.4 1.0 2.0 2.1, until 1800.000
                aaabb
                baaa#
                bb
        "#]],
    );
    // Four and two, because nothing else has room for three.
    check(
        "hall aaaa_aa_aa/a_aa
         session s
         a best s 6 split
         b best s 5 split",
        expect![[r#"
            hall aaaa_aa_aa/a_aa -> done
            session s -> 11 free, 0 held, 0 sold, 0 blocked
            a best s 6 split -> line 1 s 0.0 0.1 0.2 0.3 0.4 0.5, until 1800.000
                aaaa aa ..
                . ..
            b best s 5 split -> line 1 s 0.6 0.7 1.0 1.1 1.2, until 1800.000
                aaaa aa bb
                b bb
        "#]],
    );
    check(
        "hall aaaaaa/aaaaaa
         session s
         box block s 0.2 1.3
         a best s 6
         a best s 6 split
         b best s 5 split",
        expect![[r#"
            hall aaaaaa/aaaaaa -> done
            session s -> 12 free, 0 held, 0 sold, 0 blocked
            box block s 0.2 1.3 -> done
                ..#...
                ...#..
            a best s 6 -> no: no_adjacent_seats, no 6 neighbouring seats are free (10 single ones are)
            a best s 6 split -> line 1 s 0.3 0.4 0.5 1.0 1.1 1.2, until 1800.000
                ..#aaa
                aaa#..
            b best s 5 split -> no: no_adjacent_seats, no 5 neighbouring seats are free (4 single ones are)
        "#]],
    );
    check(
        "hall AaAaa
         session s
         a best s 4 accessible 2
         b best s 3 accessible 2 split",
        expect![[r#"
            hall AaAaa -> done
            session s -> 5 free, 0 held, 0 sold, 0 blocked
            a best s 4 accessible 2 -> line 1 s 0.0 0.1 0.2 0.3, until 1800.000
                aaaa.
            b best s 3 accessible 2 split -> no: no_adjacent_seats, no 3 neighbouring seats are free (1 single ones are)
        "#]],
    );
}

#[test]
fn sections_and_free_places_on_the_plan() {
    let row = |label: &str, section: &str, y: i32| Row {
        label: label.into(),
        section: Some(id(section)),
        runs: vec![Run {
            gap: 0,
            count: 3,
            labels: Labels::Names(vec!["x".into(), "y".into(), "z".into()]),
            category: id("a"),
            accessible: false,
            points: vec![Point { x: 900, y }, Point { x: 1_000, y }, Point { x: 1_100, y }],
        }],
    };
    let rows = vec![row("1", "stalls", 100), row("2", "stalls", 200), row("1", "balcony", 300)];
    let focal = Some(Point { x: 1_100, y: 210 });
    let layout = std::sync::Arc::new(Layout::new(rows, focal).expect("a good layout"));
    let best = |section: Option<&str>| {
        let mut fixture = fixture(&layout);
        hold(&mut fixture, "a", BestWish { section: section.map(id), ..wish(2) }).expect("free seats")
    };
    let seat = |row, seat| Seat { row, seat };
    assert_eq!(best(None), [seat(1, 1), seat(1, 2)]);
    assert_eq!(best(Some("balcony")), [seat(2, 1), seat(2, 2)]);
    let mut fixture = fixture(&layout);
    let refusal = hold(&mut fixture, "a", BestWish { section: Some(id("cellar")), ..wish(2) });
    assert_eq!(refusal, Err(Refusal::NotFound("section cellar".into())));
}

/// Compares splits with a search through all ways to split a party, each tried at all places.
#[test]
pub(crate) fn a_split_is_the_most_even_of_all_ways() {
    (0..scaled(1_500)).for_each(split_of);
}

pub(crate) fn split_of(seed: u64) {
    let mut rng = Rng(seed);
    let layout = random_layout(&mut rng);
    let mut fixture = fixture(&layout);
    let blocked: BTreeSet<u32> = (0..layout.seats()).filter(|_| rng.below(5) == 0).collect();
    block(&mut fixture, &layout, &blocked);
    let free: BTreeSet<u32> = (0..layout.seats()).filter(|index| !blocked.contains(index)).collect();
    let category = (rng.below(3) == 0).then(|| layout.categories()[0].clone());
    let wish = BestWish { category, split: true, ..wish(2 + rng.below(8) as u16) };
    let best = best_by_search(&layout, &free, &wish).or_else(|| split_by_search(&layout, &free, &wish));
    match hold(&mut fixture, "a", wish.clone()) {
        Ok(seats) => assert_eq!(Some(indexes(&layout, &seats)), best, "seed {seed}: {wish:?}"),
        Err(Refusal::NoAdjacentSeats { .. }) => assert_eq!(best, None, "seed {seed}: {wish:?} is refused"),
        Err(refusal) => panic!("seed {seed}: {refusal:?}"),
    }
}

/// Compares with an exhaustive search over all runs.
#[test]
pub(crate) fn every_choice_is_the_best_of_all_runs() {
    let mut rng = Rng(7);
    for round in 0..2_000 {
        let layout = random_layout(&mut rng);
        let mut fixture = fixture(&layout);
        let seats = layout.seats();
        let blocked: BTreeSet<u32> = (0..seats).filter(|_| rng.below(3) == 0).collect();
        block(&mut fixture, &layout, &blocked);
        let count = 1 + rng.below(4) as u16;
        let accessible = rng.below(u64::from(count) + 2).saturating_sub(2) as u16;
        let category = (rng.below(2) == 0).then(|| layout.categories()[0].clone());
        let wish = BestWish { category, accessible, split: rng.below(2) == 0, ..wish(count) };
        let granted = hold(&mut fixture, "a", wish.clone());
        let free: BTreeSet<u32> = (0..seats).filter(|index| !blocked.contains(index)).collect();
        match (granted, best_by_search(&layout, &free, &wish)) {
            (Ok(seats), Some(best)) => assert_eq!(indexes(&layout, &seats), best, "round {round}: {wish:?}"),
            (Ok(seats), None) => {
                assert!(wish.split, "round {round}: no such run exists");
                check_split(&layout, &free, &wish, &indexes(&layout, &seats));
            }
            (Err(Refusal::NoAdjacentSeats { .. }), None) => {
                // A split is refused only if there are not enough seats at all.
                let (plain, special) = fitting(&layout, &free, &wish);
                let short = plain < usize::from(count - accessible) || special < usize::from(accessible);
                assert!(!wish.split || short, "round {round}: refused although seats are free");
            }
            (granted, best) => panic!("round {round}: {wish:?} got {granted:?} instead of {best:?}"),
        }
    }
}

fn wish(count: u16) -> BestWish {
    BestWish { count, category: None, section: None, accessible: 0, split: false, buy_as: Default::default() }
}

fn fixture(layout: &std::sync::Arc<Layout>) -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    crate::catalogue::open(&mut fixture, layout, &["s"]);
    fixture
}

fn block(fixture: &mut Fixture, layout: &Layout, blocked: &BTreeSet<u32>) {
    if !blocked.is_empty() {
        let seats = blocked.iter().map(|index| layout.seat(*index)).collect();
        fixture.send(Some("block"), Command::Session(id("s"), SessionCommand::Block(seats)));
        fixture.run();
    }
}

fn hold(fixture: &mut Fixture, name: &str, wish: BestWish) -> Result<Vec<Seat>, Refusal> {
    let line = WantedLine::new(Entity::Session(id("s")), Want::Best(wish));
    let ticket = fixture.send(Some("best"), Command::Cart(cart(name), hold_lines(vec![line])));
    fixture.run();
    let outcome = fixture.answers[&ticket].clone()?;
    let Answer::Held(held) = outcome.answer else { panic!("not a hold: {outcome:?}") };
    Ok(held.lines[0].content.seats().iter().map(|priced| priced.seat).collect())
}

fn random_layout(rng: &mut Rng) -> std::sync::Arc<Layout> {
    let mut picture = String::new();
    for row in 0..1 + rng.below(4) {
        if row > 0 {
            picture.push('/');
        }
        picture.push('a');
        for _ in 0..rng.below(9) {
            picture.push(['a', 'a', 'a', 'a', 'b', 'A', '_'][rng.below(7) as usize]);
        }
    }
    layout(&picture)
}

fn indexes(layout: &Layout, seats: &[Seat]) -> Vec<u32> {
    seats.iter().map(|seat| layout.index(*seat).expect("a seat of the layout")).collect()
}

fn fits(layout: &Layout, wish: &BestWish, index: u32) -> bool {
    wish.category.as_ref().is_none_or(|name| layout.categories()[usize::from(layout.category(index))] == *name)
}

fn fitting(layout: &Layout, free: &BTreeSet<u32>, wish: &BestWish) -> (usize, usize) {
    let fitting: Vec<u32> = free.iter().copied().filter(|index| fits(layout, wish, *index)).collect();
    let special = fitting.iter().filter(|index| layout.accessible(**index)).count();
    (fitting.len() - special, special)
}

fn best_by_search(layout: &Layout, free: &BTreeSet<u32>, wish: &BestWish) -> Option<Vec<u32>> {
    let runs = (0..layout.seats()).filter_map(|first| {
        let mut run = vec![first];
        while run.len() < usize::from(wish.count) {
            run.push(layout.right_neighbour(*run.last()?)?);
        }
        let special = run.iter().filter(|index| layout.accessible(**index)).count();
        let good = run.iter().all(|index| free.contains(index) && fits(layout, wish, *index));
        (good && special == usize::from(wish.accessible)).then_some(run)
    });
    let rank = |run: &Vec<u32>| {
        let left: BTreeSet<u32> = free.iter().copied().filter(|index| !run.contains(index)).collect();
        let alone = |free: &BTreeSet<u32>, index: &u32| {
            let beside = [layout.left_neighbour(*index), layout.right_neighbour(*index)];
            free.contains(index) && !beside.iter().flatten().any(|index| free.contains(index))
        };
        let strands = left.iter().any(|index| alone(&left, index) && !alone(free, index));
        let distance: u64 = run.iter().map(|index| u64::from(layout.distance(*index))).sum();
        (strands, distance, run[0])
    };
    runs.min_by_key(rank)
}

/// The seats of the best of all ways to split a party without accessible seats.
fn split_by_search(layout: &Layout, free: &BTreeSet<u32>, wish: &BestWish) -> Option<Vec<u32>> {
    let mut ways = ways_to_split(usize::from(wish.count), usize::from(wish.count) - 1);
    // Few people alone, then few pieces, then the shortest piece as long as can be, and so on.
    ways.sort_by_key(|way| {
        let ascending: Vec<_> = way.iter().rev().map(|length| Reverse(*length)).collect();
        (way.iter().filter(|length| **length == 1).count(), way.len(), ascending)
    });
    let way = ways.into_iter().find(|way| has_places(layout, free, wish, way))?;
    let mut left = free.clone();
    let mut seats = Vec::new();
    for length in way {
        let run = best_by_search(layout, &left, &BestWish { count: length as u16, ..wish.clone() })?;
        left.retain(|index| !run.contains(index));
        seats.extend(run);
    }
    seats.sort_unstable();
    Some(seats)
}

/// All ways to write a number as a sum of numbers that descend from at most `longest`.
fn ways_to_split(count: usize, longest: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let with = |first: usize| {
        let rests = ways_to_split(count - first, first.min(count - first));
        rests.into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (1..=longest.min(count)).flat_map(with).collect()
}

/// Whether pieces of these lengths have places that do not overlap, tried one by one.
fn has_places(layout: &Layout, free: &BTreeSet<u32>, wish: &BestWish, way: &[usize]) -> bool {
    let Some((length, others)) = way.split_first() else { return true };
    let good = |index: &u32| free.contains(index) && fits(layout, wish, *index) && !layout.accessible(*index);
    (0..layout.seats()).any(|first| {
        let next = |index: &u32| layout.right_neighbour(*index).filter(good);
        let run: Vec<u32> = successors(Some(first).filter(good), next).take(*length).collect();
        let left = || free.iter().copied().filter(|index| !run.contains(index)).collect();
        run.len() == *length && has_places(layout, &left(), wish, others)
    })
}

fn check_split(layout: &Layout, free: &BTreeSet<u32>, wish: &BestWish, seats: &[u32]) {
    assert_eq!(seats.len(), usize::from(wish.count));
    assert!(seats.iter().all(|index| free.contains(index) && fits(layout, wish, *index)));
    let special = seats.iter().filter(|index| layout.accessible(**index)).count();
    assert_eq!(special, usize::from(wish.accessible));
}
