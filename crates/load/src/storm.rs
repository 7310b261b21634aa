//! A storm: carts with a unit each that nobody comes back to, and when each hold was seen free again.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_client::{Cart, Client, Timestamp};
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Good,
    history::{CartRecord, GoodsHoldOutcome, GoodsHoldRecord, Span},
};

use crate::{
    LoadError,
    counter::Counter,
    flow::{End, Flow},
    plan::Plan,
    progress::Progress,
    report::{Latency, Storm},
    run::now_ms,
    scenario::StormSpec,
};

/// Carts that are opened at the same time on each connection.
const UNDER_WAY: usize = 64;

/// The group of the storm's carts: no other flow is in it.
const GROUP: u32 = u32::MAX;

/// How much two clocks of one machine may seem to differ, in milliseconds: what is free sooner before its deadline than this
/// was freed too early.
const CLOCK_MS: u64 = 250;

/// Carts that are open and abandoned.
pub(crate) struct Opened {
    /// As their clients know them.
    pub(crate) carts: Vec<CartRecord>,
    /// Deadlines by product, ascending, by the server's clock.
    deadlines: Vec<Vec<u64>>,
    opened_s: f64,
    /// The server's clock minus ours, in milliseconds.
    offset_ms: i64,
    first_ms: u64,
    last_ms: u64,
}

/// Opens all carts with deadlines within the window, and waits until others are to start.
pub(crate) async fn open(
    counter: &Counter,
    plan: &Arc<Plan>,
    spec: &StormSpec,
    progress: &Progress,
) -> Result<Opened, LoadError> {
    let begun = Instant::now();
    let asked_ms = now_ms();
    let offset_ms = counter.server_time_ms().await? as i64 - ((asked_ms + now_ms()) / 2) as i64;
    let server_now = move || now_ms().saturating_add_signed(offset_ms);
    let first_ms = server_now() + spec.lead_ms;
    progress.begin("carts", spec.carts.into());

    let next = Arc::new(AtomicU32::new(0));
    let carts: Arc<Mutex<Vec<CartRecord>>> = Arc::default();
    let mut workers = Vec::new();
    for worker in 0..counter.clients().len() * UNDER_WAY {
        let client = counter.clients()[worker % counter.clients().len()].clone();
        let (plan, spec, next, carts) = (plan.clone(), spec.clone(), next.clone(), carts.clone());
        let progress = progress.clone();
        workers.push(tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= spec.carts {
                    return Ok(());
                }
                let wanted_ms = first_ms + u64::from(index) * spec.window_ms / u64::from(spec.carts);
                let left_ms = wanted_ms.saturating_sub(server_now());
                if left_ms == 0 {
                    return Err(format!(
                        "{index} of {} were open at the first deadline; give more storm.lead_ms",
                        spec.carts
                    ));
                }
                let record = open_one(&client, &plan, &spec, index, left_ms).await?;
                carts.lock().expect("nobody panics with the carts").push(record);
                progress.add(1);
            }
        }));
    }
    for worker in workers {
        let done = worker.await.map_err(|_| LoadError::Broken("a storm's task panicked"))?;
        done.map_err(|why| LoadError::Setup { what: "storm", why })?;
    }
    let carts = std::mem::take(&mut *carts.lock().expect("nobody panics with the carts"));
    let mut opened = Opened {
        deadlines: vec![Vec::new(); spec.products as usize],
        opened_s: begun.elapsed().as_secs_f64(),
        offset_ms,
        first_ms: u64::MAX,
        last_ms: 0,
        carts,
    };
    opened.sort_deadlines(plan, spec);
    let start_ms = opened.first_ms.saturating_sub(spec.before_ms);
    tokio::time::sleep(Duration::from_millis(start_ms.saturating_sub(server_now()))).await;
    Ok(opened)
}

async fn open_one(
    client: &Client,
    plan: &Plan,
    spec: &StormSpec,
    index: u32,
    ttl_ms: u64,
) -> Result<CartRecord, String> {
    let product = product_of(plan, spec, index);
    let token = plan.token_beside(FlowNumber { group: GROUP, index }, &plan.goods.entity(Good::Product(product)));
    let cart = Cart::with_token(client, token);
    let mut record = CartRecord::new(cart.id());
    let opened = cart.open(None, Some(ttl_ms)).await.map_err(|error| error.to_string())?;
    let held = cart.hold_stock(&plan.goods.product_id(product), 1).await.map_err(|error| error.to_string())?;
    let cart_is = boxoffice_client::Entity::Cart(cart.id());
    let versions = opened.at.iter().chain(&held.at).filter(|at| at.entity == cart_is);
    record.versions.extend(versions.map(|at| at.version));
    let outcome = GoodsHoldOutcome::Granted { deadline: held.value.deadline };
    record.goods_holds.push(GoodsHoldRecord {
        good: Good::Product(product),
        quantity: 1,
        span: Span::default(),
        outcome,
    });
    Ok(record)
}

/// The storm's products come after those that others buy.
fn product_of(plan: &Plan, spec: &StormSpec, index: u32) -> u32 {
    plan.goods.products - spec.products + index % spec.products
}

impl Opened {
    fn sort_deadlines(&mut self, plan: &Plan, spec: &StormSpec) {
        let first_product = plan.goods.products - spec.products;
        for take in self.carts.iter().flat_map(|cart| &cart.goods_holds) {
            if let (Good::Product(product), GoodsHoldOutcome::Granted { deadline: Timestamp(ms) }) =
                (take.good, take.outcome)
            {
                self.deadlines[(product - first_product) as usize].push(ms);
                (self.first_ms, self.last_ms) = (self.first_ms.min(ms), self.last_ms.max(ms));
            }
        }
        for deadlines in &mut self.deadlines {
            deadlines.sort_unstable();
        }
    }
}

/// What was seen of the storm.
pub(crate) struct Seen {
    /// How late each hold was seen free, in microseconds.
    late_us: Vec<u64>,
    left: u64,
    /// Holds that were free before their deadlines, by product.
    pub(crate) early: Vec<String>,
    /// When the last hold was seen free, in microseconds since the run's start.
    over_us: u64,
}

/// Looks at the counts of the storm's products again and again, until all holds are gone or patience is at its end.
pub(crate) async fn watch(
    counter: &Counter,
    plan: &Plan,
    spec: &StormSpec,
    opened: &Opened,
) -> Result<Seen, LoadError> {
    let server_now = || now_ms().saturating_add_signed(opened.offset_ms);
    let mut freed = vec![0usize; opened.deadlines.len()];
    let mut seen = Seen { late_us: Vec::new(), left: opened.carts.len() as u64, early: Vec::new(), over_us: 0 };
    loop {
        let round = Instant::now();
        let asked = opened.deadlines.iter().enumerate().map(|(place, _)| {
            let product = plan.goods.products - spec.products + place as u32;
            let (client, id) = (counter.client().clone(), plan.goods.product_id(product));
            async move { client.product_get(&id).await.map(|reply| (reply.value.counts.held, now_ms())) }
        });
        for (place, answer) in futures_util::future::join_all(asked).await.into_iter().enumerate() {
            // What was not answered is seen at the next look.
            let Ok((held, at_ms)) = answer else { continue };
            let deadlines = &opened.deadlines[place];
            let at_ms = at_ms.saturating_add_signed(opened.offset_ms);
            let free = deadlines.len().saturating_sub(held as usize);
            // Holds end in the order of their deadlines, or later than that.
            for &deadline in &deadlines[freed[place].min(free)..free] {
                if deadline > at_ms + CLOCK_MS {
                    seen.early.push(format!(
                        "product {place} of the storm had a hold until {deadline} and frees it at {at_ms}"
                    ));
                }
                seen.late_us.push(at_ms.saturating_sub(deadline) * 1_000);
            }
            freed[place] = freed[place].max(free);
        }
        seen.left = (opened.carts.len() - freed.iter().sum::<usize>()) as u64;
        seen.over_us = plan.now_us();
        if seen.left == 0 || server_now() > opened.last_ms + spec.patience_ms {
            return Ok(seen);
        }
        tokio::time::sleep(Duration::from_millis(spec.poll_ms).saturating_sub(round.elapsed())).await;
    }
}

/// What it came to, beside the flows of those who bought meanwhile.
/// `started_at_ms` is the run's start by our clock.
pub(crate) fn report(mut seen: Seen, opened: &Opened, flows: &[Flow], started_at_ms: u64) -> (Storm, Seen) {
    let first_ms = opened.first_ms.saturating_add_signed(-opened.offset_ms);
    let first_us = first_ms.saturating_sub(started_at_ms) * 1_000;
    let meanwhile = flows.iter().filter(|flow| flow.end == End::Done);
    let meanwhile = meanwhile.filter(|flow| flow.ended_us >= first_us && flow.intended_us <= seen.over_us);
    let mut buying_us: Vec<u64> = meanwhile.map(|flow| flow.ended_us.saturating_sub(flow.intended_us)).collect();
    let storm = Storm {
        carts: opened.carts.len() as u64,
        opened_s: opened.opened_s,
        late: Latency::of(&mut seen.late_us),
        left: seen.left,
        buying_meanwhile: Latency::of(&mut buying_us),
    };
    (storm, seen)
}
