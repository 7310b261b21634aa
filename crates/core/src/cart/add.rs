//! How a cart adds lines and makes lines grow, when every inventory has granted its part, and changes of lines that no inventory
//! takes part in.

use alloc::{boxed::Box, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{CART_LINES_MAX, Cart, Line, committed_after, line::NewRevisions};
use crate::{
    answer::{At, CartView, Held, KeptAnswer, LineView},
    ask::Granted,
    command::WantedLine,
    event::{CartEvent, CodeUse, GrownLine, NewLine, QuotaClaim, Remembered},
    id::{Id, Request},
    money::Currency,
    planted,
    portion::{LineItem, Note, total},
    refusal::Refusal,
    time::{TIMESTAMP_MAX, Timestamp},
};

/// A line that was asked for, with the grant.
pub(crate) struct GrantedLine<'a> {
    pub(crate) wanted: &'a WantedLine,
    pub(crate) granted: &'a Granted,
    /// The line that grows. A new line if absent.
    pub(crate) line: Option<u32>,
    /// The hold on the customer's quota, if there is a limit.
    pub(crate) quota: Option<QuotaClaim>,
    /// The hold on uses of a code, if one was shown.
    pub(crate) code: Option<Box<CodeUse>>,
    /// Until when the inventory or the customer may believe in its hold without asking the cart.
    pub(crate) believed_until: Timestamp,
}

/// The result of an add, before it is written.
pub(crate) struct Added {
    pub(crate) events: Vec<CartEvent>,
    pub(crate) answer: KeptAnswer,
    /// The versions of the inventories, in the order of the lines.
    pub(crate) asked: Vec<At>,
}

/// The changes of an add to each line.
struct LineChanges {
    added: Vec<NewLine>,
    grown: Vec<GrownLine>,
    noted: Vec<(u32, SmolStr)>,
    views: Vec<LineView>,
}

impl Cart {
    /// Adds lines, or makes them grow, when every inventory has granted its part. A cart that is not open yet is opened with
    /// `fresh`, its time to live and its highest age. A request that sets a quantity (`setting`) is answered with the cart.
    pub(crate) fn decide_add(
        &self,
        at: Timestamp,
        request: Request,
        customer: Option<&Id>,
        granted: &[GrantedLine<'_>],
        setting: bool,
        fresh: (u64, u64),
    ) -> Result<Added, Refusal> {
        self.may_change()?;
        // An operator or a canceled session may have taken a line away while more of it was asked for.
        granted.iter().filter_map(|line| line.line).try_for_each(|number| self.line(number).map(|_| ()))?;
        let customer = self.customer_with(customer)?;
        let next_line = self.next_line_of(granted)?;
        let currency = self.one_currency(granted)?;
        let items: Vec<LineItem> = granted.iter().map(|line| self.item_of(line)).collect();
        self.check_limits(granted, &items)?;
        self.check_total(granted, &items)?;

        let mut events = Vec::with_capacity(2);
        let ttls = granted.iter().map(|line| line.granted.ttl_ms);
        let ends = granted.iter().filter_map(|line| line.granted.life_ms).map(|life_ms| at.after(life_ms));
        let ends_at = ends.fold(TIMESTAMP_MAX, Timestamp::min);
        let deadline = match &self.body {
            Some(body) => body.touched_with(at, body.lines.iter().map(|line| line.ttl_ms).chain(ttls)).min(ends_at),
            None => {
                let (ttl_ms, age_max_ms) = fresh;
                let age_ends_at = at.after(age_max_ms);
                let deadline = at.after(ttls.flatten().fold(ttl_ms, u64::min)).min(age_ends_at).min(ends_at);
                let (customer, known) = (customer.clone(), self.version > 0);
                events.push(CartEvent::Opened { at, customer, ttl_ms, age_ends_at, deadline, remembered: None, known });
                deadline
            }
        };
        let LineChanges { added: lines, grown, noted, views } = line_changes(at, granted, items, next_line);
        let lines_version = self.version + events.len() as u64 + 1;
        let held = Held { cart: self.id, lines: views, currency, deadline, lines_version };
        let answer = if setting { KeptAnswer::Cart(self.view_with(at, &held)) } else { KeptAnswer::Held(held) };
        let place = |line: &GrantedLine<'_>| {
            let Granted { version, position, .. } = *line.granted;
            At { entity: line.wanted.entity.clone(), version, position }
        };
        let asked: Vec<At> = granted.iter().map(place).collect();
        let remembered = Remembered { request, answer: answer.clone(), asked: asked.clone() };
        let known = self.body.is_none() || self.customer().is_some();
        let customer = customer.filter(|_| !known);
        events.push(CartEvent::LinesAdded { at, lines, grown, noted, customer, currency, deadline, remembered });
        Ok(Added { events, answer, asked })
    }

    /// Sets a line to the quantity that it has. The cart is touched and remembers the request, so a late repeat changes nothing.
    pub(crate) fn decide_same(&self, at: Timestamp, request: Request) -> Result<CartEvent, Refusal> {
        let body = self.check_takes_request()?;
        let deadline = body.touched(at);
        let view = CartView { deadline, modified_at: at, ..self.view().expect("an active cart is open") };
        let remembered = Remembered::alone(request, KeptAnswer::Cart(view));
        Ok(CartEvent::Touched { at, deadline, remembered })
    }

    /// Changes the note of a line. An empty one ends it.
    pub(crate) fn decide_note(
        &self,
        at: Timestamp,
        request: Request,
        number: u32,
        note: Note,
    ) -> Result<CartEvent, Refusal> {
        let body = self.check_takes_request()?;
        self.line(number)?;
        let (deadline, note) = (body.touched(at), note.into_plain());
        let mut view = CartView { deadline, modified_at: at, ..self.view().expect("an active cart is open") };
        let shown = view.lines.iter_mut().find(|line| line.line == number);
        shown.expect("the line was looked up").note.clone_from(&note);
        let remembered = Remembered::alone(request, KeptAnswer::Cart(view));
        let currency = body.currency.expect("a cart with lines has a currency");
        let (lines, grown, noted) = (Vec::new(), Vec::new(), Vec::from([(number, note)]));
        Ok(CartEvent::LinesAdded { at, lines, grown, noted, customer: None, currency, deadline, remembered })
    }

    /// Writes lines that were added, that grew, or that stayed as they were.
    pub(super) fn add_lines(&mut self, event: &CartEvent) {
        let CartEvent::LinesAdded { at, lines, grown, noted, customer, currency, deadline, remembered: _ } = event
        else {
            panic!("{event:?} adds no lines");
        };
        let version = self.version;
        let body = self.active();
        assert!(body.currency.is_none_or(|known| known == *currency), "a cart has one currency");
        body.currency = Some(*currency);
        if customer.is_some() {
            assert!(body.customer.is_none(), "a cart has one customer");
            body.customer.clone_from(customer);
        }
        body.lines.reserve_exact(lines.len());
        let first = body.lines.len();
        lines.iter().for_each(|line| body.add(*at, line));
        grown.iter().for_each(|line| body.grow(line));
        noted.iter().for_each(|(line, note)| body.line_mut(*line).note.clone_from(note));
        if !(lines.is_empty() && grown.is_empty()) {
            body.lines_version = version;
        }
        body.live_until(*deadline);
        self.release_surplus_uses(first, lines);
    }

    /// Releases the uses of codes that new lines hold and do not need, because their seats were cheaper without the code.
    fn release_surplus_uses(&mut self, first: usize, added: &[NewLine]) {
        let id = self.id;
        let body = self.body.as_mut().expect("it has lines");
        let mut releases = Vec::new();
        for (line, new) in body.lines[first..].iter_mut().zip(added) {
            let surplus = new.code.as_ref().filter(|code| code.granted > new.item.content.uses());
            if let Some(code) = surplus.filter(|_| !planted::is("a use that no seat needs")) {
                let revisions = NewRevisions { code: Some(committed_after(code.revision)), ..NewRevisions::default() };
                releases.extend(line.release(id, None, revisions, false));
            }
        }
        self.owe_releases(releases);
    }

    /// The number of the first new line, if the cart has room for all of them.
    fn next_line_of(&self, granted: &[GrantedLine<'_>]) -> Result<u32, Refusal> {
        let (lines, next_line) = self.body.as_ref().map_or((0, 1), |body| (body.lines.len(), body.next_line));
        let fresh = granted.iter().filter(|line| line.line.is_none()).count();
        if lines + fresh > CART_LINES_MAX {
            return Err(Refusal::TooManyLines(CART_LINES_MAX as u32));
        }
        if next_line.checked_add(fresh as u32).is_none() {
            return Err(Refusal::BadRequest("the cart has had too many lines; use another cart".into()));
        }
        Ok(next_line)
    }

    /// The item of a granted line. A line that grows keeps its price, and its note unless there is a new one.
    fn item_of(&self, line: &GrantedLine<'_>) -> LineItem {
        let content = line.granted.content.as_ref().expect("a grant of a line has a content");
        let body = self.body.as_ref();
        let before = line.line.and_then(|number| body?.line(number));
        let grown = before.and_then(|before| before.content.with_quantity(content.quantity()));
        let note = match before {
            Some(before) if line.wanted.note.is_empty() => before.note.clone(),
            Some(_) | None => line.wanted.note.clone().into_plain(),
        };
        let zone = line.granted.zone.clone();
        LineItem { entity: line.wanted.entity.clone(), content: grown.unwrap_or_else(|| content.clone()), note, zone }
    }

    fn one_currency(&self, granted: &[GrantedLine<'_>]) -> Result<Currency, Refusal> {
        let known = self.body.as_ref().and_then(|body| body.currency);
        let theirs = |line: &GrantedLine<'_>| line.granted.currency.expect("a grant of a line has a currency");
        let currency = known.unwrap_or_else(|| theirs(&granted[0]));
        match granted.iter().find(|line| theirs(line) != currency) {
            None => Ok(currency),
            Some(other) => {
                let (entity, theirs) = (&other.wanted.entity, theirs(other));
                let text =
                    format_smolstr!("the cart pays in {currency:?}, {entity} asks for {theirs:?}; use another cart");
                Err(Refusal::BadRequest(text))
            }
        }
    }

    /// Checks the quantity of each entity that the cart would have against the limit of one order.
    fn check_limits(&self, granted: &[GrantedLine<'_>], items: &[LineItem]) -> Result<(), Refusal> {
        for one in granted {
            let Some(max) = one.granted.limits.per_order else { continue };
            let entity = &one.wanted.entity;
            let added = items.iter().filter(|item| item.entity == *entity);
            let added: u64 = added.map(|item| u64::from(item.content.quantity())).sum();
            let kept = self.lines_but(granted).filter(|line| line.entity == *entity);
            let kept: u64 = kept.map(|line| u64::from(line.content.quantity())).sum();
            if added + kept > u64::from(max) {
                return Err(Refusal::LimitPerOrder { entity: entity.clone(), max });
            }
        }
        Ok(())
    }

    fn check_total(&self, granted: &[GrantedLine<'_>], items: &[LineItem]) -> Result<(), Refusal> {
        let all = self.lines_but(granted).map(|line| &line.content).chain(items.iter().map(|item| &item.content));
        let too_much = || Refusal::BadRequest("the cart would come to more than any cart may".into());
        total(all).map(|_| ()).ok_or_else(too_much)
    }

    /// The lines that do not grow.
    fn lines_but<'a>(&'a self, granted: &'a [GrantedLine<'_>]) -> impl Iterator<Item = &'a Line> {
        let lines = self.body.as_ref().map_or(&[][..], |body| &body.lines);
        lines.iter().filter(|line| granted.iter().all(|grown| grown.line != Some(line.number)))
    }
}

/// New lines, lines that grow, and how the client sees both.
fn line_changes(at: Timestamp, granted: &[GrantedLine<'_>], items: Vec<LineItem>, next_line: u32) -> LineChanges {
    let grown = granted.iter().filter(|line| line.line.is_some()).count();
    let mut changes = LineChanges {
        added: Vec::with_capacity(granted.len() - grown),
        grown: Vec::with_capacity(grown),
        noted: Vec::new(),
        views: Vec::with_capacity(granted.len()),
    };
    for (asked, item) in granted.iter().zip(items) {
        let Granted { hold, revision, late, ttl_ms, life_ms, .. } = *asked.granted;
        let ends_at = life_ms.map(|life_ms| at.after(life_ms));
        let believed_until = asked.believed_until;
        let line = asked.line.unwrap_or(next_line + changes.added.len() as u32);
        changes.views.push(LineView { line, item: item.clone(), late });
        if asked.line.is_some() {
            if !asked.wanted.note.is_empty() {
                changes.noted.push((line, item.note));
            }
            let (content, quota_revision) = (item.content, asked.quota.as_ref().map_or(0, |quota| quota.revision));
            changes.grown.push(GrownLine { line, revision, quota_revision, content, ends_at, believed_until });
        } else {
            let (hold, quota) = ((!late).then_some((hold, revision)), asked.quota.clone());
            let code = asked.code.clone();
            changes.added.push(NewLine { item, hold, quota, code, ttl_ms, ends_at, believed_until });
        }
    }
    changes
}
