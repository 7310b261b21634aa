//! Single bits of disks that change while nothing else goes wrong.

use std::{sync::atomic::Ordering, time::Duration};

use boxoffice_core::cluster::Replica;
use rand::Rng;
use tokio::time::sleep;

use super::Operator;
use crate::{cluster, disk::Part, machine::Machine, rng::one_of, swarm::Fault};

/// The longest rest between two changed bits, in milliseconds.
pub(super) const REST_MS: u64 = 2_000;
/// The limit until a node has read everything that it has, in milliseconds.
const READ_MS: u64 = 120_000;
/// The limit until a node with a changed bit is whole again, in milliseconds.
const WHOLE_MS: u64 = 300_000;
/// The first pass may have begun before the bit changed.
const PASSES: u64 = 2;
/// The interval of polling, in milliseconds.
const POLL_MS: u64 = 200;
/// By then every node knows which others are down, in milliseconds.
const DOWN_MS: u64 = 10_000;

impl Operator {
    /// Changes a bit of any part of a disk, of a node that runs or of one that is off, and waits until the node is whole again.
    pub(super) async fn flip(&mut self) {
        let machine = cluster::member(&self.client, &mut self.rng);
        let _locked = machine.fault_lock.lock().await;
        let (part, runs): (Part, bool) = (one_of(&mut self.rng, &Part::ALL), self.rng.random());
        if !runs {
            self.ends(&machine);
        }
        let flipped = machine.disk().flip(part, &mut self.rng);
        let Some(place) = flipped else {
            if !runs {
                self.starts(&machine);
            }
            return;
        };
        let place = format!("{}, node {}: {place}", part.as_str(), if runs { "on" } else { "off" });
        self.note(Fault::BitRot, &machine);
        self.client.trace.note(&format!("node {}: {place}", machine.number));
        let what = if runs { "of nodes that run" } else { "of nodes that are off" };
        self.stats.lock().flips.count(format!("flips of {} {what}", part.as_str()));
        if !runs {
            let refused = machine.start().err();
            self.wait_until_whole(&machine, (part, &place), refused).await;
        }
        self.reads_everything(&machine).await;
        self.wait_until_whole(&machine, (part, &place), None).await;
        if runs {
            // What is written at the time is read at a start only.
            self.ends(&machine);
            let refused = machine.start().err();
            self.wait_until_whole(&machine, (part, &place), refused).await;
            self.reads_everything(&machine).await;
            self.wait_until_whole(&machine, (part, &place), None).await;
        }
    }

    fn ends(&mut self, machine: &Machine) {
        match self.rng.random() {
            true => machine.kill(),
            false => machine.power_cut(),
        }
    }

    /// Waits until a node has read everything on its disk, or has found damage.
    async fn reads_everything(&self, machine: &Machine) {
        let passes = || {
            let handle = machine.handle().filter(|handle| machine.runs() && handle.damage().is_none())?;
            Some(handle.replication_metrics().scrubs.load(Ordering::Relaxed))
        };
        let Some(before) = passes() else { return };
        let until_ms = self.client.trace.now_ms() + READ_MS;
        while passes().is_some_and(|passes| passes < before + PASSES) {
            if self.client.trace.now_ms() > until_ms {
                return self.violation(format!("node {} has not read its disk in {READ_MS} ms", machine.number));
            }
            sleep(Duration::from_millis(POLL_MS)).await;
        }
    }

    /// Waits until a node has nothing damaged any more. `refused` is why it did not start.
    async fn wait_until_whole(&mut self, machine: &Machine, (part, place): (Part, &str), mut refused: Option<String>) {
        let (number, began_ms) = (machine.number, self.client.trace.now_ms());
        loop {
            if let Some(why) = refused.take() {
                self.client.trace.note(&format!("node {number}: {place}: {why}"));
                if part == Part::Identity && why.contains("cannot tell whose") {
                    self.replaces(machine).await;
                } else if machine.found_damage() {
                    self.renews(machine, &why).await;
                } else {
                    self.violation(format!("node {number} ends with {place}, and does not take it for damage: {why}"));
                    self.replaces(machine).await;
                }
            }
            tokio::select! {
                biased;
                why = machine.failed() => refused = Some(why),
                () = self.is_whole(machine) => break,
                () = sleep(Duration::from_millis(WHOLE_MS)) => {
                    let state = machine.handle().map(|handle| (handle.ready(), handle.damage()));
                    return self.violation(format!("node {number} is not whole after {WHOLE_MS} ms: {place}: {state:?}"));
                }
            }
        }
        let took_ms = self.client.trace.now_ms() - began_ms;
        let longest = &mut self.stats.lock().longest_repair;
        if took_ms > longest.0 {
            *longest = (took_ms, place.to_owned());
        }
    }

    /// Resolves when the node serves, knows of no damage, and every shard has its replicas.
    async fn is_whole(&mut self, machine: &Machine) {
        loop {
            let serves = machine.handle().is_some_and(|handle| handle.ready().is_ok() && handle.damage().is_none());
            if serves && cluster::is_placed(&self.client, &mut self.rng).await {
                return;
            }
            sleep(Duration::from_millis(POLL_MS)).await;
        }
    }

    /// Changes a bit in the logs of two nodes. Neither may replace its disk if a shard then had no majority. So one of them gets its log
    /// back, and the other one replaces its disk.
    pub(super) async fn flip_two(&mut self) {
        let first = cluster::member(&self.client, &mut self.rng);
        let Some(second) = self.another(&first) else { return };
        let both = [first, second];
        let _locked = (both[0].fault_lock.lock().await, both[1].fault_lock.lock().await);
        let Some(before) = self.view().await else { return };
        let copies = both.each_ref().map(|machine| {
            machine.power_cut();
            machine.copy_disk()
        });
        let found = both.each_ref().map(|machine| self.damage_log(machine));
        let [Some(first_why), Some(second_why)] = found else {
            // A log is too short yet.
            for (machine, copy) in both.iter().zip(copies) {
                machine.power_cut();
                machine.put_disk(copy);
                self.starts(machine);
            }
            return;
        };
        sleep(Duration::from_millis(DOWN_MS)).await;
        let are_lost = |voters: &[Replica]| {
            let left = voters.iter().filter(|voter| both.iter().all(|machine| machine.number != voter.node)).count();
            left * 2 <= voters.len()
        };
        let must_wait = before.places.iter().any(|place| !place.moving() && are_lost(&place.target.voters));
        let [first, second] = &both;
        let [_, copy] = copies;
        let first_disks = first.note_damage(&first_why);
        let second_disks = second.note_damage(&second_why);
        let asked = [(first, first_disks), (second, second_disks)];
        let mut granted = None;
        for (machine, disks) in asked {
            let answer = cluster::ask_for_disk(&self.client, machine, disks, &mut self.rng).await;
            let said = answer.as_ref().map_or_else(String::as_str, |_| "granted");
            self.client.trace.note(&format!("node {}: {said}", machine.number));
            self.stats.lock().flips.count(format!("flips at two nodes: {said}"));
            if let Ok(view) = answer {
                granted = Some((machine, view));
                break;
            }
        }
        if granted.is_some() && must_wait {
            self.violation(format!("nodes {} and {} are off, and one has another disk", first.number, second.number));
        }
        let (waiting, why) = match &granted {
            Some((machine, _)) if machine.number == first.number => (second, &second_why),
            Some(_) | None => (first, &first_why),
        };
        match &granted {
            Some((machine, view)) => {
                if let Err(reason) = cluster::start_on_next_disk(&self.client, machine, view) {
                    self.violation(format!("node {} does not replace its disk: {reason}", machine.number));
                }
            }
            None => {
                second.put_disk(copy);
                self.starts(second);
            }
        }
        self.renews(waiting, why).await;
    }
}
