//! Stories in words, with seat maps drawn after whatever changed them.
//!
//! Each line is a step; the answer is written behind it, and below it every map that is not as it was: `.` free, `#`
//! blocked, a small letter held by that cart, a capital bought by it. One-letter names are carts.
//!
//! | line | does |
//! |---|---|
//! | `hall aaaa_aa/bbb` | a hall: rows, `_` a gap, letters are categories, capitals accessible places |
//! | `session s 1000 5000` | a session in it, from 1 000 s on for 5 000 s; `ttl 10` for its own time to live in seconds |
//! | `a open` `a open 20` | opens, with a time to live in seconds |
//! | `a hold s 0.3 0.4 + t 1.1` | holds seats, row and seat; `some` before seats: as many as are free |
//! | `a best s 3` | best available; `split`, `accessible 1`, `category b` behind it |
//! | `a release 1 0.3` `a cancel` `a checkout` `a get` `a order` `a audit` | what they say |
//! | `box block s 0.0` `box unblock s 0.0` `box get s` | the box office |
//! | `… as r1` | with this request id; every line has its own otherwise |
//! | `wait 1800` | seconds pass; everything due happens on the way |
//! | `stop s` `go s` `lose s` | messages to it are kept back, delivered, lost |
//! | `freeze s` `thaw s` `crash s` | its commits stop, go on; its host dies with what is not committed |
//! | `again hold s` | the first message of that kind to it comes once more |
//! | `answers` | answers that came later |

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

use boxoffice_core::{
    answer::{Answer, CartState, CartView, LineView, Outcome},
    command::{
        BestWish, CartCommand, Command, NewSession, Payment, SessionCommand, VenueCommand, VenueDetails, Want,
        WantedLine,
    },
    id::{CartId, Entity, HoldId, Id},
    keep::{Kept, State},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    refusal::Refusal,
    seat::{Seat, SeatSet, SeatState},
    time::{Rules, Timestamp},
};
use expect_test::Expect;

use crate::town::{Ticket, Town, kind};

/// Plays a script and compares the story.
pub(crate) fn check(script: &str, expect: Expect) {
    let mut play = Play::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        play.line(line);
    }
    expect.assert_eq(&play.story);
}

/// A layout from its picture.
pub(crate) fn layout(picture: &str) -> Arc<Layout> {
    let row = |(number, row): (usize, &str)| {
        let mut runs: Vec<Run> = Vec::new();
        let mut gap = 0;
        let mut seats = 0;
        for letter in row.chars() {
            if letter == '_' {
                gap += 1;
                continue;
            }
            seats += 1;
            runs.push(Run {
                gap: std::mem::take(&mut gap),
                count: 1,
                labels: Labels::Numbers { first: seats, step: 1 },
                category: id(&letter.to_ascii_lowercase().to_string()),
                accessible: letter.is_ascii_uppercase(),
                points: Vec::new(),
            });
        }
        Row { label: (number + 1).to_string().into(), section: None, runs }
    };
    Arc::new(Layout::new(picture.split('/').enumerate().map(row).collect(), None).expect("a good picture"))
}

pub(crate) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

/// The cart that scripts call by this letter.
pub(crate) fn cart(name: &str) -> CartId {
    let [letter] = name.as_bytes() else { panic!("{name} is no cart: carts have one letter") };
    CartId(u128::from(*letter))
}

pub(crate) fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("three letters") }
}

/// A session for every category at 10.00 times its place.
pub(crate) fn new_session(
    name: &str,
    layout: &Layout,
    starts_at: u64,
    ends_at: u64,
    ttl_ms: Option<u64>,
) -> NewSession {
    let price = |(place, category): (usize, &Id)| (category.clone(), euros(1_000 * (place as i64 + 1)));
    NewSession {
        id: id(name),
        hall: id("hall"),
        title: id("title"),
        starts_at: Timestamp(starts_at),
        ends_at: Timestamp(ends_at),
        prices: layout.categories().iter().enumerate().map(price).collect(),
        hold_ttl_ms: ttl_ms,
    }
}

pub(crate) fn details() -> VenueDetails {
    VenueDetails { name: "House".into(), city: "Town".into(), position: None, comments: "".into() }
}

pub(crate) fn recorded() -> Payment {
    Payment::Recorded { method: "cash".into(), transaction_id: "1".into() }
}

struct Play {
    town: Town,
    story: String,
    maps: BTreeMap<Id, String>,
    told: BTreeSet<Ticket>,
    stopped: BTreeSet<Entity>,
    frozen: BTreeSet<Entity>,
    sessions: u64,
    requests: u32,
}

impl Play {
    fn new() -> Play {
        let mut town = Town::new(Rules::default());
        town.send(Some("venue"), Command::Venue(id("venue"), VenueCommand::Put(details())));
        town.run();
        Play {
            town,
            story: String::new(),
            maps: BTreeMap::new(),
            told: BTreeSet::from([0]),
            stopped: BTreeSet::new(),
            frozen: BTreeSet::new(),
            sessions: 0,
            requests: 0,
        }
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (words, request) = match words[..] {
            [ref words @ .., "as", request] => (words.to_vec(), request.to_owned()),
            _ => {
                self.requests += 1;
                (words.clone(), format!("r{}", self.requests))
            }
        };
        let said = match words[..] {
            ["wait", seconds] => {
                self.wait((number::<f64>(seconds) * 1_000.0).round() as u64);
                String::new()
            }
            ["answers"] => self.answers(),
            [verb @ ("stop" | "go" | "lose" | "freeze" | "thaw" | "crash"), name] => {
                self.meddle(verb, entity(name));
                String::new()
            }
            ["again", what, name] => {
                let to = entity(name);
                let mut past = self.town.posted.iter();
                let message = past.find(|message| message.to == to && kind(message) == what);
                let message = message.unwrap_or_else(|| panic!("no {what} was sent to {name}")).clone();
                self.town.post(message);
                String::new()
            }
            _ => {
                let command = self.command(&words);
                let ticket = self.town.send(Some(&request), command);
                self.settle();
                self.told.insert(ticket);
                format!(" -> {}", self.outcome(ticket))
            }
        };
        self.settle();
        writeln!(self.story, "{line}{said}").expect("strings take everything");
        self.draw();
    }

    fn settle(&mut self) {
        let (stopped, frozen) = (&self.stopped, &self.frozen);
        self.town.run_but(|to| !stopped.contains(to), |entity| !frozen.contains(entity));
    }

    fn wait(&mut self, span_ms: u64) {
        let until = self.town.now.after(span_ms);
        while let Some(wake) = self.town.next_wake().filter(|wake| *wake <= until) {
            self.town.pass(wake);
            self.settle();
        }
        self.town.pass(until);
        self.settle();
    }

    fn meddle(&mut self, verb: &str, entity: Entity) {
        match verb {
            "stop" => _ = self.stopped.insert(entity),
            "go" => _ = self.stopped.remove(&entity),
            "lose" => self.town.mail.retain(|message| message.to != entity),
            "freeze" => _ = self.frozen.insert(entity),
            "thaw" => _ = self.frozen.remove(&entity),
            _ => self.town.crash(&entity, 0),
        }
    }

    fn command(&mut self, words: &[&str]) -> Command {
        match words {
            ["hall", picture] => {
                let (hall, name, layout) = (id("hall"), "Hall".into(), layout(picture));
                Command::Venue(id("venue"), VenueCommand::PutHall { hall, name, layout })
            }
            ["session", name, rest @ ..] => self.session(name, rest),
            ["box", verb, name, seats @ ..] => {
                let command = match *verb {
                    "block" => SessionCommand::Block(seats.iter().map(|text| seat(text)).collect()),
                    "unblock" => SessionCommand::Unblock(seats.iter().map(|text| seat(text)).collect()),
                    "get" => SessionCommand::Get,
                    _ => panic!("the box office does not {verb}"),
                };
                Command::Session(id(name), command)
            }
            [name, verb, rest @ ..] => Command::Cart(cart(name), cart_command(verb, rest)),
            _ => panic!("{words:?} is no step"),
        }
    }

    fn session(&mut self, name: &str, rest: &[&str]) -> Command {
        let (times, ttl_ms) = match rest {
            [times @ .., "ttl", seconds] => (times, Some(number::<u64>(seconds) * 1_000)),
            _ => (rest, None),
        };
        let (starts_at, ends_at) = match times {
            [start, span] => (number::<u64>(start) * 1_000, (number::<u64>(start) + number::<u64>(span)) * 1_000),
            _ => {
                self.sessions += 1;
                (self.sessions * 100_000_000, self.sessions * 100_000_000 + 7_200_000)
            }
        };
        let venue = self.town.kept.get(&Entity::Venue(id("venue"))).expect("it was put");
        let State::Venue(venue) = &*venue else { panic!("a venue is kept as something else") };
        let hall = venue.hall(&id("hall")).expect("a hall comes before its sessions");
        let session = new_session(name, &hall.layout, starts_at, ends_at, ttl_ms);
        Command::Venue(id("venue"), VenueCommand::CreateSession(session))
    }

    fn outcome(&self, ticket: Ticket) -> String {
        match self.town.answers.get(&ticket) {
            None if self.town.is_lost(ticket) => "nothing".into(),
            None => format!("(waits as #{ticket})"),
            Some(outcome) => tell(outcome),
        }
    }

    /// Answers that came after their line was told.
    fn answers(&mut self) -> String {
        let waiting = self.story.matches("(waits as #").count();
        let mut said = String::new();
        for (ticket, outcome) in &self.town.answers {
            if self.story.contains(&format!("(waits as #{ticket})"))
                && !self.story.contains(&format!("\n    #{ticket} "))
            {
                write!(said, "\n    #{ticket} {}", tell(outcome)).expect("strings take everything");
            }
        }
        if said.is_empty() { format!(" -> none of {waiting}") } else { said }
    }

    fn draw(&mut self) {
        let maps = draw(&self.town.kept);
        for (id, map) in &maps {
            let before = self.maps.get(id);
            if before.is_some_and(|before| before != map) {
                let name = if maps.len() > 1 { format!("{id}  ") } else { String::new() };
                for row in map.lines() {
                    writeln!(self.story, "    {name}{row}").expect("strings take everything");
                }
            }
        }
        self.maps = maps;
    }
}

/// The maps of all sessions: who has which seat.
pub(crate) fn draw(kept: &Kept) -> BTreeMap<Id, String> {
    let mut maps = BTreeMap::new();
    for (entity, state) in kept.entities() {
        let (Entity::Session(id), State::Session(session)) = (entity, &**state) else { continue };
        let mut letters: BTreeMap<Seat, char> = BTreeMap::new();
        let audit = session.audit();
        for hold in &audit.holds {
            letters.extend(hold.seats.iter().map(|seat| (*seat, letter(hold.hold))));
        }
        for sale in &audit.sales {
            let name = sale.order.cart().0 as u8 as char;
            letters.extend(sale.seats.iter().map(|seat| (*seat, name.to_ascii_uppercase())));
        }
        let layout = session.layout();
        let seats = session.map().seats;
        let mut map = String::new();
        for row in 0..layout.rows().len() {
            for index in layout.row_seats(row as u16) {
                if layout.left_neighbour(index).is_none() && layout.seat(index).seat > 0 {
                    map.push(' ');
                }
                let blocked = seats[index as usize / 4] >> (index % 4 * 2) & 3 == SeatState::Blocked as u8;
                let free = if blocked { '#' } else { '.' };
                map.push(letters.get(&layout.seat(index)).copied().unwrap_or(free));
            }
            map.push('\n');
        }
        maps.insert(id.clone(), map);
    }
    maps
}

fn letter(hold: HoldId) -> char {
    hold.cart.0 as u8 as char
}

fn cart_command(verb: &str, rest: &[&str]) -> CartCommand {
    match (verb, rest) {
        ("open", []) => CartCommand::Open { customer: None, ttl_ms: None },
        ("open", [seconds]) => CartCommand::Open { customer: None, ttl_ms: Some(number::<u64>(seconds) * 1_000) },
        ("hold", lines) => CartCommand::Hold(lines.split(|word| *word == "+").map(wanted).collect()),
        ("best", [session, count, wish @ ..]) => {
            let line = WantedLine { session: id(session), want: Want::Best(best(number(count), wish)) };
            CartCommand::Hold(vec![line])
        }
        ("release", [line]) => CartCommand::Release { line: number(line), seats: None },
        ("release", [line, seats @ ..]) => CartCommand::Release { line: number(line), seats: Some(seat_set(seats)) },
        ("cancel", []) => CartCommand::Cancel,
        ("checkout", []) => CartCommand::Checkout { payment: recorded(), customer: None },
        ("get", []) => CartCommand::Get,
        ("order", []) => CartCommand::Order,
        ("audit", []) => CartCommand::Audit,
        _ => panic!("carts do not {verb} {rest:?}"),
    }
}

fn wanted(words: &[&str]) -> WantedLine {
    match words {
        [session, "some", seats @ ..] => {
            WantedLine { session: id(session), want: Want::Seats { seats: seat_set(seats), best_effort: true } }
        }
        [session, seats @ ..] => {
            WantedLine { session: id(session), want: Want::Seats { seats: seat_set(seats), best_effort: false } }
        }
        [] => panic!("a line names its session"),
    }
}

fn best(count: u16, mut words: &[&str]) -> BestWish {
    let mut wish = BestWish { count, category: None, section: None, accessible: 0, split: false };
    while let [word, rest @ ..] = words {
        words = match (*word, rest) {
            ("split", rest) => {
                wish.split = true;
                rest
            }
            ("accessible", [count, rest @ ..]) => {
                wish.accessible = number(count);
                rest
            }
            ("category", [name, rest @ ..]) => {
                wish.category = Some(id(name));
                rest
            }
            ("section", [name, rest @ ..]) => {
                wish.section = Some(id(name));
                rest
            }
            _ => panic!("{word} is no wish"),
        };
    }
    wish
}

fn seat_set(words: &[&str]) -> SeatSet {
    SeatSet::new(words.iter().map(|word| seat(word))).expect("one to twenty different seats")
}

fn seat(text: &str) -> Seat {
    let (row, seat) = text.split_once('.').unwrap_or_else(|| panic!("{text} is no seat: row.seat"));
    Seat { row: number(row), seat: number(seat) }
}

fn entity(name: &str) -> Entity {
    match name {
        "venue" => Entity::Venue(id("venue")),
        // Sessions have letters from the end of the alphabet.
        "s" | "t" | "u" => Entity::Session(id(name)),
        _ => Entity::Cart(cart(name)),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn tell(outcome: &Outcome) -> String {
    match outcome {
        Err(refusal) => tell_refusal(refusal),
        Ok(answered) => match &answered.answer {
            Answer::Done => "done".into(),
            Answer::Cart(view) => tell_cart(view),
            Answer::Held(held) => {
                let lines: Vec<_> = held.lines.iter().map(tell_line).collect();
                format!("{}, until {}", lines.join(", "), seconds(held.deadline))
            }
            Answer::Order { order, settling } => {
                let lines: Vec<_> = order.lines.iter().map(tell_line).collect();
                let settling = if *settling { ", settling" } else { "" };
                format!("order of {}, total {}{settling}", lines.join(", "), cents(order.total.amount))
            }
            Answer::Session(view) => {
                let c = view.counts;
                format!("{} free, {} held, {} sold, {} blocked", c.free, c.held, c.sold, c.blocked)
            }
            Answer::CartAudit(audit) => {
                format!("{} holds, {} owed, {:?}", audit.holds.len(), audit.owed, audit.violations)
            }
            answer @ (Answer::Venue(_)
            | Answer::Hall(_)
            | Answer::Sessions(_)
            | Answer::Map(_)
            | Answer::SessionAudit(_)) => format!("{answer:?}"),
        },
    }
}

fn tell_refusal(refusal: &Refusal) -> String {
    let seats = match refusal {
        Refusal::SeatsTaken(taken) | Refusal::SeatBlocked(taken) => {
            taken.iter().map(|taken| format!(" {} {:?}", tell_seat(taken.seat), taken.state)).collect()
        }
        Refusal::NoSuchSeat(seats) | Refusal::DuplicateSeat(seats) => {
            seats.iter().map(|seat| format!(" {}", tell_seat(*seat))).collect()
        }
        _ => String::new(),
    };
    format!("no: {}, {refusal}{}{}", refusal.name(), if seats.is_empty() { "" } else { ":" }, seats.to_lowercase())
}

fn tell_cart(view: &CartView) -> String {
    let lines: Vec<_> = view.lines.iter().map(tell_line).collect();
    let mut said = view.state.as_str().to_owned();
    if !lines.is_empty() {
        write!(said, ", {}", lines.join(", ")).expect("strings take everything");
    }
    if let Some(total) = view.total {
        write!(said, ", total {}", cents(total.amount)).expect("strings take everything");
    }
    if view.state == CartState::Active {
        write!(said, ", until {}", seconds(view.deadline)).expect("strings take everything");
    }
    said
}

fn tell_line(line: &LineView) -> String {
    let seats: Vec<_> = line.seats.iter().map(|priced| tell_seat(priced.seat)).collect();
    format!("line {} {} {}", line.line, line.session, seats.join(" "))
}

fn tell_seat(seat: Seat) -> String {
    format!("{}.{}", seat.row, seat.seat)
}

fn seconds(at: Timestamp) -> String {
    format!("{}.{:03}", at.0 / 1_000, at.0 % 1_000)
}

fn cents(amount: i64) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}
