//! Late repeats of puts on a whole node: from its log after a power cut, and from its snapshots.

use boxoffice_core::{
    answer::{Answer, Answered},
    command::{Command, HoldPolicy, Limits, ProductCommand, ProductDetails},
    money::{Currency, Money},
};

use crate::leaving::shop::{Machine, Shop, eventually, id};

fn put(shop: &Shop, name: &str, stock: u64, request: u64) -> Answered {
    let price = Money { amount: 100, currency: Currency::new("EUR").expect("a currency") };
    let details = ProductDetails {
        name: "Mug".into(),
        properties: Vec::new(),
        blob: Vec::new(),
        price,
        stock,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    };
    let command = Command::Product(id(name), ProductCommand::Put(Box::new(details)));
    shop.ask(command, Some(request)).expect("the node answers").expect("it may be put")
}

fn stock(shop: &Shop, name: &str) -> u64 {
    let told = shop.ask(Command::Product(id(name), ProductCommand::Get), None);
    match told.expect("the node answers").expect("it is there").answer {
        Answer::Product(view) => view.details.stock,
        other => panic!("{other:?}"),
    }
}

/// A repeat of the first of two puts gets the first answer, and the second put stays.
fn check(shop: &Shop, name: &str, first: &Answered) {
    let again = put(shop, name, 10, 1);
    assert_eq!((&again.answer, again.at[0].version), (&first.answer, first.at[0].version), "{name}");
    assert_eq!(stock(shop, name), 20, "{name}");
}

#[test]
fn a_repeated_put_is_found_in_the_log_and_in_snapshots() {
    let machine = Machine::in_memory();
    let shop = machine.start();
    shop.open(2);
    // Some in each shard.
    let names: Vec<String> = (0..8).map(|number| format!("mug{number}")).collect();
    let first: Vec<Answered> = names.iter().map(|name| put(&shop, name, 10, 1)).collect();
    names.iter().for_each(|name| drop(put(&shop, name, 20, 2)));
    let check_all = |shop: &Shop| names.iter().zip(&first).for_each(|(name, first)| check(shop, name, first));
    check_all(&shop);
    machine.disk.power_cut(&mut || false);
    shop.drop_after_power_cut();

    let shop = machine.start();
    check_all(&shop);
    // Enough buyers to cut snapshots. The next start reads them and only the newer log.
    let snapshots = || shop.metric(|metrics| &metrics.snapshots);
    let mut next = 0;
    eventually("snapshots of both shards", || {
        shop.rush(next..next + 100, &mut |_| {});
        next += 100;
        snapshots() >= 6
    });
    machine.disk.power_cut(&mut || false);
    shop.drop_after_power_cut();

    let shop = machine.start();
    check_all(&shop);
    shop.stop();
}
