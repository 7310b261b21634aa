//! Damaged blocks of the store: what is in them fails by name, and everything else goes on.

use std::{fs, path::Path};

use boxoffice_core::command::CartCommand;
use boxoffice_node::{api::Failure, audit::Depth};

use crate::{
    leaving::shop::{Machine, Shop, cart, eventually},
    plants::plant,
};

/// A venue, a session and the directory.
const STAY: u64 = 3;
const CARTS: u64 = 400;

/// The carts whose orders are read, and those whose records are damaged.
fn read_all(shop: &Shop) -> (u64, Vec<u64>) {
    let mut damaged = Vec::new();
    let mut read = 0;
    for number in 0..CARTS {
        match shop.cart(number, CartCommand::Order, None) {
            Ok(Ok(_)) => read += 1,
            Err(Failure::Internal) => damaged.push(number),
            other => panic!("cart {number}: {other:?}"),
        }
    }
    (read, damaged)
}

/// Everything but the damaged records is as before, and the damage is told everywhere.
fn goes_on(shop: &Shop, first_new: u64) -> Vec<u64> {
    let (read, damaged) = read_all(shop);
    assert!(!damaged.is_empty() && read > CARTS / 2, "{read} are read, {damaged:?} are not");
    assert_eq!(shop.handle().ready(), Ok(()));
    for number in first_new..first_new + 20 {
        shop.buy(number).expect("an order");
    }
    assert!(shop.counter("boxoffice_history_reads_failed_total") > 0);
    assert!(shop.counter("boxoffice_history_damaged") >= damaged.len() as u64);
    for depth in [Depth::Sales, Depth::Records] {
        let audit = shop.handle().audit_to(depth);
        for number in &damaged {
            let name = cart(*number).to_string();
            assert!(audit.violations.iter().any(|violation| violation.contains(&name)), "{name}: {audit:?}");
        }
        let others = audit.violations.iter().filter(|violation| !violation.contains("is damaged"));
        assert_eq!(others.count(), 0, "{audit:?}");
    }
    damaged
}

fn history(machine: &Machine) -> std::path::PathBuf {
    machine.config.replication.data_dir.join("history")
}

fn sold_out_of_memory(machine: &Machine) -> Shop {
    let shop = machine.start();
    shop.open(1);
    assert_eq!(shop.rush(0..CARTS, &mut |_| {}).len() as u64, CARTS);
    shop.settle(STAY);
    shop
}

#[test]
fn damaged_blocks_fail_by_name_before_and_after_a_restart() {
    plant();
    let machine = Machine::in_memory();
    let shop = sold_out_of_memory(&machine);
    let dir = history(&machine);
    let keys: Vec<_> = machine.stores.keys(&dir).into_iter().filter(|key| key.starts_with(b"e")).collect();
    for first in [0, 90, 250] {
        assert_eq!(machine.stores.damage_block(&dir, &keys[first], &keys[first + 19]), 20);
    }
    let damaged = goes_on(&shop, CARTS);
    assert_eq!(damaged.len(), 60);
    shop.stop();
    let shop = machine.start();
    assert_eq!(goes_on(&shop, CARTS + 100), damaged);
    shop.stop();
}

/// Entries of the log that change a damaged record do not end a node that starts with it.
#[test]
fn a_replay_leaves_out_what_it_cannot_apply_and_says_so_for_good() {
    let mut machine = Machine::in_memory();
    // The log keeps every entry.
    machine.config.replication.snapshot_entries = u64::MAX;
    machine.config.replication.log_segment_bytes = 16 << 20;
    let shop = sold_out_of_memory(&machine);
    shop.stop();
    let dir = history(&machine);
    let keys: Vec<_> = machine.stores.keys(&dir).into_iter().filter(|key| key.starts_with(b"e")).collect();
    machine.stores.damage_block(&dir, &keys[100], &keys[119]);
    let shop = machine.start();
    let damaged = goes_on(&shop, CARTS);
    assert_eq!(damaged.len(), 20);
    shop.stop();
    let shop = machine.start();
    assert_eq!(goes_on(&shop, CARTS + 100), damaged, "also when nothing of the log is left to be replayed");
    shop.stop();
}

/// The table files of a store on a real disk.
fn tables(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(tables(&path));
        } else if path.parent().is_some_and(|dir| dir.ends_with("tables")) {
            found.push(path);
        }
    }
    found
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("a file");
    bytes[at] ^= 1;
    fs::write(file, bytes).expect("written");
}

/// A real store whose records are in a table.
fn real(dir: &Path) -> Machine {
    let mut machine = Machine::real(dir);
    machine.config.replication.history_store.memtable_bytes = 64 << 10;
    machine.config.replication.history_store.cache_bytes = 0;
    machine
}

#[test]
fn a_flipped_bit_of_a_table_ends_no_node() {
    let dir = tempfile::tempdir().expect("a directory");
    let machine = real(dir.path());
    sold_out_of_memory(&machine).stop();
    let shop = machine.start();
    eventually("there is a table", || !tables(&history(&machine)).is_empty());
    shop.stop();
    let tables = tables(&history(&machine));
    let largest = tables.iter().max_by_key(|table| fs::metadata(table).expect("a file").len()).expect("a table");
    let length = fs::metadata(largest).expect("a file").len() as usize;
    flip(largest, length / 3);
    for start in 0..2 {
        let shop = machine.start();
        goes_on(&shop, CARTS + 100 * start);
        shop.stop();
    }
}
