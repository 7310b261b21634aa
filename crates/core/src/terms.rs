//! Bounds of the numbers of products, resources and areas that the rules calculate with, each with a refusal that names it. The
//! bounds of texts and lists are those of the bodies of requests, which nothing else that comes from outside goes around.

use smol_str::{SmolStr, format_smolstr};

use crate::{command::Want, id::Id, money::PRICE_MAX, portion::LINE_QUANTITY_MAX, refusal::Refusal, rules::Rules};

/// The refusal of a bad body.
pub(crate) fn bad<T>(text: SmolStr) -> Result<T, Refusal> {
    Err(Refusal::BadRequest(text))
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
        Want::Uses { .. } => "uses",
    };
    Refusal::BadRequest(format_smolstr!("{of} {id} has no {wanted}"))
}
