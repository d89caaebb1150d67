"""The audit log: who did what, in the form of audit.k8s.io/v1, and never a secret."""

import base64
import json
import subprocess
import threading

import pytest

from control_plane import ADMIN_TOKEN, USER_TOKEN, ControlPlane
from instance import wait_until

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def audited(holt, tmp_path):
    """audited(policy, *options): a control plane with this audit policy."""
    planes = []

    def make(policy=None, *options):
        if policy:
            (tmp_path / "policy.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + policy)
            options = ("--audit-policy", tmp_path / "policy.yaml", *options)
        planes.append(ControlPlane(holt, *options))
        return planes[-1]

    yield make
    for plane in planes:
        plane.close()


def records(plane, **wanted):
    """Those whose members, by path, are as wanted: records(p, verb="get", objectRef__name="x")."""

    def member(record, path):
        for key in path.split("__"):
            record = record.get(key, {}) if isinstance(record, dict) else {}
        return record

    lines = (plane.dir / "data/control/audit.log").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [r for r in found if all(member(r, path) == value for path, value in wanted.items())]


def test_records(audited):
    plane = audited()
    body = {"metadata": {"name": "one"}, "data": {"k": "v"}}
    headers = {"Audit-ID": "client-chosen.1", "User-Agent": "test/1"}
    answer = plane.open("POST", CONFIG_MAPS + "?fieldManager=t", body, headers=headers)
    assert answer.status == 201 and answer.headers["Audit-Id"] == "client-chosen.1"
    (r,) = records(plane, auditID="client-chosen.1")
    assert r["kind"] == "Event" and r["apiVersion"] == "audit.k8s.io/v1" and r["level"] == "Metadata"
    assert r["stage"] == "ResponseComplete" and r["verb"] == "create"
    assert r["requestURI"] == CONFIG_MAPS + "?fieldManager=t"
    assert r["user"]["username"] == "admin" and "system:masters" in r["user"]["groups"]
    assert r["sourceIPs"] == ["127.0.0.1"] and r["userAgent"] == "test/1"
    assert r["objectRef"] == {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"}
    assert r["responseStatus"] == {"metadata": {}, "code": 201}
    assert r["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert "requestObject" not in r and "responseObject" not in r
    assert r["requestReceivedTimestamp"] <= r["stageTimestamp"]
    # Refused, unknown and impersonated.
    assert plane.open("GET", CONFIG_MAPS + "/none").status == 404
    (r,) = records(plane, objectRef__name="none")
    assert r["responseStatus"]["reason"] == "NotFound" and r["responseStatus"]["code"] == 404
    assert plane.open("DELETE", CONFIG_MAPS + "/one", token=USER_TOKEN).status == 403
    (r,) = records(plane, verb="delete", user__username="alice")
    assert r["annotations"]["authorization.k8s.io/decision"] == "forbid" and r["responseStatus"]["code"] == 403
    assert plane.open("GET", CONFIG_MAPS, token="wrong").status == 401
    assert records(plane, user__username="system:anonymous")[0]["responseStatus"]["code"] == 401
    plane.open("GET", CONFIG_MAPS, headers={"Impersonate-User": "bob"})
    (r,) = records(plane, impersonatedUser__username="bob")
    assert r["user"]["username"] == "admin"


def test_client_ids_cannot_forge(audited):
    plane = audited()
    for bad in ('a","verb":"forged', "x" * 65, "a b", "ä"):
        answer = plane.open("GET", CONFIG_MAPS + "/none", headers={"Audit-ID": bad, "User-Agent": 'u"\\\t{'})
        assert answer.headers["Audit-Id"] != bad
    assert len(records(plane, objectRef__name="none", userAgent='u"\\\t{')) == 4
    assert not records(plane, verb="forged")


def test_bodies_and_stages(audited):
    plane = audited(
        "omitManagedFields: true\n"
        "rules:\n"
        "- {level: RequestResponse, resources: [{group: '', resources: [configmaps]}]}\n"
    )
    plane.open("POST", CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"k": "v"}})
    stages = [r["stage"] for r in records(plane, verb="create")]
    assert stages == ["RequestReceived", "ResponseComplete"]
    r = records(plane, verb="create")[1]
    assert r["requestObject"] == {"metadata": {"name": "one"}, "data": {"k": "v"}}
    assert r["responseObject"]["metadata"]["uid"] and "managedFields" not in r["responseObject"]["metadata"]
    patch = {"data": {"k": "2"}}
    plane.open("PATCH", CONFIG_MAPS + "/one", patch, headers={"Content-Type": "application/merge-patch+json"})
    assert records(plane, verb="patch", stage="ResponseComplete")[0]["requestObject"] == patch
    assert json.load(plane.open("GET", CONFIG_MAPS))["items"]
    (r,) = records(plane, verb="list", stage="ResponseComplete")
    assert [i["metadata"]["name"] for i in r["responseObject"]["items"] if i["metadata"]["name"] == "one"]
    # A watch tells its start and its end.
    plane.open("GET", CONFIG_MAPS + "?watch=1&timeoutSeconds=1").read()
    wait_until(lambda: len(records(plane, verb="watch")) == 3)
    assert [r["stage"] for r in records(plane, verb="watch")][1:] == ["ResponseStarted", "ResponseComplete"]
    assert not records(plane, objectRef__resource="secrets") and not records(plane, verb="get")


def test_never_a_secret(audited):
    """Whatever the policy asks for."""
    plane = audited("rules: [{level: RequestResponse}]\n")
    word = "nobody-may-read-this"
    encoded = base64.b64encode(word.encode()).decode()
    secret = {"metadata": {"name": "s"}, "data": {"k": encoded}, "stringData": {"k2": word}}
    assert plane.open("POST", SECRETS, secret).status == 201
    assert plane.open("POST", SECRETS, {"metadata": {"name": "bad"}, "data": {"k": word + "!"}}).status >= 400
    assert plane.open("POST", SECRETS, {"metadata": {"name": "bad2"}, "data": {"k": {word: 1}}}).status >= 400
    patch = {"data": {"k": base64.b64encode((word + "2").encode()).decode()}}
    kinds = ("merge-patch+json", "strategic-merge-patch+json")
    for kind in kinds:
        assert plane.open("PATCH", SECRETS + "/s", patch, headers={"Content-Type": f"application/{kind}"}).status == 200
    assert plane.open("GET", SECRETS).status == 200 and plane.open("GET", SECRETS + "/s").status == 200
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": ADMIN_TOKEN}}
    assert plane.open("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).status == 201
    text = (plane.dir / "data/control/audit.log").read_text()
    assert "requestObject" in text or records(plane, objectRef__resource="secrets")
    for forbidden in (word, encoded, patch["data"]["k"], ADMIN_TOKEN, USER_TOKEN):
        assert forbidden not in text
    # The same policy does record what is none: this test can fail.
    plane.open("POST", CONFIG_MAPS, {"metadata": {"name": "open"}, "data": {"k": word}})
    assert word in (plane.dir / "data/control/audit.log").read_text()


def test_bad_policies(audited, holt, tmp_path):
    for text, field in (("rules: [{level: all}]", "rules[0].level"), ("rule: []", "rule"), ("rules: []", "rules")):
        with pytest.raises(AssertionError) as e:
            audited(text + "\n")
        assert f"{field}: " in str(e.value) and "policy.yaml" in str(e.value)


def test_rotation_and_order(audited):
    plane = audited(None, "--audit-max-size", "64Ki", "--audit-backups", "2")
    plane.ca_file()

    def ask(worker):
        for i in range(60):
            plane.open("GET", f"{CONFIG_MAPS}/w{worker}-{i}")

    threads = [threading.Thread(target=ask, args=(w,)) for w in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    logs = sorted(p.name for p in (plane.dir / "data/control").glob("audit.log*"))
    assert logs == ["audit.log", "audit.log.1", "audit.log.2"]
    for name in logs:
        for line in (plane.dir / "data/control" / name).read_text().splitlines():
            json.loads(line)
    assert (plane.dir / "data/control/audit.log").stat().st_mode & 0o777 == 0o600


def test_long_lists_are_left_out(audited):
    plane = audited("rules: [{level: RequestResponse}]\n")
    for i in range(101):
        assert plane.open("POST", CONFIG_MAPS, {"metadata": {"name": f"m{i}"}}).status == 201
        if i in (99, 100):
            assert len(json.load(plane.open("GET", CONFIG_MAPS))["items"]) == i + 1
    short, long = records(plane, verb="list", objectRef__resource="configmaps", stage="ResponseComplete")
    assert len(short["responseObject"]["items"]) == 100 and "audit.k8s.io/truncated" not in short["annotations"]
    assert "responseObject" not in long and long["annotations"]["audit.k8s.io/truncated"] == "true"
    assert long["annotations"]["authorization.k8s.io/decision"] == "allow"


def test_killed_after_an_answer(audited):
    """What was answered is on record."""
    plane = audited()
    for i in range(5):
        plane.open("GET", f"{CONFIG_MAPS}/killed-{i}")
        plane.stop(kill=True)
        plane.start()
        assert records(plane, objectRef__name=f"killed-{i}")


def test_full_disk(audited, tmp_path):
    """Requests go on; when there is room again, so does the log, in whole lines, and the loss is told."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
    try:
        plane = audited(None, "--audit-log", disk / "audit.log")
        for i in range(300):
            assert plane.open("GET", f"{CONFIG_MAPS}/full-{i}").status == 404
        assert "audit log cannot be written" in (plane.dir / "log").read_text()
        subprocess.run(["mount", "-o", "remount,size=1m", disk], check=True)
        plane.open("GET", f"{CONFIG_MAPS}/after")
        lines = (disk / "audit.log").read_text().splitlines()
        assert [json.loads(line)["requestURI"] for line in lines][-1].endswith("/after")
        wait_until(lambda: "records were lost" in (plane.dir / "log").read_text())
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_none(audited):
    plane = audited(None, "--audit-log", "none")
    assert plane.open("GET", CONFIG_MAPS).headers["Audit-Id"]
    assert not (plane.dir / "data/control/audit.log").exists()
