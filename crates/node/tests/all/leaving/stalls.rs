//! A store that stands still holds up only what needs it.

use boxoffice_core::{answer::Answer, command::CartCommand};
use boxoffice_feeds::{FeedEvent, View, Watching};
use boxoffice_wire::Encoding;

use crate::leaving::shop::{Machine, cart, eventually, session};

/// A venue, two sessions and the directory.
const STAY: u64 = 4;

fn sells_on(machine: &Machine) {
    let shop = machine.start();
    shop.open(2);
    (0..5).for_each(|number| _ = shop.buy(number).expect("an order"));
    shop.settle(STAY);
    machine.stalls.gate().stall();
    let order = shop.submit(3, CartCommand::Order);
    eventually("the read waits", || machine.stalls.gate().waiting() > 0);
    // A feed of an ended cart waits as well, and one of a session does not.
    let mut of_cart = shop.handle().feeds().watcher();
    assert!(matches!(of_cart.watch(&cart(4), View::Whole, None, 0), Ok(Watching::Awaited)), "its record is read");
    let mut of_session = shop.handle().feeds().watcher();
    assert!(matches!(of_session.watch(&session(0), View::Whole, None, 0), Ok(Watching::Begun(_))));
    for number in 10..30 {
        shop.buy(number).expect("an order");
    }
    shop.handle().status();
    let waiting = shop.counter("boxoffice_shards_waiting");
    assert_eq!(waiting, 0, "only the entity waits, and not its shard");
    assert!(order.try_recv().is_err(), "the record is not read yet");
    assert!(machine.stalls.gate().waiting() > 0, "the store still stands");
    machine.stalls.gate().go_on();
    let (_, answer) = order.recv_timeout(std::time::Duration::from_secs(60)).expect("an answer");
    let Ok(Ok(answered)) = answer else { panic!("{answer:?}") };
    assert!(matches!(answered.answer, Answer::Order { .. }));
    let mut begun = false;
    eventually("the feed begins", || {
        of_cart.pull(Encoding::MsgPack, 1, |said| begun |= matches!(said, FeedEvent::Begun { .. }));
        begun
    });
    shop.settle(STAY);
    assert_eq!(shop.audit(), 25);
    assert!(shop.counter("boxoffice_history_reads_total") > 0);
    shop.stop();
}

#[test]
fn a_stalled_store_holds_up_only_the_entity_that_needs_it() {
    sells_on(&Machine::in_memory());
}

#[test]
fn a_stalled_store_on_a_real_disk_holds_up_only_the_entity_that_needs_it() {
    let dir = tempfile::tempdir().expect("a directory");
    sells_on(&Machine::real(dir.path()));
}
