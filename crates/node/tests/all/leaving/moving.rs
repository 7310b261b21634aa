//! Carts leave memory and are found again.

use boxoffice_core::{answer::Answer, command::CartCommand};
use boxoffice_node::api::Failure;

use crate::leaving::shop::{Machine, eventually};

/// Entities that never leave: a venue, a session and the directory.
const STAY: u64 = 3;

fn leaves_and_answers(machine: &Machine) {
    let shop = machine.start();
    shop.open(1);
    let orders: Vec<_> = (0..5).map(|number| shop.buy(number).expect("an order")).collect();
    let canceled = shop.cart(7, CartCommand::Open { customer: None, ttl_ms: None, guest: false }, Some(1));
    assert!(matches!(canceled, Ok(Ok(_))));
    assert!(matches!(shop.cart(7, CartCommand::Cancel, Some(2)), Ok(Ok(_))));
    shop.settle(STAY);
    let residents = shop.handle().residents().expect("a good store");
    assert_eq!((residents.leaving, residents.left), (0, 6));
    let metrics = shop.handle().metrics_text();
    for gauge in [format!("entities_in_memory {}", residents.in_memory), "entities_leaving 0".to_owned()] {
        assert!(metrics.contains(&format!("boxoffice_{gauge}\n")), "{gauge}");
    }

    let check = |shop: &crate::leaving::shop::Shop| {
        for (number, order) in (0..).zip(&orders) {
            assert_eq!(&shop.checkout(number).expect("the same answer"), order, "the repeat of a checkout");
            assert_eq!(&shop.order(number), order);
            let Ok(Ok(answered)) = shop.cart(number, CartCommand::Get, None) else { panic!("the cart exists") };
            let Answer::Cart(view) = answered.answer else { panic!("{answered:?}") };
            assert_eq!(view.order, Some(order.id));
        }
        let again = shop.cart(0, CartCommand::Cancel, Some(9));
        assert!(matches!(again, Ok(Err(_))), "an ended cart accepts no change: {again:?}");
        assert!(matches!(shop.cart(7, CartCommand::Cancel, Some(2)), Ok(Ok(_))), "the repeat of a cancel");
        assert!(matches!(shop.cart(99, CartCommand::Get, None), Ok(Err(_))), "it was never opened");
        assert_eq!(shop.audit(), 5);
        assert_eq!(shop.in_memory(), STAY, "a read reloads no entity");
    };
    check(&shop);
    shop.stop();
    let shop = machine.start();
    shop.settle(STAY);
    check(&shop);
    shop.stop();
}

#[test]
fn a_bought_cart_leaves_memory_and_answers_as_before() {
    leaves_and_answers(&Machine::in_memory());
}

#[test]
fn a_bought_cart_leaves_memory_on_a_real_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    leaves_and_answers(&Machine::real(dir.path()));
}

#[test]
fn twenty_thousand_carts_pass_through_little_memory() {
    const CARTS: u64 = 20_000;
    let dir = tempfile::tempdir().expect("a directory");
    let machine = Machine::real(dir.path());
    let shop = machine.start();
    shop.open(8);
    let mut most = 0;
    let bought = shop.rush(0..CARTS, &mut |handle| {
        most = most.max(handle.residents().expect("a good store").in_memory);
    });
    assert_eq!(bought.len() as u64, CARTS);
    assert!(most < CARTS / 2, "{most} of {CARTS} carts were in memory at once");
    shop.settle(10);
    assert_eq!(shop.audit(), CARTS);
    assert_eq!(shop.metric(|metrics| &metrics.put_back), 0);
    let (filtered, missed) = ("boxoffice_history_lookups_filtered_total", "boxoffice_history_lookups_missed_total");
    assert!(shop.counter(filtered) > CARTS * 9 / 10, "{} lookups were answered in memory", shop.counter(filtered));
    assert!(shop.counter(missed) < CARTS / 10, "{} lookups found nothing in the store", shop.counter(missed));
    shop.stop();

    let shop = machine.start();
    shop.settle(10);
    assert_eq!(shop.audit(), CARTS);
    let is_unknown = |number| matches!(shop.cart(number, CartCommand::Get, None), Ok(Err(_)));
    eventually("the filter has every record of the store", || {
        let before = shop.counter(filtered);
        assert!(is_unknown(CARTS + 1) && is_unknown(CARTS + 2));
        shop.counter(filtered) == before + 2
    });
    assert_eq!(shop.order(12_345).lines.len(), 1);
    shop.stop();
    let told = boxoffice_replication::inspect::inspect(&machine.world(), &machine.config.replication.data_dir, |_| {})
        .expect("whole");
    assert_eq!(told.shards.iter().map(|shard| shard.left.orders).sum::<u64>(), CARTS);
    assert!(told.shards.iter().all(|shard| shard.audit.violations.is_empty()));
}

#[test]
fn a_full_disk_stops_selling_until_there_is_room_and_loses_nothing() {
    let machine = Machine::in_memory();
    let shop = machine.start();
    shop.open(1);
    shop.buy(0).expect("an order");
    shop.settle(STAY);
    machine.stores.set_capacity(Some(0));
    let order = shop.buy(1).expect("there is room in the log");
    eventually("the node stops selling", || shop.handle().ready().is_err());
    assert_eq!(shop.buy(2), Err(Failure::ReadOnly));
    assert_eq!(shop.order(1), order, "reads still work");
    assert_eq!((shop.in_memory(), shop.audit()), (STAY + 1, 2));
    machine.stores.set_capacity(None);
    eventually("the node sells again", || shop.handle().ready().is_ok());
    shop.settle(STAY);
    shop.buy(2).expect("it sells");
    shop.settle(STAY);
    assert_eq!((shop.order(1), shop.audit()), (order, 3));
    shop.stop();
}

#[test]
fn a_store_that_does_not_sync_ends_the_node_with_its_reason() {
    let machine = Machine::in_memory();
    let shop = machine.start();
    shop.open(1);
    machine.stores.fail_syncs(true);
    shop.buy(0).expect("the log syncs");
    let why = shop.block_on(shop.handle().failed());
    assert!(why.contains("the store /data/history cannot be used: the disk does not sync"), "{why}");
    machine.stores.fail_syncs(false);
    machine.disk.power_cut(&mut || false);
    machine.stores.power_cut(&mut || false);
    shop.drop_after_power_cut();
    let shop = machine.start();
    shop.settle(STAY);
    assert_eq!(shop.audit(), 1);
    shop.stop();
}

#[test]
fn a_missing_or_damaged_store_is_refused_at_the_start() {
    let machine = Machine::in_memory();
    let shop = machine.start();
    shop.open(8);
    shop.rush(0..600, &mut |_| {});
    shop.settle(STAY + 7);
    // Snapshots that are cut from now on depend on the store.
    let before = shop.metric(|metrics| &metrics.snapshots);
    // The number of purchases until a snapshot depends on how many share an entry.
    let two_each = || shop.metric(|metrics| &metrics.snapshots) >= before + 4;
    let mut pieces = (600..20_000).step_by(600);
    while !two_each() {
        let first = pieces.next().expect("two snapshots of each shard, before all is sold");
        shop.rush(first..first + 600, &mut |_| {});
    }
    shop.stop();
    let refusal = |machine: &Machine| machine.try_start().map(|_| ()).expect_err("refused").to_string();
    let dir = machine.config.replication.data_dir.join("history");
    machine.stores.damage(&dir, b"owner");
    let foreign = refusal(&machine);
    assert!(foreign.contains("belongs to another data directory"), "{foreign}");
    machine.stores.damage(&dir, b"owner");
    machine.stores.damage(&dir, b"shard/\0\x01");
    let damaged = refusal(&machine);
    assert!(damaged.contains("the record of shard 1 in /data/history cannot be understood"), "{damaged}");
    machine.stores.damage(&dir, b"shard/\0\x01");
    machine.start().stop();
    machine.stores.remove(&dir);
    let gone = refusal(&machine);
    assert!(gone.contains("the history in /data/history is gone"), "{gone}");
}
