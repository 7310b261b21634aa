//! Requests of every op: about each venue, and in the name of a customer. They are valid, and none of them ends the scene.

use std::time::{SystemTime, UNIX_EPOCH};

use boxoffice_core::time::Timestamp;
use boxoffice_wire::{Op, repr::rfc3339};
use serde_json::{Value, json};

use super::{ADA, GLOBE, ROYAL, scene::Scene};
use crate::common::{Rng, recorded};

/// An instant that is past when it is asked for.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    rfc3339(Timestamp(since.as_millis() as u64)).expect("a time within the calendar")
}

/// What a request is about.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// The customer that it names, or that its order has.
    pub(super) customer: Option<&'static str>,
    /// The venue of its entity, or of all lines. `None`: something of no venue.
    pub(super) venue: Option<&'static str>,
    /// It records a payment made elsewhere.
    pub(super) records: bool,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) op: Op,
    pub(super) body: Value,
    pub(super) about: About,
    /// The body for callers that may, if the other one would change the cluster.
    pub(super) if_allowed: Option<Value>,
    /// The body stands alone in a frame, whatever the op says.
    pub(super) alone: bool,
}

impl Asked {
    /// The body for a caller that gets this refusal, if any.
    pub(super) fn body(&self, refusal: Option<u64>) -> Value {
        match (&self.if_allowed, refusal) {
            (Some(harmless), None) => harmless.clone(),
            (Some(_), Some(_)) | (None, _) => self.body.clone(),
        }
    }
}

struct List(Vec<Asked>);

impl List {
    fn add(&mut self, op: Op, body: Value, about: About) -> &mut Asked {
        self.0.push(Asked { op, body, about, if_allowed: None, alone: false });
        self.0.last_mut().expect("just added")
    }
}

/// The requests of a caller, with tokens and seats of their own for each `number`.
pub(super) fn all(scene: &Scene, number: usize, rng: &mut Rng) -> Vec<Asked> {
    let mut list = List(Vec::new());
    for op in Op::ALL {
        of(op, &mut list, scene, number, rng);
    }
    list.0
}

fn of(op: Op, list: &mut List, scene: &Scene, number: usize, rng: &mut Rng) {
    let none = About::default;
    let at = |venue: &'static str| About { venue: Some(venue), ..About::default() };
    let of_ada = |about: About| About { customer: Some(ADA), ..about };
    let venues = [ROYAL, GLOBE];
    let show = |venue: &str| format!("{venue}-show");
    let seats = json!([[number % 60, (number / 60) * 6], [number % 60, (number / 60) * 6 + 1]]);
    let slot = json!({"resource": "room", "begin": "2030-04-15T10:00:00Z", "end": "2030-04-15T11:00:00Z"});
    let priced = json!({"amount": 350, "currency": "EUR"});
    let with = |mut body: Value, more: Value| {
        body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        body
    };
    match op {
        Op::AdminBackup => {
            list.add(op, json!({"mark": true}), none());
        }
        Op::AdminBackupRead => {
            list.add(op, json!({"records": 1}), none());
        }
        Op::Hello | Op::Shards | Op::AdminStatus | Op::AdminNodes | Op::AdminKeys => {
            list.add(op, json!({}), none());
        }
        Op::VenuePut => venues.iter().for_each(|&venue| {
            list.add(op, json!({"id": venue, "name": venue, "city": "Vienna"}), at(venue));
        }),
        Op::VenueGet => venues.iter().for_each(|&venue| {
            list.add(op, json!({"id": venue}), at(venue));
        }),
        Op::VenueSearch => {
            list.add(op, json!({"city": "Vienna"}), none());
        }
        Op::HallPut => venues.iter().for_each(|&venue| {
            let body = json!({"venue": venue, "id": "small", "name": "Small", "layout": {"rows": 2, "seats": 2}});
            list.add(op, body, at(venue));
        }),
        Op::HallGet => venues.iter().for_each(|&venue| {
            list.add(op, json!({"venue": venue, "id": "main"}), at(venue));
        }),
        Op::TitlePut => {
            list.add(op, json!({"id": "hamlet", "name": "Hamlet"}), none());
        }
        Op::TitleGet => {
            list.add(op, json!({"id": "hamlet"}), none());
        }
        Op::TitleSearch => {
            list.add(op, json!({"name": "ham"}), none());
        }
        Op::SessionCreate => venues.iter().for_each(|&venue| {
            let body = super::scene::session(&format!("{venue}-{number}"), venue, 2 + number);
            list.add(op, body, at(venue));
        }),
        Op::SessionGet | Op::SessionMap => venues.iter().for_each(|&venue| {
            list.add(op, json!({"id": show(venue)}), at(venue));
        }),
        Op::SessionSearch => {
            for venue in venues {
                list.add(op, json!({"venue": venue}), at(venue));
            }
            list.add(op, json!({"city": "Vienna"}), none()).alone = true;
        }
        Op::SessionBlock | Op::SessionUnblock => venues.iter().for_each(|&venue| {
            list.add(op, json!({"id": show(venue), "seats": [[59, number % 60]]}), at(venue));
        }),
        Op::SessionChange => venues.iter().for_each(|&venue| {
            list.add(op, json!({"id": format!("{venue}-show"), "comments": "a matinee"}), at(venue));
        }),
        Op::SessionCancel => venues.iter().for_each(|&venue| {
            list.add(op, json!({"id": format!("{venue}-off"), "reason": "rain"}), at(venue));
        }),
        Op::ProductPut => {
            list.add(op, json!({"id": "pen", "name": "Pen", "price": priced, "stock": 100_000}), none());
        }
        Op::CodePut => {
            list.add(op, json!({"code": "ADA-7Q2M", "group": "members", "uses": 3}), none());
        }
        Op::CodeGet => {
            list.add(op, json!({"code": "ADA-7Q2M"}), none());
        }
        Op::ProductGet | Op::ResourceGet => {
            let id = if op == Op::ProductGet { "pen" } else { "room" };
            list.add(op, json!({"id": id}), none());
        }
        Op::ResourcePut => {
            list.add(op, super::scene::room(), none());
        }
        Op::ResourceReserve => {
            list.add(op, with(slot, json!({"booking": format!("b-{number}")})), none());
        }
        Op::ResourceMove => {
            list.add(op, with(slot, json!({"booking": "nobodys"})), none());
        }
        Op::ResourceCancel => {
            list.add(op, json!({"resource": "room", "booking": format!("b-{number}")}), none());
        }
        Op::ResourceIsAvailable => {
            list.add(op, slot, none());
        }
        Op::ResourceBookings => {
            let body = json!({"resource": "room", "from": "2030-04-13T00:00:00Z", "to": "2030-04-20T00:00:00Z"});
            list.add(op, body, none());
        }
        Op::ResourceFreeSlots => {
            let span = json!({"from": "2030-04-13T00:00:00Z", "to": "2030-04-20T00:00:00Z"});
            list.add(op, with(span, json!({"resource": "room", "length_ms": 3_600_000})), none());
        }
        Op::CartOpen => {
            list.add(op, json!({"token": rng.token()}), none());
            list.add(op, json!({"token": rng.token(), "customer": ADA}), of_ada(none()));
        }
        Op::CartGet => venues.iter().for_each(|&venue| {
            list.add(op, json!({"token": scene.of(venue).open}), at(venue));
        }),
        Op::CartHoldSeats | Op::CartHoldBest | Op::CartHoldPlaces | Op::CartHoldAll => {
            for venue in venues {
                let wanted = match op {
                    Op::CartHoldSeats => json!({"session": show(venue), "seats": seats}),
                    Op::CartHoldBest => json!({"session": show(venue), "count": 1, "split": true}),
                    Op::CartHoldPlaces => json!({"session": show(venue), "area": "yard", "quantity": 1}),
                    _ => json!({"lines": [{"session": show(venue), "area": "yard", "quantity": 1}]}),
                };
                list.add(op, with(wanted.clone(), json!({"token": rng.token()})), at(venue));
                let named = json!({"token": rng.token(), "customer": ADA});
                list.add(op, with(wanted, named), of_ada(at(venue)));
            }
            if op == Op::CartHoldAll {
                let lines = json!([
                    {"session": show(ROYAL), "area": "yard", "quantity": 1},
                    {"product": "pen", "quantity": 1},
                ]);
                list.add(op, json!({"token": rng.token(), "lines": lines}), none());
            }
        }
        Op::CartHoldStock => {
            let pen = json!({"product": "pen", "quantity": 1});
            list.add(op, with(pen.clone(), json!({"token": rng.token()})), none());
            list.add(op, with(pen, json!({"token": rng.token(), "customer": ADA})), of_ada(none()));
        }
        Op::CartHoldSlot => {
            list.add(op, with(slot.clone(), json!({"token": rng.token()})), none());
            list.add(op, with(slot, json!({"token": rng.token(), "customer": ADA})), of_ada(none()));
        }
        Op::CartSetQuantity => venues.iter().for_each(|&venue| {
            let quantity = 1 + number % 7;
            list.add(op, json!({"token": scene.of(venue).open, "line": 1, "quantity": quantity}), at(venue));
        }),
        Op::CartSetNote => venues.iter().for_each(|&venue| {
            list.add(op, json!({"token": scene.of(venue).open, "line": 1, "note": number.to_string()}), at(venue));
        }),
        Op::CartRelease => venues.iter().for_each(|&venue| {
            list.add(op, json!({"token": scene.of(venue).open, "line": 99}), at(venue));
        }),
        Op::CartCancel | Op::CartCheckoutCancel => {
            list.add(op, json!({"token": rng.token()}), none());
        }
        Op::CartCheckout => {
            for venue in venues {
                let cart = json!({"token": scene.of(venue).to_pay});
                let by_gateway = json!({"payment": {"gateway": {"source": "a card"}}});
                list.add(op, with(cart.clone(), by_gateway.clone()), at(venue));
                list.add(op, with(with(cart.clone(), by_gateway), json!({"customer": ADA})), of_ada(at(venue)));
                let elsewhere = with(cart, json!({"payment": recorded()}));
                list.add(op, elsewhere, About { records: true, ..at(venue) });
            }
        }
        Op::OrderGet => {
            for venue in venues {
                list.add(op, json!({"order": scene.of(venue).order}), of_ada(at(venue)));
            }
            list.add(op, json!({"order": scene.guests_order}), at(ROYAL));
        }
        Op::OrderRefund => venues.iter().for_each(|&venue| {
            list.add(op, json!({"order": scene.of(venue).order, "lines": [99], "reason": "rain"}), at(venue));
        }),
        Op::CustomerPurchases => {
            list.add(op, json!({"customer": ADA}), of_ada(none()));
        }
        // Feeds have requests of their own.
        Op::Watch => {}
        Op::Unwatch => {
            list.add(op, json!({"feed": 999_999}), none());
        }
        Op::Batch => {
            list.add(op, json!({"items": [{"op": "venue.get", "body": {"id": ROYAL}}]}), none());
        }
        Op::AdminAudit | Op::AdminHistory => {
            for venue in venues {
                list.add(op, json!({"entity": format!("session/{}", show(venue))}), at(venue));
                list.add(op, json!({"entity": format!("cart/{}", scene.of(venue).order)}), at(venue));
            }
            for entity in ["product/pen", "resource/room", "customer/ada"] {
                list.add(op, json!({"entity": entity}), none());
            }
            if op == Op::AdminAudit {
                list.add(op, json!({}), none());
                for venue in venues {
                    let entity = format!("session/{}", show(venue));
                    list.add(op, json!({"entity": entity, "customers": true}), at(venue));
                }
                list.add(op, json!({"entity": "product/pen", "customers": true}), none());
            } else {
                list.add(op, json!({"entity": format!("venue/{ROYAL}")}), at(ROYAL));
                list.add(op, json!({"entity": format!("venue/{GLOBE}")}), at(GLOBE));
                list.add(op, json!({"entity": "directory"}), none());
            }
        }
        Op::AdminMap => {
            for venue in venues {
                list.add(op, json!({"entity": format!("session/{}", show(venue)), "at": now()}), at(venue));
            }
            for entity in ["product/pen", "resource/room"] {
                list.add(op, json!({"entity": entity, "at": now()}), none());
            }
        }
        Op::AdminRelease => venues.iter().for_each(|&venue| {
            list.add(op, json!({"cart": scene.of(venue).open_cart, "line": 99}), at(venue));
        }),
        Op::AdminCheckoutCancel => venues.iter().for_each(|&venue| {
            list.add(op, json!({"cart": scene.of(venue).open_cart}), at(venue));
        }),
        Op::AdminSettle => venues.iter().for_each(|&venue| {
            let body = json!({"cart": scene.of(venue).open_cart, "attempt": 99, "outcome": "declined"});
            list.add(op, body, at(venue));
        }),
        Op::AdminJoin => {
            let machine = json!({"client": "10.0.0.2:7180", "peer": "10.0.0.2:7280", "program": "0.1.0"});
            let disk = json!({"disk": "00112233445566778899aabbccddeeff"});
            list.add(op, with(machine, disk), none()).if_allowed = Some(json!({"peer": 1}));
        }
        Op::AdminInvite => {
            let hash = json!({"hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"});
            list.add(op, hash, none()).if_allowed = Some(json!({"hash": 1}));
        }
        Op::AdminDrain | Op::AdminUndrain | Op::AdminRemove | Op::AdminReplace => {
            list.add(op, json!({"node": 99}), none());
        }
        Op::AdminFinishUpgrade => {
            list.add(op, json!({}), none());
        }
        Op::AdminKeyCreate => {
            let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
            list.add(op, json!({"id": "made", "roles": ["watch"], "hash": hash}), none());
        }
        Op::AdminKeyRevoke => {
            list.add(op, json!({"id": "made"}), none());
        }
    }
}
