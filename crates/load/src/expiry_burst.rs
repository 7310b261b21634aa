//! An expiry burst: carts with one unit each that their clients abandon, with deadlines close together. The generator
//! observes when each hold becomes free again.

use std::time::{Duration, Instant};

use boxoffice_client::{Cart, Client, Timestamp};
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Good,
    history::{CartRecord, GoodsHoldRecord, Outcome, Span},
};

use crate::{
    LoadError,
    clock::now_ms,
    connection_pool::ConnectionPool,
    flow::{Flow, FlowOutcome},
    progress::Progress,
    report::{ExpiryBurst, Latency},
    run_context::RunContext,
    scenario::ExpiryBurstSpec,
};

/// Carts that are opened at the same time on each connection.
const UNDER_WAY: usize = 64;

/// The flow group of the burst's carts. No other flow is in it.
const GROUP: u32 = u32::MAX;

/// The most that two clock readings of one machine may differ, in milliseconds. A hold that becomes free earlier than
/// this before its deadline was freed too early.
const CLOCK_MS: u64 = 250;

/// Carts that are open and abandoned.
pub(crate) struct OpenedCarts {
    /// The records of their clients.
    pub(crate) carts: Vec<CartRecord>,
    /// Ascending deadlines by product, by the server's clock.
    deadlines: Vec<Vec<u64>>,
    opened_s: f64,
    /// The server's clock minus this machine's, in milliseconds.
    offset_ms: i64,
    first_ms: u64,
    last_ms: u64,
}

/// Opens all carts with deadlines within the window, and waits until the other flows are to start.
pub(crate) async fn open_carts(
    connections: &ConnectionPool,
    context: &RunContext,
    spec: &ExpiryBurstSpec,
    progress: &Progress,
) -> Result<OpenedCarts, LoadError> {
    let begun = Instant::now();
    let asked_ms = now_ms();
    let offset_ms = connections.server_time_ms().await? as i64 - ((asked_ms + now_ms()) / 2) as i64;
    let server_now = || now_ms().saturating_add_signed(offset_ms);
    let first_ms = server_now() + spec.lead_ms;
    progress.begin("carts", spec.carts.into());

    let carts = connections.for_each(0..spec.carts, UNDER_WAY, async |client, index| {
        let deadline_ms = first_ms + u64::from(index) * spec.window_ms / u64::from(spec.carts);
        let left_ms = deadline_ms.saturating_sub(server_now());
        if left_ms == 0 {
            return Err(format!(
                "only {index} of {} carts were open at the first deadline; raise storm.lead_ms",
                spec.carts
            ));
        }
        let record = open_one(client, context, spec, index, left_ms).await?;
        progress.add(1);
        Ok(record)
    });
    let carts: Vec<CartRecord> = carts.await.map_err(|why| LoadError::Setup { what: "expiry burst", why })?;
    let mut opened = OpenedCarts {
        deadlines: vec![Vec::new(); spec.products as usize],
        opened_s: begun.elapsed().as_secs_f64(),
        offset_ms,
        first_ms: u64::MAX,
        last_ms: 0,
        carts,
    };
    opened.sort_deadlines(context, spec);
    let start_ms = opened.first_ms.saturating_sub(spec.before_ms);
    tokio::time::sleep(Duration::from_millis(start_ms.saturating_sub(server_now()))).await;
    Ok(opened)
}

async fn open_one(
    client: &Client,
    context: &RunContext,
    spec: &ExpiryBurstSpec,
    index: u32,
    ttl_ms: u64,
) -> Result<CartRecord, String> {
    let product = product_of(context, spec, index);
    let token = context.token_beside(FlowNumber { group: GROUP, index }, &context.goods.entity(Good::Product(product)));
    let cart = Cart::with_token(client, token);
    let mut record = CartRecord::new(cart.id());
    let opened = cart.open(None, Some(ttl_ms)).await.map_err(|error| error.to_string())?;
    let held = cart.hold_stock(&context.goods.product_id(product), 1).await.map_err(|error| error.to_string())?;
    let cart_is = boxoffice_client::Entity::Cart(cart.id());
    let versions = opened.at.iter().chain(&held.at).filter(|at| at.entity == cart_is);
    record.versions.extend(versions.map(|at| at.version));
    record.goods_holds.push(GoodsHoldRecord {
        good: Good::Product(product),
        quantity: 1,
        span: Span::default(),
        outcome: Outcome::Granted(held.value.deadline),
    });
    Ok(record)
}

/// The burst's products come after those that other flows buy.
fn product_of(context: &RunContext, spec: &ExpiryBurstSpec, index: u32) -> u32 {
    context.goods.products - spec.products + index % spec.products
}

impl OpenedCarts {
    fn sort_deadlines(&mut self, context: &RunContext, spec: &ExpiryBurstSpec) {
        let first_product = context.goods.products - spec.products;
        for take in self.carts.iter().flat_map(|cart| &cart.goods_holds) {
            if let (Good::Product(product), Outcome::Granted(Timestamp(ms))) = (take.good, take.outcome) {
                self.deadlines[(product - first_product) as usize].push(ms);
                (self.first_ms, self.last_ms) = (self.first_ms.min(ms), self.last_ms.max(ms));
            }
        }
        for deadlines in &mut self.deadlines {
            deadlines.sort_unstable();
        }
    }
}

/// The expiries as a client observed them.
pub(crate) struct ObservedExpiries {
    /// The delay from each hold's deadline until it was observed free, in microseconds.
    late_us: Vec<u64>,
    left: u64,
    /// Holds that became free before their deadlines, as text.
    pub(crate) early: Vec<String>,
    /// When the last hold was observed free, in microseconds since the run's start.
    over_us: u64,
}

/// Polls the counts of the burst's products until all holds are free or the scenario's patience ends.
pub(crate) async fn observe(
    connections: &ConnectionPool,
    context: &RunContext,
    spec: &ExpiryBurstSpec,
    opened: &OpenedCarts,
) -> Result<ObservedExpiries, LoadError> {
    let server_now = || now_ms().saturating_add_signed(opened.offset_ms);
    let mut freed = vec![0usize; opened.deadlines.len()];
    let mut observed =
        ObservedExpiries { late_us: Vec::new(), left: opened.carts.len() as u64, early: Vec::new(), over_us: 0 };
    loop {
        let round = Instant::now();
        let asked = opened.deadlines.iter().enumerate().map(|(index, _)| {
            let product = context.goods.products - spec.products + index as u32;
            let (client, id) = (connections.client().clone(), context.goods.product_id(product));
            async move { client.product_get(&id).await.map(|reply| (reply.value.counts.held, now_ms())) }
        });
        for (index, answer) in futures_util::future::join_all(asked).await.into_iter().enumerate() {
            // A count without an answer is read again in the next round.
            let Ok((held, at_ms)) = answer else { continue };
            let deadlines = &opened.deadlines[index];
            let at_ms = at_ms.saturating_add_signed(opened.offset_ms);
            let free = deadlines.len().saturating_sub(held as usize);
            // Holds end in the order of their deadlines, or later.
            for &deadline in &deadlines[freed[index].min(free)..free] {
                if deadline > at_ms + CLOCK_MS {
                    observed.early.push(format!(
                        "product {index} of the expiry burst had a hold until {deadline} and freed it at {at_ms}"
                    ));
                }
                observed.late_us.push(at_ms.saturating_sub(deadline) * 1_000);
            }
            freed[index] = freed[index].max(free);
        }
        observed.left = (opened.carts.len() - freed.iter().sum::<usize>()) as u64;
        observed.over_us = context.now_us();
        if observed.left == 0 || server_now() > opened.last_ms + spec.patience_ms {
            return Ok(observed);
        }
        tokio::time::sleep(Duration::from_millis(spec.poll_ms).saturating_sub(round.elapsed())).await;
    }
}

impl ObservedExpiries {
    /// The report of the burst. It includes the purchases that other flows made meanwhile. `started_at_ms` is the run's
    /// start by this machine's clock.
    pub(crate) fn report(&mut self, opened: &OpenedCarts, flows: &[Flow], started_at_ms: u64) -> ExpiryBurst {
        let first_ms = opened.first_ms.saturating_add_signed(-opened.offset_ms);
        let first_us = first_ms.saturating_sub(started_at_ms) * 1_000;
        let meanwhile = flows.iter().filter(|flow| flow.outcome == FlowOutcome::Done);
        let meanwhile = meanwhile.filter(|flow| flow.ended_us >= first_us && flow.intended_us <= self.over_us);
        let mut buying_us: Vec<u64> = meanwhile.map(Flow::latency_us).collect();
        ExpiryBurst {
            carts: opened.carts.len() as u64,
            opened_s: opened.opened_s,
            late: Latency::of(&mut self.late_us),
            left: self.left,
            buying_meanwhile: Latency::of(&mut buying_us),
        }
    }
}
