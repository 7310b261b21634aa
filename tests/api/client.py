"""Buys a seat at the given address with the client that tests/api/run generates."""

import importlib
import pkgutil
import secrets
import sys

import generated
from generated import Client
from generated.api.cart import cart_checkout, cart_get_by_query, cart_hold_seats
from generated.api.session import session_get, session_map_resource, session_search
from generated.models import (
    CartOk,
    CartState,
    Checkout,
    Get,
    HeldOk,
    HoldSeats,
    OrderOk,
    Payment,
    RecordedPayment,
    Refused,
    SessionSearch,
)

for module in pkgutil.walk_packages(generated.__path__, "generated."):
    importlib.import_module(module.name)

client = Client(base_url=sys.argv[1], timeout=20)
token = secrets.token_hex(16)

found = session_search.sync(client=client, body=SessionSearch(venue="globe"))
session = found.ok.sessions[0].id
assert session_get.sync(client=client, body=Get(id=session)).ok.counts.free > 0
assert session_map_resource.sync(session, client=client).ok.session == session


def hold(seats):
    body = HoldSeats(token=token, session=session, seats=seats)
    return cart_hold_seats.sync(client=client, body=body, idempotency_key=secrets.token_hex(8))


held = hold([[4, 14], [4, 15]])
assert isinstance(held, HeldOk), held
assert held.ok.lines[0].seats == [[4, 14], [4, 15]] and held.at, held
refused = hold([[400, 0]])
assert isinstance(refused, Refused) and refused.no.name == "no_such_seat" and refused.no.seats == [[400, 0]], refused

payment = Payment(recorded=RecordedPayment(method="card", transaction_id="4711"))
order = cart_checkout.sync(client=client, body=Checkout(token=token, payment=payment), idempotency_key="pay")
assert isinstance(order, OrderOk) and order.ok.payment.recorded.method == "card", order
cart = cart_get_by_query.sync(client=client, boxoffice_cart_token=token)
assert isinstance(cart, CartOk) and cart.ok.state == CartState.DONE, cart
print(f"the generated client bought {order.ok.total.amount} {order.ok.total.currency}")
