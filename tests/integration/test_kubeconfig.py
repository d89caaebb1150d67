"""`holt kubeconfig`: access for somebody else, held to roles."""

import base64
import http.client
import json
import os
import socket
import ssl
import subprocess
import time

import pytest


@pytest.fixture
def make(up):
    """make(*options) runs `holt kubeconfig` for the shared holt."""
    def call(*options, code=0):
        done = subprocess.run([up.holt, "kubeconfig", "--data-dir", up.data, *options], capture_output=True, text=True)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr

    yield call
    up.kubectl("delete", "rolebinding", "--all")


def test_it_gives_what_roles_give(up, make, tmp_path):
    path = tmp_path / "bob.kubeconfig"
    assert make("--user", "bob", "--group", "dev", "--group", "qa", "--output", path) == ""
    assert path.stat().st_mode & 0o777 == 0o600
    own = f"--kubeconfig={path}"
    who = up.kubectl(own, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
    assert who == 'bob ["dev","qa","system:authenticated"]'
    assert 'User "bob" cannot list resource "pods"' in up.kubectl(own, "get", "pods", code=1)
    up.kubectl("create", "rolebinding", "dev", "--clusterrole=view", "--group=dev")
    up.kubectl(own, "get", "pods,sandboxes")
    assert "cannot list" in up.kubectl(own, "get", "secrets", code=1)
    assert "cannot create" in up.kubectl(own, "create", "configmap", "x", code=1)
    up.kubectl("delete", "rolebinding", "dev")
    assert "forbidden" in up.kubectl(own, "get", "pods", code=1)


def test_it_is_printed_and_expires(up, make, tmp_path):
    path = tmp_path / "short"
    path.write_text(make("--user", "eve", "--ttl", "3s"))
    up.kubectl(f"--kubeconfig={path}", "version")
    time.sleep(4)  # certificates tell time in seconds
    assert "certificate" in up.kubectl(f"--kubeconfig={path}", "version", code=1).lower()


def test_it_expires_on_a_connection_that_stays(up, make, tmp_path):
    """And a session that was begun with it does not help afterwards."""
    user = json.loads(make("--user", "eve", "--ttl", "3s"))
    (tmp_path / "pem").write_bytes(
        b"".join(base64.b64decode(user["users"][0]["user"][f"client-{part}-data"]) for part in ("key", "certificate"))
    )
    (tmp_path / "ca").write_bytes(base64.b64decode(user["clusters"][0]["cluster"]["certificate-authority-data"]))
    context = ssl.create_default_context(cafile=tmp_path / "ca")
    context.load_cert_chain(tmp_path / "pem")

    def ask(connection):
        connection.request("GET", "/version")
        answer = connection.getresponse()
        answer.read()
        return answer.status

    connection = http.client.HTTPSConnection("127.0.0.1", up.port, context=context)
    assert ask(connection) == 200
    session = connection.sock.session
    time.sleep(4)
    assert ask(connection) == 401
    raw = context.wrap_socket(socket.create_connection(("127.0.0.1", up.port)), server_hostname="127.0.0.1",
                              session=session)  # fmt: skip
    try:
        raw.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert not raw.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        pass  # refused while shaking hands
    finally:
        raw.close()


@pytest.mark.parametrize("options, message", [
    ([], "--user: say who the kubeconfig is for"),
    (["--user", ""], "--user: a name is 1 to 256 bytes"),
    (["--user", "a\nb"], "--user: a name has no control characters"),
    (["--user", "x" * 257], "--user: a name is 1 to 256 bytes"),
    (["--user", "a", "--group", ""], "--group: a name is 1 to 256 bytes"),
    (["--user", "a", "--ttl", "0s"], "--ttl: must be from 1s to 87600h"),
    (["--user", "a", "--ttl", "100000h"], "--ttl: must be from 1s to 87600h"),
    (["--user", "a", "--server", "http://x"], '--server: "http://x" is no https:// URL'),
    (["--user", "a", "more"], "usage: holt kubeconfig --user NAME"),
])  # fmt: skip
def test_bad_use(make, options, message):
    assert message in make(*options, code=64)


def test_no_data(holt, tmp_path):
    for options, message in [
        ([], f"cannot tell where the server of {tmp_path} is: name it with --server"),
        (["--server", "https://127.0.0.1:1"], f"is {tmp_path} the data directory of holt, and may you read it?"),
    ]:
        done = subprocess.run([holt, "kubeconfig", "--user", "a", "--data-dir", tmp_path, *options],
                              capture_output=True, text=True)
        assert done.returncode == 1 and message in done.stderr
    assert not os.listdir(tmp_path)


def test_a_watch_ends_when_it_expires(up, make, tmp_path):
    path = tmp_path / "short"
    up.kubectl("create", "clusterrolebinding", "eve", "--clusterrole=view", "--user=eve")
    path.write_text(make("--user", "eve", "--ttl", "10s"))
    watch = up.popen("kubectl", f"--kubeconfig={path}", "get", "namespaces", "--watch", "-o", "name")
    assert watch.stdout.readline() == "namespace/default\n"
    watch.wait(60)  # by itself
    up.kubectl("delete", "clusterrolebinding", "eve")
