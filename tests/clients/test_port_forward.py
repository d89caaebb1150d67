"""Unmodified kubectl and the Python client reach a port inside a sandbox."""

import concurrent.futures
import re
import socket
import subprocess
import urllib.error
import urllib.request

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
# Counts what comes until the client ends its direction, and only then answers.
COUNTER = """
import socket
s = socket.create_server(("127.0.0.1", 8081))
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
