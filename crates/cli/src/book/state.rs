//! The state of a purchase at the terminal: the session, the map, the hold, and the page that shows them.

use boxoffice_client::{CartState, CartView, Currency, Entity, LineView, SeatCounts, SessionView, Timestamp};

use super::receipt;
use crate::{
    draw::{self, DrawOptions, Names, Page, Plan, amount, count},
    watch::headline,
};

/// The state of a purchase.
#[derive(Debug)]
pub struct PurchaseState {
    pub session: SessionView,
    pub names: Names,
    /// Its map. Without states until the first one has arrived.
    pub plan: Plan,
    /// The held lines.
    pub lines: Vec<LineView>,
    /// The last known version of the cart's lines.
    pub lines_version: u64,
    pub deadline: Option<Timestamp>,
    /// The message below the map.
    pub message: String,
    pub typed: String,
    pub connected: bool,
    /// Whether an answer is awaited.
    pub waiting: bool,
}

impl PurchaseState {
    /// The state without a hold.
    pub fn new(session: SessionView) -> PurchaseState {
        let layout = session.layout.clone();
        PurchaseState {
            names: Names::of(&layout),
            plan: Plan { prices: session.prices.clone(), states: Vec::new(), own: Default::default(), layout },
            session,
            lines: Vec::new(),
            lines_version: 0,
            deadline: None,
            message: String::new(),
            typed: String::new(),
            connected: true,
            waiting: false,
        }
    }

    /// Whether anything is held.
    pub fn holding(&self) -> bool {
        self.lines.iter().any(|line| !line.content.seats().is_empty())
    }

    /// Takes the cart's lines and deadline.
    pub fn take_cart(&mut self, cart: &CartView) {
        let live = match cart.state {
            CartState::Active | CartState::CheckingOut => true,
            CartState::Done | CartState::Canceled | CartState::Expired => false,
        };
        self.set_lines(if live { cart.lines.clone() } else { Vec::new() });
        self.lines_version = cart.lines_version;
        self.deadline = self.holding().then_some(cart.deadline);
    }

    /// Sets the held lines.
    pub fn set_lines(&mut self, lines: Vec<LineView>) {
        let layout = &self.session.layout;
        let of_session = |line: &&LineView| matches!(&line.entity, Entity::Session(id) if *id == self.session.id);
        let seats = lines.iter().filter(of_session).flat_map(|line| line.content.seats());
        self.plan.own = seats.filter_map(|priced| layout.index(priced.seat)).collect();
        self.lines = lines;
    }

    /// The currency of the session's prices.
    pub fn currency(&self) -> Currency {
        let (_, price) = self.session.prices.first().expect("a session has at least one category and its price");
        price.currency
    }

    /// The lines that hold some of these seats, each with its part.
    pub fn lines_of(&self, indexes: &[u32]) -> Vec<(u32, Vec<boxoffice_client::Seat>)> {
        let layout = &self.session.layout;
        let among = |seat| layout.index(seat).is_some_and(|index| indexes.contains(&index));
        self.lines
            .iter()
            .map(|line| {
                let seats = line.content.seats().iter().map(|priced| priced.seat);
                (line.line, seats.filter(|seat| among(*seat)).collect())
            })
            .filter(|(_, seats): &(u32, Vec<_>)| !seats.is_empty())
            .collect()
    }

    /// The page at this server time.
    pub fn page(&self, at: Timestamp, options: &DrawOptions) -> Page {
        let counts: SeatCounts = count(&self.plan.states);
        let status = match self.connected {
            true => draw::paint("live", "32", options.colours),
            false => draw::paint("reconnecting …", "1;31", options.colours),
        };
        let head = vec![
            draw::paint(&headline(&self.session), "1", options.colours),
            format!("{}   {status}", draw::counts(&counts)),
            String::new(),
        ];
        let body = match self.plan.states.is_empty() {
            true => vec!["waiting for the map …".into()],
            false => draw::house(&self.plan, options),
        };
        Page { head, body, foot: self.foot(at, options), cursor: !self.waiting }
    }

    fn foot(&self, at: Timestamp, options: &DrawOptions) -> Vec<String> {
        let mut foot = vec![String::new()];
        if !self.plan.states.is_empty() {
            foot.extend(draw::legend(&self.plan, options));
            foot.push(String::new());
        }
        if self.holding() {
            foot.extend(receipt::lines(&self.lines, self.currency(), &self.session.layout, &self.names));
            let total = amount(receipt::total(&self.lines, self.currency()));
            let left = self.deadline.map_or_else(String::new, |deadline| format!("   {}", countdown(deadline, at)));
            foot.push(draw::paint(&format!("Total {total}{left}"), "1", options.colours));
        }
        if !self.message.is_empty() {
            foot.push(self.message.clone());
        }
        if self.waiting {
            foot.push("…".into());
        } else if self.holding() {
            foot.push(
                "Enter buys them, b gives them back (b B5: only that one), more seats add to them, q leaves".into(),
            );
            foot.push(format!("> {}", self.typed));
        } else {
            foot.push("Which seats? Like B5 B6 or B5-B8; best 3 takes the best 3 adjacent seats; q leaves".into());
            foot.push(format!("> {}", self.typed));
        }
        foot
    }
}

/// The time left: `held for 29:58 more`.
pub fn countdown(deadline: Timestamp, at: Timestamp) -> String {
    match deadline.0.saturating_sub(at.0).div_ceil(1000) {
        0 => "the time is up".into(),
        seconds if seconds >= 3600 => {
            format!("held for {}:{:02}:{:02} more", seconds / 3600, seconds / 60 % 60, seconds % 60)
        }
        seconds => format!("held for {}:{:02} more", seconds / 60, seconds % 60),
    }
}
