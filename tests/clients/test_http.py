"""The API over HTTP/1.1 and HTTP/2, as curl, h2load and kubectl speak them; and what becomes of clients at the end."""
import json
import re
import shutil
import subprocess
import time

import pytest

from control_plane import ADMIN_TOKEN, ControlPlane

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
VERSIONS = ["--http1.1", "--http2"]


@pytest.fixture(scope="module")
def plane(holt):
    p = ControlPlane(holt)
    for i in range(350):
        body = {"metadata": {"name": f"c{i:03}"}, "data": {"text": "x" * 1000}}
        assert p.open("POST", CONFIGMAPS, body).status == 201
    yield p
    p.close()


def curl_command(plane, path, *options):
    return ["curl", "-sS", "--cacert", str(plane.ca_file()), "-H", f"Authorization: Bearer {ADMIN_TOKEN}", "-H",
            "User-Agent: test", *options, f"https://127.0.0.1:{plane.port}{path}"]


def curl(plane, path, *options):
    done = subprocess.run(curl_command(plane, path, *options), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(plane, version):
    answer = curl(plane, CONFIGMAPS + "/c000", version, "-w", "\n%{http_version} %{http_code}")
    assert answer.endswith("\n2 200" if version == "--http2" else "\n1.1 200")
    assert json.loads(answer[: answer.rindex("\n")])["metadata"]["name"] == "c000"


@pytest.mark.parametrize("version", VERSIONS)
def test_long_lists(plane, version):
    """What is sent in slices is the same list as that which is sent at once."""
    whole = json.loads(curl(plane, CONFIGMAPS, version))
    assert [i["metadata"]["name"] for i in whole["items"]] == [f"c{i:03}" for i in range(350)]
    items, token = [], ""
    while token is not None:
        page = json.loads(curl(plane, f"{CONFIGMAPS}?limit=90&continue={token}", version))
        items += page["items"]
        token = page["metadata"].get("continue")
    assert items == whole["items"]
    accept = "Accept: application/json;as={};v=v1;g=meta.k8s.io"
    table = json.loads(curl(plane, CONFIGMAPS, version, "-H", accept.format("Table")))
    assert [r["cells"][0] for r in table["rows"]] == [i["metadata"]["name"] for i in items]
    partial = json.loads(curl(plane, CONFIGMAPS, version, "-H", accept.format("PartialObjectMetadataList")))
    assert [i["metadata"] for i in partial["items"]] == [i["metadata"] for i in items]
    assert json.loads(curl(plane, CONFIGMAPS + "?pretty=true", version)) == whole


def test_slow_reader_of_a_long_list(plane):
    """It gets what was there when it asked, however long it takes."""
    before = curl(plane, CONFIGMAPS)
    slow = subprocess.Popen(curl_command(plane, CONFIGMAPS, "--http2", "--limit-rate", "200k"), stdout=subprocess.PIPE,
                            text=True)
    time.sleep(0.3)
    plane.kubectl("delete", "configmap", "c349")
    assert json.loads(slow.communicate(timeout=60)[0])["items"] == json.loads(before)["items"]
    plane.kubectl("create", "configmap", "c349", "--from-literal=text=y")


def test_watch_that_begins_with_more_than_a_stream_may_hold(plane):
    """The state that a watch begins with comes as fast as the client takes it, and changes behind it."""
    for i in range(12):
        body = {"metadata": {"name": f"big{i:02}"}, "data": {"text": "x" * 1000000}}
        assert plane.open("POST", CONFIGMAPS, body).status == 201
    for version in VERSIONS:
        command = curl_command(plane, CONFIGMAPS + "?watch=true", "-N", version, "--limit-rate", "20M")
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(0.2)
        plane.kubectl("create", "configmap", "late", "--from-literal=a=b")
        names = [json.loads(watch.stdout.readline())["object"]["metadata"]["name"] for _ in range(363)]
        watch.kill()
        assert names[-1] == "late" and len(set(names)) == 363 and "big11" in names
        plane.kubectl("delete", "configmap", "late")
        watch.wait()
    plane.kubectl("delete", "configmap", *[f"big{i:02}" for i in range(12)])


def test_streams_of_one_connection(plane):
    if not shutil.which("h2load"):
        pytest.skip("needs h2load (nghttp2-client)")
    done = subprocess.run(["h2load", "-n", "3000", "-c", "4", "-m", "50", "-H", f"Authorization: Bearer {ADMIN_TOKEN}",
                           f"https://127.0.0.1:{plane.port}{CONFIGMAPS}/c001"], capture_output=True, text=True, timeout=60)
    assert "Application protocol: h2" in done.stdout
    assert re.search(r"status codes: 3000 2xx, 0 3xx, 0 4xx, 0 5xx", done.stdout), done.stdout


def test_old_tls_is_refused(plane):
    for version in ("1.0", "1.1"):
        done = subprocess.run(curl_command(plane, "/version", "--tls-max", version, "--ciphers", "ALL:@SECLEVEL=0"),
                              capture_output=True, text=True, timeout=30)
        assert done.returncode != 0
    assert json.loads(curl(plane, "/version", "--tls-max", "1.2"))


def test_end(holt):
    """Told to end, the server ends watches as it would any other day, and is gone soon."""
    plane = ControlPlane(holt)
    watches = [subprocess.Popen(curl_command(plane, CONFIGMAPS + "?watch=true", "-N", version), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for version in VERSIONS]
    plane.kubectl("create", "configmap", "seen", "--from-literal=a=b")
    for watch in watches:
        assert json.loads(watch.stdout.readline())["object"]["metadata"]["name"] == "seen"
    start = time.monotonic()
    plane.stop()
    assert time.monotonic() - start < 3
    for watch in watches:
        assert watch.communicate(timeout=10) == ("", "")
        assert watch.returncode == 0
    plane.start()
    assert plane.get("configmap", "seen")["data"] == {"a": "b"}
    plane.close()
