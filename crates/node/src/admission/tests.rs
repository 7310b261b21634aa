use std::collections::VecDeque;

use super::*;

/// A command that was read as it came, of a buyer who will be there for so long.
pub(super) fn patient(patience_ms: u64) -> CallTimes {
    CallTimes { unread_ms: 0, patience_ms }
}

/// A node with one processor that decides a number of commands a millisecond, in the order in which they came.
struct Node {
    admission: Admission,
    now_ms: u64,
    per_ms: usize,
    queue: VecDeque<Pass>,
    /// Decided commands, and when the disk will have them.
    written: VecDeque<(u64, Pass)>,
    disk_ms: u64,
    owed: f64,
    answered: u64,
    stays_ms: Vec<u64>,
    shed: [u64; Class::ALL.len()],
    retry_after_ms: u32,
    /// How long the buyers will be there.
    patience_ms: u64,
}

impl Node {
    fn new(per_ms: usize) -> Node {
        Node {
            admission: Admission::new(OverloadSettings::default(), 0),
            now_ms: 0,
            per_ms,
            queue: VecDeque::new(),
            written: VecDeque::new(),
            disk_ms: 0,
            owed: 0.0,
            answered: 0,
            stays_ms: Vec::new(),
            shed: Default::default(),
            retry_after_ms: 0,
            patience_ms: u64::MAX,
        }
    }

    fn arrive(&mut self, class: Option<Class>) {
        match self.admission.admit(class == Some(Class::Checkout), || class, patient(self.patience_ms), self.now_ms) {
            Ok(pass) => self.queue.push_back(pass),
            Err(retry_after_ms) => {
                self.shed[class.expect("only what has a class is shed") as usize] += 1;
                self.retry_after_ms = retry_after_ms;
            }
        }
    }

    /// Lets time pass while commands of this class come at a multiple of the capacity.
    fn load(&mut self, times: f64, class: Class, ms: u64) {
        for _ in 0..ms {
            self.owed += times * self.per_ms as f64;
            while self.owed >= 1.0 {
                self.owed -= 1.0;
                self.arrive(Some(class));
            }
            self.work();
        }
    }

    fn work(&mut self) {
        for _ in 0..self.per_ms {
            let Some(pass) = self.queue.pop_front() else { break };
            self.admission.taken(pass, self.now_ms);
            self.written.push_back((self.now_ms + self.disk_ms, pass));
        }
        while let Some((_, pass)) = self.written.pop_front_if(|(due_ms, _)| *due_ms <= self.now_ms) {
            self.admission.over(pass, true, self.now_ms);
            self.answered += 1;
            self.stays_ms.push(self.now_ms - pass.came_ms());
        }
        self.now_ms += 1;
    }

    fn forget(&mut self) {
        (self.answered, self.shed) = (0, Default::default());
        self.stays_ms.clear();
    }

    fn p99_ms(&mut self) -> u64 {
        self.stays_ms.sort_unstable();
        self.stays_ms[self.stays_ms.len() * 99 / 100]
    }
}

#[test]
fn a_short_burst_only_waits() {
    let mut node = Node::new(10);
    node.load(0.5, Class::Begin, 1_000);
    (0..4_000).for_each(|_| node.arrive(Some(Class::Begin)));
    node.load(0.1, Class::Begin, 2_000);
    assert_eq!(node.shed, [0; 4], "commands waited too long for less than half a second");
    node.load(2.0, Class::Begin, 400);
    node.load(0.0, Class::Begin, 1_000);
    assert_eq!(node.shed, [0; 4]);
}

#[test]
fn a_lasting_overload_is_shed_and_the_rest_is_answered_in_time() {
    for times in [1.5, 3.0, 10.0] {
        let mut node = Node::new(10);
        node.load(0.8, Class::Begin, 1_000);
        node.load(times, Class::Begin, 499);
        // Load that takes longer than half a second to answer is shed before that.
        assert!(node.shed == [0; 4] || times > 2.0, "{times}: nothing is shed in the first half second");
        node.load(times, Class::Begin, 4_000);
        node.forget();
        node.load(times, Class::Begin, 5_000);
        assert!(node.answered >= 49_000, "{times}: {} were answered in 5 s instead of 50 000", node.answered);
        assert!(node.p99_ms() <= 60, "{times}: an admitted command stayed for {} ms", node.p99_ms());
        assert!(node.queue.len() <= 1_000, "{times}: {} commands are under way", node.queue.len());
        node.load(0.5, Class::Begin, 1_000);
        node.forget();
        node.load(0.5, Class::Begin, 1_000);
        assert_eq!((node.shed, node.admission.is_shedding()), ([0; 4], false), "{times}: everything is as before");
        assert!(node.p99_ms() <= 2);
    }
}

#[test]
fn a_command_that_lay_unread_for_long_does_not_hide_newer_ones() {
    let fresh = Fresh::default();
    let now_ms = 100 * WINDOW_MS;
    fresh.add(now_ms);
    fresh.add(now_ms);
    for came_ms in (0..now_ms).step_by(usize::try_from(WINDOW_MS).expect("it is short")).take(92) {
        fresh.add(came_ms);
        fresh.remove(came_ms);
    }
    assert_eq!(fresh.count(now_ms), 2);
}

/// A connection's thread reads a number of commands a millisecond, and the node decides what it has read at once.
#[test]
fn commands_that_lie_unread_are_shed_as_those_that_wait() {
    for times in [1.5, 3.0] {
        let (mut node, mut unread, mut owed) = (Node::new(100), VecDeque::new(), 0.0);
        let (mut late, mut shed) = (0, 0);
        for now_ms in 0..10_000 {
            owed += if now_ms < 1_000 { 8.0 } else { times * 10.0 };
            while owed >= 1.0 {
                owed -= 1.0;
                unread.push_back(now_ms);
            }
            // Ten can be read whole, and refusing one takes a tenth of that.
            let mut left = 100;
            while left > 0
                && let Some(came_ms) = unread.pop_front()
            {
                match node.admission.admit(
                    false,
                    || Some(Class::Begin),
                    CallTimes { unread_ms: now_ms - came_ms, patience_ms: u64::MAX },
                    now_ms,
                ) {
                    Ok(pass) => {
                        left = i32::max(left - 10, 0);
                        late += u64::from(now_ms > 5_000 && now_ms - came_ms > 60);
                        node.queue.push_back(pass);
                    }
                    Err(_) => {
                        left -= 1;
                        shed += u64::from(now_ms > 5_000);
                    }
                }
            }
            node.work();
        }
        assert!(shed > 0, "{times}: nothing is shed");
        assert!(late < 500, "{times}: {late} commands lay unread for more than 60 ms in five seconds");
        node.forget();
        assert!(unread.len() < 1_000, "{times}: {} lie unread", unread.len());
    }
}

#[test]
fn begun_purchases_go_on_while_new_ones_are_shed() {
    let mut node = Node::new(10);
    for round in 0..8_000 {
        for _ in 0..30 {
            node.arrive(Some(Class::Begin));
            node.arrive(Some(Class::Read));
        }
        // Each of the classes has an eighth of the capacity. A release is never shed.
        if round % 4 == 0 {
            (0..5).for_each(|_| node.arrive(Some(Class::Hold)));
            (0..5).for_each(|_| node.arrive(Some(Class::Checkout)));
            (0..5).for_each(|_| node.arrive(None));
        }
        node.work();
        if round == 4_000 {
            node.forget();
        }
    }
    let [read, begin, hold, checkout] = node.shed;
    assert!(begin > 0 && read > begin, "reads are shed first: {:?}", node.shed);
    assert_eq!((hold, checkout), (0, 0), "carts that were begun go on");
}

#[test]
fn the_node_has_a_bound_that_needs_no_half_second() {
    let settings = OverloadSettings { under_way_max: 3, ..OverloadSettings::default() };
    let admission = Admission::new(settings, 0);
    let passes: Vec<Pass> =
        (0..3).filter_map(|_| admission.admit(false, || Some(Class::Hold), patient(u64::MAX), 5).ok()).collect();
    assert_eq!(passes.len(), 3);
    assert_eq!(admission.admit(false, || Some(Class::Hold), patient(u64::MAX), 5).map(|_| ()), Err(RETRY_MIN_MS));
    assert!(
        admission.admit(false, || None, patient(u64::MAX), 5).is_ok(),
        "what must not be shed is admitted beyond it"
    );
    assert_eq!(admission.shed_of(Class::Hold), 1);
    passes.into_iter().for_each(|pass| admission.over(pass, true, 6));
    assert!(admission.admit(false, || Some(Class::Read), patient(u64::MAX), 6).is_ok());
}

#[test]
fn checkouts_have_a_bound_of_their_own() {
    let settings = OverloadSettings { under_way_max: 3, ..OverloadSettings::default() };
    let admission = Admission::new(settings, 0);
    let held: Vec<Pass> =
        (0..3).filter_map(|_| admission.admit(false, || Some(Class::Hold), patient(u64::MAX), 5).ok()).collect();
    let buy = |now_ms| admission.admit(true, || Some(Class::Checkout), patient(u64::MAX), now_ms);
    let mut bought: Vec<Pass> = (0..3).filter_map(|_| buy(5).ok()).collect();
    assert_eq!((held.len(), bought.len()), (3, 3), "a node full of holds takes checkouts");
    // Checkouts that wait long for their gateway count as well.
    assert!(buy(5).is_err() && buy(5_000).is_err());
    admission.over(bought.pop().expect("three were admitted"), true, 5_000);
    assert!(buy(5_000).is_ok());
}

#[test]
fn a_checkout_that_waits_for_a_gateway_keeps_no_other_out() {
    let mut node = Node::new(10);
    node.load(0.5, Class::Checkout, 1_000);
    // As many checkouts as fit into the queue several times wait for their gateway for longer than all of this takes.
    let waiting: Vec<_> =
        (0..5_000).filter_map(|_| node.admission.admit(true, || None, patient(u64::MAX), node.now_ms).ok()).collect();
    node.load(3.0, Class::Begin, 5_000);
    node.forget();
    node.load(3.0, Class::Begin, 2_000);
    assert!(node.answered >= 19_000, "{} were answered in 2 s instead of 20 000", node.answered);
    waiting.into_iter().for_each(|pass| node.admission.over(pass, true, node.now_ms));
    assert_eq!(node.admission.fresh.count(node.now_ms + 2_000), 0);
}

#[test]
fn clients_are_told_to_wait_longer_the_more_are_shed() {
    let mut node = Node::new(10);
    node.load(1.2, Class::Begin, 6_000);
    assert!(node.retry_after_ms <= 2 * RETRY_MIN_MS, "{} ms for a small overload", node.retry_after_ms);
    node.load(10.0, Class::Begin, 3_000);
    assert!(node.retry_after_ms >= 1_000, "{} ms for a large one", node.retry_after_ms);
    node.load(0.0, Class::Begin, 3_000);
    node.load(3.0, Class::Begin, 2_000);
    let mut text = MetricsText::default();
    node.admission.write(&mut text);
    let text = text.finish();
    assert!(text.contains("boxoffice_shed_total{class=\"begin\"}") && text.contains("boxoffice_shedding 1"), "{text}");
}

#[test]
fn a_slow_disk_is_no_overload() {
    // Every answer takes 200 ms since the disk became slow, however many wait for it. Actors take commands at once.
    let admission = Admission::new(OverloadSettings::default(), 0);
    let mut under_way: VecDeque<Pass> = VecDeque::new();
    for now_ms in 0..20_000 {
        for _ in 0..2 {
            let pass =
                admission.admit(false, || Some(Class::Read), patient(u64::MAX), now_ms).expect("nothing is shed");
            admission.taken(pass, now_ms);
            under_way.push_back(pass);
        }
        let stay_ms = if now_ms < 2_000 { 5 } else { 200 };
        while under_way.front().is_some_and(|pass| pass.came_ms() + stay_ms <= now_ms) {
            admission.over(under_way.pop_front().expect("one is there"), true, now_ms);
        }
    }
}

#[test]
fn an_overload_on_a_slow_disk_is_shed_and_ends() {
    let mut node = Node::new(10);
    node.disk_ms = 200;
    node.load(0.5, Class::Begin, 4_000);
    assert_eq!(node.shed, [0; 4]);
    node.load(3.0, Class::Begin, 6_000);
    assert!(node.shed[Class::Begin as usize] > 0 && node.admission.is_shedding());
    node.load(0.5, Class::Begin, 4_000);
    node.forget();
    node.load(0.5, Class::Begin, 2_000);
    assert_eq!((node.shed, node.admission.is_shedding()), ([0; 4], false));
}

#[test]
fn a_queue_from_before_a_low_limit_does_not_count_as_usual() {
    let mut control = Control::new(&OverloadSettings::default(), 0);
    let seen = |answered: u64, stay_ms: u64, under_way: usize| Seen {
        decided: answered,
        waited_ms: answered * 5,
        answered,
        stayed_ms: answered * stay_ms,
        shed: 5_000,
        under_way,
    };
    // A crowd comes. The limit falls to its lowest while earlier commands are still answered, very late.
    let mut now_ms = 0;
    let mut turn = |seen: &Seen| {
        now_ms += 128;
        control.turn(seen, now_ms)
    };
    (0..6).for_each(|_| _ = turn(&seen(1_300, 600, 6_000)));
    let mut limit = turn(&seen(1_300, 400, 1_000)).limit;
    // From now on the node answers ten in a millisecond, so that as many as the limit stay for a tenth of it.
    let mut limits = Vec::new();
    for _ in 0..40 {
        limit = turn(&seen(1_300, 1 + limit as u64 / 10, limit)).limit;
        limits.push(limit);
    }
    assert!(limits.iter().all(|limit| *limit <= 300), "{limits:?}");
}

#[test]
fn the_checkout_of_a_cart_that_was_admitted_is_not_shed() {
    let mut node = Node::new(10);
    node.load(3.0, Class::Begin, 3_000);
    // All carts of the last minutes want to buy at once, more than the node answers in a second.
    node.forget();
    (0..15_000).for_each(|_| node.arrive(Some(Class::Checkout)));
    assert_eq!(node.shed, [0; 4]);
    // The bound of the node's memory remains.
    (0..15_000).for_each(|_| node.arrive(Some(Class::Checkout)));
    assert!(node.shed[Class::Checkout as usize] >= 13_000, "{:?}", node.shed);
}

#[test]
fn a_purchase_whose_buyer_would_be_gone_is_not_begun_while_the_node_sheds() {
    let mut node = Node::new(10);
    let purchase = |node: &Node, number: u128| {
        let (hold, checkout) = (PurchaseStep::sample(number, false), PurchaseStep::sample(number, true));
        let mut purchases = node.admission.purchases.lock();
        let now_ms = node.now_ms;
        purchases.begin(hold, now_ms - 300);
        purchases.end(hold, true, now_ms - 200);
        purchases.begin(checkout, now_ms - 100);
        purchases.end(checkout, true, now_ms);
    };
    node.load(0.5, Class::Begin, 1_000);
    (0..100).for_each(|number| purchase(&node, number));
    node.patience_ms = 10;
    node.load(0.5, Class::Begin, 1_000);
    assert_eq!(node.shed, [0; 4], "a quiet node begins what comes");
    node.patience_ms = u64::MAX;
    node.load(3.0, Class::Begin, 3_000);
    (0..100).for_each(|number| purchase(&node, number));
    node.load(3.0, Class::Begin, 200);
    // Purchases took 300 ms. A bucket of times ends at most a quarter later.
    for (patience_ms, begins) in [(250, false), (299, false), (400, true)] {
        node.patience_ms = patience_ms;
        node.load(0.5, Class::Begin, 50);
        node.forget();
        node.load(0.5, Class::Begin, 100);
        assert_eq!(node.shed[Class::Begin as usize] == 0, begins, "{patience_ms}: {:?}", node.shed);
        assert!(node.admission.is_shedding());
        let begun = || Some(Class::Hold);
        assert!(
            node.admission.admit(false, begun, patient(patience_ms), node.now_ms).is_ok(),
            "what was begun goes on"
        );
    }
}

#[test]
fn inputs_are_decided_where_they_come_only_while_the_thread_is_at_hand() {
    let admission = Admission::new(OverloadSettings { target_ms: 50, ..OverloadSettings::default() }, 1_000);
    assert!(admission.may_decide_here(1_000));
    // The first of two batches waits for 9 ms, then for 10.
    admission.batch_waits(1_000);
    admission.batch_waits(1_008);
    assert!(admission.may_decide_here(1_009));
    assert!(!admission.may_decide_here(1_010));
    admission.batch_taken(true, 1_010);
    assert!(!admission.may_decide_here(1_010), "what is told now waits as long");
    admission.batch_taken(false, 1_012);
    assert!(admission.may_decide_here(1_012), "the second one was taken soon");
    // A long wait counts for a while.
    admission.batch_waits(2_000);
    admission.batch_taken(false, 2_040);
    assert!(!admission.may_decide_here(2_040 + WINDOW_MS));
    assert!(admission.may_decide_here(2_041 + WINDOW_MS));
}

#[test]
fn a_node_that_sheds_decides_nothing_where_it_comes() {
    let mut node = Node::new(10);
    node.load(3.0, Class::Begin, 2_000);
    assert!(node.admission.is_shedding() && !node.admission.may_decide_here(node.now_ms));
    node.load(0.2, Class::Begin, 3_000);
    assert!(node.admission.may_decide_here(node.now_ms));
}
