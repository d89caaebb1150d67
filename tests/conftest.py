"""Fixtures shared by all tests that run the real binary."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from control_plane import ControlPlane
from instance import CLEAN_DEADLINE, Instance, wait_until as wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def holt():
    """Path of the binary: $HOLT_BIN, or build/holt."""
    path = os.environ.get("HOLT_BIN") or str(ROOT / "build" / "holt")
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path} is not there: build it, or set HOLT_BIN")
    return os.path.abspath(path)


@pytest.fixture(scope="session")
def need_root():
    if os.geteuid() != 0:
        pytest.skip("needs root")


def wait_until(condition, seconds=5.0):
    """Whether condition() becomes true in time. For what ends a moment after the command that ends it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def __repr__(self):
        return f"<exit {self.code}, out {self.out!r}, err {self.err!r}>"


@pytest.fixture(scope="session")
def run(holt, need_root):
    """run("--memory", "64Mi", "--", "true") → Result; keywords as of subprocess.run."""

    def call(*args, input="", timeout=60, **keywords):
        return Result(
            subprocess.run(
                [holt, "run", *args], input=input, capture_output=True, text=True, timeout=timeout, **keywords
            )
        )

    return call


@pytest.fixture(scope="session")
def busybox_root(tmp_path_factory):
    """A root directory with busybox and nothing else: for images of one's own."""
    busybox = shutil.which("busybox")
    if not busybox:
        pytest.skip("busybox-static is not installed")

    def make(name="root"):
        root = tmp_path_factory.mktemp(name)
        root.chmod(0o755)
        (root / "bin").mkdir()
        shutil.copy(busybox, root / "bin" / "busybox")
        for applet in ("sh", "true", "cat", "ls", "id", "echo", "touch", "rm", "mkdir", "sleep", "mount", "readlink"):
            (root / "bin" / applet).symlink_to("busybox")
        return root

    return make


# src/node/native/uid_range.h: the ranges of `holt run`; those of a node that may run beside come after.
RUN_IDS = range(0x10000000, 0x10000000 + 2048 * 65536)


def sandbox_traces():
    """What `holt run` may leave on the host: control groups, mounts, processes with an id of its ranges."""
    groups = []
    for top in [*pathlib.Path("/sys/fs/cgroup").glob("holt-run"), *pathlib.Path("/sys/fs/cgroup").glob("*/holt-run")]:
        groups += [str(d) for d in top.iterdir() if d.is_dir()]
    processes = []
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            uid = int(next(l for l in status.read_text().splitlines() if l.startswith("Uid:")).split()[1])
        except (OSError, StopIteration):
            continue
        if uid in RUN_IDS:
            processes.append(status.parent.name)
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return {"groups": sorted(groups), "processes": sorted(processes), "mounts": sorted(mounts)}


@pytest.fixture
def traces():
    """traces() → what is there now. What an earlier test has killed is waited for first."""
    end = time.monotonic() + 5
    while sandbox_traces()["processes"] and time.monotonic() < end:
        time.sleep(0.02)
    return sandbox_traces


@pytest.fixture(scope="module")
def plane(holt):
    """A control plane of its own for a test module."""
    control = ControlPlane(holt)
    yield control
    control.close()


@pytest.fixture
def namespace(plane, request):
    """A namespace of its own for a test, in the kubeconfig's context meanwhile."""
    name = request.node.name.lower().replace("_", "-").replace("[", "-").replace("]", "")[:60].strip("-")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    plane.kubectl("config", "set-context", "--current", f"--namespace={name}")
    yield name
    plane.kubectl("config", "set-context", "--current", "--namespace=default")


@pytest.fixture(scope="session")
def whole(holt, need_root):
    """A running holt for all tests that leave it running."""
    instance = Instance(holt, "--stop-sandboxes")
    yield instance
    log = instance.log()
    left = instance.close()
    assert not any(left.values()), f"{left}\n{log[-5000:]}"


CLEARED = {
    "sandboxes": "/apis/agents.x-k8s.io/v1beta1/namespaces/default",
    "pods": "/api/v1/namespaces/default",
    "services": "/api/v1/namespaces/default",
    "configmaps": "/api/v1/namespaces/default",
    "secrets": "/api/v1/namespaces/default",
    "persistentvolumeclaims": "/api/v1/namespaces/default",
}


def clear(instance):
    """Takes away what a test has made, and holds holt to its promise: nothing of it is left on the host."""

    def there(kind):
        status, found = instance.api("GET", f"{CLEARED[kind]}/{kind}")
        assert status == 200, found
        return found["items"]

    uids = [pod["metadata"]["uid"] for pod in there("pods")]
    for kind, path in CLEARED.items():
        status, answer = instance.api("DELETE", f"{path}/{kind}", {"gracePeriodSeconds": 1})
        assert status == 200, answer
    for kind in ("sandboxes", "pods", "persistentvolumeclaims"):
        wait_for(lambda kind=kind: not there(kind), what=f"the end of all {kind}")
    for uid in uids:
        wait_for(lambda uid=uid: not instance.traces(uid), CLEAN_DEADLINE, what=lambda uid=uid: instance.traces(uid))


@pytest.fixture
def up(whole):
    """The shared holt; what a test has made in the default namespace is gone after it."""
    yield whole
    clear(whole)


@pytest.fixture
def own(holt, need_root):
    """own(*arguments) makes a holt for one test, which may do to it what it likes."""
    instances = []

    def make(*arguments, **keywords):
        instances.append(Instance(holt, *arguments, **keywords))
        return instances[-1]

    yield make
    for instance in instances:
        instance.close()
