#!/usr/bin/env python3
"""Measures what ops cost a node in processor time, and compares it with their weights.

    tests/prices.py PROGRAM             prints a table, and fails if an op costs more than 3 times the median for each unit of weight

PROGRAM is a release build of boxoffice. The weights are those of docs/reference/access.md. Each op is asked with its smallest and its
largest body over one WebSocket of the operators' port, which has no budgets. The time is that of all threads of the node, as the kernel
counts it, so it depends little on the load of the machine. It is no test of tests/run all the same, because processors differ.
"""

import base64
import json
import os
import pathlib
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ACCESS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reference" / "access.md"
TIMES_THE_MEDIAN = 3.0
HOUR = 3_600_000


def at(hours):
    """So many hours after the first of 2040."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(2_208_988_800 + hours * 3_600))


class Client:
    """A WebSocket that sends JSON."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.stream = socket.create_connection((host, int(port)))
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET /v1/ws HTTP/1.1\r\nhost: {address}\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
        head += f"sec-websocket-key: {key}\r\nsec-websocket-protocol: boxoffice.v1.json\r\n\r\n"
        self.stream.sendall(head.encode())
        self.bytes = b""
        while b"\r\n\r\n" not in self.bytes:
            self.bytes += self.stream.recv(65_536)
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        assert b" 101 " in head, head
        self.number = 0
        self.frame()

    def need(self, count):
        parts, have = [self.bytes], len(self.bytes)
        while have < count:
            more = self.stream.recv(1 << 20)
            assert more, "the node has closed"
            parts.append(more)
            have += len(more)
        self.bytes = b"".join(parts)

    def frame(self):
        while True:
            self.need(2)
            opcode, length, head = self.bytes[0] & 15, self.bytes[1], 2
            if length == 126:
                self.need(4)
                length, head = struct.unpack(">H", self.bytes[2:4])[0], 4
            elif length == 127:
                self.need(10)
                length, head = struct.unpack(">Q", self.bytes[2:10])[0], 10
            self.need(head + length)
            payload, self.bytes = self.bytes[head : head + length], self.bytes[head + length :]
            if opcode == 9:
                self.stream.sendall(bytes([0x8A, 0x80 | length, 0, 0, 0, 0]) + payload)
            elif opcode == 1:
                return payload
            elif opcode == 8:
                sys.exit(f"closed: {payload}")

    def encoded(self, op, body, rid=None):
        self.number += 1
        request = {"id": self.number, "op": op, "body": body}
        if rid is not None:
            request["rid"] = rid
        text = json.dumps(request, separators=(",", ":")).encode()
        size = struct.pack(">H", len(text)) if len(text) < 65_536 else struct.pack(">Q", len(text))
        head = bytes([0x81, 0x80 | (126 if len(size) == 2 else 127)]) + size + bytes(4)
        return head + text

    def answers(self, count):
        """The next answers. Frames of feeds are none."""
        found = []
        while len(found) < count:
            payload = self.frame()
            if payload[:5] == b'{"id"':
                found.append(payload)
        return found

    def ask(self, op, body, rid=None):
        self.stream.sendall(self.encoded(op, body, rid))
        answer = json.loads(self.answers(1)[0])
        assert "ok" in answer, (op, str(body)[:200], answer)
        return answer["ok"]


def time_of(pid):
    """Nanoseconds of all threads."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total


class Node:
    def __init__(self, program, folder):
        config = folder / "prices.toml"
        config.write_text('[listen]\nanonymous = "sell"\n[payments]\nrecorded = "anyone"\n[log]\nfsync = "never"\n')
        command = [program, "serve", "--config", config, "--data-dir", folder / "data", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
        self.address = None
        begun = time.time()
        while self.address is None and time.time() < begun + 30:
            line = self.process.stdout.readline()
            found = re.search(r"operators[^0-9]*(127\.0\.0\.1:\d+)", line)
            self.address = found and found[1]
        assert self.address, "the node does not say where its operators' port is"

    def cost(self, client, make, count=400, each=20):
        """Microseconds for each of the requests that `make` makes, which are sent `each` at a time."""
        best = []
        for _ in range(3):
            requests = [b"".join(make() for _ in range(each)) for _ in range(max(count // each, 1))]
            before = time_of(self.process.pid)
            for some in requests:
                client.stream.sendall(some)
                for answer in client.answers(each):
                    assert b'"ok"' in answer[:40], answer[:300]
            best.append((time_of(self.process.pid) - before) / 1_000 / (len(requests) * each))
        return min(best)


def prepare(client):
    put = lambda op, body: client.ask(op, body, f"{op}-{body.get('id')}")
    for number in range(60):
        put("venue.put", {"id": f"v{number}", "name": f"Venue {number}", "city": "London", "position": {"lon": 0.1, "lat": 51.5}})
    put("title.put", {"id": "hamlet", "name": "Hamlet"})
    for number in range(120):
        put("title.put", {"id": f"t{number}", "name": f"Title {number}"})
    put("hall.put", {"venue": "v0", "id": "small", "name": "Small", "layout": {"rows": 20, "seats": 25}})
    seats = lambda row: [{"label": str(seat), "x": seat * 100, "y": row * 100} for seat in range(200)]
    rows = [{"label": f"r{row}", "seats": seats(row)} for row in range(100)]
    put("hall.put", {"venue": "v0", "id": "large", "name": "Large", "layout": {"rows": rows}})
    prices = {"standard": {"amount": 1000, "currency": "EUR"}}
    areas = [{"id": f"a{area}", "capacity": 1_000_000, "price": {"amount": 1, "currency": "EUR"}} for area in range(50)]
    for name, hall, count, shift in [("small", "small", 1, 0), ("large", "large", 1, 0), ("s", "small", 1_100, 1)]:
        for number in range(count):
            session = {"id": f"{name}{number}", "venue": "v0", "hall": hall, "title": "hamlet", "prices": prices}
            session |= {"starts_at": at(number + shift), "ends_at": at(number + shift + 1)}
            if name == "small":
                session["areas"] = areas
            put("session.create", session)
    for number in range(60):
        put("product.put", {"id": f"p{number}", "name": "P", "price": {"amount": 100, "currency": "EUR"}, "stock": 9_000_000_000})
    put("resource.put", {"id": "room", "name": "Room", "zone": "UTC", "capacity": 1_000, "rate": {"amount": 1, "currency": "EUR"}})
    for number in range(600):
        client.ask("resource.reserve", {"resource": "room", "booking": f"b{number}", "begin": at(number), "end": at(number + 1)}, f"b{number}")


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        node = Node(program, pathlib.Path(folder))
        try:
            rows = measure(node)
        finally:
            node.process.terminate()
            node.process.wait()
    weights = dict(re.findall(r"^\| `([a-z_.]+)` \|.*\| (\d+) \|$", ACCESS.read_text(), re.M))
    base = next(cost for op, body, cost, _ in rows if op == "cart.get")
    units = {(op, body): cost / (int(weights.get(op, 1)) + more) for op, body, cost, more in rows}
    median = statistics.median(units.values())
    wrong = []
    for op, body, cost, more in rows:
        times = units[op, body] / median
        print(f"{op:22} {body:34} {cost:9.1f} us {cost / base:7.1f} x cart.get, weight {int(weights.get(op, 1)) + more:4}, {times:5.2f} x the median")
        if times > TIMES_THE_MEDIAN:
            wrong.append(f"{op} ({body})")
    print(f"cart.get {base:.1f} us, median of a unit {median:.1f} us")
    if wrong:
        sys.exit(f"more than {TIMES_THE_MEDIAN} times the median: {', '.join(wrong)}")


def measure(node):
    client = Client(node.address)
    prepare(client)
    rows, counter = [], [0]

    def token():
        counter[0] += 1
        return f"{counter[0] * 0x9E3779B97F4A7C15F39CC0605CEDC835 & (1 << 128) - 1:032x}"

    def opened(lines):
        """A cart with these lines."""
        name = token()
        client.ask("cart.hold_all", {"token": name, "lines": lines}, "r")
        return name

    def row(op, words, body, more=0, count=400, each=20, changes=False):
        if not callable(body):
            more += of_answer(client, op, body)

        def make():
            made = body() if callable(body) else body
            rid = None
            if changes:
                counter[0] += 1
                rid = f"r{counter[0]}"
            return client.encoded(op, made, rid)

        rows.append((op, words, node.cost(client, make, count, each), more))

    unit = [{"product": "p0", "quantity": 1}]
    fifty = [{"product": f"p{number}", "quantity": 1} for number in range(50)]
    small, full = opened(unit), opened(fifty)
    row("cart.get", "one line", {"token": small}, count=2_000, each=100)
    row("cart.get", "50 lines", {"token": full})
    row("hello", "empty", {}, each=1)
    row("shards", "", {})
    row("venue.get", "", {"id": "v0"})
    row("venue.search", "one", {"city": "London", "limit": 1})
    row("venue.search", "60 of a city", {"city": "London", "limit": 100})
    row("title.get", "", {"id": "hamlet"})
    row("title.search", "one", {"limit": 1})
    row("title.search", "100", {"limit": 100})
    for hall, size in [("small", "500 seats"), ("large", "20 000 seats with points")]:
        body = {"venue": "v0", "id": hall}
        row("hall.get", size, body)
    for session, size in [("small0", "500 seats"), ("large0", "20 000 seats with points")]:
        body = {"id": session}
        row("session.get", size, body)
        row("session.map", size, body)
    row("session.search", "of a venue, one", {"venue": "v0", "limit": 1})
    row("session.search", "of a venue, 100", {"venue": "v0", "limit": 100})
    row("session.search", "of a city of 60 venues", {"city": "London", "limit": 100}, each=1, count=100, more=of_venues(60))
    row("product.get", "", {"id": "p0"})
    row("resource.get", "", {"id": "room"})
    times = {"resource": "room", "begin": at(0), "end": at(1)}
    row("resource.is_available", "", times)
    row("resource.bookings", "one", {"resource": "room", "from": at(0), "to": at(1), "limit": 1})
    row("resource.bookings", "100", {"resource": "room", "from": at(0), "to": at(600), "limit": 100})
    row("resource.free_slots", "one", {"resource": "room", "from": at(0), "to": at(1), "length_ms": HOUR})
    row("resource.free_slots", "100", {"resource": "room", "from": at(0), "to": at(600), "length_ms": HOUR, "count": 100})
    row("cart.open", "", lambda: {"token": token()}, changes=True)
    row("cart.hold_stock", "", lambda: {"token": token(), "product": "p0", "quantity": 1}, changes=True)
    row("cart.hold_places", "", lambda: {"token": token(), "session": "small0", "area": "a0", "quantity": 1}, changes=True)
    seat = [0]

    def seats(count, session):
        """The next seats of sessions of 500."""
        first = seat[0]
        seat[0] += count
        number, place = divmod(first, 500)
        if place + count > 500:
            seat[0] = (number + 1) * 500 + count
            number, place = number + 1, 0
        return {"session": f"{session}{number}", "seats": [[(place + at) // 25, (place + at) % 25] for at in range(count)]}

    row("cart.hold_seats", "one", lambda: {"token": token()} | seats(1, "s"), changes=True)
    row("cart.hold_seats", "20", lambda: {"token": token()} | seats(20, "s"), changes=True)
    row("cart.hold_best", "2 of 500", lambda: {"token": token(), "session": f"s{900 + counter[0] % 100}", "count": 2}, changes=True)
    row("cart.hold_best", "2 of 20 000", lambda: {"token": token(), "session": "large0", "count": 2}, changes=True, count=200)
    row("cart.hold_best", "20 of 20 000", lambda: {"token": token(), "session": "large0", "count": 20}, changes=True, count=100)
    slot = lambda: counter[0] % 5_000
    row("cart.hold_slot", "", lambda: {"token": token(), "resource": "room", "begin": at(slot()), "end": at(slot() + 1)}, changes=True)
    row("cart.hold_all", "one line", lambda: {"token": token(), "lines": unit}, changes=True, more=0)
    row("cart.hold_all", "50 lines", lambda: {"token": token(), "lines": fifty}, changes=True, each=5, count=100, more=of_lines(50))
    held = [opened(unit) for _ in range(200)]
    session = lambda: counter[0] % 900
    fifty_sessions = lambda: [{"session": f"s{(session() + at) % 900}", "count": 1} for at in range(50)]
    row("cart.hold_all", "50 sessions", lambda: {"token": token(), "lines": fifty_sessions()}, changes=True, each=5, count=100, more=of_lines(50))
    row("cart.set_quantity", "", lambda: {"token": held[counter[0] % 200], "line": 1, "quantity": 1 + counter[0] % 7}, changes=True)
    gone = iter([opened(unit) for _ in range(1_300)])
    row("cart.release", "", lambda: {"token": next(gone), "line": 1}, changes=True)
    gone = iter([opened(unit) for _ in range(1_300)])
    row("cart.cancel", "one line", lambda: {"token": next(gone)}, changes=True)
    gone = iter([opened(fifty) for _ in range(320)])
    row("cart.cancel", "50 lines", lambda: {"token": next(gone)}, changes=True, count=100, each=5, more=of_lines(50))
    recorded = {"recorded": {"method": "card", "transaction_id": "x"}}
    gone = iter([opened(unit) for _ in range(1_300)])
    row("cart.checkout", "one line", lambda: {"token": next(gone), "payment": recorded, "customer": "ada"}, changes=True)
    gone = iter([opened(fifty) for _ in range(320)])
    row("cart.checkout", "50 lines", lambda: {"token": next(gone), "payment": recorded}, changes=True, count=100, each=5, more=of_lines(50))
    for lines, words in [(unit, "one line"), (fifty, "50 lines")]:
        bought = client.ask("cart.checkout", {"token": opened(lines), "payment": recorded}, "buy")
        body = {"order": bought["id"]}
        row("order.get", words, body)
    row("customer.purchases", "one", {"customer": "ada", "limit": 1})
    row("customer.purchases", "100", {"customer": "ada", "limit": 100})
    watcher = Client(node.address)
    row_of = lambda op, words, body, more: rows.append((op, words, node.cost(watcher, lambda: watcher.encoded(op, body), 60, 1), more))
    row_of("watch", "one product", {"entity": "product/p1"}, 0)
    row_of("watch", "a session of 20 000", {"entity": "session/large0"}, 0)
    row_of("watch", "counts of 500 sessions", {"sessions": [f"s{number}" for number in range(500)]}, of_sessions(500))
    return rows


# What size costs besides the weight of an op, as crates/wire/src/weight.rs says.


def of_lines(count):
    return (count - 1) * 2


def of_sessions(count):
    return count // 5


def of_venues(count):
    return count // 2


def of_answer(client, op, body):
    """The price of an answer's length. Long ones are layouts and maps, which answers share."""
    client.stream.sendall(client.encoded(op, body))
    length = len(client.answers(1)[0])
    return length // 65_536 if length > 32_768 else length // 2_048


if __name__ == "__main__":
    main()
