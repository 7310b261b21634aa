//! Every node reports the outcome of a payment, however slow the gateway is.

use std::{sync::Arc, thread, time::Duration};

use boxoffice_core::{
    answer::{Answer, CartState, Ended},
    command::{CartCommand, Command, Expect, Payment, ProductCommand},
    id::{Request, RequestHash},
    payment::{GatewayCall, GatewayOutcome, OnDecline, PaymentFailure},
    refusal::Refusal,
};
use boxoffice_env::{Gateway, gateway::OnOutcome};

use crate::cluster::machines::{Machines, cart_id, hold, product, stock_of};

/// A gateway that declines, but answers later than an attempt at another node waits.
struct SlowNo;

const THINKS: Duration = Duration::from_millis(1_400);

impl Gateway for SlowNo {
    fn call(&self, _call: GatewayCall, done: OnOutcome) {
        thread::spawn(move || {
            thread::sleep(THINKS);
            done(GatewayOutcome::Declined { reason: "no money".into() });
        });
    }
}

fn pay(on_decline: OnDecline) -> CartCommand {
    let payment = Payment::Gateway { source: "card".into(), on_decline: Some(on_decline) };
    CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default(), holder: None }
}

fn ask(machines: &Machines, node: u64, cart: u64, command: CartCommand, request: u64) -> Result<Answer, Refusal> {
    let id = cart_id(cart);
    let request = Request { id: RequestHash(request), body: 0 };
    let result = machines.ask(node, Command::Cart(id, command), Some(request));
    result.unwrap_or_else(|failure| panic!("cart {cart} at node {node}: {failure:?}"))
}

#[test]
fn every_node_reports_a_slow_decline_and_the_gateway_is_asked_once() {
    let machines = Machines::with_gateway(Arc::new(SlowNo));
    machines.must(1, Command::Product(product(0), ProductCommand::Put(stock_of(100))), 1);
    let declined = Err(Refusal::PaymentDeclined("no money".into()));
    let story = |cart: u64, on_decline: OnDecline| {
        let node = 1 + cart % 3;
        hold(&machines, node, cart, 0);
        // Through a follower the first attempt is repeated before the gateway has decided.
        assert_eq!(ask(&machines, node, cart, pay(on_decline), 2), declined, "cart {cart} at node {node}");
        for other in 1..=3 {
            assert_eq!(ask(&machines, other, cart, pay(on_decline), 2), declined, "cart {cart} at node {other}");
        }
        let Ok(Answer::Cart(view)) = ask(&machines, node, cart, CartCommand::Get, 0) else { panic!("a cart") };
        let failure = PaymentFailure::Declined { by_operator: false, reason: "no money".into() };
        match on_decline {
            OnDecline::Keep => assert_eq!((view.state, view.ended), (CartState::Active, None)),
            OnDecline::Release => {
                assert_eq!((view.state, view.ended), (CartState::Canceled, Some(Ended::Unpaid(failure))))
            }
        }
    };
    thread::scope(|scope| {
        for cart in 0..6 {
            let on_decline = if cart < 3 { OnDecline::Keep } else { OnDecline::Release };
            let story = &story;
            scope.spawn(move || story(cart, on_decline));
        }
    });
}
