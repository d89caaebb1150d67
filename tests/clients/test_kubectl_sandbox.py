"""Unmodified kubectl and running sandboxes: exec, terminals, logs, describe, events, edit, cp."""

import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from fcntl import ioctl

import pytest

from instance import DEADLINE, ROOT, sandbox, wait_until


class Terminal:
    """kubectl on a terminal of its own."""

    def __init__(self, up, *command, rows=24, columns=80):
        self.master, slave = pty.openpty()
        self.resize(rows, columns, self.master)
        self.process = subprocess.Popen(
            [*map(str, command)], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=up.environment(TERM="xterm"), cwd=ROOT,
        )  # fmt: skip
        os.close(slave)
        up.started.append(self.process)
        self.seen = ""

    def resize(self, rows, columns, fd=None):
        ioctl(self.master if fd is None else fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if fd is None:
            self.process.send_signal(signal.SIGWINCH)

    def send(self, text):
        os.write(self.master, text.encode())

    def expect(self, text):
        """Reads until it has seen this; what came before it."""
        end = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} is not in {self.seen!r}"
            if select.select([self.master], [], [], 0.5)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the other end is closed
                    data = b""
                assert data, f"it ended without {text!r}: {self.seen!r}"
                self.seen += data.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def end(self):
        """What is left, and the exit code."""
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data.decode(errors="replace")
        os.close(self.master)
        return self.process.wait(DEADLINE), self.seen


@pytest.fixture
def s(up):
    """A running sandbox s."""
    up.ready_sandbox(sandbox("s"))
    return up


# exec


@pytest.mark.parametrize("code", [0, 1, 2, 42, 126, 255])
def test_exit_codes(s, code):
    done = s.kubectl("exec", "s", "--", "sh", "-c", f"exit {code}", code=None)
    assert done.code == code
    assert not code or f"exit code {code}" in done.err


def test_death_by_signal(s):
    assert s.kubectl("exec", "s", "--", "sh", "-c", "kill -9 $$", code=None).code == 137


def test_streams_are_apart(s):
    done = s.kubectl("exec", "s", "--", "sh", "-c", "echo out; echo err >&2", code=None)
    assert (done.code, done.out, done.err) == (0, "out\n", "err\n")


def test_input_and_its_end(s):
    assert s.exec("s", "sort", stdin="b\na\n") == "a\nb\n"
    assert s.exec("s", "wc", "-c", stdin="x" * 3_000_000).strip() == "3000000"
    assert s.kubectl("exec", "s", "--", "cat") == "", "without -i there is no input"


def test_large_output_is_whole(s):
    assert len(s.kubectl("exec", "s", "--", "head", "-c", "20000000", "/dev/zero")) == 20_000_000
    text = s.kubectl("exec", "s", "--", "seq", "300000")
    assert text == "".join(f"{i}\n" for i in range(1, 300001))


def test_output_comes_as_it_is_made(s):
    client = s.popen(
        "kubectl", "exec", "-i", "s", "--", "sh", "-c", "echo first; read x; echo second $x", stdin=subprocess.PIPE
    )
    assert client.stdout.readline() == "first\n"
    client.stdin.write("and\n")
    client.stdin.flush()
    assert client.stdout.readline() == "second and\n"
    assert client.wait(DEADLINE) == 0


def test_eight_at_once(s):
    clients = [
        s.popen("kubectl", "exec", "-i", "s", "--", "sh", "-c", f"cat; echo {i}; exit {i}", stdin=subprocess.PIPE)
        for i in range(8)
    ]
    for i, client in enumerate(clients):
        out, _ = client.communicate(f"hello {i}\n", timeout=DEADLINE)
        assert out.startswith(f"hello {i}\n{i}\n") and client.returncode == i


def test_client_that_goes_takes_its_program_along(s):
    """As on any terminal: hung up on, and killed if it does not listen."""
    uid = s.get("pod", "s")["metadata"]["uid"]
    client = s.popen("kubectl", "exec", "s", "--", "sh", "-c", "trap '' HUP; echo there; while :; do sleep 0.2; done")
    assert client.stdout.readline() == "there\n"
    assert s.workload(uid, ["sh", "-c"])
    client.kill()
    wait_until(lambda: not s.workload(uid, ["sh", "-c"]), what="its end")


# Terminals


def test_terminal(s):
    t = Terminal(s, "kubectl", "exec", "-it", "s", "--", "sh", rows=31, columns=97)
    t.send("stty size; tty; echo answer-$((40+2))\n")
    t.expect("31 97")
    t.expect("/dev/pts/")
    t.expect("answer-42")
    t.resize(50, 120)
    for _ in range(50):  # the news of it may come a little later
        t.send("stty size; echo si''ze\n")
        if "50 120" in t.expect("size\r\n"):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the new size did not arrive")
    t.send("exit 5\n")
    code, rest = t.end()
    assert code == 5, rest


def test_terminal_and_control_c(s):
    t = Terminal(s, "kubectl", "exec", "-it", "s", "--", "sh")
    t.send("sleep 1000; echo after-$?\n")
    uid = s.get("pod", "s")["metadata"]["uid"]
    wait_until(lambda: s.workload(uid, ["sleep", "1000"]), what="the sleep")
    t.send("\x03")
    wait_until(lambda: not s.workload(uid, ["sleep", "1000"]), what="its end")
    t.send("echo still-$((1+1))\n")
    t.expect("still-2")
    t.send("\x04")
    assert t.end()[0] in (0, 130)


# attach


def test_attach(up):
    up.ready_sandbox(sandbox("s", "sh", "-c", "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.1; done"))
    client = up.popen("kubectl", "attach", "s")
    wait_until(lambda: client.stdout.readline().startswith("tick "), what="a tick")
    client.kill()


def test_run_and_attach(up):
    """kubectl run -i: a Pod of its own, to its end."""
    done = up.kubectl(
        "run", "r", "-i", "--rm", "--image=host", "--restart=Never", "--command", "--", "sh", "-c", "read x; echo got $x; exit 3",
        stdin="it\n", code=None,
    )  # fmt: skip
    assert "got it" in done.out and done.code == 3, done
    wait_until(lambda: up.get("pod", "r") is None, what="its end")


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


def test_cp(s):
    """By tar over exec."""
    source = s.dir / "tree"
    source.mkdir(exist_ok=True)
    (source / "a").write_bytes(os.urandom(300_000))
    (source / "b").write_text("text\n")
    s.kubectl("cp", str(source), "s:/tmp/tree")
    assert s.exec("s", "cat", "/tmp/tree/b") == "text\n"
    s.kubectl("cp", "s:/tmp/tree/a", str(s.dir / "back"))
    assert (s.dir / "back").read_bytes() == (source / "a").read_bytes()


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
