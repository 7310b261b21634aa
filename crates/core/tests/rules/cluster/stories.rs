//! Members join, serve, and are drained, removed and replaced.

use expect_test::expect;

use crate::cluster::script::check;

#[test]
pub(crate) fn an_upgrade_waits_for_every_member() {
    check(
        "found 1 d1 shards 1 replicas 3
         join d2
         arrived 2 d2
         finish
         arrived 1 d1n
         finish
         arrived 2 d2n
         join d3
         finish
         arrived 3 d3n
         finish without 2
         arrived 2 d2
         arrived 2 d2n
         finish by r1
         finish by r1
         finish
         arrived 2 d2
         arrived 2 d2o
         drain 2
         finish by r1",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            arrived 2 d2 -> ok as node 2 at 3, 2 members, 2 places
              node 2: serving since 3, disk 2 at host2:7280
            finish -> done at 4
            arrived 1 d1n -> ok as node 1 at 5, 2 members, 2 places
              node 1: serving since 1, disk 1 at host1:7280
            finish -> refused 813 upgrade_held_back: the upgrade to version 19 is held back: node 2: its program 0.1.0 reads versions up to 17
            arrived 2 d2n -> ok as node 2 at 6, 2 members, 2 places
              node 2: serving since 3, disk 2 at host2:7280
            join d3 -> ok as node 3 at 7, 3 members, 2 places
              node 3: joining since 8, disk 3 at host3:7280
            finish -> refused 813 upgrade_held_back: the upgrade to version 19 is held back: node 3: it has not started yet
            arrived 3 d3n -> ok as node 3 at 8, 3 members, 2 places
              node 3: serving since 10, disk 3 at host3:7280
            finish without 2 -> refused 813 upgrade_held_back: the upgrade to version 19 is held back: node 2: it cannot be reached
            arrived 2 d2 -> ok as node 2 at 9, 3 members, 2 places
              node 2: serving since 3, disk 2 at host2:7280
            arrived 2 d2n -> ok as node 2 at 10, 3 members, 2 places
              node 2: serving since 3, disk 2 at host2:7280
            finish by r1 -> done at 11
              the cluster is at version 19
            finish by r1 -> done at 11
            finish -> done at 12
            arrived 2 d2 -> refused 101 bad_request: bad request: node 2 runs program 0.1.0: it reads versions 17 to 17, and the cluster is at version 19: start release next, or a later one that reads version 19
            arrived 2 d2o -> ok as node 2 at 13, 3 members, 2 places
              node 2: serving since 3, disk 2 at host2:7280
            drain 2 -> refused 811 too_few_left: without node 2 only 2 members serve, and each shard would have a single voter, whose disk may not be lost; let another node join and serve first, or force it
            finish by r1 -> done at 11
        "#]],
    );
}

/// A member that reads two versions more does not hold back the one between.
#[test]
fn an_upgrade_goes_to_the_lowest_version_that_is_new() {
    check(
        "found 1 d1 shards 1 replicas 3
         join d2
         arrived 2 d2n
         arrived 1 d1l
         finish
         finish",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            arrived 2 d2n -> ok as node 2 at 3, 2 members, 2 places
              node 2: serving since 3, disk 2 at host2:7280
            arrived 1 d1l -> ok as node 1 at 4, 2 members, 2 places
              node 1: serving since 1, disk 1 at host1:7280
            finish -> done at 5
              the cluster is at version 19
            finish -> refused 813 upgrade_held_back: the upgrade to version 20 is held back: node 2: its program 0.3.0 reads versions up to 19
        "#]],
    );
}

#[test]
fn a_member_that_does_not_come_back_is_removed_before_the_upgrade_ends() {
    check(
        "found 1 d1n shards 1 replicas 3
         join d2
         arrived 2 d2
         finish",
        expect![[r#"
            found 1 d1n shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            arrived 2 d2 -> refused 101 bad_request: bad request: node 2 runs program 0.1.0: it reads versions 17 to 17, and the cluster is at version 19: start release next, or a later one that reads version 19
            finish -> done at 3
        "#]],
    );
    check(
        "found 1 d1 shards 1 replicas 3
         join d2
         arrived 2 d2
         arrived 1 d1n
         finish without 2
         arrived 1 d1o
         remove 2
         finish",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            arrived 2 d2 -> ok as node 2 at 3, 2 members, 2 places
              node 2: serving since 3, disk 2 at host2:7280
            arrived 1 d1n -> ok as node 1 at 4, 2 members, 2 places
              node 1: serving since 1, disk 1 at host1:7280
            finish without 2 -> refused 813 upgrade_held_back: the upgrade to version 19 is held back: node 2: its program 0.1.0 reads versions up to 17
            arrived 1 d1o -> refused 101 bad_request: bad request: node 1 runs program 0.4.0: it reads versions 19 to 19, and the cluster is at version 17: release next goes between; start it, finish its upgrade, and then start this one
            remove 2 -> done at 5
              node 2: gone since 7, disk 2 at host2:7280
            finish -> done at 6
              the cluster is at version 19
        "#]],
    );
}

#[test]
fn one_two_three() {
    check(
        "found 1 d1 shards 2 replicas 3
         join d2
         arrived 2 d2
         place 1 to 1 + 2 led by 1 ; 0 to 1 + 2 led by 1
         reached 1 2
         reached 0 2
         join d3
         arrived 3 d3
         place 1 to 1 2 3 led by 2
         reached 1 2
         reached 1 3
         place 1 to 1 2 3 led by 3
         get",
        expect![[r#"
            found 1 d1 shards 2 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
              shard 2: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 3 places
              node 2: joining since 2, disk 2 at host2:7280
            arrived 2 d2 -> ok as node 2 at 3, 2 members, 3 places
              node 2: serving since 3, disk 2 at host2:7280
            place 1 to 1 + 2 led by 1 ; 0 to 1 + 2 led by 1 -> done at 4
              shard 0: target 2 is 1.1 + 2.3 led by 1.1, coming from 1.1
              shard 1: target 2 is 1.1 + 2.2 led by 1.1, coming from 1.1
            reached 1 2 -> done at 5
              shard 1: target 2 is 1.1 + 2.2 led by 1.1
            reached 0 2 -> done at 6
              shard 0: target 2 is 1.1 + 2.3 led by 1.1
            join d3 -> ok as node 3 at 7, 3 members, 3 places
              node 3: joining since 7, disk 3 at host3:7280
            arrived 3 d3 -> ok as node 3 at 8, 3 members, 3 places
              node 3: serving since 8, disk 3 at host3:7280
            place 1 to 1 2 3 led by 2 -> done at 9
              shard 1: target 3 is 1.1 2.2 3.4 led by 2.2, coming from 1.1 + 2.2
            reached 1 2 -> done at 9
            reached 1 3 -> done at 10
              shard 1: target 3 is 1.1 2.2 3.4 led by 2.2
            place 1 to 1 2 3 led by 3 -> done at 11
              shard 1: target 4 is 1.1 2.2 3.4 led by 3.4
            get -> ok at 11, 3 members, 3 places
        "#]],
    );
}

#[test]
fn a_member_is_drained_and_retires() {
    check(
        "found 1 d1 shards 1 replicas 3
         drain 1
         join d2
         arrived 2 d2
         place 1 to 1 + 2 led by 1 ; 0 to 1 + 2 led by 1
         reached 1 2
         reached 0 2
         drain 2
         retire 2
         undrain 2
         undrain 2
         drain 2
         arrived 2 d2b
         place 1 to 1 led by 1 ; 0 to 1 led by 1
         retire 2
         reached 1 3
         retire 2
         reached 0 3
         retire 2
         retire 2
         drain 2
         join d2",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            drain 1 -> refused 806 not_drainable: node 1 cannot be drained or kept from it: no other member serves
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 3, disk 2 at host2:7280
            arrived 2 d2 -> ok as node 2 at 3, 2 members, 2 places
              node 2: serving since 4, disk 2 at host2:7280
            place 1 to 1 + 2 led by 1 ; 0 to 1 + 2 led by 1 -> done at 4
              shard 0: target 2 is 1.1 + 2.3 led by 1.1, coming from 1.1
              shard 1: target 2 is 1.1 + 2.2 led by 1.1, coming from 1.1
            reached 1 2 -> done at 5
              shard 1: target 2 is 1.1 + 2.2 led by 1.1
            reached 0 2 -> done at 6
              shard 0: target 2 is 1.1 + 2.3 led by 1.1
            drain 2 -> done at 7
              node 2: draining since 8, disk 2 at host2:7280
            retire 2 -> refused 808 node_in_use: node 2 still has copies of 2 shards
            undrain 2 -> done at 8
              node 2: serving since 10, disk 2 at host2:7280
            undrain 2 -> done at 9
            drain 2 -> done at 10
              node 2: draining since 12, disk 2 at host2:7280
            arrived 2 d2b -> ok as node 2 at 11, 2 members, 2 places
              node 2: draining since 12, disk 2 at host2:7280
            place 1 to 1 led by 1 ; 0 to 1 led by 1 -> done at 12
              shard 0: target 3 is 1.1 led by 1.1, coming from 1.1 + 2.3
              shard 1: target 3 is 1.1 led by 1.1, coming from 1.1 + 2.2
            retire 2 -> refused 808 node_in_use: node 2 still has copies of 2 shards
            reached 1 3 -> done at 13
              shard 1: target 3 is 1.1 led by 1.1
            retire 2 -> refused 808 node_in_use: node 2 still has copies of 1 shards
            reached 0 3 -> done at 14
              shard 0: target 3 is 1.1 led by 1.1
            retire 2 -> done at 15
              node 2: gone since 19, disk 2 at host2:7280
            retire 2 -> done at 15
            drain 2 -> refused 802 node_gone: node 2 was removed from the cluster and cannot come back under this id
            join d2 -> refused 802 node_gone: node 2 was removed from the cluster and cannot come back under this id
        "#]],
    );
}

#[test]
fn a_member_is_removed_where_a_majority_stays() {
    check(
        "found 1 d1 shards 1 replicas 3
         join d2
         join d3
         arrived 2 d2
         remove 1
         remove 3
         join d4
         arrived 4 d4
         place 1 to 1 2 4 led by 1
         remove 1
         force remove 2
         place 1 to 1 4 led by 1",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            join d3 -> ok as node 3 at 3, 3 members, 2 places
              node 3: joining since 3, disk 3 at host3:7280
            arrived 2 d2 -> ok as node 2 at 4, 3 members, 2 places
              node 2: serving since 4, disk 2 at host2:7280
            remove 1 -> refused 804 quorum_would_be_lost: without node 1, 2 of the shards would have no majority of their voters
            remove 3 -> done at 5
              node 3: gone since 6, disk 3 at host3:7280
            join d4 -> ok as node 4 at 6, 4 members, 2 places
              node 4: joining since 7, disk 4 at host4:7280
            arrived 4 d4 -> ok as node 4 at 7, 4 members, 2 places
              node 4: serving since 8, disk 4 at host4:7280
            place 1 to 1 2 4 led by 1 -> done at 8
              shard 1: target 2 is 1.1 2.2 4.3 led by 1.1, coming from 1.1
            remove 1 -> refused 804 quorum_would_be_lost: without node 1, 2 of the shards would have no majority of their voters
            force remove 2 -> done at 9
              node 2: gone since 11, disk 2 at host2:7280
            place 1 to 1 4 led by 1 -> done at 10
              shard 1: target 3 is 1.1 4.3 led by 1.1, coming from 1.1
        "#]],
    );
}

#[test]
fn no_member_is_removed_if_either_side_of_a_move_would_lose_its_majority() {
    check(
        "found 1 d1 shards 1 replicas 3
         join d2
         join d3
         join d4
         arrived 2 d2
         arrived 3 d3
         arrived 4 d4
         place 1 to 2 3 4 led by 2
         reached 1 2
         place 1 to 1 2 3 led by 2
         remove 3
         remove 2
         remove 4",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            join d3 -> ok as node 3 at 3, 3 members, 2 places
              node 3: joining since 3, disk 3 at host3:7280
            join d4 -> ok as node 4 at 4, 4 members, 2 places
              node 4: joining since 4, disk 4 at host4:7280
            arrived 2 d2 -> ok as node 2 at 5, 4 members, 2 places
              node 2: serving since 5, disk 2 at host2:7280
            arrived 3 d3 -> ok as node 3 at 6, 4 members, 2 places
              node 3: serving since 6, disk 3 at host3:7280
            arrived 4 d4 -> ok as node 4 at 7, 4 members, 2 places
              node 4: serving since 7, disk 4 at host4:7280
            place 1 to 2 3 4 led by 2 -> done at 8
              shard 1: target 2 is 2.2 3.3 4.4 led by 2.2, coming from 1.1
            reached 1 2 -> done at 9
              shard 1: target 2 is 2.2 3.3 4.4 led by 2.2
            place 1 to 1 2 3 led by 2 -> done at 10
              shard 1: target 3 is 1.5 2.2 3.3 led by 2.2, coming from 2.2 3.3 4.4
            remove 3 -> done at 11
              node 3: gone since 11, disk 3 at host3:7280
            remove 2 -> refused 804 quorum_would_be_lost: without node 2, 1 of the shards would have no majority of their voters
            remove 4 -> refused 804 quorum_would_be_lost: without node 4, 1 of the shards would have no majority of their voters
        "#]],
    );
}

/// Three members with three voters in each shard.
const THREE: &str = "found 1 d1n shards 1 replicas 3
     join d2
     join d3
     arrived 2 d2n
     arrived 3 d3n
     place 1 to 1 2 3 led by 2 ; 0 to 1 2 3 led by 1
     reached 1 2
     reached 0 2
     ";

#[test]
pub(crate) fn a_damaged_disk_is_replaced_by_its_node() {
    check(
        &format!(
            "{THREE}renew 2 d9 d5
             renew 2 d2 d5 without 3
             renew 2 d2 d5
             renew 2 d2 d5
             renew 2 d2 d6
             renew 3 d3 d7
             arrived 2 d5n
             renew 3 d3 d7
             place 1 to 1 2 3 led by 1 ; 0 to 1 2 3 led by 1
             renew 3 d3 d7
             reached 0 3
             renew 3 d3 d7
             reached 1 3
             renew 3 d3 d7 rest 3600000
             renew 3 d3 d7"
        ),
        expect![[r#"
            found 1 d1n shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            join d3 -> ok as node 3 at 3, 3 members, 2 places
              node 3: joining since 3, disk 3 at host3:7280
            arrived 2 d2n -> ok as node 2 at 4, 3 members, 2 places
              node 2: serving since 4, disk 2 at host2:7280
            arrived 3 d3n -> ok as node 3 at 5, 3 members, 2 places
              node 3: serving since 5, disk 3 at host3:7280
            place 1 to 1 2 3 led by 2 ; 0 to 1 2 3 led by 1 -> done at 6
              shard 0: target 2 is 1.1 2.4 3.5 led by 1.1, coming from 1.1
              shard 1: target 2 is 1.1 2.2 3.3 led by 2.2, coming from 1.1
            reached 1 2 -> done at 7
              shard 1: target 2 is 1.1 2.2 3.3 led by 2.2
            reached 0 2 -> done at 8
              shard 0: target 2 is 1.1 2.4 3.5 led by 1.1
            renew 2 d9 d5 -> refused 803 disk_differs: node 2 has another disk; if that is lost, `admin replace 2` comes first
            renew 2 d2 d5 without 3 -> refused 814 not_renewed: node 2 may not replace its damaged disk now: 2 of the shards, the first of them 0, would have no majority that is up; down are [3]
            renew 2 d2 d5 -> ok as node 2 at 9, 3 members, 2 places
              node 2: joining since 11, disk 5 at host5:7280, from generation 6 on
            renew 2 d2 d5 -> ok as node 2 at 9, 3 members, 2 places
            renew 2 d2 d6 -> refused 803 disk_differs: node 2 has another disk; if that is lost, `admin replace 2` comes first
            renew 3 d3 d7 -> refused 814 not_renewed: node 3 may not replace its damaged disk now: node 2 is still getting what it lost with its disk
            arrived 2 d5n -> ok as node 2 at 10, 3 members, 2 places
              node 2: serving since 15, disk 5 at host5:7280, from generation 6 on
            renew 3 d3 d7 -> refused 814 not_renewed: node 3 may not replace its damaged disk now: node 2 is still getting what it lost with its disk
            place 1 to 1 2 3 led by 1 ; 0 to 1 2 3 led by 1 -> done at 11
              shard 0: target 3 is 1.1 2.7 3.5 led by 1.1, coming from 1.1 2.4 3.5
              shard 1: target 3 is 1.1 2.6 3.3 led by 1.1, coming from 1.1 2.2 3.3
            renew 3 d3 d7 -> refused 814 not_renewed: node 3 may not replace its damaged disk now: node 2 is still getting what it lost with its disk
            reached 0 3 -> done at 12
              shard 0: target 3 is 1.1 2.7 3.5 led by 1.1
            renew 3 d3 d7 -> refused 814 not_renewed: node 3 may not replace its damaged disk now: node 2 is still getting what it lost with its disk
            reached 1 3 -> done at 13
              shard 1: target 3 is 1.1 2.6 3.3 led by 1.1
            renew 3 d3 d7 rest 3600000 -> refused 814 not_renewed: node 3 may not replace its damaged disk now: node 2 replaced its disk 0 h ago, and 1 h are to pass (repair.rest_hours)
            renew 3 d3 d7 -> ok as node 3 at 14, 3 members, 2 places
              node 3: joining since 23, disk 7 at host7:7280, from generation 8 on
        "#]],
    );
}

#[test]
fn a_disk_with_the_only_vote_is_not_replaced() {
    check(
        "found 1 d1 shards 1 replicas 3
         renew 1 d1 d5
         arrived 1 d1n
         join d2
         arrived 2 d2n
         finish
         place 1 to 1 + 2 led by 1 ; 0 to 1 + 2 led by 1
         reached 1 2
         reached 0 2
         renew 1 d1 d5
         renew 2 d2 d6",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            renew 1 d1 d5 -> refused 814 not_renewed: node 1 may not replace its damaged disk now: that comes with version 18 of the cluster, so finish the upgrade first
            arrived 1 d1n -> ok as node 1 at 2, 1 members, 2 places
              node 1: serving since 1, disk 1 at host1:7280
            join d2 -> ok as node 2 at 3, 2 members, 2 places
              node 2: joining since 4, disk 2 at host2:7280
            arrived 2 d2n -> ok as node 2 at 4, 2 members, 2 places
              node 2: serving since 5, disk 2 at host2:7280
            finish -> done at 5
              the cluster is at version 19
            place 1 to 1 + 2 led by 1 ; 0 to 1 + 2 led by 1 -> done at 6
              shard 0: target 2 is 1.1 + 2.3 led by 1.1, coming from 1.1
              shard 1: target 2 is 1.1 + 2.2 led by 1.1, coming from 1.1
            reached 1 2 -> done at 7
              shard 1: target 2 is 1.1 + 2.2 led by 1.1
            reached 0 2 -> done at 8
              shard 0: target 2 is 1.1 + 2.3 led by 1.1
            renew 1 d1 d5 -> refused 804 quorum_would_be_lost: without node 1, 2 of the shards would have no majority of their voters
            renew 2 d2 d6 -> ok as node 2 at 9, 2 members, 2 places
              node 2: joining since 11, disk 6 at host6:7280, from generation 4 on
        "#]],
    );
}

#[test]
fn a_lost_disk_is_replaced() {
    check(
        "found 1 d1 shards 1 replicas 3
         join d2
         join d3
         arrived 2 d2
         arrived 3 d3
         place 1 to 1 2 3 led by 2 ; 0 to 1 2 3 led by 1
         reached 1 2
         reached 0 2
         join d4 as 2
         replace 2
         replace 2
         replace 3
         arrived 2 d2
         place 1 to 3 1 2 led by 1
         join d4 as 2
         arrived 2 d4
         place 1 to 1 2 3 led by 2 ; 0 to 1 2 3 led by 1",
        expect![[r#"
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 1, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            join d2 -> ok as node 2 at 2, 2 members, 2 places
              node 2: joining since 2, disk 2 at host2:7280
            join d3 -> ok as node 3 at 3, 3 members, 2 places
              node 3: joining since 3, disk 3 at host3:7280
            arrived 2 d2 -> ok as node 2 at 4, 3 members, 2 places
              node 2: serving since 4, disk 2 at host2:7280
            arrived 3 d3 -> ok as node 3 at 5, 3 members, 2 places
              node 3: serving since 5, disk 3 at host3:7280
            place 1 to 1 2 3 led by 2 ; 0 to 1 2 3 led by 1 -> done at 6
              shard 0: target 2 is 1.1 2.4 3.5 led by 1.1, coming from 1.1
              shard 1: target 2 is 1.1 2.2 3.3 led by 2.2, coming from 1.1
            reached 1 2 -> done at 7
              shard 1: target 2 is 1.1 2.2 3.3 led by 2.2
            reached 0 2 -> done at 8
              shard 0: target 2 is 1.1 2.4 3.5 led by 1.1
            join d4 as 2 -> refused 803 disk_differs: node 2 has another disk; if that is lost, `admin replace 2` comes first
            replace 2 -> done at 9
              node 2: joining since 10, no disk at host2:7280, from generation 6 on
            replace 2 -> done at 10
            replace 3 -> refused 804 quorum_would_be_lost: without node 3, 2 of the shards would have no majority of their voters
            arrived 2 d2 -> refused 803 disk_differs: node 2 has another disk; if that is lost, `admin replace 2` comes first
            place 1 to 3 1 2 led by 1 -> done at 11
              shard 1: target 3 is 1.1 2.2 3.3 led by 1.1
            join d4 as 2 -> ok as node 2 at 12, 3 members, 2 places
              node 2: joining since 10, disk 4 at host4:7280, from generation 6 on
            arrived 2 d4 -> ok as node 2 at 13, 3 members, 2 places
              node 2: serving since 16, disk 4 at host4:7280, from generation 6 on
            place 1 to 1 2 3 led by 2 ; 0 to 1 2 3 led by 1 -> done at 14
              shard 0: target 3 is 1.1 2.7 3.5 led by 1.1, coming from 1.1 2.4 3.5
              shard 1: target 4 is 1.1 2.6 3.3 led by 2.6, coming from 1.1 2.2 3.3
        "#]],
    );
}
