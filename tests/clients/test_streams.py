"""Many streams at once, and clients that do not read: what they cost the processes of holt."""

import base64
import os
import re
import resource
import socket
import struct
import time
import urllib.parse

import pytest

from instance import DEADLINE, sandbox, wait_until

MANY = 1000
OUTPUT_HIGH = 1 << 20  # what the gateway keeps for a client that does not read


@pytest.fixture
def s(up):
    up.ready_sandbox(sandbox("s"))
    return up


class Channel:
    """A WebSocket of exec; reads nothing unless asked to."""

    def __init__(self, s, *command, protocol="v5.channel.k8s.io", stdin="true"):
        query = urllib.parse.urlencode(
            [("command", c) for c in command] + [("stdin", stdin), ("stdout", "true"), ("stderr", "true")]
        )
        plain = socket.create_connection(("127.0.0.1", s.port), timeout=DEADLINE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls = s.tls().wrap_socket(plain, server_hostname="127.0.0.1")
        self.tls.sendall(
            f"GET /api/v1/namespaces/default/pods/s/exec?{query} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n"
            f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n".encode()
        )
        self.seen = b""
        while b"\r\n\r\n" not in self.seen:
            self.more()
        self.head, _, self.seen = self.seen.partition(b"\r\n\r\n")
        assert self.head.startswith(b"HTTP/1.1 101 "), self.head

    def more(self):
        data = self.tls.recv(65536)
        assert data, f"it ended after {self.seen[-500:]!r}"
        self.seen += data

    def send(self, payload, text=False):
        length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack(">H", len(payload))
        self.tls.sendall((b"\x81" if text else b"\x82") + length + bytes(4) + payload)

    def message(self):
        """(opcode, payload)"""
        while True:
            if len(self.seen) >= 2:
                length, head = self.seen[1], 2
                if length >= 126:
                    wide = 2 if length == 126 else 8
                    length, head = int.from_bytes(self.seen[2 : 2 + wide], "big"), 2 + wide
                if len(self.seen) >= head + length:
                    opcode, payload = self.seen[0] & 15, self.seen[head : head + length]
                    self.seen = self.seen[head + length :]
                    return opcode, payload
            self.more()

    def close(self):
        self.tls.close()


def rss(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) << 10


def ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("code", [0, 7])
def test_protocols(s, version, code):
    protocol = f"v{version}.channel.k8s.io" if version > 1 else "channel.k8s.io"
    c = Channel(s, "sh", "-c", f"read x; echo got $x; echo err >&2; exit {code}", protocol=protocol)
    assert f"Sec-WebSocket-Protocol: {protocol}\r\n".encode() in c.head + b"\r\n"
    c.send(b"\0hello\n")
    got = {}
    while (message := c.message())[0] != 8:
        assert message[0] == 2
        got[message[1][0]] = got.get(message[1][0], b"") + message[1][1:]
    assert (got[1], got[2]) == (b"got hello\n", b"err\n")
    if version >= 4:
        assert (b'"Success"' if code == 0 else b'"message":"7"') in got[3]
    else:
        assert got.get(3) == (None if code == 0 else b"command terminated with exit code 7")
    assert message[1][:2] == struct.pack(">H", 1000)


@pytest.mark.parametrize("protocol", ["v4.base64.channel.k8s.io", "base64.channel.k8s.io"])
def test_base64(s, protocol):
    c = Channel(s, "sh", "-c", "read x; echo got $x; exit 7", protocol=protocol)
    c.send(b"0" + base64.b64encode(b"hello\n"), text=True)
    got = b""
    while (message := c.message())[0] != 8:
        assert message[0] == 1
        got += message[1][:1] + base64.b64decode(message[1][1:])
    assert got.startswith(b"1got hello\n3") and b"exit code 7" in got
    c = Channel(s, "cat", protocol=protocol)
    c.send(b"0???", text=True)
    assert c.message() == (8, struct.pack(">H", 1007) + b"a message is a digit and base64")


def test_protocol_that_is_unknown(s):
    with pytest.raises(AssertionError, match="403"):
        Channel(s, "true", protocol="v9.channel.k8s.io")


def test_a_thousand_at_once(s):
    control, node = s.child("control"), s.child("node")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * MANY)), hard))
    Channel(s, "true").close()
    before = rss(control), rss(node)
    begun = time.monotonic()
    streams = [Channel(s, "cat") for _ in range(MANY)]
    took = time.monotonic() - begun
    for c in streams[:: MANY // 10]:
        c.send(b"\0hello\n")
        assert c.message() == (2, b"\1hello\n")
    each = [(after - b) / MANY for after, b in zip((rss(control), rss(node)), before)]
    used = ticks(control), ticks(node)
    time.sleep(5)
    used = ticks(control) - used[0], ticks(node) - used[1]
    print(
        f"\n{MANY} exec streams: {took:.1f} s to open; {each[0] / 1024:.1f} KiB of control and {each[1] / 1024:.2f} KiB"
        f" of node each; idle for 5 s: {used[0]} and {used[1]} ticks of CPU"
    )
    assert each[0] < 100 << 10 and each[1] < 4 << 10
    assert used[0] <= 5 and used[1] <= 5
    for c in streams:
        c.close()
    wait_until(lambda: not s.workload("", ["cat"]), what="the end of what the clients left", seconds=60)


def test_clients_that_do_not_read(s):
    """Programs that write without end wait; what is kept for a client has a limit, and nobody else notices."""
    control = s.child("control")
    Channel(s, "true").close()
    before = rss(control)
    clients = [Channel(s, "cat", "/dev/zero", stdin="false") for _ in range(16)]
    time.sleep(2)
    kept = (rss(control) - before) / len(clients)
    used = ticks(control)
    time.sleep(1)
    print(f"\nclients that do not read: {kept / 1024:.0f} KiB of control each")
    assert kept < 3 * OUTPUT_HIGH
    assert ticks(control) - used <= 2, "it turns without getting anywhere"
    assert s.exec("s", "echo", "alive") == "alive\n"
    for c in clients:
        c.close()
    wait_until(lambda: not s.workload("", ["cat", "/dev/zero"]), what="their end")


def test_program_that_does_not_read(s):
    """Input for it waits at the client."""
    control = s.child("control")
    c = Channel(s, "sleep", "1000")
    before = rss(control)
    c.tls.settimeout(1)
    sent = 0
    try:
        while sent < 200 << 20:
            c.send(b"\0" + os.urandom(30000))
            sent += 30000
    except TimeoutError:
        pass
    assert sent < 50 << 20
    assert rss(control) - before < 8 << 20
    assert s.exec("s", "echo", "alive") == "alive\n"
    c.close()
