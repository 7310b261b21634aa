//! Spreadsheets and the plans of other systems: what the file says, with what the command line adds.

use boxoffice_core::{
    command::{Area, Limits, VenueDetails},
    id::Id,
    money::{Currency, Money},
};
use boxoffice_seating::{self as seating, Place, SeatFile, Seating};
use serde_json::{Map, Value, json};

use super::{
    code_list, json,
    plan::{HallPlan, ImportPlan, SessionPlan, VenuePlan},
    price_list::{self, PriceFile},
    things,
    when::When,
};
use crate::{args::Import, draw};

/// The default start of a session.
const STARTS_AT: &str = "+1d 19:30";

/// The end of a session from a file of seats, after its start.
const ENDS_AT: &str = "+3h";

/// Prices of categories, and the price of all others.
#[derive(Default)]
struct Prices {
    own: Vec<(Id, Money)>,
    other: Option<Money>,
}

/// Reads a file of any kind.
///
/// # Errors
/// What is wrong with the file or the command line, in words.
pub fn read(bytes: &[u8], args: &Import) -> Result<ImportPlan, String> {
    let extension = args.file.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    if matches!(extension.as_deref(), Some("csv" | "tsv" | "txt")) {
        if let Some(plan) = list(bytes, args)? {
            return Ok(plan);
        }
        only_for_prices(args)?;
        let names_hall = args.venue.is_some() || args.hall.is_some();
        return if !names_hall && seating::is_product_list(bytes) {
            products(bytes, args)
        } else {
            let file = seating::read_seats(bytes)?;
            hall(file, args)
        };
    }
    only_for_prices(args)?;
    let text = seating::decode(bytes)?.text;
    let root: Option<Value> = serde_json::from_str(&text).ok();
    let stage = args.stage.as_deref().map(place).transpose()?;
    match root.map(|root| seating::read_plan(&root, stage)).transpose()?.flatten() {
        Some(seating) => hall(SeatFile { seating, prices: Default::default(), decimal_mark: None }, args),
        None => json::read(&text),
    }
}

/// The codes or the prices of a list. `None` if the file is neither.
fn list(bytes: &[u8], args: &Import) -> Result<Option<ImportPlan>, String> {
    let plan = match code_list::read(bytes)? {
        Some(codes) => {
            only_for_prices(args)?;
            codes
        }
        None => match price_list::read(bytes, args.keep_absent)? {
            Some(PriceFile { prices, note }) => ImportPlan { prices, notes: vec![note], ..ImportPlan::default() },
            None => return Ok(None),
        },
    };
    let Import { venue, zone, hall, stage, session, starts_at, prices, .. } = args;
    let said = [
        ("--venue", venue.is_some()),
        ("--zone", zone.is_some()),
        ("--hall", hall.is_some()),
        ("--stage", stage.is_some()),
        ("--session", session.is_some()),
        ("--starts-at", starts_at.is_some()),
        ("--price", !prices.is_empty()),
    ];
    match said.into_iter().find(|(_, is_said)| *is_said) {
        Some((option, _)) => Err(format!("{option} is for files of seats, and this is a list; leave it out")),
        None => Ok(Some(plan)),
    }
}

fn only_for_prices(args: &Import) -> Result<(), String> {
    match args.keep_absent {
        true => Err("--keep-absent is for lists of prices (session,price_type,category,price); leave it out".into()),
        false => Ok(()),
    }
}

/// Reads `X,Y`.
fn place(text: &str) -> Result<Place, String> {
    let wrong = || format!("--stage {text}: write X,Y with two numbers, like 120,-40");
    let (x, y) = text.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong);
    Ok(Place { x: number(x)?, y: number(y)? })
}

/// The hall of a file of seats, and its session if one is wanted.
fn hall(file: SeatFile, args: &Import) -> Result<ImportPlan, String> {
    let id = |option: &str, value: &Option<String>| match value {
        Some(text) => Id::new(text).ok_or_else(|| format!("{option} {text}: an id is 1 to 64 of A-Z a-z 0-9 . _ : -")),
        None => Err(format!("the seats of a file are one hall: say which with {option}")),
    };
    let (venue, hall) = (id("--venue", &args.venue)?, id("--hall", &args.hall)?);
    let mut notes = file.seating.notes.clone();
    let warnings = file.seating.warnings.clone();
    let sessions = match &args.session {
        Some(_) => {
            let prices = prices(&file, args)?;
            let areas = areas(&file.seating, &prices, &mut notes);
            vec![session(id("--session", &args.session)?, hall.clone(), prices, areas, args)?]
        }
        None if args.starts_at.is_some() || !args.prices.is_empty() => {
            return Err("--starts-at and --price belong to a session: name it with --session".into());
        }
        None => {
            if !file.prices.is_empty() {
                notes.push("prices belong to a session, so they are left out; name one with --session".into());
            }
            let areas: Vec<String> =
                file.seating.areas.iter().map(|area| format!("{} ({} places)", area.name, area.capacity)).collect();
            if !areas.is_empty() {
                let areas = areas.join(", ");
                notes
                    .push(format!("areas belong to a session, so they are left out: {areas}; name one with --session"));
            }
            Vec::new()
        }
    };
    let Seating { layout, .. } = file.seating;
    let name = venue.as_str().into();
    let zone = args.zone.as_deref().map(Into::into);
    let (city, comments, address) = ("".into(), "".into(), "".into());
    let details = VenueDetails { name, city, position: None, comments, zone, address };
    let halls = vec![HallPlan { name: hall.to_string(), id: hall, comments: String::new(), layout }];
    let venues = vec![VenuePlan { id: venue, details, only_if_absent: true, halls, sessions }];
    Ok(ImportPlan { venues, notes, warnings, ..ImportPlan::default() })
}

fn session(id: Id, hall: Id, prices: Prices, areas: Vec<Area>, args: &Import) -> Result<SessionPlan, String> {
    let read = |text: &str| When::read(text).map_err(|error| format!("--starts-at {error}"));
    let starts_at = read(args.starts_at.as_deref().unwrap_or(STARTS_AT))?;
    let ends_at = When::read(ENDS_AT).expect("the usual length is a time");
    Ok(SessionPlan {
        title: id.clone(),
        id,
        hall,
        starts_at,
        ends_at,
        prices: prices.own,
        other_price: prices.other,
        areas,
        hold_ttl_ms: None,
        limits: Limits::default(),
        comments: String::new(),
        sells_after_begin: false,
        no_single_seats: false,
        min_party: None,
        offering: Default::default(),
        times: Default::default(),
    })
}

/// The prices of the file and of the command line.
fn prices(file: &SeatFile, args: &Import) -> Result<Prices, String> {
    let currency = currency(args)?;
    let mut prices = Prices::default();
    for text in &args.prices {
        let (category, price) = price(text, currency)?;
        match category {
            Some(category) => prices.own.push((category, price)),
            None => prices.other = Some(price),
        }
    }
    for (category, (line, text)) in &file.prices {
        let amount = seating::minor_units(text, file.decimal_mark, draw::digits(currency));
        let amount = amount
            .map_err(|error| seating::amount_words(&format!("line {line} (price)"), text, error, currency.as_str()))?;
        let price = Money { amount, currency };
        let id = file.seating.categories.get(category).cloned();
        let id = id.ok_or_else(|| format!("line {line} (price): no seat has the category {category}"))?;
        match prices.own.iter().find(|(known, _)| *known == id) {
            None => prices.own.push((id, price)),
            Some((_, known)) if *known == price => {}
            Some((_, known)) => {
                let (known, price) = (draw::amount(*known), draw::amount(price));
                return Err(format!(
                    "category {id} costs {known} by --price and {price} in line {line}; leave one out"
                ));
            }
        }
    }
    Ok(prices)
}

/// The areas of a plan that have a price.
fn areas(seating: &Seating, prices: &Prices, notes: &mut Vec<String>) -> Vec<Area> {
    let mut areas = Vec::new();
    for area in &seating.areas {
        let own = prices.own.iter().find(|(category, _)| Some(category) == area.category.as_ref());
        match own.map(|(_, price)| *price).or(prices.other).filter(|_| area.capacity > 0) {
            Some(price) => {
                let (id, name) = (area.id.clone(), area.name.as_str().into());
                areas.push(Area { id, name, capacity: area.capacity, price, names: Default::default() });
            }
            None => {
                let category = area.category.as_ref().map_or("*", Id::as_str);
                notes.push(format!(
                    "area {} is left out, because it has no price; say --price {category}=AMOUNT",
                    area.name
                ));
            }
        }
    }
    areas
}

fn currency(args: &Import) -> Result<Currency, String> {
    let code = &args.currency;
    Currency::new(code).ok_or_else(|| format!("--currency {code}: a currency is three capital letters"))
}

/// Reads `category=amount`. `*` stands for all other categories.
pub fn price(text: &str, currency: Currency) -> Result<(Option<Id>, Money), String> {
    let wrong = || format!("--price {text}: write CATEGORY=AMOUNT with the amount in minor units, like standard=1000");
    let (category, amount) = text.split_once('=').ok_or_else(wrong)?;
    let amount = amount.parse::<u32>().map_err(|_| wrong())?;
    let category = match category {
        "*" => None,
        category => Some(Id::new(category).ok_or_else(wrong)?),
    };
    Ok((category, Money { amount: i64::from(amount), currency }))
}

/// The products of a list.
fn products(bytes: &[u8], args: &Import) -> Result<ImportPlan, String> {
    let currency = currency(args)?;
    let digits = |code: &str| Currency::new(code).map(draw::digits);
    let file = seating::read_products(bytes, currency.as_str(), digits)?;
    let body = |product: seating::ProductLine| -> Map<String, Value> {
        let price = json!({ "amount": product.amount, "currency": product.currency });
        [
            ("id", json!(product.id.as_str())),
            ("name", json!(product.name)),
            ("price", price),
            ("stock", json!(product.stock)),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    };
    let list: Vec<Map<String, Value>> = file.products.into_iter().map(body).collect();
    let products = things::products(list.into())?;
    Ok(ImportPlan { products, products_are_lines: true, notes: file.notes, ..ImportPlan::default() })
}
