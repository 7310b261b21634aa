//! An actor that leaves its entity, or restarts it, loses no message, has nothing in flight, and finishes. Several actors decide
//! on an entity one at a time, in the order of its messages.

use std::collections::VecDeque;

use crate::{
    explore,
    state_slot::{Closed, PutBack, StateSlot, Take},
    sync::{Arc, AtomicU64, Mutex, Ordering},
    under_way::UnderWay,
};

/// A message to an actor.
#[derive(Debug, PartialEq)]
enum Letter {
    Input(u32),
    Leave,
    Back,
}

/// An entity with its actor, mailbox, counts and state. The state is the list of decided inputs.
struct Entity {
    has_actor: Mutex<bool>,
    mail: Mutex<VecDeque<Letter>>,
    slot: StateSlot<Vec<u32>>,
    under_way: UnderWay,
    applied: AtomicU64,
    /// The state at the time the actor left it.
    left: Mutex<Option<Vec<u32>>>,
}

/// Messages that the actor had to put aside, because another actor had the state.
type Held = VecDeque<Letter>;

impl Entity {
    fn new(in_flight: usize) -> Arc<Entity> {
        let under_way = UnderWay::default();
        (0..in_flight).for_each(|_| under_way.turn_proposed());
        Arc::new(Entity {
            has_actor: Mutex::new(true),
            mail: Mutex::new(VecDeque::new()),
            slot: StateSlot::new(Vec::new()),
            under_way,
            applied: AtomicU64::new(0),
            left: Mutex::new(None),
        })
    }

    fn post(&self, letter: Letter) {
        self.mail.lock().push_back(letter);
    }

    /// Sends to the actor, or to the next one if this one has left. Returns whether it was this one.
    fn send(&self, input: u32) -> bool {
        let has_actor = self.has_actor.lock();
        if *has_actor {
            self.under_way.message_sent();
            self.post(Letter::Input(input));
        }
        *has_actor
    }

    /// Decides where the input comes, which is allowed if nothing waits for the entity.
    fn decide_beside(&self, input: u32) -> bool {
        let has_actor = self.has_actor.lock();
        if *has_actor
            && self.under_way.has_no_messages()
            && let Some(mut state) = self.slot.borrow_if(|_| true)
        {
            drop(has_actor);
            state.push(input);
            if let Some(state) = self.leaves(state) {
                self.put_back(state);
            }
            return true;
        }
        drop(has_actor);
        self.send(input)
    }

    fn put_back(&self, state: Vec<u32>) {
        match self.slot.put_back(state) {
            PutBack::Present => {}
            PutBack::Wanted => self.post(Letter::Back),
            PutBack::Closed(_) => panic!("the slot was closed while an actor had the state"),
        }
    }

    /// The relay settles one turn of an entity that restarts. No other actor may decide on it.
    fn applied_and_settled(&self) {
        self.applied.fetch_add(1, Ordering::Relaxed);
        if self.under_way.turn_applied() {
            self.post(Letter::Leave);
        }
    }

    /// The relay settles one turn.
    fn settle(&self) {
        // Applied by another thread. The state from which the actor restarts must have it.
        self.applied.fetch_add(1, Ordering::Relaxed);
        if !self.under_way.turn_applied() {
            return;
        }
        match self.slot.borrow_if(|_| true) {
            Some(state) => {
                if let Some(state) = self.leaves(state) {
                    self.put_back(state);
                }
            }
            None => self.post(Letter::Leave),
        }
    }

    /// The actor that has the state leaves the entity if nothing is under way. Otherwise it gets the state back.
    fn leaves(&self, state: Vec<u32>) -> Option<Vec<u32>> {
        let _ = self.under_way.wait_for_turns();
        let mut has_actor = self.has_actor.lock();
        if !self.under_way.is_idle() {
            return Some(state);
        }
        *has_actor = false;
        drop(has_actor);
        *self.left.lock() = Some(state);
        if let Closed::Wanted = self.slot.close() {
            self.post(Letter::Back);
        }
        None
    }

    /// Handles the mailbox until it is empty.
    fn work(&self, held: &mut Held) {
        loop {
            let Some(letter) = self.mail.lock().pop_front() else { return };
            match letter {
                Letter::Back => {
                    for letter in std::mem::take(held) {
                        self.read(letter, held);
                    }
                }
                letter => self.read(letter, held),
            }
        }
    }

    fn read(&self, letter: Letter, held: &mut Held) {
        if !held.is_empty() {
            return held.push_back(letter);
        }
        let mut state = match self.slot.take() {
            Take::State(state) => state,
            Take::InUse => return held.push_back(letter),
            Take::Closed => return assert_eq!(letter, Letter::Leave, "a message reached an entity without an actor"),
        };
        if let Letter::Input(input) = letter {
            self.under_way.message_taken();
            state.push(input);
        }
        if let Some(state) = self.leaves(state) {
            self.put_back(state);
        }
    }
}

#[test]
fn an_actor_leaves_an_ended_entity_without_losing_a_message() {
    explore(|| {
        let entity = Entity::new(1);
        let relay = {
            let entity = Arc::clone(&entity);
            loom::thread::spawn(move || entity.settle())
        };
        let sender = {
            let entity = Arc::clone(&entity);
            loom::thread::spawn(move || entity.send(1))
        };
        let mut held = Held::new();
        entity.post(Letter::Leave);
        entity.work(&mut held);
        relay.join().expect("it settles");
        let sent = sender.join().expect("it sends");
        entity.work(&mut held);
        assert!(held.is_empty(), "no message makes the actor continue: {held:?}");
        assert!(!*entity.has_actor.lock(), "no actor leaves it");
        assert_eq!(entity.left.lock().take(), Some(if sent { vec![1] } else { vec![] }));
    });
}

#[test]
fn decisions_beside_the_mailbox_are_in_order_and_once() {
    explore(|| {
        let entity = Entity::new(1);
        let sender = {
            let entity = Arc::clone(&entity);
            loom::thread::spawn(move || {
                // The second message was sent after the first, and must not be decided before it.
                assert!(entity.send(1));
                assert!(entity.decide_beside(2));
            })
        };
        let other = {
            let entity = Arc::clone(&entity);
            loom::thread::spawn(move || assert!(entity.decide_beside(3)))
        };
        let mut held = Held::new();
        entity.work(&mut held);
        sender.join().expect("it sends");
        other.join().expect("it decides");
        entity.work(&mut held);
        entity.settle();
        entity.work(&mut held);
        assert!(held.is_empty(), "no message makes the actor continue: {held:?}");
        let decided = entity.left.lock().take().expect("it is left");
        let place = |input| decided.iter().position(|decided| *decided == input).expect("it is decided");
        assert!(decided.len() == 3 && place(1) < place(2) && place(3) < 3, "{decided:?}");
    });
}

#[test]
fn an_actor_that_restarts_has_everything_that_was_applied() {
    explore(|| {
        let entity = Entity::new(2);
        let relays: Vec<_> = (0..2)
            .map(|_| {
                let entity = Arc::clone(&entity);
                loom::thread::spawn(move || entity.applied_and_settled())
            })
            .collect();
        let begins = |entity: &Entity| {
            let begins = entity.under_way.wait_for_turns();
            if begins {
                assert_eq!(entity.applied.load(Ordering::Relaxed), 2, "the actor restarts from an outdated state");
            }
            begins
        };
        let mut begun = begins(&entity);
        relays.into_iter().for_each(|relay| relay.join().expect("it settles"));
        while !begun {
            assert!(entity.mail.lock().pop_front().is_some(), "no message makes it restart");
            begun = begins(&entity);
        }
    });
}
