//! The lock-free parts of the node, of its feeds and of replication, in every order of a model of weak memory (loom).

// The code under test is compiled with `sync` in the place of the module of that name beside it.
#[path = "../../../replication/src/queue.rs"]
mod queue;
#[path = "../../../feeds/src/ready.rs"]
mod ready;
#[path = "../../src/state_slot.rs"]
mod state_slot;
mod sync;
#[expect(dead_code, reason = "the models leave out what only the actor calls")]
#[path = "../../src/under_way.rs"]
mod under_way;

mod actors;
mod queues;
mod ready_flags;

/// Explores every order of the threads with up to three preemptions.
fn explore(story: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(story);
}
