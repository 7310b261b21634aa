//! A purchase with the whole terminal: a live map, a countdown, and a line of input.

use std::{future::Future, pin::Pin, time::Duration};

use boxoffice_client::{
    Cart, CartState, CartView, Client, Entity, Error, Figure, Held, Id, Reply, SessionView, Timestamp, Watch as Feed,
    recorded,
};
use crossterm::event::EventStream;
use futures_util::StreamExt;
use tokio::time::{Instant, Interval};

use super::{METHOD, SeatChoice, Wanted, hold, in_doubt, input::Input, receipt, state::PurchaseState};
use crate::{
    args::NodeArgs,
    draw::{Key, Screen},
    failure::{Failure, Outcome},
    local_time::{date_and_time_in, zone_or_utc},
    node_client::{now, options, say},
    watch::{no_terminal, states, stop_requested, ticks},
};

/// How long after its deadline the cart is read again.
const AFTER_DEADLINE_MS: u64 = 200;

/// How long to wait between two reads of a cart in doubt.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// How long the release of seats may take when the buyer leaves.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// The longest line that can be typed, in characters.
const TYPED_MAX: usize = 200;

/// Sells at the terminal.
pub async fn sell(
    client: &Client,
    session: SessionView,
    (wanted, price_type, code): (Option<SeatChoice>, Option<Id>, Option<Id>),
    node_args: &NodeArgs,
) -> Outcome {
    let mut sale = Sale {
        node_args,
        cart: Cart::beside(client, &Entity::Session(session.id.clone())),
        feed: client.watch(&session.id),
        ahead_ms: ahead_ms(client),
        client: client.clone(),
        state: PurchaseState::new(session),
        screen: Screen::open().map_err(no_terminal)?,
        keys: EventStream::new(),
        ticks: ticks(),
        stop: Box::pin(stop_requested()),
        read_at: None,
        leaving: false,
        price_type,
        code,
    };
    let end = match wanted {
        Some(wanted) => match sale.hold(wanted).await {
            Ok(()) => sale.serve().await,
            Err(failure) => Err(failure),
        },
        None => sale.serve().await,
    };
    let bought = match end {
        Ok(Some(bought)) => Ok(bought),
        Ok(None) => Ok(sale.give_all_back().await),
        Err(failure) => {
            sale.give_all_back().await;
            Err(failure)
        }
    };
    // The terminal is restored first, so that the last lines stay visible.
    drop(sale);
    for line in bought? {
        say(&line);
    }
    Ok(())
}

/// How far the server's clock is ahead of this one, in milliseconds.
fn ahead_ms(client: &Client) -> i64 {
    client.server_hello().map_or(0, |hello| hello.time.0 as i64 - now().0 as i64)
}

struct Sale<'a> {
    node_args: &'a NodeArgs,
    client: Client,
    cart: Cart,
    feed: Feed,
    state: PurchaseState,
    screen: Screen,
    keys: EventStream,
    ticks: Interval,
    stop: Pin<Box<dyn Future<Output = ()>>>,
    ahead_ms: i64,
    /// When to read the cart, because its state is not known.
    read_at: Option<Instant>,
    leaving: bool,
    /// The price type of the seats, if the buyer said one.
    price_type: Option<Id>,
    /// The code that the buyer has.
    code: Option<Id>,
}

/// An event.
enum UiEvent {
    /// A line was typed.
    Line(String),
    /// Draw the page again.
    Tick,
}

impl Sale<'_> {
    /// Carries out the input until something is bought (returns the last lines) or the buyer leaves (`None`).
    async fn serve(&mut self) -> Result<Option<Vec<String>>, Failure> {
        loop {
            if self.leaving {
                return Ok(None);
            }
            self.read_cart().await?;
            self.show()?;
            let UiEvent::Line(line) = self.next().await? else { continue };
            self.state.message.clear();
            match Input::read(&line, &self.state.names, self.state.holding()) {
                Ok(Input::Seats(seats)) => self.hold(SeatChoice::Seats(seats)).await?,
                Ok(Input::Best(count)) => self.hold(SeatChoice::Best(count)).await?,
                Ok(Input::GiveBack(seats)) => self.give_back(seats).await?,
                Ok(Input::Buy) => {
                    if let Some(words) = self.buy().await? {
                        return Ok(Some(words));
                    }
                }
                Ok(Input::Leave) => self.leaving = true,
                Ok(Input::Nothing) => {}
                Err(words) => self.state.message = words,
            }
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp(now().0.saturating_add_signed(self.ahead_ms))
    }

    fn show(&mut self) -> Outcome {
        self.state.connected = self.client.server_hello().is_some();
        let page = self.state.page(self.at(), &options());
        self.screen.show(&page).map_err(no_terminal)
    }

    /// Waits for the next event, and takes new maps.
    async fn next(&mut self) -> Result<UiEvent, Failure> {
        tokio::select! {
            biased;
            () = &mut self.stop => {
                self.leaving = true;
                Ok(UiEvent::Tick)
            }
            event = self.keys.next() => match event {
                Some(Ok(event)) => Ok(self.press(Key::of(&event))),
                Some(Err(_)) | None => {
                    self.leaving = true;
                    Ok(UiEvent::Tick)
                }
            },
            map = self.feed.next() => {
                let map = map.map_err(|error| self.node_args.failure(error))?;
                self.state.plan.states = states(map, &self.state.session)?;
                Ok(UiEvent::Tick)
            }
            _ = self.ticks.tick() => Ok(UiEvent::Tick),
        }
    }

    fn press(&mut self, key: Key) -> UiEvent {
        match key {
            Key::Interrupt => self.leaving = true,
            Key::Scroll(lines) => self.screen.scroll(lines),
            // Input is ignored while an answer is awaited.
            _ if self.state.waiting => {}
            Key::Enter => return UiEvent::Line(std::mem::take(&mut self.state.typed)),
            Key::Char(char) if self.state.typed.chars().count() < TYPED_MAX => self.state.typed.push(char),
            Key::Backspace => drop(self.state.typed.pop()),
            Key::ClearLine => self.state.typed.clear(),
            Key::Char(_) | Key::Redraw => {}
        }
        UiEvent::Tick
    }

    /// Waits for an answer while the page stays live.
    async fn meanwhile<T>(&mut self, answer: impl Future<Output = T>) -> Result<T, Failure> {
        let mut answer = std::pin::pin!(answer);
        self.state.waiting = true;
        let answered = loop {
            self.show()?;
            tokio::select! {
                biased;
                answered = &mut answer => break answered,
                happening = self.next() => {
                    happening?;
                }
            }
        };
        self.state.waiting = false;
        Ok(answered)
    }

    async fn hold(&mut self, choice: SeatChoice) -> Outcome {
        let wanted = Wanted { choice, price_type: self.price_type.clone(), code: self.code.clone() };
        let mut answer = self.ask_to_hold(&wanted).await?;
        let over = |error: &Error| {
            error.refusal().is_some_and(|no| matches!(no.name.as_str(), "cart_expired" | "cart_not_active"))
        };
        if answer.as_ref().is_err_and(over) {
            // The cart has expired, so the purchase goes on with a new one.
            if self.state.holding() {
                self.state.message = "The time of the earlier seats was up: they are free again.".into();
            }
            self.start_anew();
            answer = self.ask_to_hold(&wanted).await?;
        }
        match answer {
            Ok(Reply { value: held, .. }) => {
                let mut lines = std::mem::take(&mut self.state.lines);
                lines.extend(held.lines);
                self.state.set_lines(lines);
                self.state.lines_version = held.lines_version;
                self.state.deadline = Some(held.deadline);
            }
            Err(error) => self.note(error),
        }
        Ok(())
    }

    async fn ask_to_hold(&mut self, wanted: &Wanted) -> Result<Result<Reply<Held>, Error>, Failure> {
        let (cart, session) = (self.cart.clone(), self.state.session.clone());
        self.meanwhile(async { hold(&cart, &session, wanted).await }).await
    }

    async fn give_back(&mut self, seats: Option<Vec<u32>>) -> Outcome {
        let lines = match seats {
            None => self.state.lines.iter().map(|line| (line.line, None)).collect(),
            Some(seats) => {
                let lines = self.state.lines_of(&seats);
                if lines.iter().map(|(_, seats)| seats.len()).sum::<usize>() < seats.len() {
                    self.state.message = "not all of these are yours; the map shows with ● which are".into();
                    return Ok(());
                }
                lines.into_iter().map(|(line, seats)| (line, Some(seats))).collect::<Vec<_>>()
            }
        };
        for (line, seats) in lines {
            let cart = self.cart.clone();
            match self.meanwhile(async { cart.release(line, seats).await }).await? {
                Ok(reply) => self.state.take_cart(&reply.value),
                Err(error) => {
                    self.note(error);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Checks out. Returns the last lines if that made an order.
    async fn buy(&mut self) -> Result<Option<Vec<String>>, Failure> {
        let cart = self.cart.clone();
        let payment = recorded(METHOD, cart.id().to_string());
        // The known lines may include some that were taken away. The total would differ then.
        let total = receipt::total(&self.state.lines, self.state.currency());
        let expect = Figure { lines: Some(self.state.lines_version), total: Some(total) };
        match self.meanwhile(async { cart.checkout(payment, None).expecting(expect).await }).await? {
            Ok(Reply { value: bought, .. }) => {
                let layout = &self.state.session.layout;
                Ok(Some(receipt::order(&bought, layout, &self.state.names)))
            }
            Err(error) if error.may_have_happened() => {
                let order = self.cart.id().order().to_string();
                // A checkout in doubt must not be followed by a cancel.
                self.start_anew();
                Err(in_doubt(error, &order, self.node_args))
            }
            Err(error) => {
                self.note(error);
                Ok(None)
            }
        }
    }

    /// Shows an error. Plans to read the cart if its state is not clear.
    fn note(&mut self, error: Error) {
        match error.refusal() {
            Some(no) => {
                self.state.message = receipt::refusal(no, &self.state.session.layout, &self.state.names);
                if matches!(no.name.as_str(), "cart_expired" | "cart_not_active" | "cart_differs") {
                    self.read_at = Some(Instant::now());
                }
            }
            None => {
                self.state.message = self.node_args.failure(error).to_string();
                self.read_at = Some(Instant::now() + READ_AGAIN);
            }
        }
    }

    /// Reads the cart, if its deadline has passed or its state is in doubt.
    async fn read_cart(&mut self) -> Outcome {
        let at = self.at();
        let overdue = self.state.deadline.is_some_and(|deadline| deadline.after(AFTER_DEADLINE_MS) <= at);
        let doubtful = self.read_at.is_some_and(|read_at| read_at <= Instant::now());
        if !doubtful && (!overdue || self.read_at.is_some()) {
            return Ok(());
        }
        self.read_at = None;
        let cart = self.cart.clone().with_deadline(READ_AGAIN);
        match self.meanwhile(async { cart.get().await }).await? {
            Ok(Reply { value: cart, .. }) => self.take(&cart),
            // The cart was never opened, or is gone.
            Err(error) if error.refusal().is_some() => self.start_anew(),
            Err(_) => self.read_at = Some(Instant::now() + READ_AGAIN),
        }
        Ok(())
    }

    fn take(&mut self, cart: &CartView) {
        self.state.take_cart(cart);
        match cart.state {
            CartState::Expired => {
                self.start_anew();
                self.state.message = "The time is up: your seats are free again. Choose once more.".into();
            }
            CartState::Canceled | CartState::Done => self.start_anew(),
            CartState::Active | CartState::CheckingOut => {
                if self.state.deadline.is_some_and(|deadline| deadline <= self.at()) {
                    // The node has not expired it yet.
                    self.read_at = Some(Instant::now() + READ_AGAIN);
                }
            }
        }
    }

    /// Goes on with a new cart.
    fn start_anew(&mut self) {
        self.cart = Cart::beside(&self.client, &Entity::Session(self.state.session.id.clone()));
        self.state.set_lines(Vec::new());
        self.state.deadline = None;
        self.read_at = None;
    }

    /// Releases everything before leaving. Returns the last lines.
    async fn give_all_back(&mut self) -> Vec<String> {
        if !self.state.holding() && self.read_at.is_none() {
            return vec!["Nothing was bought.".into()];
        }
        match self.cart.with_deadline(LEAVE_TIME).cancel().await {
            Ok(_) => vec!["Nothing was bought; the seats are given back.".into()],
            Err(error) if error.refusal().is_some() => vec!["Nothing was bought.".into()],
            Err(_) => {
                let until = self.state.deadline.map_or_else(String::new, |at| {
                    let zone = zone_or_utc(self.state.session.zone.as_deref());
                    format!(" at {}", date_and_time_in(&zone, at))
                });
                vec![format!(
                    "Nothing was bought. The node does not answer; the seats become free by themselves{until}."
                )]
            }
        }
    }
}
