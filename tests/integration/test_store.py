"""What the API server promises about its data: acknowledged is kept, whatever happens."""
import base64
import json
import os
import subprocess
import threading
import time

import pytest


def config_map(name, value="1", size=0):
    return {"metadata": {"name": name}, "data": {"k": value, "pad": "x" * size}}


PATH = "/api/v1/namespaces/default/configmaps"


def hammer(plane, worker, acknowledged, stop):
    """Creates, changes and deletes objects of its own; remembers what was acknowledged, and what is in doubt."""
    n = 0
    while not stop.is_set():
        n += 1
        name = f"w{worker}-{n}"
        try:
            acknowledged[name] = "?"
            if plane.open("POST", PATH, config_map(name)).status != 201:
                return
            acknowledged[name] = "1"
            if n % 3 == 0:
                acknowledged[name] = "1?"
                if plane.open("PATCH", f"{PATH}/{name}", {"data": {"k": "2"}},
                              headers={"Content-Type": "application/merge-patch+json"}).status != 200:
                    return
                acknowledged[name] = "2"
            if n % 5 == 0:
                before, acknowledged[name] = acknowledged[name], acknowledged[name] + "gone?"
                if plane.open("DELETE", f"{PATH}/{name}").status != 200:
                    acknowledged[name] = before
                    return
                acknowledged[name] = "gone"
        except OSError:
            return


def check(plane, acknowledged):
    found = {i["metadata"]["name"]: i["data"]["k"] for i in json.load(plane.open("GET", PATH))["items"]}
    allowed = {"?": {None, "1"}, "1": {"1"}, "1?": {"1", "2"}, "2": {"2"}, "gone": {None},
               "1gone?": {None, "1"}, "2gone?": {None, "2"}}
    for name, state in acknowledged.items():
        assert found.get(name) in allowed[state], f"{name} was {state}, is {found.get(name)}"


def test_kill_under_load(plane):
    acknowledged = {}
    for _ in range(3):
        stop = threading.Event()
        threads = [threading.Thread(target=hammer, args=(plane, f"{i}-{time.monotonic_ns()}", acknowledged, stop))
                   for i in range(8)]
        for t in threads:
            t.start()
        time.sleep(0.7)
        plane.stop(kill=True)
        stop.set()
        for t in threads:
            t.join()
        plane.start()
        check(plane, acknowledged)
    assert len(acknowledged) > 100


def test_full_disk(plane):
    if os.geteuid() != 0 or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "none", plane.dir / "data" / "control"],
            stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs a file system of its own")
    try:
        plane.stop()
        plane.start()
        written = 0
        while (answer := plane.open("POST", PATH, config_map(f"big-{written}", size=200000))).status == 201:
            written += 1
            assert written < 100
        assert answer.status == 507 and json.load(answer)["reason"] == "InsufficientStorage"
        names = {i["metadata"]["name"] for i in json.load(plane.open("GET", PATH))["items"]}
        assert names == {f"big-{i}" for i in range(written)}
        plane.stop(kill=True)
        plane.start()
        assert {i["metadata"]["name"] for i in json.load(plane.open("GET", PATH))["items"]} == names
        subprocess.run(["mount", "-o", "remount,size=32m", plane.dir / "data" / "control"], check=True)
        plane.wait_until(lambda: plane.open("POST", PATH, config_map("later")).status in (201, 409), 5)
        assert plane.open("GET", f"{PATH}/later").status == 200
    finally:
        plane.stop()
        subprocess.run(["umount", plane.dir / "data" / "control"], check=True)
        plane.start()


def files_with(plane, words):
    """Files below the data directory that hold one of the words."""
    found = []
    for path in (plane.dir / "data").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found += [path.name for word in words if word in data]
    return found


def test_secrets_are_encrypted_on_disk(plane):
    plain = b"a-word-for-nobody-else"
    encoded = base64.b64encode(plain)
    secrets = "/api/v1/namespaces/default/secrets"
    body = {"metadata": {"name": "sealed"}, "data": {"k": encoded.decode()}}
    assert plane.open("POST", secrets, body).status == 201
    body["metadata"]["labels"] = {"a": "b"}
    assert plane.open("PUT", f"{secrets}/sealed", body).status == 200
    marker = {"metadata": {"name": "in-the-open"}, "data": {"k": "a-word-for-everybody"}}
    assert plane.open("POST", PATH, marker).status == 201
    assert files_with(plane, [b"a-word-for-everybody"]), "this would find it"
    assert not files_with(plane, [plain, encoded])
    plane.stop()
    assert not files_with(plane, [plain, encoded])
    key = plane.dir / "data" / "control" / "secrets.keys"
    assert key.stat().st_mode & 0o777 == 0o600
    plane.start()
    assert json.load(plane.open("GET", f"{secrets}/sealed"))["data"]["k"] == encoded.decode()
    # Without its key the server does not start, says why, and loses nothing.
    plane.stop()
    key.rename(key.with_suffix(".away"))
    with pytest.raises(AssertionError, match="is sealed by the key"):
        plane.start()
    plane.process.wait(20)
    key.with_suffix(".away").replace(key)
    plane.start()
    assert json.load(plane.open("GET", f"{secrets}/sealed"))["data"]["k"] == encoded.decode()
