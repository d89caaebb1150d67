"""Unmodified kubectl and what running Pods use and may use: resize, drain, top, describe node."""
import json
import pathlib

from instance import sandbox, wait_until

MI = 1 << 20


def pod(name, script="sleep 1000", limits=None, requests=None, **container):
    resources = {"limits": limits or {}, "requests": requests or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": "host", "command": ["sh", "-c", script], "resources": resources, **container}]}}


def start(up, *pods):
    up.create(*pods)
    for one in pods:
        up.kubectl("wait", "--for=condition=Ready", f"pod/{one['metadata']['name']}", "--timeout=60s")


def resize(up, name, code=0, **resources):
    patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    return up.kubectl("patch", "pod", name, "--subresource", "resize", "-p", json.dumps(patch), code=code)


def status(up, name):
    return up.get("pod", name)["status"]["containerStatuses"][0]


def in_force(up, name):
    """Memory limit in bytes and cpu limit in thousandths, as the kernel has them."""
    uid = up.get("pod", name)["metadata"]["uid"]
    found = {}
    for parent in up.group_parents():
        for group in pathlib.Path(parent).glob(f"{uid}-*"):
            for file in ("memory.limit_in_bytes", "memory.max", "cpu.cfs_quota_us", "cpu.max"):
                if (group / file).exists():
                    found[file] = (group / file).read_text().split()[0]
    memory = found.get("memory.max") or found.get("memory.limit_in_bytes")
    cpu = found.get("cpu.max") or found.get("cpu.cfs_quota_us")
    return int(memory), int(cpu) // 100


def test_resize_of_a_running_pod(up):
    start(up, pod("p", limits={"cpu": "500m", "memory": "64Mi"}, requests={"cpu": "100m", "memory": "64Mi"}))
    before = status(up, "p")
    assert before["resources"] == {"limits": {"cpu": "500m", "memory": "64Mi"},
                                   "requests": {"cpu": "100m", "memory": "64Mi"}}
    assert before["allocatedResources"] == {"cpu": "100m", "memory": "64Mi"}
    assert in_force(up, "p") == (64 * MI, 500)
    resize(up, "p", limits={"cpu": "1", "memory": "128Mi"}, requests={"cpu": "200m", "memory": "128Mi"})
    wait_until(lambda: in_force(up, "p") == (128 * MI, 1000), what="the new limits")
    wait_until(lambda: status(up, "p")["allocatedResources"] == {"cpu": "200m", "memory": "128Mi"}, what="the status")
    after = status(up, "p")
    assert after["resources"]["limits"] == {"cpu": "1", "memory": "128Mi"}
    assert (after["restartCount"], after["containerID"]) == (0, before["containerID"])
    # Down again, while little is used.
    resize(up, "p", limits={"memory": "32Mi"}, requests={"memory": "32Mi"})
    wait_until(lambda: in_force(up, "p") == (32 * MI, 1000), what="the smaller limit")


def test_resize_that_cannot_be(up):
    start(up, pod("p", "x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo full; sleep 1000",
                  limits={"memory": "256Mi"}, requests={"cpu": "100m", "memory": "64Mi"}))
    wait_until(lambda: "full" in up.kubectl("logs", "p"), what="the memory to be used")
    for resources, text in (
        ({"limits": {"memory": "32Mi"}}, "must be less than or equal to memory limit of 32Mi"),
        ({"requests": {"cpu": "100000"}}, "is more than the node has"),
        ({"requests": {"ephemeral-storage": "1Gi"}}, "only cpu and memory resources are mutable"),
        ({"limits": {"memory": None}}, "resource limits cannot be removed"),
        ({"limits": {"cpu": "100m", "memory": "64Mi"}}, "Pod QOS Class may not change as a result of resizing"),
    ):
        assert text in resize(up, "p", code=1, **resources)
    error = up.kubectl("patch", "pod", "p", "--type=merge", "-p", '{"spec":{"hostname":"x"}}', code=1)
    assert "pod updates may not change fields other than" in error
    resize(up, "p", limits={"memory": "40Mi"}, requests={"memory": "40Mi"})
    wait_until(lambda: up.get("pod", "p")["status"].get("resize") == "Infeasible", what="the refusal")
    assert status(up, "p")["resources"]["limits"] == {"memory": "256Mi"} and in_force(up, "p")[0] == 256 * MI
    assert "more than the new limit of 40960Ki" in up.kubectl("describe", "pod", "p")
    resize(up, "p", limits={"memory": "256Mi"}, requests={"memory": "40Mi"})
    wait_until(lambda: "resize" not in up.get("pod", "p")["status"], what="the end of the refusal")
    assert "full" in up.kubectl("logs", "p") and status(up, "p")["restartCount"] == 0


def test_resize_with_a_restart(up):
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    start(up, pod("p", limits={"cpu": "500m", "memory": "64Mi"}, resizePolicy=policy))
    resize(up, "p", limits={"memory": "96Mi"}, requests={"memory": "96Mi"})
    wait_until(lambda: status(up, "p")["restartCount"] == 1 and status(up, "p")["ready"], what="the restart")
    assert in_force(up, "p")[0] == 96 * MI and status(up, "p")["resources"]["limits"]["memory"] == "96Mi"


def test_debug_is_refused_clearly(up):
    start(up, pod("p"))
    error = up.kubectl("debug", "p", "--image=host", "--", "true", code=1)
    assert "ephemeral containers are not supported" in error


def test_drain_respects_budgets_and_ends(up):
    start(up, pod("a"), pod("b"))
    node = up.items("nodes")[0]["metadata"]["name"]
    up.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep-a"},
               "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}})
    try:
        drain = ("drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data")
        done = up.kubectl(*drain, "--timeout=14s", code=1)
        assert "Cannot evict pod as it would violate the pod's disruption budget" in done
        assert [p["metadata"]["name"] for p in up.items("pods")] == ["a"]
        up.kubectl("delete", "pdb", "keep-a")
        assert "drained" in up.kubectl(*drain, "--timeout=60s")
        assert not up.items("pods")
    finally:
        up.kubectl("uncordon", node)
        up.kubectl("delete", "pdb", "--all")


def test_sandbox_outlives_a_drain(up):
    up.ready_sandbox(sandbox("s", "sleep", "1000"))
    before = up.get("pod", "s")["metadata"]["uid"]
    node = up.items("nodes")[0]["metadata"]["name"]
    try:
        assert "drained" in up.kubectl("drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data",
                                       "--timeout=60s")
    finally:
        up.kubectl("uncordon", node)
    up.wait_for("sandbox/s", "condition=Ready")
    assert up.get("pod", "s")["metadata"]["uid"] != before


def test_describe_node_tells_what_is_allocated(up):
    start(up, pod("p", limits={"cpu": "500m", "memory": "64Mi"}))
    node = up.items("nodes")[0]["metadata"]["name"]
    text = up.kubectl("describe", "node", node)
    for part in ("Capacity:", "Allocatable:", "Non-terminated Pods:", "Allocated resources:", "500m ("):
        assert part in text, text


def top(up, *args):
    """kubectl top, as rows by name: (milli cores, Mi)."""
    lines = up.kubectl("top", *args, "--no-headers").splitlines()
    return {w[0]: (int(w[1].rstrip("m")), int(w[2].rstrip("Mi"))) for w in map(str.split, lines)}


def test_top(up):
    start(up, pod("busy", "while :; do :; done", limits={"cpu": "200m"}), pod("idle"),
          pod("big", "x=$(head -c 50000000 /dev/zero | tr '\\0' x); echo full; sleep 1000"))
    wait_until(lambda: "full" in up.kubectl("logs", "big"), what="the memory to be used")
    rows = top(up, "pods")
    assert set(rows) == {"busy", "idle", "big"}
    wait_until(lambda: 100 <= top(up, "pod", "busy")["busy"][0] <= 260, what="a fifth of a core")
    assert rows["idle"][0] < 50 and rows["big"][1] >= 48 > rows["idle"][1]
    assert set(top(up, "pods", "-l", "app=idle")) == {"idle"}
    assert "main" in up.kubectl("top", "pod", "busy", "--containers")
    node = up.items("nodes")[0]["metadata"]["name"]
    lines = up.kubectl("top", "nodes").splitlines()
    assert lines[0].split()[0] == "NAME" and lines[1].split()[0] == node and lines[1].split()[4].endswith("%")
    status, found = up.api("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy")
    assert status == 200 and found["kind"] == "PodMetrics" and found["window"].endswith("s")
    assert found["containers"][0]["usage"]["cpu"].endswith("n") and found["timestamp"].endswith("Z")
    status, found = up.api("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/none")
    assert status == 404, found
    # The names are still those of the core group.
    assert up.get("pod", "busy")["apiVersion"] == "v1"
    assert up.kubectl("get", "pods", "-o", "name").splitlines()[0] == "pod/big"


def test_top_without_a_node(plane):
    error = plane.kubectl("top", "nodes", ok=False)
    assert "the node cannot be asked what is used: it does not run" in error
