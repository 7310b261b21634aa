//! A model of the links between nodes, with delay, loss, duplication and cuts. It is pure: time and randomness are
//! parameters.
//!
//! Frames of the first lane (consensus) are lost, duplicated and reordered one by one. The other lanes are connections.
//! Their frames arrive in order, and a cut loses all of them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand::{Rng, rngs::SmallRng};

/// A node's number.
pub type NodeId = u64;

/// The lane of independent frames.
pub const LOOSE_LANE: u8 = 0;

/// The faults of all links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFaults {
    /// The shortest delay of a frame, in microseconds.
    pub delay_us: u64,
    /// The longest additional delay, in microseconds.
    pub jitter_us: u64,
    /// Lost loose frames of a thousand.
    pub lost_permille: u32,
    /// Duplicated loose frames of a thousand.
    pub twice_permille: u32,
}

/// A frame with its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub from: NodeId,
    pub to: NodeId,
    pub lane: u8,
    pub frame: Bytes,
}

/// All links and the frames under way.
#[derive(Default)]
pub struct LinkModel {
    link_faults: LinkFaults,
    /// Additional delays of single directions, in microseconds.
    slow: BTreeMap<(NodeId, NodeId), u64>,
    /// Interrupted directions.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// By arrival, then in the order of sending.
    under_way: BTreeMap<(u64, u64), Delivery>,
    /// The arrival of the last frame of an ordered lane.
    last_us: BTreeMap<(NodeId, NodeId, u8), u64>,
    sent: u64,
    lost: u64,
}

impl LinkModel {
    /// Sets the faults of all links.
    pub fn set_link_faults(&mut self, link_faults: LinkFaults) {
        self.link_faults = link_faults;
    }

    /// Sets the additional delay of a direction. 0 ends it.
    pub fn set_slow(&mut self, from: NodeId, to: NodeId, more_us: u64) {
        match more_us {
            0 => _ = self.slow.remove(&(from, to)),
            _ => _ = self.slow.insert((from, to), more_us),
        }
    }

    /// Interrupts a direction and loses its frames under way. `true` if it was open.
    pub fn cut(&mut self, from: NodeId, to: NodeId) -> bool {
        self.drain(from, to);
        self.cut.insert((from, to))
    }

    /// Loses the frames under way in a direction.
    pub fn drain(&mut self, from: NodeId, to: NodeId) {
        self.under_way.retain(|_, delivery| (delivery.from, delivery.to) != (from, to));
        self.last_us.retain(|&(one, other, _), _| (one, other) != (from, to));
    }

    /// Opens a direction again. `true` if it was interrupted.
    pub fn mend(&mut self, from: NodeId, to: NodeId) -> bool {
        self.cut.remove(&(from, to))
    }

    /// Ends all cuts and additional delays.
    pub fn mend_all(&mut self) {
        self.cut.clear();
        self.slow.clear();
    }

    /// Whether frames pass in a direction.
    pub fn is_open(&self, from: NodeId, to: NodeId) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// Ends a node and loses the frames under way to it and from it.
    pub fn end(&mut self, node: NodeId) {
        self.under_way.retain(|_, delivery| delivery.from != node && delivery.to != node);
        self.last_us.retain(|&(one, other, _), _| one != node && other != node);
    }

    /// Ends a killed node and loses the frames under way to it. Its own frames arrive.
    pub fn end_of_receiver(&mut self, node: NodeId) {
        self.under_way.retain(|_, delivery| delivery.to != node);
        self.last_us.retain(|&(_, other, _), _| other != node);
    }

    /// Whether a frame is under way in a direction.
    pub fn is_under_way(&self, from: NodeId, to: NodeId) -> bool {
        self.under_way.values().any(|delivery| (delivery.from, delivery.to) == (from, to))
    }

    /// Sends a frame at `now_us`.
    pub fn send(&mut self, rng: &mut SmallRng, now_us: u64, delivery: Delivery) {
        let (from, to) = (delivery.from, delivery.to);
        if !self.is_open(from, to) {
            self.lost += 1;
            return;
        }
        let loose = delivery.lane == LOOSE_LANE;
        if loose && rng.random_range(0..1_000) < self.link_faults.lost_permille {
            self.lost += 1;
            return;
        }
        if loose && rng.random_range(0..1_000) < self.link_faults.twice_permille {
            self.put(rng, now_us, delivery.clone());
        }
        self.put(rng, now_us, delivery);
    }

    fn put(&mut self, rng: &mut SmallRng, now_us: u64, delivery: Delivery) {
        let LinkFaults { delay_us, jitter_us, .. } = self.link_faults;
        let slow_us = self.slow.get(&(delivery.from, delivery.to)).copied().unwrap_or(0);
        let mut at_us = now_us + delay_us + rng.random_range(0..=jitter_us) + slow_us;
        if delivery.lane != LOOSE_LANE {
            let last = self.last_us.entry((delivery.from, delivery.to, delivery.lane)).or_default();
            at_us = at_us.max(*last);
            *last = at_us;
        }
        self.sent += 1;
        self.under_way.insert((at_us, self.sent), delivery);
    }

    /// The frames that have arrived by `now_us`, in order.
    pub fn arrived(&mut self, now_us: u64) -> Vec<Delivery> {
        let mut arrived = Vec::new();
        while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= now_us) {
            arrived.push(first.remove());
        }
        arrived
    }

    /// The arrival of the next frame, in microseconds.
    pub fn next_us(&self) -> Option<u64> {
        self.under_way.first_key_value().map(|((at_us, _), _)| *at_us)
    }

    /// Frames lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use crate::rng::rng;

    use super::*;

    fn frame(lane: u8, number: u8) -> Delivery {
        Delivery { from: 1, to: 2, lane, frame: Bytes::copy_from_slice(&[number]) }
    }

    fn numbers(arrived: Vec<Delivery>) -> Vec<u8> {
        arrived.into_iter().map(|delivery| delivery.frame[0]).collect()
    }

    #[test]
    fn connections_keep_their_order_and_loose_frames_do_not() {
        let (mut link_model, mut rng) = (LinkModel::default(), rng(1, "fabric", 0));
        link_model.set_link_faults(LinkFaults { delay_us: 100, jitter_us: 10_000, ..LinkFaults::default() });
        for number in 0..50 {
            link_model.send(&mut rng, u64::from(number), frame(1, number));
            link_model.send(&mut rng, u64::from(number), frame(LOOSE_LANE, number));
        }
        let arrived = link_model.arrived(20_000);
        let of = |lane| numbers(arrived.iter().filter(|delivery| delivery.lane == lane).cloned().collect());
        assert!(of(1).is_sorted() && of(1).len() == 50);
        assert!(!of(LOOSE_LANE).is_sorted() && of(LOOSE_LANE).len() == 50);
        assert_eq!(link_model.next_us(), None);
    }

    #[test]
    fn only_loose_frames_get_lost_and_come_twice() {
        let (mut link_model, mut rng) = (LinkModel::default(), rng(2, "fabric", 0));
        link_model.set_link_faults(LinkFaults { lost_permille: 300, twice_permille: 50, ..LinkFaults::default() });
        for _ in 0..1_000 {
            link_model.send(&mut rng, 0, frame(LOOSE_LANE, 0));
            link_model.send(&mut rng, 0, frame(2, 2));
        }
        let arrived = numbers(link_model.arrived(1));
        assert_eq!(arrived.iter().filter(|&&number| number == 2).count(), 1_000);
        let loose = 1_000 - link_model.lost();
        assert!((650..750).contains(&loose), "{loose}");
        assert!(arrived.len() as u64 > 1_000 + loose);
    }

    #[test]
    fn a_cut_interrupts_one_direction_and_loses_frames_under_way() {
        let (mut link_model, mut rng) = (LinkModel::default(), rng(3, "fabric", 0));
        link_model.send(&mut rng, 0, frame(1, 1));
        assert!(link_model.cut(1, 2) && !link_model.cut(1, 2));
        link_model.send(&mut rng, 0, frame(1, 2));
        link_model.send(&mut rng, 0, Delivery { from: 2, to: 1, ..frame(1, 3) });
        assert_eq!(numbers(link_model.arrived(0)), [3]);
        assert!(link_model.mend(1, 2));
        link_model.set_slow(1, 2, 5_000);
        link_model.send(&mut rng, 0, frame(1, 4));
        assert_eq!(link_model.next_us(), Some(5_000));
        link_model.end(2);
        assert_eq!(link_model.next_us(), None);
    }
}
