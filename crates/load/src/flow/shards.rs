//! Which shards took part in the requests of a flow.

use boxoffice_client::{CartId, Entity};
use boxoffice_workload::history::Span;

use super::Flow;
use crate::run_context::RunContext;

impl Flow {
    /// The shard and the time of each success of the flow. A command that several shards took part in is a success of
    /// each.
    pub(super) fn successes(&self, context: &RunContext) -> Vec<(u16, Span)> {
        let mut successes = Vec::new();
        let record = &self.record;
        let cart = shard_of_cart(context, record.cart);
        if let Some(span) = self.opened
            // Without a version and without a hold, the cart was not opened.
            && !(record.versions.is_empty() && record.holds.is_empty())
        {
            successes.push((cart, span));
        }
        for hold in record.holds.iter().filter(|hold| hold.outcome.granted().is_some()) {
            successes.push((cart, hold.span));
            successes.extend(shard_of_session(context, hold.session).map(|shard| (shard, hold.span)));
        }
        for take in record.goods_holds.iter().filter(|take| take.outcome.granted().is_some()) {
            successes.push((cart, take.span));
            successes.push((context.live_stats.shard_of(&context.goods.entity(take.good)), take.span));
        }
        for change in self.changes.iter().filter(|change| change.outcome.granted().is_some()) {
            successes.push((shard_of_resource(context, change.resource), change.span));
        }
        if let Some(checkout) = &record.checkout
            && checkout.outcome.granted().is_some()
        {
            successes.push((cart, checkout.span));
        }
        successes
    }

    /// The shards that the flow's requests went to, with repetitions.
    pub(crate) fn shards(&self, context: &RunContext) -> Vec<u16> {
        let record = &self.record;
        let sessions = record.holds.iter().filter_map(|hold| shard_of_session(context, hold.session));
        let goods = record.goods_holds.iter().map(|take| context.live_stats.shard_of(&context.goods.entity(take.good)));
        let resources = self.changes.iter().map(|change| shard_of_resource(context, change.resource));
        let mut shards: Vec<u16> = sessions.chain(goods).chain(resources).collect();
        if self.changes.is_empty() {
            shards.push(shard_of_cart(context, record.cart));
        }
        shards
    }
}

fn shard_of_cart(context: &RunContext, cart: CartId) -> u16 {
    context.live_stats.shard_of(&Entity::Cart(cart))
}

fn shard_of_session(context: &RunContext, session: u32) -> Option<u16> {
    let house = context.picker.as_ref()?.house();
    Some(context.live_stats.shard_of(&Entity::Session(house.session_id(session))))
}

fn shard_of_resource(context: &RunContext, resource: u32) -> u16 {
    context.live_stats.shard_of(&Entity::Resource(context.goods.resource_id(resource)))
}
