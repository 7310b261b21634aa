//! Orders held against what the gateway says was charged, and the operator who sees to what failed for good.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::stage::Stage;
use crate::common::{
    eventually,
    paying::{compare, fails_for_good},
};

impl Stage {
    /// Every order is charged once, what was refunded is paid back, nothing is charged or set aside without an order, and no
    /// step of a payment is left open.
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
        eventually("an operator has seen to it all", async || (sums(self, "payments_failed").await == 0).then_some(()))
            .await;
        let (older, newer) = self.record.carts.split_at(self.checked);
        let older: BTreeSet<String> = older.iter().filter_map(|cart| cart.id.clone()).collect();
        let mut last = Vec::new();
        eventually("the gateway's ledger says what was sold", async || {
            let ledger = self.cluster.gateway.as_ref()?.ledger().await;
            let wrong = compare(newer, &ledger, &older);
            if wrong != last {
                println!("not yet as it should be: {wrong:#?}");
            }
            last = wrong;
            last.is_empty().then_some(())
        })
        .await;
        let paid = newer.iter().filter(|cart| cart.by_gateway).count();
        let back = newer.iter().filter(|cart| cart.by_gateway && !cart.refunded.is_empty()).count();
        let ended = newer.iter().filter(|cart| cart.ended.is_some_and(|why| why != "canceled")).count();
        println!(
            "{paid} orders were charged, {back} paid back, {ended} carts ended unpaid; {} steps settled",
            self.settled.len()
        );
    }

    /// Says of each step that failed for good that it was done by hand; only those fail that were to.
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
                let meant = record.is_some_and(|cart| cart.sources.iter().any(|source| fails_for_good(source)));
                assert!(meant, "{key} failed, and was not to: {record:?}");
                let outcome = match step {
                    "capture" => "captured",
                    "void" => "voided",
                    other => panic!("no test asked a {other} to fail: {key}"),
                };
                let body = json!({"cart": cart, "attempt": attempt, "outcome": outcome});
                self.cluster.admin("admin.settle", body).await;
            }
        }
    }
}
