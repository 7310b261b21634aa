//! Compares orders with the gateway's ledger. An operator settles permanently failed steps.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::stage::Stage;
use crate::common::{
    eventually,
    paying::{compare, fails_permanently},
};

impl Stage {
    /// Checks that every order is charged once, that refunds are paid back, that nothing is charged or authorized without an
    /// order, and that no payment step stays open.
    pub(super) async fn check_money(&mut self, nodes: &[u64]) {
        if self.cluster.gateway.is_none() {
            return;
        }
        let sums = async |stage: &Stage, name: &str| {
            let mut sum = 0;
            for &node in nodes {
                let audit = stage.cluster.port(node).await.read("admin.audit", json!({})).await.ok();
                sum += audit[name].as_u64().expect("a count");
            }
            sum
        };
        eventually("no payment is open", async || (sums(self, "payments_pending").await == 0).then_some(())).await;
        self.settle(nodes).await;
        eventually("no payment has failed", async || (sums(self, "payments_failed").await == 0).then_some(())).await;
        let (older, newer) = self.record.carts.split_at(self.checked);
        let older: BTreeSet<String> = older.iter().filter_map(|cart| cart.id.clone()).collect();
        let mut last = Vec::new();
        eventually("the gateway's ledger equals the sales", async || {
            let ledger = self.cluster.gateway.as_ref()?.ledger().await;
            let wrong = compare(newer, &ledger, &older);
            if wrong != last {
                println!("differences so far: {wrong:#?}");
            }
            last = wrong;
            last.is_empty().then_some(())
        })
        .await;
        let paid = newer.iter().filter(|cart| cart.by_gateway).count();
        let back = newer.iter().filter(|cart| cart.by_gateway && !cart.refunded.is_empty()).count();
        let ended = newer.iter().filter(|cart| cart.ended.is_some_and(|why| why != "canceled")).count();
        println!(
            "{paid} orders were charged, {back} refunded, {ended} carts ended unpaid; {} steps settled",
            self.settled.len()
        );
    }

    /// Settles each permanently failed step by hand. Only steps that were told to fail may fail.
    async fn settle(&mut self, nodes: &[u64]) {
        for &node in nodes {
            let audit = self.cluster.port(node).await.read("admin.audit", json!({})).await.ok();
            for key in audit["failed_keys"].as_array().expect("keys").iter().filter_map(Value::as_str) {
                if !self.settled.insert(key.to_owned()) {
                    continue;
                }
                let mut parts = key.split('-');
                let (cart, attempt, step) = (parts.next(), parts.next(), parts.next().expect("a step"));
                let attempt: u64 = attempt.and_then(|number| number.parse().ok()).expect("a number");
                let record = self.record.carts.iter().rev().find(|record| record.id.as_deref() == cart);
                let is_expected =
                    record.is_some_and(|cart| cart.sources.iter().any(|source| fails_permanently(source)));
                assert!(is_expected, "{key} failed unexpectedly: {record:?}");
                let outcome = match step {
                    "capture" => "captured",
                    "void" => "voided",
                    other => panic!("no test makes a {other} fail: {key}"),
                };
                let body = json!({"cart": cart, "attempt": attempt, "outcome": outcome});
                self.cluster.admin("admin.settle", body).await;
            }
        }
    }
}
