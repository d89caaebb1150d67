"""Servers inside sandboxes by the API's proxy of Pods and Services: kubectl get --raw, kubectl proxy, plain HTTP."""

import http.client
import json
import re
import socket
import subprocess
import time

import pytest

from instance import DEADLINE, sandbox, wait_until

SERVER = """
import base64, hashlib, http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def switch(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while data := self.connection.recv(65536):
            self.connection.sendall(data)
    def head(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.path.split("?")[0]
        if self.headers.get("Upgrade"):
            self.switch()
        elif kind == "/big":
            self.head(200, Content_Length="50000000")
            for _ in range(500):
                self.wfile.write(b"x" * 100000)
        elif kind == "/slowly":
            self.head(200, Transfer_Encoding="chunked")
            self.wfile.write(b"5\\r\\nfirst\\r\\n")
            while not open("/tmp/go").read():
                pass
            self.wfile.write(b"6\\r\\nsecond\\r\\n0\\r\\n\\r\\n")
        elif kind == "/cut":
            self.head(200, Content_Length="1000")
            self.wfile.write(b"x" * 10)
            self.close_connection = True
        elif kind == "/moved":
            self.head(302, Location="/there", Content_Length="0")
        elif kind == "/garbage":
            self.wfile.write(b"garbage\\r\\n\\r\\n")
            self.close_connection = True
        else:
            text = json.dumps([self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, len(body)])
            self.head(418, Content_Type="application/json", Content_Length=str(len(text)), Keep_Alive="timeout=5",
                      Connection="X-Gone", X_Gone="1", X_Kept="2")
            if self.command != "HEAD":
                self.wfile.write(text.encode())
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer
    def log_message(self, *args):
        pass
open("/tmp/go", "w")
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
PODS = "/api/v1/namespaces/default/pods"
PROXY = f"{PODS}/s:8080/proxy"


@pytest.fixture
def s(up):
    up.ready_sandbox(sandbox("s"))
    up.popen("kubectl", "exec", "-i", "s", "--", "python3", "-c", SERVER)
    wait_until(lambda: up.exec("s", "sh", "-c", "grep -c ':1F90 .* 0A ' /proc/net/tcp || true").strip() == "1")
    return up


def connect(s):
    return http.client.HTTPSConnection("127.0.0.1", s.port, context=s.tls(), timeout=DEADLINE)


def ask(s, method, path, body=None, **headers):
    c = connect(s)
    c.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    answer = c.getresponse()
    return answer, answer.read()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_methods(s, method):
    answer, body = ask(s, method, f"{PROXY}/a/b%20c//d?e=f&watch=true", b"12345")
    got_method, path, _, length = json.loads(body)
    assert (answer.status, got_method, path, length) == (418, method, "/a/b%20c//d?e=f&watch=true", 5)
    assert answer.getheader("Content-Type") == "application/json"


def test_head(s):
    answer, body = ask(s, "HEAD", PROXY + "/")
    assert answer.status == 418 and int(answer.getheader("Content-Length")) > 10 and body == b""


def test_headers(s):
    answer, body = ask(
        s, "GET", PROXY + "/", Authorization="Basic secret", Impersonate_User="x", Impersonate_Group="system:masters",
        Connection="X-Mine", X_Mine="1", X_Other="2", X_Forwarded_Host="forged",
    )  # fmt: skip
    assert answer.status == 418, body
    headers = json.loads(body)[2]
    assert headers["x-other"] == "2" and headers["x-forwarded-host"] == f"127.0.0.1:{s.port}"
    assert "secret" not in str(headers) and "x-mine" not in headers and "impersonate" not in str(headers)
    assert answer.getheader("X-Kept") == "2"
    assert answer.getheader("X-Gone") is None and answer.getheader("Keep-Alive") is None


def test_places_stay_behind_the_proxy(s):
    answer, _ = ask(s, "GET", PROXY + "?q=1")
    assert (answer.status, answer.getheader("Location")) == (301, PROXY + "/?q=1")
    answer, _ = ask(s, "GET", PROXY + "/moved")
    assert (answer.status, answer.getheader("Location")) == (302, PROXY + "/there")


def test_kubectl(s):
    assert len(s.kubectl("get", "--raw", PROXY + "/big")) == 50_000_000  # over HTTP/2
    proxy = s.popen("kubectl", "proxy", "--port=0")
    port = int(re.search(r":(\d+)", proxy.stdout.readline())[1])
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    c.request("PUT", f"{PROXY}/up", b"x" * 2_000_000)
    assert json.loads(c.getresponse().read())[3] == 2_000_000
    c.request("GET", f"{PROXY}/big")
    assert len(c.getresponse().read()) == 50_000_000


def test_answer_comes_as_it_is_made(s):
    c = connect(s)
    c.request("GET", PROXY + "/slowly")
    answer = c.getresponse()
    assert answer.read(5) == b"first"
    s.exec("s", "sh", "-c", "echo x >/tmp/go")
    assert answer.read() == b"second"


def test_answers_that_are_none(s):
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ask(s, "GET", PROXY + "/cut")
    for path in PROXY + "/garbage", f"{PODS}/s:9/proxy/":
        answer, body = ask(s, "GET", path)
        status = json.loads(body)
        assert answer.status == 503 and status["reason"] == "ServiceUnavailable"
        assert status["message"].startswith("error trying to reach service: ")
    assert ask(s, "GET", f"{PODS}/none:9/proxy/")[0].status == 404
    for name in "https:s:443", "s:nosuch", "a:b:c:d":
        assert ask(s, "GET", f"{PODS}/{name}/proxy/")[0].status == 400


def test_upgrade(s):
    plain = socket.create_connection(("127.0.0.1", s.port), timeout=DEADLINE)
    raw = s.tls().wrap_socket(plain, server_hostname="127.0.0.1")
    raw.sendall(
        f"GET {PROXY}/ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nearly".encode()
    )
    got = b""
    while not got.endswith(b"early"):
        data = raw.recv(65536)
        assert data, got
        got += data
    assert got.startswith(b"HTTP/1.1 101 ") and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in got
    sent = bytes(range(256)) * 4000
    raw.sendall(sent)
    back = b""
    while len(back) < len(sent):
        back += raw.recv(65536)
    assert back == sent
    raw.close()


def rss(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) << 10


def test_clients_that_do_not_read(s):
    """What waits for them is bounded, and others are served."""
    control = s.child("control")
    before = rss(control)
    idle = [connect(s) for _ in range(20)]
    for c in idle:
        c.request("GET", PROXY + "/big")
    time.sleep(1.5)
    assert rss(control) - before < 20 * (4 << 20)
    assert ask(s, "GET", PROXY + "/")[0].status == 418
    for c in idle:
        c.close()
    assert len(ask(s, "GET", PROXY + "/big")[1]) == 50_000_000


def test_services(s):
    label = s.get("pod", "s")["metadata"]["labels"]
    s.create(
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": label, "ports": [
                {"name": "main", "port": 80, "targetPort": 8080}, {"name": "other", "port": 81, "targetPort": 9}
            ]},
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "nobody"},
            "spec": {"selector": {"no": "one"}, "ports": [{"port": 80}]},
        },
    )  # fmt: skip
    services = "/api/v1/namespaces/default/services"
    for name in "web:80", "web:main", "http:web:main":
        path = f"{services}/{name}/proxy/x"
        body = wait_until(lambda: ((a := ask(s, "GET", path))[0].status == 418) and a[1])
        assert json.loads(body)[1] == "/x"
    for name, text in (
        ("web:81", "error trying to reach service: "), ("web", "no service port"), ("web:82", "no service port"),
        ("nobody", "no endpoints available"),
    ):  # fmt: skip
        answer, body = ask(s, "GET", f"{services}/{name}/proxy/")
        assert answer.status == 503 and json.loads(body)["message"].startswith(text), body
    s.kubectl("delete", "service", "web", "nobody")


def test_end_of_the_client_is_the_end_inside(s):
    connections = "grep -c ':1F90 .* 01 ' /proc/net/tcp || true"
    c = connect(s)
    c.request("GET", PROXY + "/slowly")
    answer = c.getresponse()
    assert answer.read(5) == b"first"
    assert s.exec("s", "sh", "-c", connections).strip() != "0"
    answer.close()
    c.close()
    wait_until(lambda: s.exec("s", "sh", "-c", connections).strip() == "0")
