//! The cost of a hold at the client port: reading its frame, writing its answer.

#[path = "../src/tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use boxoffice_core::answer::{Answer, Answered};
use boxoffice_wire::{Encoding, Request, call::Shape, encode, reply::ServerFrame};
use bytes::BytesMut;
use criterion::{Criterion, criterion_group, criterion_main};

fn frames(criterion: &mut Criterion) {
    let requests = common::requests();
    let hold = requests.iter().find(|sample| sample.name == "cart.hold_seats").expect("there is one");
    let outcome = Ok(Answered { answer: Answer::Held(common::held()), at: common::at() });
    for encoding in Encoding::ALL {
        let name = encoding.subprotocol();
        let frame = hold.bytes(encoding);
        criterion.bench_function(&format!("{name}: read a hold"), |bencher| {
            bencher.iter(|| Request::read(encoding, black_box(frame)));
        });
        let mut out = BytesMut::with_capacity(64 * 1024);
        criterion.bench_function(&format!("{name}: write its answer"), |bencher| {
            bencher.iter(|| {
                out.clear();
                encode::outcome(encoding, &mut out, 7, black_box(&outcome), Shape::Plain, None);
            });
        });
        out.clear();
        encode::outcome(encoding, &mut out, 7, &outcome, Shape::Plain, None);
        criterion.bench_function(&format!("{name}: split its answer"), |bencher| {
            bencher.iter(|| ServerFrame::read(encoding, black_box(&out)).map(|_| ()));
        });
    }
}

criterion_group!(benches, frames);
criterion_main!(benches);
