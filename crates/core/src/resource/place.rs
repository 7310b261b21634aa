//! The terms from a resource's details, for its calendar, its zone and the price of time.

use alloc::{sync::Arc, vec::Vec};
use core::array;

use smol_str::{SmolStr, format_smolstr};

use crate::{
    calendar::{Civil, CivilError, Date, Hours, OpenTime, Slot, SlotRefusal, Terms, Zone},
    command::{OpeningHours, Rate, ResourceDetails, When},
    money::PRICE_MAX,
    planted,
    refusal::Refusal,
    time::Timestamp,
};

/// The zone of a resource and the terms of its calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) zone: Zone,
    pub(super) terms: Terms,
}

impl Place {
    /// Checks details that are to be put.
    ///
    /// # Errors
    /// A text that says what is wrong with them.
    pub(super) fn check_details(details: &ResourceDetails) -> Result<(), SmolStr> {
        let zone = Zone::new(&details.zone);
        let zone = zone.ok_or_else(|| format_smolstr!("{} is no zone of the IANA database", details.zone))?;
        if let Some(opening) = &details.hours {
            let exceptions = opening.exceptions.iter().map(|(date, times)| {
                let known = Date::parse(date).ok_or_else(|| format_smolstr!("{date} is no day like 2026-12-24"))?;
                Ok((known, open_times(times)))
            });
            let exceptions = exceptions.collect::<Result<Vec<_>, SmolStr>>()?;
            Hours::new(zone, weekly(opening), exceptions)?;
        }
        terms(details, None).validate()
    }

    /// The place from details that were checked when they were put, whatever a rule says by now. In a zone that this program does
    /// not know nothing is open, until the details are put with another one.
    pub(super) fn decided(details: &ResourceDetails) -> Place {
        let Some(zone) = Zone::new(&details.zone) else {
            let closed = Hours::decided(Zone::utc(), Default::default(), []);
            return Place { zone: Zone::utc(), terms: terms(details, Some(closed)) };
        };
        let hours = details.hours.as_ref().map(|opening| {
            let exceptions = opening.exceptions.iter();
            let known = exceptions.filter_map(|(date, times)| Some((Date::parse(date)?, open_times(times))));
            Hours::decided(zone.clone(), weekly(opening), known)
        });
        Place { zone, terms: terms(details, hours) }
    }

    /// A placeholder while states are read.
    pub(super) fn unset() -> Arc<Place> {
        Arc::new(Place { zone: Zone::utc(), terms: Terms::default() })
    }

    /// The slot that is asked for.
    pub(super) fn asked(&self, when: &When) -> Result<Slot, Refusal> {
        let (begin, end) = match when {
            When::Utc { begin, end } => (*begin, *end),
            When::Local { begin, end } => (self.instant(local(begin)?)?, self.instant(local(end)?)?),
        };
        Slot::asked(begin, end).map_err(|refusal| self.refusal(&refusal, None))
    }

    /// Checks a slot against the terms, without the bookings.
    pub(super) fn check(&self, at: Timestamp, slot: Slot) -> Result<(), Refusal> {
        self.terms.check(at, slot).map_err(|refusal| self.refusal(&refusal, Some(slot)))?;
        match self.terms.latest(at) {
            Some(latest) if slot.end() > latest => {
                let text = format_smolstr!("the slot ends too late; {} is the latest", self.show(latest));
                Err(Refusal::TooSoonOrFar(text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that a cart may hold a slot that begins then. Time that has passed is not for sale. Only bookings without a cart
    /// may have begun.
    pub(super) fn check_begin(&self, at: Timestamp, slot: Slot) -> Result<(), Refusal> {
        if slot.begin() >= at || planted::is("a slot in the past") {
            return Ok(());
        }
        Err(self.refusal(&SlotRefusal::TooSoon { earliest: at.after(self.terms.notice_ms) }, Some(slot)))
    }

    /// An instant as local time.
    pub(super) fn show(&self, instant: Timestamp) -> SmolStr {
        self.zone.civil(instant).map_or_else(|| format_smolstr!("{} ms", instant.0), |local| format_smolstr!("{local}"))
    }

    /// The nearest instant of a local time. It is the first of two, or the first later one if the clocks skip it.
    pub(super) fn nearest(&self, local: Civil) -> Timestamp {
        // Clocks go forward by less than 26 hours.
        let mut later = local;
        for _ in 0..26 * 4 {
            match self.zone.instant(later) {
                Ok(instant) | Err(CivilError::ExistsTwice { first: instant, .. }) => return instant,
                Err(CivilError::DoesNotExist { .. }) => {}
                Err(CivilError::OutOfRange) => break,
            }
            let Some(next) = quarter_later(later) else { break };
            later = next;
        }
        Timestamp(0)
    }

    fn instant(&self, local: Civil) -> Result<Timestamp, Refusal> {
        self.zone.instant(local).map_err(|error| Refusal::BadInterval(format_smolstr!("{local}: {error}")))
    }

    fn refusal(&self, refusal: &SlotRefusal, slot: Option<Slot>) -> Refusal {
        match refusal {
            SlotRefusal::BadInterval(reason) => Refusal::BadInterval(reason.clone()),
            SlotRefusal::OutsideHours => Refusal::OutsideHours(slot.map_or_else(SmolStr::default, |slot| {
                format_smolstr!("{} to {}", self.show(slot.begin()), self.show(slot.end()))
            })),
            SlotRefusal::TooSoon { earliest } => Refusal::TooSoonOrFar(format_smolstr!(
                "the slot begins too soon; {} is the earliest",
                self.show(*earliest)
            )),
            SlotRefusal::TooFar { latest } => {
                Refusal::TooSoonOrFar(format_smolstr!("the slot begins too late; {} is the latest", self.show(*latest)))
            }
        }
    }
}

/// A local time from text.
pub(super) fn local(text: &SmolStr) -> Result<Civil, Refusal> {
    let bad = || Refusal::BadInterval(format_smolstr!("{text} is no local time like 2026-03-29T02:30"));
    Civil::parse(text).ok_or_else(bad)
}

/// The price of a slot. The amount is for every begun span, or for the whole slot.
pub(super) fn price(rate: &Rate, slot: Slot) -> Result<i64, Refusal> {
    let spans = rate.per_ms.map_or(1, |per_ms| slot.length_ms().div_ceil(per_ms));
    let price = i128::from(rate.amount) * i128::from(spans);
    i64::try_from(price).ok().filter(|price| *price <= PRICE_MAX).ok_or_else(|| {
        Refusal::BadInterval(format_smolstr!("so long a slot would cost more than {PRICE_MAX} minor units"))
    })
}

fn terms(details: &ResourceDetails, hours: Option<Hours>) -> Terms {
    Terms {
        capacity: details.capacity,
        before_ms: details.before_ms,
        after_ms: details.after_ms,
        notice_ms: details.notice_ms,
        horizon_ms: details.horizon_ms,
        hours,
    }
}

fn weekly(opening: &OpeningHours) -> [Vec<OpenTime>; 7] {
    array::from_fn(|day| open_times(&opening.week[day]))
}

fn open_times(times: &[(u16, u16)]) -> Vec<OpenTime> {
    times.iter().map(|(open, close)| OpenTime { open: *open, close: *close }).collect()
}

fn quarter_later(local: Civil) -> Option<Civil> {
    const QUARTER_MS: u32 = 15 * 60_000;
    const DAY_MS: u32 = 24 * 60 * 60_000;
    let time_ms = local.time_ms() + QUARTER_MS;
    let date = if time_ms < DAY_MS { local.date() } else { local.date().days_later(1)? };
    Civil::new(date, time_ms % DAY_MS)
}
