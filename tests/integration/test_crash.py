"""Any process of holt may be killed at any time: sandboxes go on, nothing acknowledged is lost, nothing is left over."""

import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from instance import (
    CLEAN_DEADLINE,
    claim_template,
    command_of,
    condition_of,
    is_alive,
    net_namespace,
    net_namespace_users,
    read,
    sandbox,
    wait_until,
)

pytestmark = pytest.mark.timeout(400)

COUNT = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /work/count; sleep 0.05; done"]
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
VICTIMS = ["control", "node", "egress", "up"]


def kill(instance, victim):
    """Returns when what was killed is there again and ready."""
    if victim == "up":
        instance.kill_up()
        instance.start()
    else:
        instance.kill(victim)


def counting(name="s"):
    mounts = [{"name": "work", "mountPath": "/work"}]
    return sandbox(name, *COUNT, volumeClaimTemplates=[claim_template()], _volumeMounts=mounts)


class Running:
    """A sandbox with a counter, as it was when the test began."""

    def __init__(self, instance, name="s"):
        self.instance, self.name = instance, name
        instance.ready_sandbox(counting(name))
        self.pod = instance.get("pod", name)
        self.uid = self.pod["metadata"]["uid"]
        self.pid = wait_until(lambda: instance.workload(self.uid, COUNT[:2]), what="the workload")
        self.file = wait_until(
            lambda: next(iter(instance.data.glob(f"volumes/pvc/default/work-{name}-*/count")), None), what="the counter"
        )
        self.network = net_namespace(self.pid)

    def count(self):
        return int(self.file.read_text() or 0)

    def still_counts(self):
        before = self.count()
        wait_until(lambda: self.count() > before, what="a growing counter")

    def is_unharmed(self):
        """The same process in the same Pod, known to the API as before, and reachable."""
        assert is_alive(self.pid)
        self.still_counts()
        self.instance.wait_for(f"sandbox/{self.name}", "condition=Ready")
        pod = self.instance.get("pod", self.name)
        assert pod["metadata"]["uid"] == self.uid
        assert pod["status"]["containerStatuses"] == self.pod["status"]["containerStatuses"]
        assert pod["status"]["podIP"] == self.pod["status"]["podIP"]
        assert self.instance.workload(self.uid, COUNT[:2]) == self.pid
        answer = wait_until(
            lambda: self.instance.kubectl("exec", self.name, "--", "echo", "here", code=None).out, what="an exec"
        )
        assert answer == "here\n"

    def vanishes(self):
        self.instance.kubectl("delete", "sandbox", self.name, "--wait=true")
        wait_until(lambda: self.instance.get("pod", self.name) is None, what="the end of the Pod")
        wait_until(
            lambda: not self.instance.traces(self.uid),
            CLEAN_DEADLINE,
            what=lambda: f"an end without {self.instance.traces(self.uid)}",
        )
        wait_until(
            lambda: not net_namespace_users(self.network),
            CLEAN_DEADLINE,
            what=lambda: f"an end without {net_namespace_users(self.network)}",
        )
        wait_until(lambda: not self.file.exists(), CLEAN_DEADLINE, what="the end of the claim's files")


@pytest.mark.parametrize("victim", VICTIMS)
def test_sandboxes_go_on(own, victim):
    instance = own()
    running = Running(instance)
    for _ in range(2):
        kill(instance, victim)
        running.is_unharmed()
    running.vanishes()


def test_all_at_once(own):
    """As close to a power cut as one gets without losing the sandboxes."""
    instance = own()
    running = Running(instance)
    pids = [pid for pid in instance.children().values() if pid]
    instance.up.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    instance.up.wait()
    wait_until(lambda: not any(map(is_alive, pids)), what="their end")
    running.still_counts()
    instance.start()
    running.is_unharmed()
    running.vanishes()


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_amid_thirty_creates(own, victim):
    """What was answered is there afterwards, and all of it gets ready; then all of it goes without a trace."""
    instance = own()
    acknowledged, unknown = [], []
    half = threading.Event()

    def create():
        for i in range(30):
            if len(acknowledged) + len(unknown) == 12:
                half.set()
            body = sandbox(f"s{i}")
            while True:
                try:
                    status, answer = instance.api(
                        "POST", "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes", body
                    )
                except OSError:
                    if f"s{i}" not in unknown:  # perhaps it has arrived, perhaps it has not: ask again
                        unknown.append(f"s{i}")
                    time.sleep(0.05)
                    continue
                if status == 201:
                    acknowledged.append((f"s{i}", answer["metadata"]["uid"]))
                    break
                if status == 409:
                    break
                time.sleep(0.05)  # not ready yet

    thread = threading.Thread(target=create)
    thread.start()
    assert half.wait(60)
    kill(instance, victim)
    thread.join(120)
    assert not thread.is_alive()
    there = {s["metadata"]["name"]: s["metadata"]["uid"] for s in instance.items("sandboxes")}
    assert len(there) == 30
    assert set(acknowledged) <= set(there.items())
    instance.kubectl("wait", "--for=condition=Ready", "--timeout=90s", "sandboxes", "--all", timeout=120)
    pods = instance.items("pods")
    assert len(pods) == 30
    # One sandbox for each Pod, none besides, none that was started twice.
    uids = [pod["metadata"]["uid"] for pod in pods]
    started = {group.name for group in instance.groups()}
    assert all(any(name.startswith(uid) for name in started) for uid in uids)
    sleeping = [pid for pid in instance.processes() if open(f"/proc/{pid}/comm").read() == "sleep\n"]
    assert len(sleeping) == 30
    instance.kubectl("delete", "sandboxes", "--all", timeout=120)
    wait_until(lambda: not instance.items("pods"), what="the end of all Pods")
    for uid in uids:
        wait_until(
            lambda uid=uid: not instance.traces(uid),
            CLEAN_DEADLINE,
            what=lambda uid=uid: f"an end without {instance.traces(uid)}",
        )


@pytest.mark.parametrize("victim", ["control", "node", "up"])
def test_killed_amid_deletions(own, victim):
    instance = own()
    instance.kubectl(
        "create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [counting(f"s{i}") for i in range(10)]}
    )
    instance.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "sandboxes", "--all")
    uids = [pod["metadata"]["uid"] for pod in instance.items("pods")]
    instance.kubectl("delete", "sandboxes", "--all", "--wait=false")
    kill(instance, victim)
    wait_until(lambda: not instance.items("sandboxes") and not instance.items("pods"), what="the end of all")
    wait_until(lambda: not instance.items("persistentvolumeclaims"), what="the end of all claims")
    for uid in uids:
        wait_until(
            lambda uid=uid: not instance.traces(uid),
            CLEAN_DEADLINE,
            what=lambda uid=uid: f"an end without {instance.traces(uid)}",
        )
    wait_until(
        lambda: not instance.groups() or all("blank" in g.name for g in instance.groups()),
        CLEAN_DEADLINE,
        what="the end of all control groups",
    )


def test_watch_goes_on_from_its_version(own):
    """A client that was cut off asks for what came after the last thing it saw, and gets just that."""
    instance = own()
    path = "/api/v1/namespaces/default/configmaps"
    made = []

    def create(name):
        status, obj = instance.api("POST", path, {"metadata": {"name": name}})
        assert status == 201
        made.append(obj["metadata"]["resourceVersion"])

    for i in range(5):
        create(f"before{i}")
    with instance.open("GET", f"{path}?watch=1&resourceVersion={made[1]}") as stream:
        seen = [json.loads(stream.readline()) for _ in range(3)]
        assert [e["object"]["metadata"]["name"] for e in seen] == ["before2", "before3", "before4"]
        instance.kill("control")
    for i in range(2):
        create(f"after{i}")
    assert instance.api("DELETE", f"{path}/before0")[0] == 200
    with instance.open("GET", f"{path}?watch=1&resourceVersion={made[3]}") as stream:
        seen = [json.loads(stream.readline()) for _ in range(4)]
    names = [(e["type"], e["object"]["metadata"]["name"]) for e in seen]
    assert names == [("ADDED", "before4"), ("ADDED", "after0"), ("ADDED", "after1"), ("DELETED", "before0")]


def test_kubectl_wait_survives(own):
    """kubectl that waits while the API server is killed sees the end of its waiting."""
    instance = own()
    instance.create(sandbox("s", operatingMode="Suspended"))
    instance.wait_for("sandbox/s", "condition=Suspended")
    waiting = instance.popen("kubectl", "wait", "--for=condition=Ready", "--timeout=90s", "sandbox/s")
    time.sleep(0.5)
    instance.kill("control")
    instance.kubectl("patch", "sandbox", "s", "--type=merge", "-p", '{"spec":{"operatingMode":"Running"}}')
    assert waiting.wait(100) == 0, waiting.stdout.read()


@pytest.mark.parametrize("victim", ["control", "up"])
def test_cut_exec_leaves_its_process(own, holt, victim):
    """It lives, it is listed, and one can attach to it again."""
    instance = own()
    instance.ready_sandbox(sandbox("s"))
    uid = instance.get("pod", "s")["metadata"]["uid"]
    script = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.1; done"
    client = instance.popen("kubectl", "exec", "s", "--", "sh", "-c", script)
    assert client.stdout.readline() == "line 1\n"
    pid = wait_until(lambda: instance.workload(uid, ["sh", "-c", script]), what="the process")
    kill(instance, victim)
    assert client.wait(60) != 0
    assert is_alive(pid)
    listed = instance.call(holt, "ps", "s")
    assert script in listed.out, listed
    line = next(line for line in listed.out.splitlines() if script in line)
    again = instance.popen(holt, "attach", "s", line.split()[0])
    assert again.stdout.readline().startswith("line ")
    again.kill()
    assert is_alive(pid)


def test_exec_goes_on_while_the_node_is_killed(own):
    """Streams do not pass through the node."""
    instance = own()
    instance.ready_sandbox(sandbox("s"))
    client = instance.popen("kubectl", "exec", "-i", "s", "--", "cat", stdin=subprocess.PIPE)
    client.stdin.write("one\n")
    client.stdin.flush()
    assert client.stdout.readline() == "one\n"
    instance.kill("node")
    client.stdin.write("two\n")
    client.stdin.close()
    assert client.stdout.read() == "two\n"
    assert client.wait(60) == 0


def test_logs_are_whole(own):
    """No line is lost or doubled while the node is killed."""
    instance = own()
    instance.ready_sandbox(
        sandbox("s", "sh", "-c", "i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.01; done; sleep infinity")
    )
    follower = instance.popen("kubectl", "logs", "-f", "s")
    instance.kill("node")
    instance.kill("node")
    lines = [follower.stdout.readline() for _ in range(400)]
    assert lines == [f"{i}\n" for i in range(400)]
    assert instance.kubectl("logs", "s").split() == [str(i) for i in range(400)]


@pytest.mark.parametrize("victim", ["node", "up"])
def test_end_while_it_is_away(own, victim):
    """A program that ends while nobody looks: its exit code is kept."""
    instance = own()
    ready = "while [ ! -e /go ]; do sleep 0.02; done; sleep 0.1; exit 9"
    instance.create(sandbox("s", "sh", "-c", ready, pod={"restartPolicy": "Never"}))
    instance.wait_for("sandbox/s", "condition=Ready")
    uid = instance.get("pod", "s")["metadata"]["uid"]
    pid = wait_until(lambda: instance.workload(uid, ["sh", "-c"]), what="the workload")
    instance.exec("s", "touch", "/go")
    kill(instance, victim)
    instance.wait_for("sandbox/s", "condition=Finished")
    assert not is_alive(pid)
    ended = instance.get("pod", "s")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 9 and ended["reason"] == "Error"
    assert condition_of(instance.get("sandbox", "s"), "Finished")["reason"] == "PodFailed"


def test_expiry_while_it_is_away(own):
    instance = own()
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
    instance.create(sandbox("s", shutdownTime=at, shutdownPolicy="Delete"))
    instance.wait_for("pod/s", "condition=Ready")
    uid = instance.get("pod", "s")["metadata"]["uid"]
    instance.kill_up()
    time.sleep(4)
    instance.start()
    wait_until(
        lambda: instance.get("sandbox", "s") is None and instance.get("pod", "s") is None, what="the end of the Sandbox"
    )
    wait_until(lambda: not instance.traces(uid), CLEAN_DEADLINE, what=lambda: f"an end without {instance.traces(uid)}")


def test_again_and_again(own):
    """Whoever it hits, whenever."""
    instance = own()
    running = Running(instance)
    for round_ in range(8):
        victim = VICTIMS[round_ % len(VICTIMS)]
        name = f"r{round_}"
        instance.create(sandbox(name))
        time.sleep(0.01 * round_)
        kill(instance, victim)
        instance.wait_for(f"sandbox/{name}", "condition=Ready")
        instance.kubectl("delete", "sandbox", name, "--wait=false")
    running.is_unharmed()
    wait_until(lambda: [p["metadata"]["name"] for p in instance.items("pods")] == ["s"], what="the end of all others")
    left = {group.name[:36] for group in instance.groups() if "-0-" in group.name}
    wait_until(
        lambda: {g.name[:36] for g in instance.groups() if instance.processes(g.name)} <= {running.uid},
        CLEAN_DEADLINE,
        what=lambda: f"an end without {left}",
    )
    running.vanishes()


class Chaos:
    """Random creates, deletes, suspensions and kills; what was acknowledged is remembered."""

    def __init__(self, instance, seed):
        self.instance, self.random = instance, random.Random(seed)
        self.acknowledged, self.unknown, self.uids, self.count = {}, set(), set(), 0

    def api(self, *request):
        try:
            return self.instance.api(*request)
        except OSError:
            return 0, None

    def create(self):
        self.count += 1
        name = f"c{self.count}"
        templates = self.random.choice([[], [claim_template()]])
        body = sandbox(name, service=self.random.choice([None, True]), volumeClaimTemplates=templates)
        status, answer = self.api("POST", SANDBOXES, body)
        assert status in (0, 201), answer
        if status:
            self.acknowledged[name] = answer["metadata"]["uid"]
        else:
            self.unknown.add(name)

    def delete(self):
        if self.acknowledged:
            name = self.random.choice(list(self.acknowledged))
            del self.acknowledged[name]
            if self.api("DELETE", f"{SANDBOXES}/{name}")[0] == 0:
                self.unknown.add(name)

    def switch(self):
        if self.acknowledged:
            name, mode = self.random.choice(list(self.acknowledged)), self.random.choice(["Running", "Suspended"])
            self.api("PATCH", f"{SANDBOXES}/{name}", {"spec": {"operatingMode": mode}}, "application/merge-patch+json")

    def kill(self):
        victim = self.random.choice(VICTIMS)
        if victim == "up":
            kill(self.instance, victim)
        elif self.instance.child(victim):
            os.kill(self.instance.child(victim), signal.SIGKILL)
        if self.random.random() < 0.5:
            self.instance.wait_ready()

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            steps = [self.create, self.delete, self.switch, self.kill]
            self.random.choices(steps, [45, 25, 15, 10])[0]()
            status, pods = self.api("GET", "/api/v1/namespaces/default/pods")
            self.uids |= {pod["metadata"]["uid"] for pod in pods["items"]} if status == 200 else set()

    def is_settled(self):
        """Every Sandbox is what it was told to be."""
        for obj in self.api("GET", SANDBOXES)[1]["items"]:
            wanted = "Suspended" if obj["spec"]["operatingMode"] == "Suspended" else "Ready"
            if obj["metadata"].get("deletionTimestamp") or condition_of(obj, wanted).get("status") != "True":
                return False
        return True


@pytest.mark.parametrize("seed", [1, 2])
def test_chaos(own, seed):
    """Whatever happens: nothing acknowledged is lost, nothing runs twice or anew, nothing is left."""
    instance = own()
    chaos = Chaos(instance, seed)
    chaos.run(8)
    for victim in ("control", "node", "egress"):  # the last ones may not have been waited for
        wait_until(lambda victim=victim: instance.child(victim), what=f"a running {victim}")
    wait_until(lambda: chaos.api("GET", SANDBOXES)[0] == 200, what="an answer")
    wait_until(chaos.is_settled, 90, what=lambda: instance.kubectl("get", "sandboxes,pods"))
    going = lambda: [p for p in instance.items("pods") if p["metadata"].get("deletionTimestamp")]  # noqa: E731
    wait_until(lambda: not going(), what="the end of Pods whose Sandboxes have been deleted")
    there = {s["metadata"]["name"]: s["metadata"]["uid"] for s in instance.items("sandboxes")}
    assert chaos.acknowledged.items() <= there.items()
    assert set(there) <= set(chaos.acknowledged) | chaos.unknown
    pods = instance.items("pods")
    for pod in pods:
        running = [p for p in instance.processes(pod["metadata"]["uid"]) if command_of(p)[:1] == ["sleep"]]
        assert len(running) == 1, pod
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0, pod
    chaos.uids |= {pod["metadata"]["uid"] for pod in pods}
    assert {g.name[:36] for g in instance.groups() if read(g / "cgroup.procs") and g.name[:36] in chaos.uids} <= {
        pod["metadata"]["uid"] for pod in pods
    }
    instance.kubectl("delete", "sandboxes", "--all", timeout=150)
    wait_until(lambda: not instance.items("pods"), what="the end of all Pods")
    left = lambda: [trace for uid in chaos.uids for trace in instance.traces(uid)]  # noqa: E731
    wait_until(lambda: not left(), 2 * CLEAN_DEADLINE, what=lambda: f"an end without {left()}")
    wait_until(
        lambda: not list((instance.data / "volumes").glob("pvc/*/*")), CLEAN_DEADLINE, what="the end of all claims"
    )


@pytest.mark.parametrize("name", ["control", "node"])
def test_one_that_hangs(own, name):
    """A process whose loop stands still is as good as dead: it is ended, and its successor takes everything up."""
    instance = own("--hang-timeout", "10s")
    instance.ready_sandbox(sandbox("s"))
    uid = instance.get("pod", "s")["metadata"]["uid"]
    pids = instance.processes(uid)
    hanging = instance.child(name)
    os.kill(hanging, signal.SIGSTOP)
    wait_until(lambda: instance.child(name) not in (None, hanging), what=f"another {name}")
    instance.wait_ready()
    assert f'"process":"{name}"' in instance.log() and "does not answer any more" in instance.log()
    assert instance.exec("s", "echo", "here") == "here\n" and instance.processes(uid) == pids
    assert instance.get("pod", "s")["metadata"]["uid"] == uid
