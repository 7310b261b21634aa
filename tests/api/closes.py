"""The closing handshake with the library `websockets`, plain and over TLS: whoever closes, the connection ends without an error.

Runs nodes of the program that is given. The library's client with threads is not used, because it reads and writes one OpenSSL
connection in two threads at once, which loses bytes now and then (https://github.com/openssl/openssl/issues/20446).
"""

import asyncio
import json
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

PROGRAM = sys.argv[1]
SUBPROTOCOLS = ["boxoffice.v1.json"]


class Node:
    """A node with files of its own."""

    def __init__(self, home, name, tls):
        self.scheme = "wss" if tls else "ws"
        self.context = ssl.create_default_context(cafile=tls[0]) if tls else None
        command = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]
        command += ["--data-dir", home / name, "--fsync", "never", "--log", "error"]
        command += ["--tls-certificate", tls[0], "--tls-key", tls[1]] if tls else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=home)
        line = self.process.stdout.readline()
        self.clients = re.search(r"serves on https?://([\d.:]+)", line).group(1)
        self.operators = re.search(r"operators on http://([\d.:]+)", line).group(1)

    def admin(self, *words):
        command = [PROGRAM, "admin", "--address", self.operators, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    async def open(self, hello=None):
        """A connection that has said hello. It reads all the time, because a client that stops reading sees no close either."""
        address = f"{self.scheme}://{self.clients}/v1/ws"
        socket = await connect(address, subprotocols=SUBPROTOCOLS, ssl=self.context, max_queue=None)
        assert "hello" in await read(socket)
        await socket.send(json.dumps({"id": 1, "op": "hello", "body": hello or {}}))
        while (await read(socket)).get("id") != 1:
            pass
        return socket


async def read(socket):
    """The next message."""
    return json.loads(await asyncio.wait_for(socket.recv(), 30))


async def ends(socket):
    """How a connection ends that the node closes: the code, and whether both sides have closed."""
    try:
        while True:
            await read(socket)
    except ConnectionClosed as closed:
        assert closed.rcvd is not None, f"no close frame: {closed!r}"
        return closed.rcvd.code, closed.rcvd.reason, closed.sent is not None


async def try_node(node):
    # The client closes, in the middle of answers as well.
    for code in (1000, 1001, 4321):
        socket = await node.open()
        for number in range(2, 30):
            await socket.send(json.dumps({"id": number, "op": "venue.search", "body": {}}))
        await socket.close(code, "that is all")
        assert socket.close_code == code, f"{socket.close_code} instead of {code}"
    socket = await node.open()
    await socket.close()
    try:
        await socket.recv()
        sys.exit("a closed connection goes on")
    except ConnectionClosedOK:
        pass
    # The node closes: a revoked key, and a node that goes away.
    key = node.admin("key", "create", "screen", "--role", "watch").split()[-1]
    keyed, stranger = await node.open({"token": key}), await node.open()
    node.admin("key", "revoke", "screen")
    code, reason, answered = await ends(keyed)
    assert (code, answered) == (4001, True) and reason, (code, reason, answered)
    node.process.send_signal(signal.SIGTERM)
    code, reason, answered = await ends(stranger)
    assert (code, answered) == (4200, True) and reason, (code, reason, answered)
    node.process.wait(30)


with tempfile.TemporaryDirectory(prefix="boxoffice-closes-") as folder:
    home = pathlib.Path(folder)
    files = [home / "certificate.pem", home / "key.pem"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", files[1], "-out", files[0]]
    subprocess.run(make, check=True, capture_output=True)
    for name, tls in (("plain", None), ("sealed", files)):
        node = Node(home, name, tls)
        try:
            asyncio.run(try_node(node))
        finally:
            node.process.kill()
            node.process.wait()
        print(f"connections to the {name} node end cleanly")
