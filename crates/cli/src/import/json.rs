//! Import files: venues with their halls and sessions, titles, products and resources. `config/examples/royal.json` and
//! `config/examples/corner.json` show every key.

use std::{fmt, sync::Arc};

use boxoffice_core::{
    command::{Allotment, Area, Counter, Limits, Offer, Offering, PriceType, VenueDetails},
    id::Id,
    layout::Layout,
    money::{Currency, Money},
    names::Names,
};
use boxoffice_wire::{body::Position, repr::WireRepr};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use super::{
    plan::{CodePlan, HallPlan, ImportPlan, SaleTimes, SessionPlan, VenuePlan},
    things::{self, RawList},
    when::{SaleTime, When},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    /// The currency of prices that are plain numbers.
    #[serde(default, deserialize_with = "WireRepr::read")]
    currency: Option<Currency>,
    #[serde(default)]
    titles: RawList,
    #[serde(default)]
    products: RawList,
    #[serde(default)]
    resources: RawList,
    #[serde(default)]
    codes: RawList,
    #[serde(default)]
    venues: Vec<Venue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Venue {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    #[serde(deserialize_with = "WireRepr::read")]
    id: Id,
    name: String,
    #[serde(default)]
    city: String,
    #[serde(default, deserialize_with = "position")]
    position: Option<(i32, i32)>,
    #[serde(default)]
    comments: String,
    /// The IANA name of its time zone, in which the times of its sessions are.
    zone: Option<String>,
    #[serde(default)]
    address: String,
    #[serde(default)]
    halls: Vec<Hall>,
    #[serde(default)]
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hall {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    #[serde(deserialize_with = "WireRepr::read")]
    id: Id,
    name: Option<String>,
    #[serde(default)]
    comments: String,
    #[serde(deserialize_with = "WireRepr::read")]
    layout: Arc<Layout>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    #[serde(deserialize_with = "WireRepr::read")]
    id: Id,
    #[serde(deserialize_with = "WireRepr::read")]
    hall: Id,
    #[serde(deserialize_with = "WireRepr::read")]
    title: Id,
    starts_at: When,
    ends_at: When,
    prices: Prices,
    #[serde(default)]
    areas: Vec<WantedArea>,
    #[serde(default)]
    hold_ttl_ms: Option<u64>,
    #[serde(default, deserialize_with = "WireRepr::read")]
    limits: Limits,
    #[serde(default)]
    comments: String,
    #[serde(default)]
    sells_after_begin: bool,
    #[serde(default)]
    no_single_seats: bool,
    #[serde(default)]
    min_party: Option<u16>,
    #[serde(default, deserialize_with = "WireRepr::read")]
    price_types: Vec<PriceType>,
    #[serde(default)]
    offers: Vec<WantedOffer>,
    #[serde(default, deserialize_with = "WireRepr::read")]
    counters: Vec<Counter>,
    #[serde(default)]
    allotments: Vec<WantedAllotment>,
}

/// An offer without its times, and when it opens and ends.
struct WantedOffer {
    offer: Offer,
    window: (Option<SaleTime>, Option<SaleTime>),
}

/// An allotment without its time, and when it is released.
struct WantedAllotment {
    allotment: Allotment,
    release: Option<SaleTime>,
}

/// Places without seats. The price is in the file's currency by default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedArea {
    #[serde(deserialize_with = "WireRepr::read")]
    id: Id,
    name: Option<String>,
    capacity: u32,
    price: Price,
    /// Its names for people, by locale.
    #[serde(default, deserialize_with = "WireRepr::read")]
    names: Names,
}

/// Prices: `{"standard": 1000, "premium": {"amount": 2500, "currency": "EUR"}, "*": 700}`.
struct Prices(Vec<(Option<Id>, Price)>);

/// Minor units, with an optional currency.
struct Price {
    amount: i64,
    currency: Option<Currency>,
}

fn position<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<(i32, i32)>, D::Error> {
    match Option::<Position>::deserialize(deserializer)? {
        Some(position) => position
            .millionths()
            .map(Some)
            .ok_or_else(|| de::Error::custom("this position is not on the globe; lon is −180 to 180, lat −90 to 90")),
        None => Ok(None),
    }
}

impl<'de> Deserialize<'de> for Prices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Prices, D::Error> {
        struct Map;

        impl<'de> de::Visitor<'de> for Map {
            type Value = Prices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from category to price")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Prices, A::Error> {
                let mut prices: Vec<(Option<Id>, Price)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let category = match name.as_str() {
                        "*" => None,
                        name => Some(Id::new(name).ok_or_else(|| {
                            de::Error::custom(format!("{name:?} is no category (1 to 64 of A-Z a-z 0-9 . _ : -)"))
                        })?),
                    };
                    if prices.iter().any(|(known, _)| *known == category) {
                        return Err(de::Error::custom(format!("{name:?} has two prices; leave one out")));
                    }
                    prices.push((category, map.next_value()?));
                }
                Ok(Prices(prices))
            }
        }

        deserializer.deserialize_map(Map)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Price, D::Error> {
        struct NumberOrMoney;

        impl<'de> de::Visitor<'de> for NumberOrMoney {
            type Value = Price;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a price in minor units, like 1000 or {\"amount\": 1000, \"currency\": \"EUR\"}")
            }

            fn visit_u64<E: de::Error>(self, amount: u64) -> Result<Price, E> {
                let amount = i64::try_from(amount).map_err(|_| E::custom("this price is too high"))?;
                Ok(Price { amount, currency: None })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Price, A::Error> {
                let money = Money::read(de::value::MapAccessDeserializer::new(map))?;
                Ok(Price { amount: money.amount, currency: Some(money.currency) })
            }
        }

        deserializer.deserialize_any(NumberOrMoney)
    }
}

impl<'de> Deserialize<'de> for WantedOffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WantedOffer, D::Error> {
        let mut body = deserializer.deserialize_map(EachOnce)?;
        let window = (sale_time(&mut body, "from")?, sale_time(&mut body, "until")?);
        Ok(WantedOffer { offer: without_remark(body)?, window })
    }
}

impl<'de> Deserialize<'de> for WantedAllotment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WantedAllotment, D::Error> {
        let mut body = deserializer.deserialize_map(EachOnce)?;
        let release = sale_time(&mut body, "release_at")?;
        Ok(WantedAllotment { allotment: without_remark(body)?, release })
    }
}

/// Reads an entry of which no key is there twice.
struct EachOnce;

impl<'de> de::Visitor<'de> for EachOnce {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Map<String, Value>, A::Error> {
        let mut body = Map::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if body.contains_key(&key) {
                return Err(de::Error::custom(format!("`{key}` is there twice; leave one out")));
            }
            body.insert(key, value);
        }
        Ok(body)
    }
}

/// Takes a time out of an entry. What is no text stays, and is refused as in a request.
fn sale_time<E: de::Error>(body: &mut Map<String, Value>, key: &str) -> Result<Option<SaleTime>, E> {
    let Some(text) = body.get(key).and_then(Value::as_str) else { return Ok(None) };
    let time = SaleTime::read(text).map_err(|why| E::custom(format!("`{key}`: {why}")))?;
    body.remove(key);
    Ok(Some(time))
}

/// Reads an entry as in a request. It may have a remark.
fn without_remark<T: WireRepr, E: de::Error>(mut body: Map<String, Value>) -> Result<T, E> {
    body.remove("about");
    T::read(Value::Object(body)).map_err(E::custom)
}

/// Reads an import file.
///
/// # Errors
/// The message has the line and column, or the name of the wrong entry.
pub fn read(text: &str) -> Result<ImportPlan, String> {
    let file: File = serde_json::from_str(text).map_err(|error| located(&error))?;
    let currency = file.currency;
    let code = |(code, details)| CodePlan { code, details, keeps_ended: false, keeps_by_order: false, line: None };
    Ok(ImportPlan {
        titles: things::titles(file.titles)?,
        products: things::products(file.products)?,
        resources: things::resources(file.resources)?,
        codes: things::codes(file.codes)?.into_iter().map(code).collect(),
        venues: file.venues.into_iter().map(|venue| venue.plan(currency)).collect::<Result<_, _>>()?,
        ..ImportPlan::default()
    })
}

fn located(error: &serde_json::Error) -> String {
    let (line, column, words) = (error.line(), error.column(), error.to_string());
    let what = words.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&words);
    format!("line {line}, column {column}: {what}")
}

impl Venue {
    fn plan(self, currency: Option<Currency>) -> Result<VenuePlan, String> {
        let details = VenueDetails {
            name: self.name.into(),
            city: self.city.into(),
            position: self.position,
            comments: self.comments.into(),
            zone: self.zone.map(Into::into),
            address: self.address.into(),
        };
        let hall = |hall: Hall| HallPlan {
            name: hall.name.unwrap_or_else(|| hall.id.to_string()),
            id: hall.id,
            comments: hall.comments,
            layout: hall.layout,
        };
        let sessions = self.sessions.into_iter().map(|session| session.plan(currency)).collect::<Result<_, _>>()?;
        let halls = self.halls.into_iter().map(hall).collect();
        Ok(VenuePlan { id: self.id, details, only_if_absent: false, halls, sessions })
    }
}

impl Price {
    /// The price in its own currency or the file's.
    fn money(&self, currency: Option<Currency>, of: &str) -> Result<Money, String> {
        let currency = self
            .currency
            .or(currency)
            .ok_or_else(|| format!("{of}: a price is a plain number, but the file has no `currency`; add one"))?;
        Ok(Money { amount: self.amount, currency })
    }
}

impl Session {
    fn plan(self, currency: Option<Currency>) -> Result<SessionPlan, String> {
        let (mut prices, mut other_price) = (Vec::new(), None);
        let of = format!("session {}", self.id);
        for (category, price) in self.prices.0 {
            let money = price.money(currency, &of)?;
            match category {
                Some(category) => prices.push((category, money)),
                None => other_price = Some(money),
            }
        }
        let area = |area: WantedArea| {
            let (price, name) = (area.price.money(currency, &of)?, area.name.unwrap_or_else(|| area.id.to_string()));
            Ok(Area { id: area.id, name: name.into(), capacity: area.capacity, price, names: area.names })
        };
        let areas = self.areas.into_iter().map(area).collect::<Result<_, String>>()?;
        Ok(SessionPlan {
            id: self.id,
            hall: self.hall,
            title: self.title,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            prices,
            other_price,
            areas,
            hold_ttl_ms: self.hold_ttl_ms,
            limits: self.limits,
            comments: self.comments,
            sells_after_begin: self.sells_after_begin,
            no_single_seats: self.no_single_seats,
            // A party of one is no condition.
            min_party: self.min_party.filter(|min| *min != 1),
            times: SaleTimes {
                offers: self.offers.iter().map(|offer| offer.window).collect(),
                releases: self.allotments.iter().map(|allotment| allotment.release).collect(),
            },
            offering: Offering {
                price_types: self.price_types,
                offers: self.offers.into_iter().map(|wanted| wanted.offer).collect(),
                counters: self.counters,
                allotments: self.allotments.into_iter().map(|wanted| wanted.allotment).collect(),
            },
        })
    }
}
