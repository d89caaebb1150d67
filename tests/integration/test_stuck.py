"""A sandbox whose first process does nothing any more harms itself alone."""

import os
import signal
import subprocess
import time

from instance import command_of, sandbox, wait_until


def guest_of(up, name):
    uid = up.get("pod", name)["metadata"]["uid"]
    return next(pid for pid in up.processes(uid) if command_of(pid)[:1] == ["holt-guest"])


def test_one_that_is_stuck(up, holt):
    for name in ("stuck", "other"):
        up.create(sandbox(name))
        up.wait_for(f"sandbox/{name}", "condition=Ready")
    guest = guest_of(up, "stuck")
    os.kill(guest, signal.SIGSTOP)
    env = dict(os.environ, KUBECONFIG=str(up.kubeconfig))
    clients = [
        subprocess.Popen(
            [holt, "exec", "stuck", "--", "echo", "late"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(150)
    ]
    try:
        refused = wait_until(lambda: [c for c in clients if c.poll() is not None], what="a client that is refused")
        assert b"does not answer" in refused[0].stderr.read()
        # Everything else goes on, while more than the queue holds wait.
        begin = time.monotonic()
        for _ in range(20):
            assert up.kubectl("get", "--raw", "/livez") == "ok"
            assert up.exec("other", "echo", "here") == "here\n"
        assert time.monotonic() - begin < 30
        assert sum(c.poll() is None for c in clients) > 10, "these wait for an answer"
    finally:
        os.kill(guest, signal.SIGCONT)
    outputs = [c.communicate(timeout=60)[0] for c in clients]
    assert outputs.count(b"late\n") > 10
    assert up.exec("stuck", "echo", "again") == "again\n"


def test_one_that_stays_stuck(up, holt):
    up.create(sandbox("stuck"))
    up.wait_for("sandbox/stuck", "condition=Ready")
    os.kill(guest_of(up, "stuck"), signal.SIGSTOP)
    done = up.call(holt, "exec", "stuck", "--", "echo", "never")
    assert done.code not in (0, None) and "has not answered" in done.err
    up.kubectl("delete", "sandbox", "stuck", "--timeout=30s")
    wait_until(lambda: not up.processes())
