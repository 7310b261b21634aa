//! Past time is neither held, nor offered, nor free, also without a notice. Only a booking without a cart may have begun.

use boxoffice_core::{
    answer::Answer,
    command::{CartCommand, Command, ResourceCommand, Want, WantedLine, When},
    id::{CartId, Entity},
    refusal::Refusal,
    rules::Rules,
    time::Timestamp,
};

use crate::{
    fixture::Fixture,
    script::{euros, id, resource},
};

const MINUTE_MS: u64 = 60_000;

fn outcome_of(fixture: &mut Fixture, request: &str, command: Command) -> Result<Answer, Refusal> {
    let ticket = fixture.send(Some(request), command);
    fixture.run();
    fixture.answers[&ticket].clone().map(|answered| answered.answer)
}

fn of_room(command: ResourceCommand) -> Command {
    Command::Resource(id("r"), command)
}

#[test]
pub(crate) fn a_slot_that_has_begun_is_not_for_sale() {
    let mut fixture = Fixture::new(Rules::default());
    // True time is an hour ahead of running time, and decides.
    (fixture.now, fixture.distance_ms) = (Timestamp(60 * MINUTE_MS), 60 * 60_000);
    let now = 120 * MINUTE_MS;
    let put = ResourceCommand::Put(Box::new(resource(euros(1_000))));
    assert!(outcome_of(&mut fixture, "put", of_room(put)).is_ok());
    let hold = |fixture: &mut Fixture, begin: u64| {
        let want = Want::Slot { begin: Timestamp(begin), end: Timestamp(begin + MINUTE_MS), details: "".into() };
        let lines = vec![WantedLine::new(Entity::Resource(id("r")), want)];
        outcome_of(
            fixture,
            &format!("hold {begin}"),
            Command::Cart(
                CartId(1),
                CartCommand::Hold { lines, customer: None, guest: false, holder: None, attributes: Vec::new() },
            ),
        )
    };
    for begin in [0, 90 * MINUTE_MS, now - 1] {
        let refusal = hold(&mut fixture, begin).expect_err("it has begun");
        assert!(matches!(refusal, Refusal::TooSoonOrFar(_)), "{refusal:?}");
    }
    assert!(hold(&mut fixture, now).is_ok());

    let (from, to) = (Timestamp(0), Timestamp(now + 10 * MINUTE_MS));
    let search = ResourceCommand::FreeSlots { from, to, length_ms: MINUTE_MS, count: 100, step_ms: None, align_ms: 0 };
    let Ok(Answer::FreeSlots(slots)) = outcome_of(&mut fixture, "free", of_room(search)) else { panic!("it is open") };
    assert_eq!(slots.first(), Some(&(Timestamp(now + MINUTE_MS), Timestamp(now + 2 * MINUTE_MS))));
    assert_eq!(slots.len(), 9, "{slots:?}");

    let available = |fixture: &mut Fixture, begin: u64| {
        let when = When::Utc { begin: Timestamp(begin), end: Timestamp(begin + MINUTE_MS / 2) };
        match outcome_of(fixture, "available", of_room(ResourceCommand::IsAvailable(when))) {
            Ok(Answer::Available(conflicts)) => conflicts,
            other => panic!("{other:?}"),
        }
    };
    for begin in [0, 90 * MINUTE_MS, now - 1] {
        let conflicts = available(&mut fixture, begin);
        let why = conflicts.first().map(|conflict| conflict.why.clone()).unwrap_or_default();
        assert!(why.contains("too soon"), "{begin}: {conflicts:?}");
    }
    assert_eq!(available(&mut fixture, now + MINUTE_MS), []);

    let when = When::Utc { begin: Timestamp(now - 30 * MINUTE_MS), end: Timestamp(now - 1) };
    let reserve = ResourceCommand::Reserve { booking: id("b"), when, repeat: None, details: "".into() };
    assert!(outcome_of(&mut fixture, "reserve", of_room(reserve)).is_ok(), "operators may record a begun booking");
}
