"""Unmodified kubectl and the Python client reach a port inside a sandbox."""

import concurrent.futures
import re
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
import zlib

import pytest

from instance import DEADLINE, sandbox, wait_until

SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, size):
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
    def do_GET(self):
        size = int(self.path[1:])
        self.answer(size)
        self.wfile.write(b"x" * size)
    def do_POST(self):
        text = str(len(self.rfile.read(int(self.headers["Content-Length"])))).encode()
        self.answer(len(text))
        self.wfile.write(text)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
# Counts what comes until the client ends its direction, and only then answers. Connections beyond the backlog would fall
# to SYN cookies, which may lose the first byte in front of a FIN.
COUNTER = """
import socket
import struct
s = socket.create_server(("127.0.0.1", 8081), backlog=1024)
while True:
    c = s.accept()[0]
    n = 0
    while data := c.recv(65536):
        n += len(data)
    c.sendall(str(n).encode())
    c.close()
"""


@pytest.fixture
def s(up):
    """A sandbox s with servers on ports 8080 and 8081."""
    up.ready_sandbox(sandbox("s"))
    for program in SERVER, COUNTER:
        up.popen("kubectl", "exec", "s", "--", "python3", "-c", program)
    ports = "grep -c ':1F9[01] .* 0A ' /proc/net/tcp || true"
    assert wait_until(lambda: up.exec("s", "sh", "-c", ports).strip() == "2")
    return up


class Forward:
    """kubectl port-forward from a port that it chooses."""

    def __init__(self, up, port, **env):
        self.process = subprocess.Popen(
            ["kubectl", "port-forward", "pod/s", f":{port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**up.environment(), **env},
        )  # fmt: skip
        up.started.append(self.process)
        line = self.process.stdout.readline()
        match = re.search(r"127\.0\.0\.1:(\d+) -> ", line)
        assert match, line + self.process.stderr.read()
        self.port = int(match[1])

    def get(self, size):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{size}", timeout=DEADLINE) as answer:
            return len(answer.read())

    def post(self, size):
        url = f"http://127.0.0.1:{self.port}/"
        with urllib.request.urlopen(url, data=b"y" * size, timeout=DEADLINE) as answer:
            return int(answer.read())


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_http_through_kubectl(s, websockets):
    f = Forward(s, 8080, KUBECTL_PORT_FORWARD_WEBSOCKETS=websockets)
    assert f.get(5) == 5
    assert f.get(30_000_000) == 30_000_000
    assert f.post(30_000_000) == 30_000_000
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(f.get, [100_000] * 64)) == [100_000] * 64


def test_half_close(s):
    with socket.create_connection(("127.0.0.1", Forward(s, 8081).port), timeout=DEADLINE) as c:
        c.sendall(b"z" * 3_000_000)
        c.shutdown(socket.SHUT_WR)
        assert c.recv(100) == b"3000000"
        assert c.recv(100) == b""


def test_refused_port_says_so(s):
    f = Forward(s, 9)
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        f.get(1)
    _, err = f.process.communicate(timeout=DEADLINE)
    assert "port 9 to pod s" in err and "onnection refused" in err


def test_client_that_does_not_read_costs_others_nothing_lasting(s):
    """Several clients ask for much and read nothing; when they have gone, all is as before."""
    f = Forward(s, 8080)
    idle = [socket.create_connection(("127.0.0.1", f.port)) for _ in range(4)]
    for c in idle:
        c.sendall(b"GET /50000000 HTTP/1.0\r\n\r\n")
    assert s.exec("s", "echo", "alive") == "alive\n"
    for c in idle:
        c.close()
    assert Forward(s, 8080).get(1000) == 1000


def test_end_of_the_sandbox(s):
    f = Forward(s, 8080)
    assert f.get(5) == 5
    s.kubectl("delete", "sandbox", "s")
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        f.get(5)


def test_python_client(s):
    from kubernetes import client, config, stream

    api = client.CoreV1Api(config.new_client_from_config(s.environment()["KUBECONFIG"]))
    forward = stream.portforward(api.connect_get_namespaced_pod_portforward, "s", "default", ports="8080,9")
    c = forward.socket(8080)
    c.settimeout(DEADLINE)
    c.sendall(b"GET /200000 HTTP/1.0\r\n\r\n")
    text = b""
    while data := c.recv(65536):
        text += data
    assert text.endswith(b"x" * 200_000)
    assert wait_until(lambda: "onnection refused" in (forward.error(9) or ""))


class Spdy:
    """A client of SPDY/3.1 that does what kubectl never does."""

    def __init__(self, s):
        plain = socket.create_connection(("127.0.0.1", s.port), timeout=40)
        self.tls = s.tls().wrap_socket(plain, server_hostname="127.0.0.1")
        self.tls.sendall(
            b"POST /api/v1/namespaces/default/pods/s/portforward HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
            b"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\nContent-Length: 0\r\n\r\n"
        )
        self.file = self.tls.makefile("rb")
        assert b" 101 " in self.file.readline()
        while self.file.readline() != b"\r\n":
            pass
        self.zip = zlib.compressobj()

    def open(self, stream, **headers):
        block = struct.pack(">I", len(headers))
        for pair in headers.items():
            for text in pair:
                block += struct.pack(">I", len(text)) + text.encode()
        body = struct.pack(">IIH", stream, 0, 0) + self.zip.compress(block) + self.zip.flush(zlib.Z_SYNC_FLUSH)
        self.tls.sendall(struct.pack(">II", 0x80030001, len(body)) + body)

    def data(self, stream, data, fin=False):
        self.tls.sendall(struct.pack(">II", stream, len(data) | fin << 24) + data)

    def frame(self):
        """(type or 0 for data, stream, the rest, fin)"""
        first, second = struct.unpack(">II", self.file.read(8))
        body = self.file.read(second & 0xFFFFFF)
        fin = bool(second >> 24)
        if first >> 31:
            return first & 0xFFFF, struct.unpack(">I", body[:4])[0], body[4:], fin
        return 0, first, body, fin


SYN_REPLY, RST_STREAM, PING = 2, 3, 6


def test_streams_come_in_pairs(s):
    c = Spdy(s)
    c.open(1, streamtype="error", requestid="a", port="8081")
    assert c.frame()[:2] == (SYN_REPLY, 1)
    # Another of the same kind, or for another port, is no pair; nor is what says nothing of a port.
    for stream, headers in (
        (3, {"streamtype": "error", "requestid": "a", "port": "8081"}),
        (5, {"streamtype": "data", "requestid": "a", "port": "8080"}),
        (7, {"streamtype": "data", "requestid": "a", "port": "0"}),
        (9, {"streamtype": "data", "requestid": "a"}),
        (11, {"streamtype": "other", "requestid": "a", "port": "8081"}),
    ):
        c.open(stream, **headers)
        assert c.frame() == (RST_STREAM, stream, struct.pack(">I", 1), False)
    c.data(99, b"for nobody")
    c.open(13, streamtype="data", requestid="a", port="8081")
    assert c.frame()[:2] == (SYN_REPLY, 13)
    c.data(13, b"12345", fin=True)
    assert c.frame() == (0, 13, b"5", False)
    assert {c.frame()[1:], c.frame()[1:]} == {(1, b"", True), (13, b"", True)}
    c.tls.sendall(struct.pack(">III", 0x80030006, 4, 7))
    assert c.frame()[:2] == (PING, 7)


def test_stream_that_stays_alone(s):
    """It has half a minute."""
    c = Spdy(s)
    c.open(1, streamtype="data", requestid="a", port="8081")
    assert c.frame()[:2] == (SYN_REPLY, 1)
    begun = time.monotonic()
    assert c.frame() == (RST_STREAM, 1, struct.pack(">I", 5), False)
    assert 28 < time.monotonic() - begun < 35
    for stream, kind in ((3, "error"), (5, "data")):  # its name is free again
        c.open(stream, streamtype=kind, requestid="a", port="8081")
        assert c.frame()[:2] == (SYN_REPLY, stream)
    c.data(5, b"12", fin=True)
    assert c.frame() == (0, 5, b"2", False)


def test_a_thousand_connections(s):
    """In one session."""
    c = Spdy(s)
    for i in range(1000):
        c.open(4 * i + 1, streamtype="error", requestid=str(i), port="8081")
        c.open(4 * i + 3, streamtype="data", requestid=str(i), port="8081")
        c.data(4 * i + 3, b"x" * (i % 7), fin=True)
    got = {}
    ended = set()
    while len(ended) < 2000:
        kind, stream, body, fin = c.frame()
        assert kind in (0, SYN_REPLY), (kind, stream, body)
        if kind == 0:
            got[stream] = got.get(stream, b"") + body
            if fin:
                ended.add(stream)
    wrong = {i: (got[4 * i + 1], got[4 * i + 3]) for i in range(1000) if (got[4 * i + 1], got[4 * i + 3]) != (b"", str(i % 7).encode())}
    assert not wrong
