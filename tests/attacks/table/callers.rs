//! The callers: their credentials, and what these are worth, written down independently of the program.

use std::net::SocketAddr;

use boxoffice_wire::access::ShownKey;
use serde_json::json;

use super::{
    super::{
        tokens::{self, Shop, good},
        wire::shows,
    },
    GLOBE, ROYAL,
};
use crate::common::{ADMIN, http};

/// The part of a configuration that decides who may what.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// The role of callers without credentials.
    pub(super) anonymous: &'static str,
    /// `payments.recorded = "anyone"`.
    pub(super) recorded_by_anyone: bool,
    /// Customers have tokens.
    pub(super) knows_customers: bool,
}

impl Rules {
    /// The role of a customer that shows a customer's token and no other credentials.
    fn role_of_customers(self) -> &'static str {
        match self.anonymous {
            "watch" | "none" => "sell",
            other => other,
        }
    }
}

/// The customers that a caller acts for, where customers have tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ActsFor {
    Nobody,
    One(&'static str),
    All,
}

pub(super) struct Caller {
    pub(super) name: String,
    /// A role includes others.
    pub(super) role: &'static str,
    /// The key or token, if one is shown.
    pub(super) token: Option<String>,
    /// The customer whose customer's token is shown besides.
    pub(super) shown_customer: Option<&'static str>,
    pub(super) acts_for: ActsFor,
    /// The venue that the key or token is limited to.
    pub(super) venue: Option<&'static str>,
}

impl Caller {
    fn new(name: &str, role: &'static str, token: Option<String>, acts_for: ActsFor) -> Caller {
        Caller { name: name.into(), role, token, shown_customer: None, acts_for, venue: None }
    }

    pub(super) fn shows_nothing(&self) -> bool {
        self.token.is_none() && self.shown_customer.is_none()
    }

    /// The header lines with the credentials.
    pub(super) fn headers(&self) -> String {
        let customer = self.shown_customer.map(|name| tokens::shows_customer(name, &tokens::of_customer(name)));
        shows(self.token.as_deref()) + &customer.unwrap_or_default()
    }

    /// Whether the caller has this role or one that includes it.
    pub(super) fn has(&self, role: &str) -> bool {
        let included: &[&str] = match self.role {
            "none" => &[],
            "watch" => &["watch"],
            "sell" => &["watch", "sell"],
            "desk" => &["watch", "sell", "desk"],
            "report" => &["watch", "report"],
            "admin" => &["watch", "sell", "desk", "report", "admin"],
            other => panic!("{other} is no role"),
        };
        included.contains(&role)
    }

    /// Whether the caller acts for this customer under these rules.
    pub(super) fn acts_for(&self, rules: Rules, customer: &str) -> bool {
        match self.acts_for {
            _ if !rules.knows_customers => true,
            ActsFor::Nobody => false,
            ActsFor::One(own) => own == customer,
            ActsFor::All => true,
        }
    }
}

/// Creates a key with this role, limited to this venue if there is one.
async fn key(operators: SocketAddr, name: &str, role: &str, venue: Option<&str>) -> String {
    let secret = format!("{name:x<43}").replace('@', "-");
    let id = name.replace('@', "-");
    let shown = ShownKey { name: &id, secret: &secret };
    let hash: String = shown.hash().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut body = json!({"id": id, "roles": [role], "hash": hash});
    if let Some(venue) = venue {
        body["venues"] = json!([venue]);
    }
    http::ask(operators, "admin.key_create", Some(&format!("key-{id}")), &body).await.ok();
    shown.written()
}

/// Every kind of caller: a stranger, keys of each role, keys of two venues, the admin token.
pub(super) async fn all(operators: SocketAddr, rules: Rules) -> Vec<Caller> {
    let mut callers = vec![
        Caller::new("a guest", rules.anonymous, None, ActsFor::Nobody),
        Caller::new("the admin token", "admin", Some(ADMIN.into()), ActsFor::All),
    ];
    for role in ["watch", "sell", "desk", "report", "admin"] {
        let token = key(operators, &format!("a-{role}"), role, None).await;
        let acts_for = if role == "watch" { ActsFor::Nobody } else { ActsFor::All };
        callers.push(Caller::new(&format!("a {role} key"), role, Some(token), acts_for));
    }
    for (role, venue) in [("sell", ROYAL), ("desk", ROYAL), ("report", ROYAL), ("desk", GLOBE), ("report", GLOBE)] {
        let token = key(operators, &format!("{role}@{venue}"), role, Some(venue)).await;
        let caller = Caller::new(&format!("a {role} key of {venue}"), role, Some(token), ActsFor::All);
        callers.push(Caller { venue: Some(venue), ..caller });
    }
    callers
}

/// Callers that show nothing, at the clients' port and at an operators' port that asks for nothing.
pub(super) fn without_credentials(rules: Rules) -> [Caller; 2] {
    let guest = Caller::new("a guest", rules.anonymous, None, ActsFor::Nobody);
    [guest, Caller::new("a local program", "admin", None, ActsFor::All)]
}

/// Customers with tokens of both kinds, and staff with short-lived tokens.
pub(super) fn with_tokens(shop: &Shop, rules: Rules) -> Vec<Caller> {
    let signed = |subject: &'static str, role: &'static str, venue: Option<&'static str>| {
        let mut claims = good(subject, role);
        if let Some(venue) = venue {
            claims["venue"] = json!(venue);
        }
        let is_house = role == "desk" || role == "report";
        let acts_for = if is_house { ActsFor::All } else { ActsFor::One(subject) };
        let name = format!("{subject}'s {role} token of {}", venue.unwrap_or("all venues"));
        Caller { venue, ..Caller::new(&name, role, Some(shop.eddsa(&claims)), acts_for) }
    };
    let shown = |customer: &'static str| {
        let name = format!("{customer} with a customer's token");
        let caller = Caller::new(&name, rules.role_of_customers(), None, ActsFor::One(customer));
        Caller { shown_customer: Some(customer), ..caller }
    };
    vec![
        shown("ada"),
        shown("bob"),
        signed("ada", "sell", None),
        signed("ada", "watch", None),
        signed("bob", "sell", None),
        signed("ada", "sell", Some(ROYAL)),
        signed("carl", "desk", None),
        signed("carl", "report", None),
        signed("carl", "desk", Some(ROYAL)),
    ]
}
