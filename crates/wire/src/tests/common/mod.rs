//! A sample of every frame, for golden files, round trips and the document.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "the bench uses a part")]

mod buying;
mod feeds;
mod frames;
mod inside;
mod offer;
pub mod optional;
mod refusals;
mod requests;

use std::collections::BTreeMap;

use boxoffice_core::{
    access::{AccessKey, NewKey, Role, Roles},
    answer::{ClusterView, InvitationView},
    cluster::{Copies, Member, MemberState, Place, Replica},
    id::{CartId, CartToken, Id},
    money::{Currency, Money},
    seat::Seat,
    time::Timestamp,
    version::{OLDEST_READ, ReadVersions},
};
use boxoffice_wire::Encoding;
use bytes::BytesMut;

pub use self::{buying::*, feeds::*, frames::*, inside::*, offer::*, refusals::*, requests::*};

/// A frame in both encodings.
pub struct Sample {
    pub name: &'static str,
    pub json: String,
    pub msgpack: Vec<u8>,
}

impl Sample {
    pub fn bytes(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Json => self.json.as_bytes(),
            Encoding::MsgPack => &self.msgpack,
        }
    }
}

fn sample(name: &'static str, write: impl Fn(Encoding, &mut BytesMut)) -> Sample {
    let written = |encoding| {
        let mut out = BytesMut::new();
        write(encoding, &mut out);
        out.to_vec()
    };
    let json = String::from_utf8(written(Encoding::Json)).expect("JSON is UTF-8");
    Sample { name, json, msgpack: written(Encoding::MsgPack) }
}

pub fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

pub fn seat(row: u16, seat: u16) -> Seat {
    Seat { row, seat }
}

pub fn euro(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("a currency") }
}

pub fn token() -> CartToken {
    CartToken(0x0f1e_2d3c_4b5a_6978_8796_a5b4_c3d2_e1f0)
}

pub fn cart() -> CartId {
    token().cart()
}

/// A key of a box office.
pub fn access_key() -> AccessKey {
    let venues = vec![id("globe")];
    let terms =
        NewKey { hash: [7; 32], roles: Roles::of(Role::Desk), venues, requests_per_second: Some(20), held_max: None };
    AccessKey { terms, created_at: evening() }
}

/// Two members, of which one lost its disk, and a shard on its way to both.
pub fn invitation_view() -> InvitationView {
    InvitationView {
        ends_at: evening(),
        clients: vec!["10.0.0.1:7180".into(), "10.0.0.2:7180".into()],
        cluster: Some("c1b0ffee".repeat(4).into()),
        secret: Some("known to nodes".into()),
    }
}

pub fn cluster_view() -> ClusterView {
    let member = |disk, state, host: &str| Member {
        disk,
        peer: format!("{host}:7280").into(),
        client: format!("{host}:7180").into(),
        program: "0.1.0".into(),
        state,
        first_generation: 1,
        since: evening(),
        versions: disk.map(|_| ReadVersions::own()),
        renewed: None,
    };
    let (one, two) = (Replica { node: 1, generation: 1 }, Replica { node: 2, generation: 17 });
    let alone = Copies { voters: vec![one], learners: Vec::new() };
    let both = Copies { learners: vec![two], ..alone.clone() };
    let place = |target, version| Place {
        version,
        target,
        leader: one,
        reached: 1,
        last_reached: alone.clone(),
        given_up: Vec::new(),
    };
    ClusterView {
        version: 12,
        own: Some(2),
        replicas: 3,
        members: BTreeMap::from([
            (1, member(Some(1), MemberState::Serving, "10.0.0.1")),
            (2, member(None, MemberState::Joining, "10.0.0.2")),
        ]),
        places: vec![place(alone.clone(), 1), place(both, 2)],
        cluster_version: OLDEST_READ,
    }
}

pub fn evening() -> Timestamp {
    Timestamp(1_775_995_200_000)
}

/// Milliseconds of an hour.
const HOUR: u64 = 60 * 60 * 1000;
