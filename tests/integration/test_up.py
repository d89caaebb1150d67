"""holt up: starting, waiting, stopping, several beside each other, and what it says when it cannot."""

import os
import signal
import socket
import stat
import subprocess

import pytest

from instance import DEADLINE, is_alive, sandbox, wait_until


def refused(instance, *more, timeout=DEADLINE):
    """holt up that has to end by itself; (status, what it said)."""
    done = subprocess.run(instance.command(*more), capture_output=True, text=True, timeout=timeout)
    assert done.returncode > 0, done
    return done.returncode, done.stdout + done.stderr


def test_ready_and_stop(own):
    instance = own()
    assert all(instance.children().values())
    assert instance.kubectl("get", "--raw", "/readyz") == "ok"
    assert "holt is ready at" in instance.log()
    pids = list(instance.children().values())
    assert instance.stop() == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not instance.mounts()


def test_wait(own, holt):
    instance = own(start=False)
    done = subprocess.run(
        [holt, "wait", "--run-dir", instance.run, "--timeout", "50ms"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "no holt became ready" in done.stderr
    waiting = subprocess.Popen([holt, "wait", "--run-dir", instance.run, "--timeout", "60s"])
    instance.start()
    assert waiting.wait(DEADLINE) == 0


def test_kubeconfig_is_the_owners_alone(own):
    instance = own()
    for path in (instance.kubeconfig, instance.data / "node.kubeconfig"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    secret = [p for p in instance.data.rglob("*") if p.is_file() and ("key" in p.name or p.suffix == ".db")]
    assert secret
    for path in secret:
        assert not path.stat().st_mode & stat.S_IRWXO, path


def test_sandboxes_go_on_without_holt(own):
    """Stopped and started again, it takes up what runs."""
    instance = own()
    instance.ready_sandbox(sandbox("s", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /count; sleep 0.05; done"))
    uid = instance.get("pod", "s")["metadata"]["uid"]
    pid = wait_until(lambda: instance.workload(uid, ["sh", "-c"]), what="the workload")
    assert instance.stop() == 0
    assert is_alive(pid)
    instance.start()
    instance.wait_for("sandbox/s", "condition=Ready")
    assert instance.get("pod", "s")["metadata"]["uid"] == uid
    assert instance.get("pod", "s")["status"]["containerStatuses"][0]["restartCount"] == 0
    first = int(instance.exec("s", "cat", "/count") or 0)
    wait_until(lambda: int(instance.exec("s", "cat", "/count") or 0) > first, what="a growing counter")
    assert is_alive(pid)


def test_stop_sandboxes(own):
    instance = own("--stop-sandboxes")
    instance.ready_sandbox(sandbox("s"))
    uid = instance.get("pod", "s")["metadata"]["uid"]
    assert instance.processes(uid)
    assert instance.stop() == 0
    assert not instance.processes() and not instance.mounts() and not instance.group_parents()
    instance.start()  # what was to run runs again
    instance.wait_for("sandbox/s", "condition=Ready")
    assert instance.exec("s", "echo", "again") == "again\n"


def test_stop_sandboxes_while_they_are_deleted(own):
    instance = own("--stop-sandboxes")
    for i in range(5):
        names = [f"s{i}-{n}" for n in range(4)]
        for name in names:
            instance.create(sandbox(name))
        for name in names:
            instance.wait_for(f"sandbox/{name}", "condition=Ready")
        instance.kubectl("delete", "sandbox", *names, *(["--wait=false"] if i % 2 else []))
        assert instance.stop(timeout=20) == 0
        assert not instance.processes() and not instance.mounts()
        instance.start()


def test_control_group_taken_away(own):
    """Some tools tidy up empty groups."""
    instance = own("--stop-sandboxes")
    instance.ready_sandbox(sandbox("s"))
    instance.kubectl("delete", "sandbox", "s")
    wait_until(lambda: not instance.groups())
    for parent in instance.group_parents():
        parent.rmdir()
    instance.ready_sandbox(sandbox("s"))
    assert instance.exec("s", "echo", "again") == "again\n"


def test_make_up_and_down(own, holt):
    """What `make up` and `make down` call."""
    instance = own(start=False)
    where = {
        "HOLT_RUN_DIR": str(instance.run),
        "HOLT_DATA_DIR": str(instance.data),
        "HOLT_LISTEN": f"127.0.0.1:{instance.port}",
    }
    done = instance.call("tools/stop-holt", **where)
    assert done.code == 1 and "no holt is running" in done.err
    try:
        done = instance.call("tools/first-sandbox", holt, **where)
        assert done.code == 0 and "hello from a sandbox on Linux" in done.out, done
        assert instance.call("tools/first-sandbox", holt, **where).code == 0, "twice is no error"
        instance.kubeconfig = instance.data / "admin.kubeconfig"
        instance.kubectl("delete", "sandbox", "hello")
    finally:
        done = instance.call("tools/stop-holt", **where)
    assert done.code == 0, done
    assert instance.call("tools/stop-holt", **where).code == 1


def test_two_beside_each_other(own):
    one, other = own(), own()
    for instance in (one, other):
        instance.ready_sandbox(sandbox("s", "sh", "-c", f"echo {instance.port} > /mine; exec sleep infinity"))
    for instance in (one, other):
        wait_until(
            lambda i=instance: i.kubectl("exec", "s", "--", "cat", "/mine", code=None).out == f"{i.port}\n",
            what="its own",
        )
    uid = other.get("pod", "s")["metadata"]["uid"]
    pids = other.processes(uid)
    one.kubectl("delete", "sandbox", "s")
    one.kill("node")
    one.kill("control")
    assert one.stop() == 0
    assert other.processes(uid) == pids and other.exec("s", "echo", "here") == "here\n"


def test_one_for_each_run_directory(own):
    instance = own()
    code, text = refused(instance)
    assert code == 125 and f"already running with --run-dir {instance.run}" in text
    assert instance.kubectl("get", "--raw", "/readyz") == "ok"


def test_one_for_each_data_directory(own):
    instance = own()
    other = own(data=instance.data, start=False)
    code, text = refused(other)
    assert code == 125 and f"already running with --data-dir {instance.data}" in text
    instance.kill("node")  # its successor reads what is in the data directory
    assert instance.kubectl("get", "--raw", "/readyz") == "ok"


def test_port_in_use(own):
    instance = own(start=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", instance.port))
        taken.listen()
        code, text = refused(instance)
        assert code > 0 and str(instance.port) in text and "Address already in use" in text
    instance.start()


@pytest.mark.parametrize(
    "arguments,text",
    [
        (["--listen", "nonsense"], "ADDRESS:PORT"),
        (["--listen", "127.0.0.1:99999"], "ADDRESS:PORT"),
        (["--listen", "256.0.0.1:1234"], "256.0.0.1"),
        (["--durability", "perhaps"], "neither full nor normal"),
        (["--no-such-option"], "--no-such-option"),
        (["an-argument"], "an-argument"),
        (["--data-dir"], "--data-dir"),
    ],
)
def test_bad_arguments(own, arguments, text):
    assert text in refused(own(start=False), *arguments)[1]


def test_data_directory_that_is_a_file(own):
    instance = own(start=False)
    instance.data.write_text("")
    assert str(instance.data) in refused(instance)[1]


def test_store_that_is_none(own):
    """A store of garbage is refused by name, and not touched."""
    instance = own()
    assert instance.stop() == 0
    store = next(p for p in instance.data.rglob("*.db"))
    for extra in store.parent.glob(f"{store.name}-*"):
        extra.unlink()
    store.write_bytes(b"garbage" * 1000)
    assert str(store) in refused(instance)[1]
    assert store.read_bytes() == b"garbage" * 1000


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_without_root(own, holt):
    instance = own(start=False)
    done = subprocess.run(
        instance.command(), capture_output=True, text=True, timeout=DEADLINE, user=65534, group=65534, extra_groups=[]
    )
    assert done.returncode == 64 and "needs root" in done.stderr


def test_interrupted_at_any_moment(own):
    """Stopped while it starts: it ends, and starts again."""
    instance = own(start=False)
    for delay in (0.0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2):
        with open(instance.dir / "log", "a") as log:
            process = subprocess.Popen(instance.command(), stdout=log, stderr=log)
        instance.started.append(process)
        try:
            process.wait(delay)
            raise AssertionError(instance.log())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) in (0, -signal.SIGTERM)
        assert "killing them" not in instance.log()
    instance.start()
    assert instance.kubectl("get", "--raw", "/readyz") == "ok"


def test_durability_normal(own):
    instance = own("--durability", "normal")
    instance.kubectl("create", "configmap", "m")
    instance.kill("control")
    assert instance.get("configmap", "m")
