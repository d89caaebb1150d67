"""A sandbox whose first process does nothing any more harms itself alone."""

import os
import resource
import signal
import socket
import time

from instance import command_of, sandbox, wait_until


def guest_of(up, name):
    uid = up.get("pod", name)["metadata"]["uid"]
    return next(pid for pid in up.processes(uid) if command_of(pid)[:1] == ["holt-guest"])


def fill_queue(up, name):
    """Connections that wait for the guest of a Pod, as many as there may be."""
    path = up.run / "pods" / up.get("pod", name)["metadata"]["uid"] / "guest.sock"
    waiting = []
    while True:
        waiting.append(socket.socket(socket.AF_UNIX))
        waiting[-1].setblocking(False)
        try:
            waiting[-1].connect(str(path))
        except BlockingIOError:
            return waiting


def test_one_that_is_stuck(up, holt):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    for name in ("stuck", "other"):
        up.create(sandbox(name))
        up.wait_for(f"sandbox/{name}", "condition=Ready")
    guest = guest_of(up, "stuck")
    os.kill(guest, signal.SIGSTOP)
    try:
        clients = [up.popen(holt, "exec", "stuck", "--", "echo", "late") for _ in range(20)]
        time.sleep(1)
        waiting = fill_queue(up, "stuck")
        refused = up.call(holt, "exec", "stuck", "--", "echo", "never")
        assert refused.code not in (0, None) and "does not answer" in refused.err
        # Everything else goes on, while as many wait as can.
        begin = time.monotonic()
        for _ in range(20):
            assert up.kubectl("get", "--raw", "/livez") == "ok"
            assert up.exec("other", "echo", "here") == "here\n"
        assert time.monotonic() - begin < 30
        assert sum(c.poll() is None for c in clients) > 10, "these wait for an answer"
    finally:
        os.kill(guest, signal.SIGCONT)
    outputs = [c.communicate(timeout=60)[0] for c in clients]
    assert outputs.count("late\n") > 10
    for s in waiting:
        s.close()
    assert up.exec("stuck", "echo", "again") == "again\n"


def test_one_that_stays_stuck(up, holt):
    up.create(sandbox("stuck"))
    up.wait_for("sandbox/stuck", "condition=Ready")
    os.kill(guest_of(up, "stuck"), signal.SIGSTOP)
    done = up.call(holt, "exec", "stuck", "--", "echo", "never")
    assert done.code not in (0, None) and "has not answered" in done.err
    up.kubectl("delete", "sandbox", "stuck", "--timeout=30s")
    wait_until(lambda: not up.processes())
