//! How a cart adds lines and makes lines grow, when every inventory has granted its part.

use alloc::vec::Vec;

use smol_str::format_smolstr;

use super::{CART_LINES_MAX, Cart, Line};
use crate::{
    answer::{Answer, At, Held, LineView},
    ask::Granted,
    event::{CartEvent, GrownLine, NewLine, QuotaClaim, Remembered},
    id::{Entity, Id, Request},
    money::Currency,
    portion::{Content, total},
    refusal::Refusal,
    time::{TIMESTAMP_MAX, Timestamp},
};

/// A line that was asked for, with the grant.
pub(crate) struct GrantedLine<'a> {
    /// Its inventory.
    pub(crate) entity: &'a Entity,
    pub(crate) granted: &'a Granted,
    /// The line that grows. A new line if absent.
    pub(crate) line: Option<u32>,
    /// The hold on the customer's quota, if there is a limit.
    pub(crate) quota: Option<QuotaClaim>,
    /// Until when the inventory or the customer may believe in its hold without asking the cart.
    pub(crate) believed_until: Timestamp,
}

/// The result of an add, before it is written.
pub(crate) struct Added {
    pub(crate) events: Vec<CartEvent>,
    pub(crate) answer: Answer,
    /// The versions of the inventories, in the order of the lines.
    pub(crate) asked: Vec<At>,
}

/// The changes of an add to each line.
struct LineChanges {
    added: Vec<NewLine>,
    grown: Vec<GrownLine>,
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
        let contents: Vec<Content> = granted.iter().map(|line| self.content_of(line)).collect();
        self.check_limits(granted, &contents)?;
        self.check_total(granted, &contents)?;

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
        let LineChanges { added: lines, grown, views } = line_changes(at, granted, contents, next_line);
        let lines_version = self.version + events.len() as u64 + 1;
        let held = Held { cart: self.id, lines: views, currency, deadline, lines_version };
        let answer = if setting { Answer::Cart(self.view_with(at, &held)) } else { Answer::Held(held) };
        let place = |line: &GrantedLine<'_>| {
            let Granted { version, position, .. } = *line.granted;
            At { entity: line.entity.clone(), version, position }
        };
        let asked: Vec<At> = granted.iter().map(place).collect();
        let remembered = Remembered { request, answer: answer.clone(), asked: asked.clone() };
        let known = self.body.is_none() || self.customer().is_some();
        let customer = customer.filter(|_| !known);
        events.push(CartEvent::LinesAdded { at, lines, grown, customer, currency, deadline, remembered });
        Ok(Added { events, answer, asked })
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

    /// The content of a granted line. A line that grows keeps its price.
    fn content_of(&self, granted: &GrantedLine<'_>) -> Content {
        let content = granted.granted.content.as_ref().expect("a grant of a line has a content");
        let before = granted.line.and_then(|number| self.line(number).ok());
        let grown = before.and_then(|(_, before)| before.with_quantity(content.quantity()));
        grown.unwrap_or_else(|| content.clone())
    }

    fn one_currency(&self, granted: &[GrantedLine<'_>]) -> Result<Currency, Refusal> {
        let known = self.body.as_ref().and_then(|body| body.currency);
        let theirs = |line: &GrantedLine<'_>| line.granted.currency.expect("a grant of a line has a currency");
        let currency = known.unwrap_or_else(|| theirs(&granted[0]));
        match granted.iter().find(|line| theirs(line) != currency) {
            None => Ok(currency),
            Some(other) => {
                let (entity, theirs) = (other.entity, theirs(other));
                let text =
                    format_smolstr!("the cart pays in {currency:?}, {entity} asks for {theirs:?}; use another cart");
                Err(Refusal::BadRequest(text))
            }
        }
    }

    /// Checks the quantity of each entity that the cart would have against the limit of one order.
    fn check_limits(&self, granted: &[GrantedLine<'_>], contents: &[Content]) -> Result<(), Refusal> {
        for one in granted {
            let Some(max) = one.granted.limits.per_order else { continue };
            let added = granted.iter().zip(contents).filter(|(other, _)| other.entity == one.entity);
            let added: u64 = added.map(|(_, content)| u64::from(content.quantity())).sum();
            let kept = self.lines_but(granted).filter(|line| line.entity == *one.entity);
            let kept: u64 = kept.map(|line| u64::from(line.content.quantity())).sum();
            if added + kept > u64::from(max) {
                return Err(Refusal::LimitPerOrder { entity: one.entity.clone(), max });
            }
        }
        Ok(())
    }

    fn check_total(&self, granted: &[GrantedLine<'_>], contents: &[Content]) -> Result<(), Refusal> {
        let all = self.lines_but(granted).map(|line| &line.content).chain(contents);
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
fn line_changes(at: Timestamp, granted: &[GrantedLine<'_>], contents: Vec<Content>, next_line: u32) -> LineChanges {
    let grown = granted.iter().filter(|line| line.line.is_some()).count();
    let mut changes = LineChanges {
        added: Vec::with_capacity(granted.len() - grown),
        grown: Vec::with_capacity(grown),
        views: Vec::with_capacity(granted.len()),
    };
    for (asked, content) in granted.iter().zip(contents) {
        let Granted { hold, revision, late, ttl_ms, life_ms, .. } = *asked.granted;
        let ends_at = life_ms.map(|life_ms| at.after(life_ms));
        let (entity, believed_until) = (asked.entity.clone(), asked.believed_until);
        let line = asked.line.unwrap_or(next_line + changes.added.len() as u32);
        changes.views.push(LineView { line, entity: entity.clone(), content: content.clone(), late });
        if asked.line.is_some() {
            let quota_revision = asked.quota.as_ref().map_or(0, |quota| quota.revision);
            changes.grown.push(GrownLine { line, revision, quota_revision, content, ends_at, believed_until });
        } else {
            let (hold, quota) = ((!late).then_some((hold, revision)), asked.quota.clone());
            changes.added.push(NewLine { entity, hold, quota, content, ttl_ms, ends_at, believed_until });
        }
    }
    changes
}
