//! Who ends when a port is full.

use std::{net::IpAddr, time::Duration};

use boxoffice_core::id::CartToken;

use super::*;

fn network(number: u32) -> Option<ClientNetwork> {
    Some(ClientNetwork::of(IpAddr::from(number.to_be_bytes())))
}

/// A port and its connections.
struct Port {
    roster: Arc<Roster>,
    room: usize,
    places: BTreeMap<u64, (u32, Place)>,
    next: u64,
    now: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Silent,
    Plain,
    Feed,
    Cart,
}

impl Port {
    fn new(room: usize) -> Port {
        Port { roster: Arc::new(Roster::new(room)), room, places: BTreeMap::new(), next: 0, now: Instant::now() }
    }

    /// A connection of a network comes. Returns whether it is let in.
    fn comes(&mut self, of: u32, what: What) -> bool {
        self.now += Duration::from_millis(1);
        if self.places.len() == self.room && !self.roster.make_room(network(of), Silence::Long, self.now) {
            return false;
        }
        self.places.retain(|_, (_, place)| !place.end.is_ended.load(Ordering::Relaxed));
        let place = self.roster.enter(network(of), self.now);
        match what {
            What::Silent => {}
            What::Plain => place.spoke(),
            What::Feed => place.set_feeds(true),
            What::Cart => place.set_cart(CartToken(7).cart(), Some(self.now + Duration::from_secs(900))),
        }
        self.places.insert(self.next, (of, place));
        self.next += 1;
        assert!(self.places.len() <= self.room, "one has gone for each that came");
        true
    }

    fn count(&self, of: u32) -> usize {
        self.places.values().filter(|(network, _)| *network == of).count()
    }
}

/// N networks that come again and again leave 1/(N + 1) of the port to one other network, and all of it that they need to many
/// others, whatever their connections are.
#[test]
fn attackers_leave_a_share_to_others() {
    for what in [What::Silent, What::Plain, What::Feed, What::Cart] {
        for attackers in [1, 2, 4, 10] {
            let (room, mut port) = (110, Port::new(110));
            while port.places.len() < room {
                port.comes(port.places.len() as u32 % attackers, what);
            }
            for round in 0..200 {
                (0..attackers).for_each(|of| _ = port.comes(of, what));
                port.comes(1_000, if round % 2 == 0 { What::Feed } else { What::Plain });
            }
            let share = room / (attackers as usize + 1);
            assert!(port.count(1_000) >= share, "{} of {share} beside {attackers}", port.count(1_000));
            // Each of many others comes in at once, and stays.
            for of in 2_000..2_000 + share as u32 / 2 {
                assert!(port.comes(of, What::Cart), "beside {attackers}");
            }
            (0..attackers).for_each(|of| _ = port.comes(of, what));
            assert!((2_000..2_000 + share as u32 / 2).all(|of| port.count(of) == 1));
        }
    }
}

/// Attackers of different sizes take no more together.
#[test]
fn attackers_of_any_sizes_leave_a_share_to_others() {
    for sizes in [[60, 40, 20, 0], [30, 30, 30, 30], [118, 1, 1, 0], [90, 10, 10, 10]] {
        let (room, mut port) = (120, Port::new(120));
        for (of, size) in (0..).zip(sizes) {
            (0..size).for_each(|_| assert!(port.comes(of, What::Feed)));
        }
        assert_eq!(port.places.len(), room);
        let attackers = sizes.iter().filter(|size| **size > 0).count();
        (0..room as u32).for_each(|_| _ = port.comes(1_000, What::Feed));
        assert!(port.count(1_000) >= room / (attackers + 1), "{sizes:?}: {}", port.count(1_000));
    }
}

/// Within its network's share no connection with a feed or an open cart ends, whoever comes.
#[test]
fn a_network_keeps_its_share() {
    for what in [What::Feed, What::Cart] {
        let mut port = Port::new(100);
        (0..50).for_each(|_| assert!(port.comes(1, what)));
        (0..50).for_each(|_| assert!(port.comes(1, What::Plain)));
        for of in 1_000..1_500 {
            port.comes(of, What::Plain);
        }
        assert_eq!(port.count(1), 50, "its plain ones have gone, and no other");
        assert!((1_000..1_050).all(|of| port.count(of) == 1));
    }
    // Its own newcomers do not push them out either.
    let mut port = Port::new(10);
    (0..10).for_each(|_| assert!(port.comes(1, What::Cart)));
    assert!(!port.comes(1, What::Plain));
}

#[test]
fn silent_ones_go_first_and_the_oldest_of_them() {
    let mut port = Port::new(10);
    (0..4).for_each(|_| assert!(port.comes(1, What::Plain)));
    (0..3).for_each(|_| assert!(port.comes(2, What::Silent)));
    (0..3).for_each(|_| assert!(port.comes(1, What::Silent)));
    port.now += SILENCE;
    // Network 1 has most, and its silent ones go before its others.
    for left in [6, 5, 4] {
        assert!(port.comes(3, What::Plain));
        assert_eq!(port.count(1), left);
    }
    assert!(port.comes(4, What::Plain));
    assert_eq!((port.count(1), port.count(2)), (4, 2), "a silent one goes before one that has spoken");
    assert!(port.places.keys().all(|number| *number != 4), "the oldest");
    // A network takes the place of its own silent ones, and not of a smaller network's.
    let mut port = Port::new(4);
    (0..3).for_each(|_| assert!(port.comes(1, What::Silent)));
    assert!(port.comes(2, What::Silent));
    assert!(!port.comes(2, What::Plain) || port.count(2) == 2);
    port.now += SILENCE;
    assert!(port.comes(1, What::Plain));
    assert_eq!(port.count(1), 4 - port.count(2));
}

/// Connections of many networks with one each are not exchanged for each other.
#[test]
fn an_honest_crowd_stays() {
    let mut port = Port::new(100);
    (0..100).for_each(|of| assert!(port.comes(of, What::Plain)));
    (100..200).for_each(|of| assert!(!port.comes(of, What::Plain)));
    assert!((0..100).all(|of| port.count(of) == 1));
}

/// A cart that has expired keeps nothing, nor one that has ended.
#[test]
fn a_cart_counts_as_long_as_it_is_open() {
    let mut port = Port::new(10);
    (0..10).for_each(|_| assert!(port.comes(1, What::Cart)));
    let cart = CartToken(7).cart();
    for (_, place) in port.places.values() {
        place.set_cart(cart, None);
    }
    (0..9).for_each(|of| assert!(port.comes(10 + of, What::Cart)));
    let mut port = Port::new(10);
    (0..10).for_each(|_| assert!(port.comes(1, What::Cart)));
    port.now += Duration::from_secs(1_000);
    (0..9).for_each(|of| assert!(port.comes(10 + of, What::Cart)));
}

#[test]
fn staff_and_proxies_end_for_nobody() {
    let mut port = Port::new(10);
    (0..10).for_each(|_| assert!(port.comes(1, What::Silent)));
    port.places.values().for_each(|(_, place)| place.set_network(None));
    port.now += SILENCE;
    assert!(!port.comes(2, What::Plain));
    port.places.values().for_each(|(_, place)| place.set_network(network(1)));
    assert!(port.comes(2, What::Plain), "a stranger shows no key any more");
    port.places.clear();
    let state = port.roster.state.lock();
    assert!(state.networks.is_empty() && state.by_count.is_empty(), "nothing is left behind");
}
