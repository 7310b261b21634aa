//! A machine that knows the secret of the nodes joins by an invitation, once.

use std::collections::BTreeMap;

use boxoffice_core::{
    cluster::INVITATIONS_MAX,
    command::{Admission, ClusterCommand, INVITATION_MS_MAX},
    refusal::Refusal,
};
use expect_test::expect;

use crate::{
    cluster::script::{Play, check, invitation, join},
    random_runs::{Rng, scaled},
};

#[test]
pub(crate) fn an_invitation_is_used_up_by_one_machine() {
    check(
        "found 1 d1 shards 1 replicas 3
         join d2 with nothing
         join d2 invited x
         invite x for 60000
         invite x for 60000
         join d2 invited x by one
         join d2 invited x by one
         join d2 invited x
         join d3 invited x
         arrived 2 d2
         join d2 with nothing",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 with nothing -> refused 812 not_invited: the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine
            join d2 invited x -> refused 812 not_invited: the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine
            invite x for 60000 -> invited until 64 s, at host1:7180, at 2
            invite x for 60000 -> refused 702 already_exists_differently: it exists already and is different: this invitation
            join d2 invited x by one -> ok as node 2 at 3, 2 members, 2 places
              node 2: joining since 6, disk 2 at host2:7280
            join d2 invited x by one -> ok as node 2 at 3, 2 members, 2 places
            join d2 invited x -> ok as node 2 at 3, 2 members, 2 places
            join d3 invited x -> refused 812 not_invited: the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine
            arrived 2 d2 -> ok as node 2 at 4, 2 members, 2 places
              node 2: serving since 10, disk 2 at host2:7280
            join d2 with nothing -> refused 812 not_invited: the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine
        "#]],
    );
}

#[test]
fn an_invitation_ends() {
    check(
        "found 1 d1 shards 1 replicas 3
         invite x for 2000
         invite y for 5000
         join d2 invited y
         join d3 invited x
         invite z for 1000
         join d2 invited y
         join d2 invited y",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            invite x for 2000 -> invited until 4 s, at host1:7180, at 2
            invite y for 5000 -> invited until 8 s, at host1:7180, at 3
            join d2 invited y -> ok as node 2 at 4, 2 members, 2 places
              node 2: joining since 4, disk 2 at host2:7280
            join d3 invited x -> refused 812 not_invited: the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine
            invite z for 1000 -> invited until 7 s, at host1:7180, at 5
            join d2 invited y -> ok as node 2 at 5, 2 members, 2 places
            join d2 invited y -> ok as node 2 at 5, 2 members, 2 places
        "#]],
    );
}

#[test]
fn a_member_that_was_replaced_needs_an_invitation_again() {
    check(
        "found 1 d1 shards 1 replicas 3
         invite x for 60000
         join d2 invited x
         arrived 2 d2
         replace 2
         join d7 as 2 invited x
         join d7 with nothing
         invite y for 60000
         join d7 as 2 invited y",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            invite x for 60000 -> invited until 62 s, at host1:7180, at 2
            join d2 invited x -> ok as node 2 at 3, 2 members, 2 places
              node 2: joining since 3, disk 2 at host2:7280
            arrived 2 d2 -> ok as node 2 at 4, 2 members, 2 places
              node 2: serving since 4, disk 2 at host2:7280
            replace 2 -> done at 5
              node 2: joining since 5, no disk at host2:7280, from generation 2 on
            join d7 as 2 invited x -> refused 812 not_invited: the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine
            join d7 with nothing -> refused 812 not_invited: the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine
            invite y for 60000 -> invited until 68 s, at host1:7180, at 6
            join d7 as 2 invited y -> ok as node 2 at 7, 2 members, 2 places
              node 2: joining since 5, disk 7 at host7:7280, from generation 2 on
        "#]],
    );
}

#[test]
fn invitations_are_bounded() {
    let mut play = Play::after("found 1 d1 shards 1 replicas 3");
    let invite = |number: usize, for_ms| ClusterCommand::Invite { hash: invitation(&number.to_string()), for_ms };
    for for_ms in [0, INVITATION_MS_MAX + 1, u64::MAX] {
        let refused = play.send(Some("bad"), invite(0, for_ms));
        assert!(matches!(refused, Err(Refusal::BadRequest(_))), "{for_ms}: {refused:?}");
    }
    for number in 0..INVITATIONS_MAX {
        play.send(Some(&number.to_string()), invite(number, INVITATION_MS_MAX)).expect("there is room");
    }
    let refused = play.send(Some("one more"), invite(INVITATIONS_MAX, INVITATION_MS_MAX));
    assert!(matches!(refused, Err(Refusal::BadRequest(_))), "{refused:?}");
    assert_eq!(play.send(None, invite(0, 1)), Err(Refusal::RequestIdMissing));
}

/// Random invitations and machines. A model of its own says which of them join.
pub(crate) fn run(seed: u64) {
    /// An invitation: when it ends, and the disk that has used it.
    struct Known {
        ends_at: u64,
        used_by: Option<u64>,
    }
    let mut rng = Rng(seed);
    let mut play = Play::after("found 1 d1 shards 1 replicas 3");
    let mut known: BTreeMap<u64, Known> = BTreeMap::new();
    for number in 0..60 {
        let (request, at) = (number.to_string(), play.next_at());
        let name = rng.below(6);
        if rng.below(10) < 3 {
            let for_ms = 1 + rng.below(20_000);
            let invited =
                play.send(Some(&request), ClusterCommand::Invite { hash: invitation(&name.to_string()), for_ms });
            // What has ended is forgotten with the next invitation that is granted.
            assert!(invited.is_ok() || known.contains_key(&name), "seed {seed}, request {number}: {invited:?}");
            if invited.is_ok() {
                known.retain(|_, known| known.ends_at > at);
                known.insert(name, Known { ends_at: at + for_ms, used_by: None });
            }
            continue;
        }
        let disk = 2 + rng.below(6);
        let admission = match rng.below(4) {
            0 => Admission::Nothing,
            1 => Admission::AdminProof([7; 32]),
            _ => Admission::Invitation(invitation(&name.to_string())),
        };
        let members = play.cluster().expect("it was founded").members().clone();
        // A member that asks again joins nothing, so it uses nothing up.
        let is_member = members.values().any(|member| member.disk == Some(disk.into()));
        let may = match (&admission, known.get_mut(&name)) {
            (Admission::Invitation(_), Some(Known { used_by: Some(other), .. })) => *other == disk,
            (Admission::Invitation(_), Some(known)) if at < known.ends_at => {
                known.used_by = (!is_member).then_some(disk);
                true
            }
            _ => false,
        };
        let joined = play.send(Some(&request), join(None, &format!("d{disk}"), admission.clone()));
        let words = format!("seed {seed}, request {number}: d{disk} with {admission:?}: {joined:?}");
        match may {
            true => assert!(joined.is_ok(), "{words}"),
            false => {
                assert_eq!(joined, Err(Refusal::NotInvited), "{words}");
                assert_eq!(*play.cluster().expect("it was founded").members(), members, "{words}");
            }
        }
    }
}

#[test]
fn machines_join_exactly_when_they_are_invited() {
    (0..scaled(200)).for_each(run);
}
