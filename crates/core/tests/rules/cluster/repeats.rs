//! A repeated request, even a late one, gets the same answer and has no second effect (P9).

use boxoffice_core::{
    answer::Answer,
    cluster::MemberState,
    command::{Admission, ClusterCommand},
    refusal::Refusal,
};

use crate::cluster::script::{Play, machine, state};

fn three() -> Play {
    Play::after(
        "found 1 d1 shards 2 replicas 3
         join d2
         arrived 2 d2
         join d3
         arrived 3 d3
         place 0 to 1 2 3 led by 1 ; 1 to 1 2 3 led by 1 ; 2 to 1 2 3 led by 1
         reached 0 2
         reached 1 2
         reached 2 2",
    )
}

#[test]
fn a_late_repeat_of_a_change_does_not_undo_a_newer_one() {
    let pairs = [
        (ClusterCommand::Drain { node: 2, force: true }, ClusterCommand::Undrain { node: 2 }, MemberState::Serving),
        (ClusterCommand::Undrain { node: 2 }, ClusterCommand::Drain { node: 2, force: true }, MemberState::Draining),
        (ClusterCommand::Replace { node: 2 }, ClusterCommand::Remove { node: 2, force: true }, MemberState::Gone),
        (
            ClusterCommand::Drain { node: 2, force: true },
            ClusterCommand::Remove { node: 2, force: true },
            MemberState::Gone,
        ),
    ];
    for (first, second, end) in pairs {
        let mut play = three();
        let first_outcome = play.send(Some("first"), first.clone());
        assert!(first_outcome.is_ok() && play.send(Some("second"), second).is_ok());
        let before = play.cluster();
        assert_eq!(play.send(Some("first"), first.clone()), first_outcome, "{first:?}");
        assert_eq!((play.cluster(), state(&play, 2)), (before, end), "{first:?}");
    }
}

#[test]
fn a_machine_that_joins_again_is_the_same_member() {
    let mut play = three();
    let join =
        |node| ClusterCommand::Join { node, machine: machine("d9").into(), proof: None, admission: Admission::Vouched };
    let own = |outcome: boxoffice_core::answer::Outcome| match outcome.expect("it may join").answer {
        Answer::Cluster(view) => view.own,
        other => panic!("unexpected answer {other:?}"),
    };
    assert_eq!(own(play.send(Some("join"), join(None))), Some(4));
    let before = play.cluster();
    // The same request, another one of the same machine, and one with the member's id.
    for (request, node) in [("join", None), ("again", None), ("by name", Some(4))] {
        assert_eq!(own(play.send(Some(request), join(node))), Some(4), "{request}");
        assert_eq!(play.cluster(), before, "{request}");
    }
}

#[test]
fn another_command_under_a_request_id_is_refused() {
    let mut play = three();
    assert!(play.send(Some("one"), ClusterCommand::Drain { node: 2, force: true }).is_ok());
    for other in [
        ClusterCommand::Drain { node: 3, force: true },
        ClusterCommand::Undrain { node: 2 },
        ClusterCommand::Join { node: None, machine: machine("d9").into(), proof: None, admission: Admission::Vouched },
    ] {
        assert_eq!(play.send(Some("one"), other), Err(Refusal::RequestIdReused));
    }
}

#[test]
fn a_refused_request_is_decided_afresh() {
    let mut play = Play::after("found 1 d1 shards 1 replicas 3");
    let drain = ClusterCommand::Drain { node: 1, force: true };
    assert!(matches!(play.send(Some("drain"), drain.clone()), Err(Refusal::NotDrainable { node: 1, .. })));
    play.line("join d2");
    play.line("arrived 2 d2");
    assert!(play.send(Some("drain"), drain).is_ok());
}

#[test]
pub(crate) fn repeated_reports_of_nodes_change_nothing() {
    let mut play = three();
    play.line("place 1 to 1 2 led by 1");
    play.line("reached 1 3");
    let before = play.cluster();
    for line in [
        "found 1 d1 shards 2 replicas 3 by none",
        "arrived 2 d2 by none",
        "reached 1 3 by none",
        "reached 1 2 by none",
        "place 1 to 1 2 led by 1",
    ] {
        play.line(line);
    }
    assert_eq!(play.cluster(), before, "{}", play.story);
    assert!(!play.story.contains("refused"), "{}", play.story);
}
