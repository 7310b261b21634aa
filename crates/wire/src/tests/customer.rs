//! Tokens of customers. Any other program can make them from the same secret.

use boxoffice_core::id::Id;

use crate::customer::{TOKEN_DIGITS, is_token, token};

const SECRET: &[u8] = b"the secret of the shop";

fn id(name: &str) -> Id {
    Id::new(name).expect("a good id")
}

/// `printf ada | openssl dgst -sha256 -hmac "the secret of the shop"`.
const OF_ADA: &str = "71154fb4fcc3ae3e2da395b4bd83cc04f9474ca427e266566b830a147494750a";

#[test]
fn a_token_is_the_hmac_of_the_id() {
    assert_eq!(token(SECRET, &id("ada")), OF_ADA);
    assert!(is_token(SECRET, &id("ada"), OF_ADA));
}

#[test]
fn any_other_token_is_invalid() {
    let ada = id("ada");
    let mut others = vec![
        String::new(),
        "ada".into(),
        OF_ADA.to_uppercase(),
        OF_ADA[1..].into(),
        format!("{OF_ADA}0"),
        format!(" {}", &OF_ADA[1..]),
        "é".repeat(TOKEN_DIGITS / 2),
        token(SECRET, &id("adb")),
        token(b"the secret of the shoq", &ada),
    ];
    // One digit is another, at every place.
    others.extend((0..TOKEN_DIGITS).map(|place| {
        let mut digits = OF_ADA.as_bytes().to_vec();
        digits[place] = if digits[place] == b'0' { b'1' } else { b'0' };
        String::from_utf8(digits).expect("digits")
    }));
    for other in others {
        assert!(!is_token(SECRET, &ada, &other), "{other}");
    }
    assert!(!is_token(SECRET, &id("bob"), OF_ADA));
}
