"""controller-runtime and client-go: a controller as people write them, through restarts of the server."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from control_plane import ControlPlane

HERE = pathlib.Path(__file__).resolve().parent / "go"
BUILT = HERE.parents[2] / "build" / "go"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
MERGE = {"Content-Type": "application/merge-patch+json"}


def build(program):
    """The program, built from the modules of go.sum."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True).stdout if go else ""
    if not version or tuple(map(int, version.strip().removeprefix("go").split(".")[:2])) < (1, 24):
        pytest.skip("go 1.24 is not installed")
    if subprocess.run([go, "mod", "download"], cwd=HERE, capture_output=True).returncode != 0:
        pytest.skip("the Go modules cannot be fetched")
    BUILT.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([go, "build", "-o", BUILT, f"./{program}"], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return BUILT / program


@pytest.fixture(scope="module")
def reconciler():
    return build("reconciler")


class Controller:
    def __init__(self, program, plane):
        env = dict(os.environ, KUBECONFIG=str(plane.kubeconfig))
        self.log = open(plane.dir / "controller.log", "a")
        self.process = subprocess.Popen(
            [program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0
        self.log.close()


@pytest.fixture
def plane(holt):
    control = ControlPlane(holt)
    yield control
    control.close()


@pytest.fixture
def controllers(reconciler, plane):
    """controllers() starts one more."""
    started = []

    def start():
        started.append(Controller(reconciler, plane))
        return started[-1]

    yield start
    for c in started:
        if c.process.poll() is None:
            c.process.kill()
            c.process.wait()


def source(name, value):
    return {"metadata": {"name": name, "labels": {"role": "source"}}, "data": {"k": value}}


def names(plane, path):
    return {i["metadata"]["name"]: i for i in json.load(plane.open("GET", path))["items"]}


def copies_are_right(plane):
    items = names(plane, CONFIG_MAPS)
    sources = {n: i for n, i in items.items() if i["metadata"].get("labels", {}).get("role") == "source"}
    copies = {n: i for n, i in items.items() if n.endswith("-copy")}
    return set(copies) == {f"{n}-copy" for n in sources} and all(
        copies[f"{n}-copy"]["data"] == i["data"] for n, i in sources.items()
    )


def cache_is_true(plane, controller):
    held = json.loads(controller.ask("dump"))
    listed = {f"configmap/{n}": i["metadata"]["resourceVersion"] for n, i in names(plane, CONFIG_MAPS).items()}
    listed |= {f"sandbox/{n}": i["metadata"]["resourceVersion"] for n, i in names(plane, SANDBOXES).items()}
    return held == listed


def test_reconciler_through_restarts(plane, controllers):
    controller = controllers()
    assert controller.ask("leader") == "leading"
    sandbox = {"metadata": {"name": "s"}, "spec": {"podTemplate": {"spec": {"containers": [{"name": "c", "image": "host"}]}}}}
    for i in range(30):
        assert plane.open("POST", CONFIG_MAPS, source(f"m{i}", "1")).status == 201
    assert plane.open("POST", SANDBOXES, sandbox).status == 201
    plane.wait_until(lambda: copies_are_right(plane), 60)
    owner = names(plane, CONFIG_MAPS)["m0-copy"]["metadata"]["ownerReferences"][0]
    assert owner["name"] == "m0" and owner["controller"]
    managed = names(plane, CONFIG_MAPS)["m0-copy"]["metadata"]["managedFields"]
    assert [(m["manager"], m["operation"]) for m in managed] == [("copier", "Apply")]
    plane.wait_until(lambda: cache_is_true(plane, controller), 60)
    for round, kill in ((2, True), (3, False)):
        plane.stop(kill=kill)
        plane.start()
        for i in range(4, 30, 2):
            assert plane.open("PATCH", f"{CONFIG_MAPS}/m{i}", {"data": {"k": str(round)}}, headers=MERGE).status == 200
        assert plane.open("DELETE", f"{CONFIG_MAPS}/m{round}").status == 200  # the collector takes its copy along
        assert plane.open("POST", CONFIG_MAPS, source(f"new{round}", "1")).status == 201
        plane.wait_until(lambda: copies_are_right(plane), 60)
        plane.wait_until(lambda: cache_is_true(plane, controller), 60)
    assert controller.process.poll() is None
    # It was one program all along, and it held its lease through both restarts.
    lease = json.load(plane.open("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/copier"))
    assert lease["spec"]["leaseTransitions"] == 0
    controller.stop()


def test_leader_election(plane, controllers):
    first = controllers()
    assert first.ask("leader") == "leading"
    second = controllers()
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/copier"
    holder = json.load(plane.open("GET", lease))["spec"]["holderIdentity"]
    first.stop()  # gives the lease back
    assert second.ask("leader") == "leading"
    assert json.load(plane.open("GET", lease))["spec"]["holderIdentity"] != holder
    assert plane.open("POST", CONFIG_MAPS, source("m", "1")).status == 201
    plane.wait_until(lambda: copies_are_right(plane), 60)
    second.stop()
