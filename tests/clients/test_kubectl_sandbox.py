"""Unmodified kubectl and running sandboxes: logs, describe, events, edit."""

import json
import re
import time

import pytest

from instance import DEADLINE, sandbox, wait_until


@pytest.fixture
def s(up):
    """A running sandbox s."""
    up.ready_sandbox(sandbox("s"))
    return up


# logs


def test_logs(up):
    up.ready_sandbox(sandbox("s", "sh", "-c", "for i in 1 2 3; do echo line $i; done; echo error >&2; sleep infinity"))
    wait_until(lambda: "error" in up.kubectl("logs", "s"), what="all lines")
    assert sorted(up.kubectl("logs", "s").splitlines()) == ["error", "line 1", "line 2", "line 3"]
    assert up.kubectl("logs", "s", "--tail=1").count("\n") == 1
    assert up.kubectl("logs", "s", "--timestamps").startswith("20")
    assert up.kubectl("logs", "s", "--limit-bytes=4") == "line" or len(up.kubectl("logs", "s", "--limit-bytes=4")) == 4
    assert up.kubectl("logs", "s", "--since=1h").count("\n") == 4
    assert "previous terminated container" in up.kubectl("logs", "s", "-p", code=1)
    assert "line 1" in up.kubectl("logs", "-l", f"agents.x-k8s.io/sandbox-name-hash={label_of(up)}")


def label_of(up):
    return up.get("pod", "s")["metadata"]["labels"]["agents.x-k8s.io/sandbox-name-hash"]


def test_flags_of_logs(up):
    lines = "for i in $(seq 30); do echo line $i; done"
    up.ready_sandbox(sandbox("s", "sh", "-c", f"{lines}; while [ ! -e /go ]; do sleep 0.05; done; echo late; sleep infinity"))

    def logs(*flags, code=0):
        return up.kubectl("logs", *flags, code=code)

    wait_until(lambda: "line 30\n" in logs("s"), what="all lines")
    stamped = [line.split(" ", 1) for line in logs("s", "--timestamps").splitlines()]
    assert [text for _, text in stamped] == [f"line {i}" for i in range(1, 31)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", stamp) for stamp, _ in stamped)
    assert [stamp for stamp, _ in stamped] == sorted(stamp for stamp, _ in stamped)
    time.sleep(2.1)
    between = time.time()
    up.exec("s", "touch", "/go")
    wait_until(lambda: "late\n" in logs("s"), what="the late line")
    assert logs("s", "--since=2s") == "late\n"
    whole_second = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(between))
    assert logs("s", f"--since-time={whole_second}") == "late\n"
    assert "at most one of" in logs("s", "--since=2s", f"--since-time={whole_second}", code=1)
    assert logs("s", "--tail=2") == "line 30\nlate\n"
    assert logs("s", "--tail=0") == ""
    assert len(logs("s", "--tail=-1").splitlines()) == 31
    assert logs("s", "--limit-bytes=9") == "line 1\nli"
    assert logs("s", "--tail=1", "--timestamps", "--limit-bytes=5") == stamped[0][0][:5]
    label = f"agents.x-k8s.io/sandbox-name-hash={label_of(up)}"
    assert logs("-l", label).splitlines() == [f"line {i}" for i in range(22, 31)] + ["late"]
    assert logs("-l", label, "--prefix", "--tail=1") == f"[pod/s/{up.get('pod', 's')['spec']['containers'][0]['name']}] late\n"
    assert "is not valid for pod s" in logs("s", "-c", "none", code=1)
    assert "not found" in logs("none", code=1)


def test_logs_that_are_followed(up):
    up.ready_sandbox(
        sandbox(
            "s",
            "sh",
            "-c",
            "i=0; while [ ! -e /go ]; do sleep 0.05; done; while [ $i -lt 50 ]; do i=$((i+1)); echo $i; sleep 0.02; done",
            pod={"restartPolicy": "Never"},
        )
    )
    client = up.popen("kubectl", "logs", "-f", "s")
    up.exec("s", "touch", "/go")
    assert client.communicate(timeout=DEADLINE)[0].split() == [str(i) for i in range(1, 51)]
    assert client.returncode == 0, "it ends with the container"


def test_logs_of_the_run_before(up):
    up.create(sandbox("s", "sh", "-c", "if [ -e /work/second ]; then echo second; sleep infinity; fi; touch /work/second; echo first; exit 1",
                      pod={"volumes": [{"name": "v", "emptyDir": {}}]}, _volumeMounts=[{"name": "v", "mountPath": "/work"}]))  # fmt: skip
    wait_until(lambda: up.kubectl("logs", "s", code=None).out == "second\n", what="the second run")
    assert up.kubectl("logs", "s", "--previous") == "first\n"


# Looking


def test_describe_and_events(s):
    text = s.kubectl("describe", "sandbox", "s")
    assert "DependenciesReady" in text and "Kind:         Sandbox" in text
    text = s.kubectl("describe", "pod", "s")
    for word in ("Controlled By:  Sandbox/s", "Running", "Ready", "main:"):
        assert word in text, text
    assert "Ready" in s.kubectl("get", "nodes") and s.kubectl("describe", "node")


def test_events(up):
    """What went wrong is told by events too."""
    up.create(sandbox("s", _image="no-such-image"))
    wait_until(lambda: "no-such-image" in up.kubectl("events", "--for", "pod/s"), what="an event that names the image")
    text = up.kubectl("get", "events", "--field-selector", "involvedObject.name=s,type=Warning")
    assert "no-such-image" in text and "pod/s" in text


def test_tables(s):
    rows = s.kubectl("get", "pods", "-o", "wide").splitlines()
    assert rows[0].split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows[1].split()[:4] == ["s", "1/1", "Running", "0"]
    rows = s.kubectl("get", "sandbox").splitlines()
    assert rows[0].split() == ["NAME", "READY", "REASON", "AGE"] and rows[1].split()[:3] == [
        "s",
        "True",
        "DependenciesReady",
    ]
    assert s.kubectl("get", "sandbox", "s", "-o", "jsonpath={.status.podIPs[0]}").count(".") == 3
    assert s.kubectl("get", "sandboxes.agents.x-k8s.io", "-o", "name") == "sandbox.agents.x-k8s.io/s\n"
    assert "kind: Sandbox" in s.kubectl("get", "sandbox", "s", "-o", "yaml")
    assert s.kubectl("get", "pods", "--field-selector", "status.phase=Running", "-o", "name") == "pod/s\n"
    assert s.kubectl("get", "pods", "--field-selector", "metadata.name!=s", "-o", "name") == ""


def test_explain(up):
    text = up.kubectl("explain", "sandbox.spec")
    for field in ("podTemplate", "operatingMode", "shutdownTime", "shutdownPolicy", "volumeClaimTemplates", "service"):
        assert field in text
    assert "enum" in up.kubectl("explain", "sandbox.spec.operatingMode").lower()
    assert "containers" in up.kubectl("explain", "sandbox.spec.podTemplate.spec")


def test_watch(up):
    watch = up.popen("kubectl", "get", "sandboxes", "-w", "--output-watch-events", "-o", "json", bufsize=1)
    decoder, text, seen = json.JSONDecoder(), "", []

    def next_event():
        nonlocal text
        while True:
            try:
                event, end = decoder.raw_decode(text.lstrip())
                text = text.lstrip()[end:]
                return event
            except ValueError:
                line = watch.stdout.readline()
                assert line, "the watch has ended"
                text += line

    up.kubectl("create", "-f", "-", stdin=sandbox("s"))
    while not any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in (seen[-1]["object"] if seen else {}).get("status", {}).get("conditions", [])
    ):
        seen.append(next_event())
    up.kubectl("delete", "sandbox", "s")
    while seen[-1]["type"] != "DELETED":
        seen.append(next_event())
    assert seen[0]["type"] == "ADDED" and all(e["type"] == "MODIFIED" for e in seen[1:-1])
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in seen]
    assert versions == sorted(set(versions))


# Changing


def test_edit(s):
    editor = s.dir / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/operatingMode: Running/operatingMode: Suspended/' \"$1\"\n")
    editor.chmod(0o755)
    assert "edited" in s.kubectl("edit", "sandbox", "s", EDITOR=str(editor))
    s.wait_for("sandbox/s", "condition=Suspended")
    editor.write_text("#!/bin/sh\nsed -i 's/operatingMode: Suspended/operatingMode: Asleep/' \"$1\"\n")
    done = s.kubectl("edit", "sandbox", "s", code=None, EDITOR=str(editor))
    assert done.code == 1 and "invalid" in done.err


def test_server_side_apply_beside_the_controller(up):
    """Two writers of one object: the user's fields and the controller's do not touch each other."""
    obj = sandbox("s")
    assert "serverside-applied" in up.kubectl("apply", "--server-side", "-f", "-", stdin=obj)
    up.wait_for("sandbox/s", "condition=Ready")
    obj["spec"]["operatingMode"] = "Suspended"
    up.kubectl("apply", "--server-side", "-f", "-", stdin=obj)
    up.wait_for("sandbox/s", "condition=Suspended")
    del obj["spec"]["operatingMode"]
    up.kubectl("apply", "--server-side", "-f", "-", stdin=obj)
    up.wait_for("sandbox/s", "condition=Ready")
    text = up.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=sandbox("s", "true"), code=1)
    assert "conflict" in text and "kubectl" in text


def test_apply_again_changes_nothing(up):
    path = "examples/python-sandbox.yaml"
    assert "created" in up.kubectl("apply", "-f", path)
    up.wait_for("sandbox/python", "condition=Ready")
    before = up.get("sandbox", "python")["metadata"]
    assert "unchanged" in up.kubectl("apply", "-f", path)
    assert up.get("sandbox", "python")["metadata"]["resourceVersion"] == before["resourceVersion"]
    assert up.kubectl("diff", "-f", path) == ""


def test_wait_for_deletion(s):
    waiting = s.popen("kubectl", "wait", "--for=delete", "sandbox/s", "--timeout=60s")
    s.kubectl("delete", "sandbox", "s", "--wait=false")
    assert waiting.wait(DEADLINE) == 0
    assert (
        "timed out" in s.kubectl("wait", "--for=condition=Ready", "sandbox/s", "--timeout=1s", code=1)
        or s.get("sandbox", "s") is None
    )


def test_namespaces(up):
    """A namespace ends with everything in it."""
    up.kubectl("create", "namespace", "team")
    up.kubectl("create", "-n", "team", "-f", "-", stdin=sandbox("s"))
    up.kubectl("wait", "-n", "team", "--for=condition=Ready", "sandbox/s", "--timeout=60s")
    uid = up.get("pod", "s", "-n", "team")["metadata"]["uid"]
    assert "s" in up.kubectl("get", "sandboxes", "-A")
    up.kubectl("delete", "namespace", "team")
    assert up.get("namespace", "team") is None
    wait_until(lambda: not up.traces(uid), 20, what=lambda: f"an end without {up.traces(uid)}")


def test_secrets_and_config_maps(up):
    up.kubectl("create", "secret", "generic", "key", "--from-literal=token=hunter2")
    up.kubectl("create", "configmap", "settings", "--from-literal=mode=fast")
    env = [{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}]
    mounts = [{"name": "k", "mountPath": "/keys"}]
    up.ready_sandbox(
        sandbox("s", pod={"volumes": [{"name": "k", "secret": {"secretName": "key"}}]}, _env=env, _volumeMounts=mounts)
    )
    assert up.exec("s", "sh", "-c", "echo $MODE; cat /keys/token") == "fast\nhunter2"
