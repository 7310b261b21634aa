//! Bounds of the texts and numbers of products, resources and areas, each with a refusal that names it.

use smol_str::{SmolStr, format_smolstr};

use crate::{
    command::{Limits, Want},
    directory::COMMENTS_BYTES_MAX,
    id::Id,
    money::PRICE_MAX,
    names::NAME_BYTES_MAX,
    portion::LINE_QUANTITY_MAX,
    refusal::Refusal,
    rules::Rules,
};

/// The most properties of something.
pub(crate) const PROPERTIES_MAX: usize = 64;

/// The longest name of a property, in bytes.
pub(crate) const PROPERTY_NAME_BYTES_MAX: usize = 64;

/// The longest value of a property, in bytes.
pub(crate) const PROPERTY_VALUE_BYTES_MAX: usize = 1_024;

/// The refusal of a bad body.
pub(crate) fn bad<T>(text: SmolStr) -> Result<T, Refusal> {
    Err(Refusal::BadRequest(text))
}

/// Checks a name.
pub(crate) fn check_name(name: &SmolStr) -> Result<(), Refusal> {
    if name.len() > NAME_BYTES_MAX {
        return bad(format_smolstr!("the name is longer than {NAME_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// Checks properties. Their names are unique and ascend.
pub(crate) fn check_properties(properties: &[(SmolStr, SmolStr)]) -> Result<(), Refusal> {
    if properties.len() > PROPERTIES_MAX {
        return bad(format_smolstr!("there are more than {PROPERTIES_MAX} properties"));
    }
    if properties.iter().any(|(name, _)| name.len() > PROPERTY_NAME_BYTES_MAX) {
        return bad(format_smolstr!("the name of a property is longer than {PROPERTY_NAME_BYTES_MAX} bytes"));
    }
    if properties.iter().any(|(_, value)| value.len() > PROPERTY_VALUE_BYTES_MAX) {
        return bad(format_smolstr!("a property is longer than {PROPERTY_VALUE_BYTES_MAX} bytes"));
    }
    if !properties.windows(2).all(|pair| pair[0].0 < pair[1].0) {
        return bad("names of properties are unique and ascend".into());
    }
    Ok(())
}

/// Checks a price in minor units.
pub(crate) fn check_price(of: &str, amount: i64) -> Result<(), Refusal> {
    if !(0..=PRICE_MAX).contains(&amount) {
        return bad(format_smolstr!("the price of {of} is not 0 to {PRICE_MAX} minor units"));
    }
    Ok(())
}

/// Checks how long carts may live untouched.
pub(crate) fn check_ttl(rules: &Rules, hold_ttl_ms: Option<u64>) -> Result<(), Refusal> {
    if hold_ttl_ms.is_some_and(|ttl_ms| !(1..=rules.hold_ttl_max_ms).contains(&ttl_ms)) {
        return bad(format_smolstr!("hold_ttl_ms is not 1 to {}", rules.hold_ttl_max_ms));
    }
    Ok(())
}

/// Checks the limits of one order and one customer.
pub(crate) fn check_limits(limits: &Limits) -> Result<(), Refusal> {
    let customer = limits.per_customer.as_ref().map(|limit| limit.max);
    if limits.per_order == Some(0) || customer == Some(0) {
        return bad("a limit is at least 1; without one, leave it out".into());
    }
    Ok(())
}

/// Checks the comments of a hall or a session.
pub(crate) fn check_comments(comments: &str) -> Result<(), Refusal> {
    if comments.len() > COMMENTS_BYTES_MAX {
        return bad(format_smolstr!("the comments are longer than {COMMENTS_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// Checks the quantity of places, units or parts of a quota.
pub(crate) fn check_quantity(quantity: u32) -> Result<(), Refusal> {
    if !(1..=LINE_QUANTITY_MAX).contains(&quantity) {
        return Err(Refusal::BadQuantity(format_smolstr!("{quantity} is not 1 to {LINE_QUANTITY_MAX}")));
    }
    Ok(())
}

/// The refusal of a wish that does not fit the kind of entity.
pub(crate) fn unfit(of: &str, id: &Id, want: &Want) -> Refusal {
    let wanted = match want {
        Want::Seats { .. } | Want::Best(_) => "seats",
        Want::Places { .. } => "places",
        Want::Units { .. } => "units",
        Want::Slot { .. } => "time",
        Want::Quota { .. } => "a quota",
    };
    Refusal::BadRequest(format_smolstr!("{of} {id} has no {wanted}"))
}
