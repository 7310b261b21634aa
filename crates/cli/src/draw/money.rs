//! Amounts for people: `30.00 EUR`.

use boxoffice_core::money::{Currency, Money};

/// Currencies without minor units (ISO 4217).
const WHOLE: [&str; 17] = [
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF",
    "XPF",
];

/// Currencies with thousandths (ISO 4217).
const THOUSANDTHS: [&str; 7] = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];

/// Currencies with ten-thousandths (ISO 4217).
const TEN_THOUSANDTHS: [&str; 2] = ["CLF", "UYW"];

/// An amount for people.
pub fn amount(money: Money) -> String {
    let digits = digits(money.currency);
    let unit = 10_u64.pow(digits);
    let (sign, minor) = (if money.amount < 0 { "-" } else { "" }, money.amount.unsigned_abs());
    let (whole, rest) = (minor / unit, minor % unit);
    match digits {
        0 => format!("{sign}{whole} {}", money.currency.as_str()),
        _ => format!("{sign}{whole}.{rest:0width$} {}", money.currency.as_str(), width = digits as usize),
    }
}

/// The digits of a currency behind the decimal mark.
pub fn digits(currency: Currency) -> u32 {
    match currency.as_str() {
        code if WHOLE.contains(&code) => 0,
        code if THOUSANDTHS.contains(&code) => 3,
        code if TEN_THOUSANDTHS.contains(&code) => 4,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_as_many_digits_as_their_currency() {
        let shown = |amount_minor, code| {
            amount(Money { amount: amount_minor, currency: Currency::new(code).expect("a currency") })
        };
        assert_eq!(shown(3000, "EUR"), "30.00 EUR");
        assert_eq!(shown(5, "EUR"), "0.05 EUR");
        assert_eq!(shown(-1250, "DKK"), "-12.50 DKK");
        assert_eq!(shown(3000, "JPY"), "3000 JPY");
        assert_eq!(shown(1_005, "KWD"), "1.005 KWD");
        assert_eq!(shown(12_345, "CLF"), "1.2345 CLF");
        assert_eq!(shown(700, "UYI"), "700 UYI");
        assert_eq!(shown(1, "UYW"), "0.0001 UYW");
        assert_eq!(shown(i64::MIN, "JPY"), "-9223372036854775808 JPY");
    }
}
