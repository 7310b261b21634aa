//! Answers in the words of scripts.

use std::fmt::Write;

use boxoffice_core::{
    answer::{Answer, CartState, CartView, Ended, LineView, Outcome, TakenLine, Taker},
    id::Entity,
    payment::{PaymentFailure, PaymentStatus, RefundRecord},
    portion::Content,
    refusal::Refusal,
    seat::Seat,
    time::Timestamp,
};

pub(super) fn describe(outcome: &Outcome) -> String {
    match outcome {
        Err(refusal) => describe_refusal(refusal),
        Ok(answered) => match &answered.answer {
            Answer::Done => "done".into(),
            Answer::Cart(view) => describe_cart(view),
            Answer::Held(held) => {
                let lines: Vec<_> = held.lines.iter().map(describe_line).collect();
                format!("{}, until {}", lines.join(", "), seconds(held.deadline))
            }
            Answer::Order { order, settling, payment, refunds, sessions: _ } => {
                let lines: Vec<_> = order.lines.iter().map(describe_line).collect();
                let settling = if *settling { ", settling" } else { "" };
                let mut text = format!("order of {}, total {}{settling}", lines.join(", "), cents(order.total.amount));
                if *payment != PaymentStatus::Recorded {
                    write!(text, ", {payment:?}").expect("writes to a string succeed");
                }
                for refund in refunds {
                    write!(text, ", {}", describe_refund(refund)).expect("writes to a string succeed");
                }
                text
            }
            Answer::Refund(refund) => describe_refund(refund),
            Answer::Product(view) => {
                let c = view.counts;
                format!("{} free, {} held, {} sold", c.free, c.held, c.sold)
            }
            Answer::Resource(view) => format!("{} bookings", view.bookings),
            Answer::Purchases(page) => {
                let texts = page.purchases.iter().map(|purchase| {
                    let name = purchase.order.cart().0 as u8 as char;
                    format!("{} {name} {}", purchase.cursor, cents(purchase.total.amount))
                });
                format!("[{}]", texts.collect::<Vec<_>>().join(", "))
            }
            Answer::Session(view) => {
                let c = view.counts;
                format!("{} free, {} held, {} sold, {} blocked", c.free, c.held, c.sold, c.blocked)
            }
            Answer::CartAudit(audit) => {
                format!("{} holds, {} owed, {:?}", audit.holds.len(), audit.owed, audit.violations)
            }
            answer => format!("{answer:?}"),
        },
    }
}

fn describe_refusal(refusal: &Refusal) -> String {
    let seats = match refusal {
        Refusal::SeatsTaken(taken) | Refusal::SeatBlocked(taken) => {
            taken.iter().map(|taken| format!(" {} {:?}", describe_seat(taken.seat), taken.state)).collect()
        }
        Refusal::NoSuchSeat(seats) | Refusal::DuplicateSeat(seats) => {
            seats.iter().map(|seat| format!(" {}", describe_seat(*seat))).collect()
        }
        Refusal::OutOfStock(short) => short
            .iter()
            .map(|short| format!(" {} wanted {} free {}", short.product, short.wanted, short.free))
            .collect(),
        Refusal::Lines(lines) => {
            let texts = lines.iter().map(|line| format!("\n        {} {}", line.line, describe_refusal(&line.refusal)));
            return format!("no: {}, {refusal}:{}", refusal.name(), texts.collect::<Vec<_>>().concat());
        }
        Refusal::SlotTaken(conflicts) => conflicts
            .iter()
            .map(|conflict| format!(" {}-{}", conflict.begin.0 / 1_000, conflict.end.0 / 1_000))
            .collect(),
        _ => String::new(),
    };
    format!("no: {}, {refusal}{}{}", refusal.name(), if seats.is_empty() { "" } else { ":" }, seats.to_lowercase())
}

fn describe_cart(view: &CartView) -> String {
    let lines: Vec<_> = view.lines.iter().map(describe_line).collect();
    let mut text = view.state.as_str().to_owned();
    match &view.ended {
        // The state shows it already.
        None | Some(Ended::Expired | Ended::Canceled) => {}
        Some(Ended::TooOld) => text.push_str(" (too old)"),
        Some(Ended::Unpaid(PaymentFailure::Declined { by_operator, reason })) => {
            let by = if *by_operator { "an operator" } else { "the gateway" };
            write!(text, " (declined by {by}: {reason})").expect("writes to a string succeed");
        }
        Some(Ended::Unpaid(PaymentFailure::AmountMismatch { asked, got })) => {
            write!(text, " ({} asked, {} got)", cents(asked.amount), cents(got.amount))
                .expect("writes to a string succeed");
        }
        Some(Ended::Unpaid(PaymentFailure::Withdrawn { .. } | PaymentFailure::Canceled { .. })) => {}
    }
    if let Some(Ended::Unpaid(PaymentFailure::Withdrawn { .. } | PaymentFailure::Canceled { .. })) = &view.ended {
        panic!("a cart whose attempt was given up goes on: {view:?}");
    }
    if !lines.is_empty() {
        write!(text, ", {}", lines.join(", ")).expect("writes to a string succeed");
    }
    if let Some(total) = view.total {
        write!(text, ", total {}", cents(total.amount)).expect("writes to a string succeed");
    }
    for TakenLine { line, by, reason } in &view.taken {
        let by = match by {
            Taker::Operator => "an operator",
            Taker::Session => "its session",
        };
        write!(text, ", taken by {by} ({reason}): {}", describe_line(line)).expect("writes to a string succeed");
    }
    if view.state == CartState::Active {
        write!(text, ", until {}", seconds(view.deadline)).expect("writes to a string succeed");
    }
    text
}

fn describe_refund(refund: &RefundRecord) -> String {
    let RefundRecord { number, lines, amount, status, .. } = refund;
    format!("refund {number} of lines {lines:?} {} {status:?}", cents(amount.amount))
}

fn describe_line(line: &LineView) -> String {
    let name = match &line.entity {
        Entity::Session(id) | Entity::Product(id) | Entity::Resource(id) => id,
        other => panic!("a line of {other}"),
    };
    let what = match &line.content {
        Content::Seats(seats) => seats.iter().map(|priced| describe_seat(priced.seat)).collect::<Vec<_>>().join(" "),
        Content::Places { area, quantity, .. } => format!("{area} {quantity}"),
        Content::Units { quantity, .. } => quantity.to_string(),
        Content::Slot { begin, end, .. } => format!("{}-{}", begin.0 / 1_000, end.0 / 1_000),
    };
    let late = if line.late { " late" } else { "" };
    format!("line {} {name} {what}{late}", line.line)
}

fn describe_seat(seat: Seat) -> String {
    format!("{}.{}", seat.row, seat.seat)
}

fn seconds(at: Timestamp) -> String {
    format!("{}.{:03}", at.0 / 1_000, at.0 % 1_000)
}

fn cents(amount: i64) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}
