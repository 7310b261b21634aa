//! Deadlines as clients see them. States have the running time of their shard, and clients get true time.
//!
//! Only this module converts one to the other. So a correction of a shard's distance moves every deadline that clients see,
//! also in remembered answers, and changes no state.

use crate::{
    answer::{Answer, CartView, HoldView},
    event::{
        CartEvent, ClusterEvent, CodeEvent, CustomerEvent, Event, HoldEvent, ProductEvent, ResourceEvent, SessionEvent,
    },
    time::Timestamp,
};

impl Answer {
    /// Converts running time to true time, which is `distance_ms` ahead.
    pub(crate) fn convert_to_true_time(&mut self, distance_ms: i64) {
        if distance_ms == 0 {
            return;
        }
        match self {
            Answer::Cart(view) => cart(view, distance_ms),
            Answer::CartAudit(audit) => {
                cart(&mut audit.cart, distance_ms);
                audit.holds.iter_mut().for_each(|claim| shift(&mut claim.since, distance_ms));
            }
            Answer::Held(held) => shift(&mut held.deadline, distance_ms),
            Answer::SessionAudit(audit) => holds(&mut audit.holds, distance_ms),
            Answer::ProductAudit(audit) => holds(&mut audit.holds, distance_ms),
            Answer::ResourceAudit(audit) => holds(&mut audit.holds, distance_ms),
            Answer::CustomerAudit(audit) => holds(&mut audit.holds, distance_ms),
            Answer::Invitation(invitation) => shift(&mut invitation.ends_at, distance_ms),
            // Dates of orders, refunds and sales are true time when they are written.
            _ => {}
        }
    }
}

impl Event {
    /// Converts running time to true time, which is `distance_ms` ahead. Histories show events in true time.
    pub fn convert_to_true_time(&mut self, distance_ms: i64) {
        let deadline = match self {
            Event::Session(
                SessionEvent::SeatsHeld { deadline, .. }
                | SessionEvent::PlacesHeld { deadline, .. }
                | SessionEvent::Hold(HoldEvent::Extended { deadline, .. }),
            )
            | Event::Product(
                ProductEvent::UnitsHeld { deadline, .. } | ProductEvent::Hold(HoldEvent::Extended { deadline, .. }),
            )
            | Event::Resource(
                ResourceEvent::SlotHeld { deadline, .. } | ResourceEvent::Hold(HoldEvent::Extended { deadline, .. }),
            )
            | Event::Customer(
                CustomerEvent::QuotaHeld { deadline, .. } | CustomerEvent::Hold(HoldEvent::Extended { deadline, .. }),
            )
            | Event::Code(
                CodeEvent::UsesHeld { deadline, .. } | CodeEvent::Hold(HoldEvent::Extended { deadline, .. }),
            ) => deadline,
            Event::Cart(
                CartEvent::Opened { at, deadline, .. }
                | CartEvent::LinesAdded { at, deadline, .. }
                | CartEvent::LineReduced { at, deadline, .. }
                | CartEvent::Touched { at, deadline, .. }
                | CartEvent::CheckoutBegun { at, deadline, .. },
            ) => {
                shift(at, distance_ms);
                deadline
            }
            Event::Cart(
                CartEvent::Canceled { at, .. }
                | CartEvent::Expired { at, .. }
                | CartEvent::CustomerSet { at, .. }
                | CartEvent::CheckedOut { at, .. }
                | CartEvent::CheckoutAbandoned { at, .. },
            ) => at,
            Event::Cluster(ClusterEvent::Invited { at, invitation, .. }) => {
                shift(at, distance_ms);
                &mut invitation.ends_at
            }
            _ => return,
        };
        shift(deadline, distance_ms);
    }
}

fn cart(view: &mut CartView, distance_ms: i64) {
    shift(&mut view.opened_at, distance_ms);
    shift(&mut view.modified_at, distance_ms);
    shift(&mut view.deadline, distance_ms);
}

fn holds(holds: &mut [HoldView], distance_ms: i64) {
    holds.iter_mut().for_each(|hold| shift(&mut hold.deadline, distance_ms));
}

fn shift(at: &mut Timestamp, distance_ms: i64) {
    *at = at.ahead(distance_ms);
}
