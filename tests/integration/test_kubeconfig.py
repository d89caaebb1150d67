"""`holt kubeconfig`: access for somebody else, held to roles."""

import os
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
