//! Checks that several ops share. They need no state.

use std::fmt;

use boxoffice_core::{
    id::Id,
    money::{Currency, PRICE_MAX},
    refusal::Refusal,
    text::Text,
    time::Timestamp,
};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    bound,
    limits::{CURSOR_BYTES_MAX, INTERVAL_MS_MAX, PROPERTIES_MAX, PROPERTY_NAME_BYTES_MAX, PROPERTY_VALUE_BYTES_MAX},
    rejection::Rejection,
    repr::WireRepr,
};

pub(crate) type Converted<T> = Result<T, Rejection>;

/// Checks the length of a text or of bytes.
pub(crate) fn bytes_at_most(name: &str, length: usize, most: usize) -> Converted<()> {
    if length > most {
        return Err(Rejection::TooLarge(format_smolstr!("`{name}` has at most {most} bytes")));
    }
    Ok(())
}

/// Checks that a list is not too long.
pub(crate) fn at_most(count: usize, most: usize, what: impl fmt::Display) -> Converted<()> {
    if count > most {
        return Err(Rejection::TooLarge(format_smolstr!("at most {most} {what}")));
    }
    Ok(())
}

/// Checks that no two entries of a sorted list have the same key.
pub(crate) fn distinct<T, K: PartialEq>(sorted: &[T], key: impl Fn(&T) -> &K, twice: &str) -> Converted<()> {
    if sorted.windows(2).any(|pair| key(&pair[0]) == key(&pair[1])) {
        return Err(Rejection::bad_request(twice));
    }
    Ok(())
}

/// The name of a property.
type PropertyName = Text<1, PROPERTY_NAME_BYTES_MAX>;

/// The value of a property.
type PropertyValue = Text<0, PROPERTY_VALUE_BYTES_MAX, true>;

/// Texts by name, sorted, since their order in the request has no meaning.
pub(crate) fn properties(mut properties: Vec<(SmolStr, SmolStr)>) -> Converted<Vec<(SmolStr, SmolStr)>> {
    at_most(properties.len(), PROPERTIES_MAX, "properties")?;
    for (name, value) in &properties {
        PropertyName::as_said(name.clone()).check_field("the name of a property")?;
        PropertyValue::as_said(value.clone()).check_field("the value of a property")?;
    }
    properties.sort();
    distinct(&properties, |(name, _)| name, "a property has two values")?;
    Ok(properties)
}

/// The beginning of a page, if `place` understands the cursor. It takes only what a page gives.
pub(crate) fn after<T>(cursor: Option<SmolStr>, place: impl FnOnce(&str) -> Option<T>) -> Converted<Option<T>> {
    let foreign = || Rejection::bad_request("`cursor` is not from an answer");
    match cursor {
        Some(cursor) if cursor.len() <= CURSOR_BYTES_MAX => place(&cursor).map(Some).ok_or_else(foreign),
        Some(_) => Err(foreign()),
        None => Ok(None),
    }
}

/// The cursor after a page of titles. The id comes first, since names may contain anything.
pub(crate) fn title_cursor(name: &str, id: &Id) -> SmolStr {
    format_smolstr!("{id}/{name}")
}

/// Checks that a time ends after it begins and is not too long.
pub(crate) fn interval(begin: Timestamp, end: Timestamp) -> Converted<(Timestamp, Timestamp)> {
    if begin >= end {
        return Err(Refusal::BadInterval("it ends before it begins, or is empty".into()).into());
    }
    if end.0 - begin.0 > INTERVAL_MS_MAX {
        return Err(Refusal::BadInterval("it is longer than 366 days".into()).into());
    }
    Ok((begin, end))
}

/// Checks that a span in milliseconds is not too long.
pub(crate) fn span(name: &str, millis: u64, least: u64, most: u64) -> Converted<u64> {
    bound::check(&millis, name, least..=most)?;
    Ok(millis)
}

/// Checks that an amount can be a price.
pub(crate) fn price(amount: i64) -> Converted<()> {
    if (0..=PRICE_MAX).contains(&amount) {
        Ok(())
    } else {
        Err(Rejection::bad_request(format!("a price is from 0 to {PRICE_MAX} minor units")))
    }
}

/// Checks that all prices of a session are in one currency.
pub(crate) fn one_currency(mut currencies: impl Iterator<Item = Currency>) -> Converted<()> {
    let first = currencies.next();
    if currencies.all(|currency| Some(currency) == first) {
        Ok(())
    } else {
        Err(Rejection::bad_request("the prices of a session are all in one currency"))
    }
}
