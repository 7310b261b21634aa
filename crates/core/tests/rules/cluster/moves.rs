//! Every refusal, and the bounds of input.

use boxoffice_core::{
    cluster::{ADDRESS_BYTES_MAX, NODE_MAX},
    command::{Admission, ClusterCommand, Machine},
    refusal::Refusal,
};
use expect_test::expect;

use crate::cluster::script::{Play, check, machine};

#[test]
fn every_refusal() {
    check(
        "get
         drain 1
         found 0 d1 shards 1 replicas 3
         found 1 d1 shards 0 replicas 3
         found 1 d1 shards 1 replicas 0
         found 1 d1 shards 1 replicas 8
         found 1 d1 shards 1 replicas 3
         found 1 d1 shards 1 replicas 3
         found 1 d2 shards 1 replicas 3
         found 2 d1 shards 1 replicas 3
         join d2 by none
         drain 1 by none
         undrain 1 by none
         remove 1 by none
         replace 1 by none
         join d2 as 1
         join d1 as 2
         join d2 as 0
         join d2 as 65536
         join d2 as 7
         arrived 7 d3
         arrived 6 d2
         drain 7
         undrain 7
         drain 6
         undrain 6
         remove 6
         replace 6
         retire 6
         retire 1
         remove 1
         replace 1
         remove 7
         arrived 7 d2
         replace 7
         stale place 1 to 1 led by 1
         place 2 to 1 led by 1
         place 1 to led by 1
         place 1 to 1 1 led by 1
         place 1 to 1 + 1 led by 1
         place 1 to 1 led by 2
         place 1 to 1 led by 1 ; 1 to 1 led by 1
         place 1 to 1 5 led by 1
         place 1 to 1 7 led by 1
         place 1 to 1 led by 1
         reached 2 1
         reached 1 2
         reached 1 1",
        expect![[r#"
            get -> refused 701 not_found: the cluster is not known
            drain 1 -> refused 701 not_found: the cluster is not known
            found 0 d1 shards 1 replicas 3 -> refused 101 bad_request: bad request: the id of a node is from 1 to 65535
            found 1 d1 shards 0 replicas 3 -> refused 101 bad_request: bad request: a cluster has data shards, with 1 to 7 copies each
            found 1 d1 shards 1 replicas 0 -> refused 101 bad_request: bad request: a cluster has data shards, with 1 to 7 copies each
            found 1 d1 shards 1 replicas 8 -> refused 101 bad_request: bad request: a cluster has data shards, with 1 to 7 copies each
            found 1 d1 shards 1 replicas 3 -> done at 1
              node 1: serving since 7, disk 1 at host1:7280
              shard 0: target 1 is 1.1 led by 1.1
              shard 1: target 1 is 1.1 led by 1.1
            found 1 d1 shards 1 replicas 3 -> done at 1
            found 1 d2 shards 1 replicas 3 -> refused 807 already_founded: the cluster was founded already, by another disk
            found 2 d1 shards 1 replicas 3 -> refused 807 already_founded: the cluster was founded already, by another disk
            join d2 by none -> refused 104 request_id_missing: this command changes something and needs a request id (`rid`, by HTTP the header `Idempotency-Key`)
            drain 1 by none -> refused 104 request_id_missing: this command changes something and needs a request id (`rid`, by HTTP the header `Idempotency-Key`)
            undrain 1 by none -> refused 104 request_id_missing: this command changes something and needs a request id (`rid`, by HTTP the header `Idempotency-Key`)
            remove 1 by none -> refused 104 request_id_missing: this command changes something and needs a request id (`rid`, by HTTP the header `Idempotency-Key`)
            replace 1 by none -> refused 104 request_id_missing: this command changes something and needs a request id (`rid`, by HTTP the header `Idempotency-Key`)
            join d2 as 1 -> refused 803 disk_differs: node 1 has another disk; if that is lost, `admin replace 1` comes first
            join d1 as 2 -> refused 101 bad_request: bad request: this disk is that of node 1, not of node 2
            join d2 as 0 -> refused 101 bad_request: bad request: the id of a node is from 1 to 65535
            join d2 as 65536 -> refused 101 bad_request: bad request: the id of a node is from 1 to 65535
            join d2 as 7 -> ok as node 7 at 2, 2 members, 2 places
              node 7: joining since 20, disk 2 at host2:7280
            arrived 7 d3 -> refused 803 disk_differs: node 7 has another disk; if that is lost, `admin replace 7` comes first
            arrived 6 d2 -> refused 801 no_such_node: node 6 is not a member
            drain 7 -> refused 806 not_drainable: node 7 cannot be drained or kept from it: it is not serving
            undrain 7 -> refused 806 not_drainable: node 7 cannot be drained or kept from it: it is not serving
            drain 6 -> refused 801 no_such_node: node 6 is not a member
            undrain 6 -> refused 801 no_such_node: node 6 is not a member
            remove 6 -> refused 801 no_such_node: node 6 is not a member
            replace 6 -> refused 801 no_such_node: node 6 is not a member
            retire 6 -> refused 801 no_such_node: node 6 is not a member
            retire 1 -> refused 806 not_drainable: node 1 cannot be drained or kept from it: it is not being drained
            remove 1 -> refused 804 quorum_would_be_lost: without node 1, 2 of the shards would have no majority of their voters
            replace 1 -> refused 804 quorum_would_be_lost: without node 1, 2 of the shards would have no majority of their voters
            remove 7 -> done at 3
              node 7: gone since 33, disk 2 at host2:7280
            arrived 7 d2 -> refused 802 node_gone: node 7 was removed from the cluster and cannot come back under this id
            replace 7 -> refused 802 node_gone: node 7 was removed from the cluster and cannot come back under this id
            stale place 1 to 1 led by 1 -> refused 805 placement_stale: the cluster has changed meanwhile; it is at version 3
            place 2 to 1 led by 1 -> refused 101 bad_request: bad request: there is no such shard
            place 1 to led by 1 -> refused 101 bad_request: bad request: a shard has at least one voter
            place 1 to 1 1 led by 1 -> refused 101 bad_request: bad request: a node has one copy of a shard
            place 1 to 1 + 1 led by 1 -> refused 101 bad_request: bad request: a node has one copy of a shard
            place 1 to 1 led by 2 -> refused 101 bad_request: bad request: the leader of a shard is not one of its voters
            place 1 to 1 led by 1 ; 1 to 1 led by 1 -> refused 101 bad_request: bad request: a shard is moved twice at once
            place 1 to 1 5 led by 1 -> refused 801 no_such_node: node 5 is not a member
            place 1 to 1 7 led by 1 -> refused 802 node_gone: node 7 was removed from the cluster and cannot come back under this id
            place 1 to 1 led by 1 -> done at 3
            reached 2 1 -> refused 101 bad_request: bad request: there is no such shard
            reached 1 2 -> refused 101 bad_request: bad request: the shard has no such target yet
            reached 1 1 -> done at 3
        "#]],
    );
}

#[test]
fn addresses_are_printable_and_not_too_long() {
    let mut play = Play::after("found 1 d1 shards 1 replicas 3");
    let long = "h".repeat(ADDRESS_BYTES_MAX);
    let mut join = |peer: &str| {
        let machine = Machine { peer: peer.into(), ..machine("d2") };
        play.send(
            Some(&format!("join from {peer}")),
            ClusterCommand::Join { node: None, machine: machine.into(), proof: None, admission: Admission::Vouched },
        )
    };
    for peer in ["", "host 2:1", "hôst:1", "host\n:1", &format!("{long}h")] {
        let refused = join(peer).expect_err("not an address");
        assert!(matches!(refused, Refusal::BadRequest(_)), "{peer}: {refused}");
    }
    assert!(join(&long).is_ok());
}

#[test]
fn new_members_get_the_lowest_unused_id() {
    let play = Play::after("found 2 d1 shards 1 replicas 3\njoin d2\njoin d3\njoin d4 as 65535\nremove 1\njoin d5");
    let cluster = play.cluster().expect("the cluster is founded");
    assert_eq!(cluster.members().keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, NODE_MAX]);
}
