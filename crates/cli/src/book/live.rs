//! Buying with the whole terminal: the map is live, the countdown runs, every line typed is a wish.

use std::{future::Future, pin::Pin, time::Duration};

use boxoffice_client::{
    Cart, CartState, CartView, Client, Entity, Error, Figure, Held, Reply, SessionView, Timestamp, Watch as Feed,
    recorded,
};
use crossterm::event::EventStream;
use futures_util::StreamExt;
use tokio::time::{Instant, Interval};

use super::{METHOD, Wanted, desk::Desk, hold, in_doubt, receipt, wish::Wish};
use crate::{
    args::Reach,
    draw::{Key, Screen},
    failure::{Failure, Outcome},
    reach::{date_and_time, look, now, say},
    watch::{no_terminal, states, ticks, told_to_stop},
};

/// How long after a deadline the cart is asked whether it is over.
const AFTER_DEADLINE_MS: u64 = 200;

/// How long to wait between two looks at a cart nothing is known of.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long giving seats back may take when leaving.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// The longest line that can be typed, in characters.
const TYPED_MAX: usize = 200;

/// Sells at the terminal.
pub async fn sell(client: &Client, session: SessionView, wanted: Option<Wanted>, reach: &Reach) -> Outcome {
    let mut sale = Sale {
        reach,
        cart: Cart::beside(client, &Entity::Session(session.id.clone())),
        feed: client.watch(&session.id),
        ahead_ms: ahead_ms(client),
        client: client.clone(),
        desk: Desk::new(session),
        screen: Screen::open().map_err(no_terminal)?,
        keys: EventStream::new(),
        ticks: ticks(),
        stop: Box::pin(told_to_stop()),
        look_at: None,
        leaving: false,
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
    // The terminal is given back before the last words, so that they stay.
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
    reach: &'a Reach,
    client: Client,
    cart: Cart,
    feed: Feed,
    desk: Desk,
    screen: Screen,
    keys: EventStream,
    ticks: Interval,
    stop: Pin<Box<dyn Future<Output = ()>>>,
    ahead_ms: i64,
    /// When the cart is to be looked at because it is not known how it is.
    look_at: Option<Instant>,
    leaving: bool,
}

/// Something that has happened.
enum Happening {
    /// A whole line was typed.
    Line(String),
    /// Time has passed, or something is to be drawn anew.
    Tick,
}

impl Sale<'_> {
    /// Does what is typed until something is bought (the last words) or the buyer leaves (nothing).
    async fn serve(&mut self) -> Result<Option<Vec<String>>, Failure> {
        loop {
            if self.leaving {
                return Ok(None);
            }
            self.look_at_cart().await?;
            self.show()?;
            let Happening::Line(line) = self.next().await? else { continue };
            self.desk.message.clear();
            match Wish::read(&line, &self.desk.names, self.desk.holding()) {
                Ok(Wish::Seats(seats)) => self.hold(Wanted::Seats(seats)).await?,
                Ok(Wish::Best(count)) => self.hold(Wanted::Best(count)).await?,
                Ok(Wish::GiveBack(seats)) => self.give_back(seats).await?,
                Ok(Wish::Buy) => {
                    if let Some(words) = self.buy().await? {
                        return Ok(Some(words));
                    }
                }
                Ok(Wish::Leave) => self.leaving = true,
                Ok(Wish::Nothing) => {}
                Err(words) => self.desk.message = words,
            }
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp(now().0.saturating_add_signed(self.ahead_ms))
    }

    fn show(&mut self) -> Outcome {
        self.desk.connected = self.client.server_hello().is_some();
        let page = self.desk.page(self.at(), &look());
        self.screen.show(&page).map_err(no_terminal)
    }

    /// Waits for the next thing to happen; new maps are taken on the way.
    async fn next(&mut self) -> Result<Happening, Failure> {
        tokio::select! {
            biased;
            () = &mut self.stop => {
                self.leaving = true;
                Ok(Happening::Tick)
            }
            event = self.keys.next() => match event {
                Some(Ok(event)) => Ok(self.press(Key::of(&event))),
                Some(Err(_)) | None => {
                    self.leaving = true;
                    Ok(Happening::Tick)
                }
            },
            map = self.feed.next() => {
                let map = map.map_err(|error| self.reach.failure(error))?;
                self.desk.plan.states = states(map, &self.desk.session)?;
                Ok(Happening::Tick)
            }
            _ = self.ticks.tick() => Ok(Happening::Tick),
        }
    }

    fn press(&mut self, key: Key) -> Happening {
        match key {
            Key::Interrupt => self.leaving = true,
            Key::Scroll(lines) => self.screen.scroll(lines),
            // While an answer is waited for, what is typed would be typed blindly.
            _ if self.desk.waiting => {}
            Key::Enter => return Happening::Line(std::mem::take(&mut self.desk.typed)),
            Key::Char(char) if self.desk.typed.chars().count() < TYPED_MAX => self.desk.typed.push(char),
            Key::Backspace => drop(self.desk.typed.pop()),
            Key::ClearLine => self.desk.typed.clear(),
            Key::Char(_) | Key::Redraw => {}
        }
        Happening::Tick
    }

    /// Waits for an answer while the page stays live.
    async fn meanwhile<T>(&mut self, answer: impl Future<Output = T>) -> Result<T, Failure> {
        let mut answer = std::pin::pin!(answer);
        self.desk.waiting = true;
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
        self.desk.waiting = false;
        Ok(answered)
    }

    async fn hold(&mut self, wanted: Wanted) -> Outcome {
        let mut answer = self.ask_to_hold(&wanted).await?;
        let over = |error: &Error| {
            error.refusal().is_some_and(|no| matches!(no.name.as_str(), "cart_expired" | "cart_not_active"))
        };
        if answer.as_ref().is_err_and(over) {
            // The time ran out while the buyer was thinking: the next cart is as good.
            if self.desk.holding() {
                self.desk.message = "The time of the earlier seats was up: they are free again.".into();
            }
            self.start_anew();
            answer = self.ask_to_hold(&wanted).await?;
        }
        match answer {
            Ok(Reply { value: held, .. }) => {
                let mut lines = std::mem::take(&mut self.desk.lines);
                lines.extend(held.lines);
                self.desk.set_lines(lines);
                self.desk.lines_version = held.lines_version;
                self.desk.deadline = Some(held.deadline);
            }
            Err(error) => self.note(error),
        }
        Ok(())
    }

    async fn ask_to_hold(&mut self, wanted: &Wanted) -> Result<Result<Reply<Held>, Error>, Failure> {
        let (cart, session) = (self.cart.clone(), self.desk.session.clone());
        self.meanwhile(async { hold(&cart, &session, wanted).await }).await
    }

    async fn give_back(&mut self, seats: Option<Vec<u32>>) -> Outcome {
        let lines = match seats {
            None => self.desk.lines.iter().map(|line| (line.line, None)).collect(),
            Some(seats) => {
                let lines = self.desk.lines_of(&seats);
                if lines.iter().map(|(_, seats)| seats.len()).sum::<usize>() < seats.len() {
                    self.desk.message = "not all of these are yours; the map shows with ● which are".into();
                    return Ok(());
                }
                lines.into_iter().map(|(line, seats)| (line, Some(seats))).collect::<Vec<_>>()
            }
        };
        for (line, seats) in lines {
            let cart = self.cart.clone();
            match self.meanwhile(async { cart.release(line, seats).await }).await? {
                Ok(reply) => self.desk.take_cart(&reply.value),
                Err(error) => {
                    self.note(error);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Checks out; the last words if that made an order.
    async fn buy(&mut self) -> Result<Option<Vec<String>>, Failure> {
        let cart = self.cart.clone();
        let payment = recorded(METHOD, cart.id().to_string());
        // The lines that were told last may lack some that were taken away before: the total tells.
        let total = receipt::total(&self.desk.lines, self.desk.currency());
        let expect = Figure { lines: Some(self.desk.lines_version), total: Some(total) };
        match self.meanwhile(async { cart.checkout_expecting(payment, None, None, Some(expect)).await }).await? {
            Ok(Reply { value: bought, .. }) => {
                let layout = &self.desk.session.layout;
                Ok(Some(receipt::order(&bought.order, bought.settling, layout, &self.desk.names)))
            }
            Err(error) if error.may_have_happened() => {
                let order = self.cart.id().order().to_string();
                // Cancelling could undo nothing that was bought, and must not be tried on a sale in doubt.
                self.start_anew();
                Err(in_doubt(error, &order, self.reach))
            }
            Err(error) => {
                self.note(error);
                Ok(None)
            }
        }
    }

    /// Says what was refused or failed, and sees to it that what is held is looked at where that is not clear.
    fn note(&mut self, error: Error) {
        match error.refusal() {
            Some(no) => {
                self.desk.message = receipt::refusal(no, &self.desk.session.layout, &self.desk.names);
                if matches!(no.name.as_str(), "cart_expired" | "cart_not_active" | "cart_differs") {
                    self.look_at = Some(Instant::now());
                }
            }
            None => {
                self.desk.message = self.reach.failure(error).to_string();
                self.look_at = Some(Instant::now() + LOOK_AGAIN);
            }
        }
    }

    /// Looks what the cart has, if its time is up or something about it is in doubt.
    async fn look_at_cart(&mut self) -> Outcome {
        let at = self.at();
        let overdue = self.desk.deadline.is_some_and(|deadline| deadline.after(AFTER_DEADLINE_MS) <= at);
        let doubtful = self.look_at.is_some_and(|look_at| look_at <= Instant::now());
        if !doubtful && (!overdue || self.look_at.is_some()) {
            return Ok(());
        }
        self.look_at = None;
        let cart = self.cart.clone().with_deadline(LOOK_AGAIN);
        match self.meanwhile(async { cart.get().await }).await? {
            Ok(Reply { value: cart, .. }) => self.take(&cart),
            // It was never opened, or is gone.
            Err(error) if error.refusal().is_some() => self.start_anew(),
            Err(_) => self.look_at = Some(Instant::now() + LOOK_AGAIN),
        }
        Ok(())
    }

    fn take(&mut self, cart: &CartView) {
        self.desk.take_cart(cart);
        match cart.state {
            CartState::Expired => {
                self.start_anew();
                self.desk.message = "The time is up: your seats are free again. Choose once more.".into();
            }
            CartState::Canceled | CartState::Done => self.start_anew(),
            CartState::Active | CartState::CheckingOut => {
                if self.desk.deadline.is_some_and(|deadline| deadline <= self.at()) {
                    // The node has not ended it yet.
                    self.look_at = Some(Instant::now() + LOOK_AGAIN);
                }
            }
        }
    }

    /// Goes on with a new cart.
    fn start_anew(&mut self) {
        self.cart = Cart::beside(&self.client, &Entity::Session(self.desk.session.id.clone()));
        self.desk.set_lines(Vec::new());
        self.desk.deadline = None;
        self.look_at = None;
    }

    /// Gives everything back before leaving; the last words.
    async fn give_all_back(&mut self) -> Vec<String> {
        if !self.desk.holding() && self.look_at.is_none() {
            return vec!["Nothing was bought.".into()];
        }
        match self.cart.with_deadline(LEAVE_TIME).cancel().await {
            Ok(_) => vec!["Nothing was bought; the seats are given back.".into()],
            Err(error) if error.refusal().is_some() => vec!["Nothing was bought.".into()],
            Err(_) => {
                let until = self.desk.deadline.map_or_else(String::new, |at| format!(" at {}", date_and_time(at)));
                vec![format!(
                    "Nothing was bought. The node does not answer; the seats become free by themselves{until}."
                )]
            }
        }
    }
}
