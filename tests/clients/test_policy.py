"""What a namespace allows, through unmodified kubectl: quotas, limit ranges, disruption budgets."""
import concurrent.futures
import json
import os
import subprocess

import pytest

from control_plane import NODE_TOKEN


def pod(name, labels=None, **container):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": [{"name": "main", "image": "host", **container}]}}


def needs(cpu, memory=None, limits=None):
    requests = {"cpu": cpu, **({"memory": memory} if memory else {})}
    return {"resources": {"requests": requests, **({"limits": limits} if limits else {})}}


def sandbox(name, **container):
    return {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
            "spec": {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "host", **container}]}}}}


def create(plane, body, ok=True, verb="create"):
    return plane.kubectl(verb, "-f", "-", ok=ok, stdin=json.dumps(body))


def quota(plane, name, hard, **spec):
    create(plane, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name},
                   "spec": {"hard": hard, **spec}})


def used(plane, name):
    return plane.get("quota", name).get("status", {}).get("used")


def remove_pod(plane, name):
    plane.kubectl("delete", "pod", name, "--grace-period=0", "--force")


def ready(plane, namespace, name, value="True"):
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": value}]}}
    answer = plane.open("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", status, token=NODE_TOKEN,
                        headers={"Content-Type": "application/merge-patch+json"})
    assert answer.status == 200, answer.read()


# Quotas.


def test_quota_counts_and_refuses(plane, namespace):
    quota(plane, "q", {"pods": "2", "configmaps": "3", "count/sandboxes.agents.x-k8s.io": "1"})
    create(plane, pod("a"))
    create(plane, pod("b"))
    assert "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in create(
        plane, pod("c"), ok=False)
    before = used(plane, "q")
    assert before["pods"] == "2" and before["count/sandboxes.agents.x-k8s.io"] == "0"
    remove_pod(plane, "a")
    plane.wait_until(lambda: used(plane, "q")["pods"] == "1")
    create(plane, pod("c"))
    create(plane, {**sandbox("s"), "spec": {**sandbox("s")["spec"], "operatingMode": "Suspended"}})
    assert "exceeded quota: q, requested: count/sandboxes.agents.x-k8s.io=1" in create(plane, sandbox("t"), ok=False)
    table = plane.kubectl("get", "quota", "q")
    assert "REQUEST" in table and "pods: 2/2" in table
    described = plane.kubectl("describe", "quota", "q")
    assert any(line.split() == ["pods", "2", "2"] for line in described.splitlines()), described
    assert "pods" in plane.kubectl("describe", "namespace", namespace)


def test_quota_of_compute(plane, namespace):
    quota(plane, "q", {"requests.cpu": "1", "limits.memory": "1Gi", "requests.storage": "5Gi"})
    assert "failed quota: q: must specify limits.memory for: main; requests.cpu for: main" in create(
        plane, pod("a"), ok=False)
    create(plane, pod("a", **needs("700m", "100Mi", {"memory": "512Mi"})))
    error = create(plane, pod("b", **needs("400m", "100Mi", {"memory": "600Mi"})), ok=False)
    assert ("exceeded quota: q, requested: limits.memory=600Mi,requests.cpu=400m, used: limits.memory=512Mi,"
            "requests.cpu=700m, limited: limits.memory=1Gi,requests.cpu=1") in error
    create(plane, pod("b", **needs("300m", "100Mi", {"memory": "512Mi"})))
    assert used(plane, "q") == {"limits.memory": "1Gi", "requests.cpu": "1", "requests.storage": "0"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
             "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "6Gi"}}}}
    assert "requests.storage=6Gi, used: requests.storage=0, limited: requests.storage=5Gi" in create(
        plane, claim, ok=False)


def test_quota_scopes_and_ended_pods(plane, namespace):
    quota(plane, "best", {"pods": "1"}, scopes=["BestEffort"])
    quota(plane, "rest", {"pods": "1", "requests.cpu": "1"}, scopes=["NotBestEffort"])
    create(plane, pod("a"))
    create(plane, pod("b", **needs("1")))
    assert "exceeded quota: best" in create(plane, pod("c"), ok=False)
    assert "exceeded quota: rest" in create(plane, pod("c", **needs("1")), ok=False)
    plane.open("PATCH", f"/api/v1/namespaces/{namespace}/pods/b/status", {"status": {"phase": "Succeeded"}},
               token=NODE_TOKEN, headers={"Content-Type": "application/merge-patch+json"})
    plane.wait_until(lambda: used(plane, "rest") == {"pods": "0", "requests.cpu": "0"})
    create(plane, pod("c", **needs("1")))
    assert "must be a standard resource for quotas" in create(
        plane, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "x"}, "spec": {"hard": {"cpuu": "1"}}},
        ok=False)


def test_quota_is_exact_under_concurrency_and_across_kills(plane, namespace):
    quota(plane, "q", {"pods": "20", "count/pods": "100"})
    path = f"/api/v1/namespaces/{namespace}/pods"
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        codes = list(pool.map(lambda i: plane.open("POST", path, pod(f"p{i}")).status, range(64)))
    assert (codes.count(201), codes.count(403)) == (20, 44)
    assert used(plane, "q") == {"count/pods": "20", "pods": "20"}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        gone = pool.map(lambda i: plane.open("DELETE", f"{path}/p{i}?gracePeriodSeconds=0").status, range(64))
    assert list(gone).count(200) == 20
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(lambda i=i: plane.open("POST", path, pod(f"r{i}")).status) for i in range(30)]
        waiting[5].result()
        plane.stop(kill=True)
        concurrent.futures.wait(waiting)
    plane.start()
    there = len(json.loads(plane.open("GET", path).read())["items"])
    plane.wait_until(lambda: used(plane, "q") == {"count/pods": str(there), "pods": str(there)})
    while there < 20:
        create(plane, pod(f"s{there}"))
        there += 1
    assert "exceeded quota" in create(plane, pod("one-more"), ok=False)


def test_quota_is_exact_when_the_disk_was_full(plane, namespace):
    store = plane.dir / "data" / "control"
    plane.stop()
    if os.geteuid() != 0 or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "none", store], stderr=subprocess.DEVNULL).returncode:
        plane.start()
        pytest.skip("needs a file system of its own")
    try:
        plane.start()
        plane.kubectl("create", "-f", "-", stdin=json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        quota(plane, "q", {"configmaps": "1000"})
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        full = {"metadata": {"generateName": "m-"}, "data": {"k": "x" * 100000}}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(lambda _: plane.open("POST", path, full).status, range(120)))
        assert codes.count(507) > 0
        subprocess.run(["mount", "-o", "remount,size=64m", store], check=True)
        small = {"metadata": {"name": "later"}}
        plane.wait_until(lambda: plane.open("POST", path, small).status in (201, 409), 8)
        there = len(json.loads(plane.open("GET", path).read())["items"])
        assert there >= codes.count(201) + 1
        plane.wait_until(lambda: used(plane, "q") == {"configmaps": str(there)}, 12)
    finally:
        plane.stop()
        subprocess.run(["umount", store], check=True)
        plane.start()


def test_status_of_a_quota_is_the_servers(plane, namespace):
    quota(plane, "q", {"configmaps": "5"})
    create(plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    plane.kubectl("patch", "quota", "q", "--subresource=status", "--type=merge", "-p",
                  '{"status":{"used":{"configmaps":"0"}}}')
    plane.wait_until(lambda: used(plane, "q") == {"configmaps": "1"})
    plane.kubectl("patch", "quota", "q", "--type=json", "-p",
                  '[{"op":"replace","path":"/spec/hard","value":{"secrets":"3"}}]')
    plane.wait_until(lambda: plane.get("quota", "q")["status"] == {"hard": {"secrets": "3"}, "used": {"secrets": "0"}})


def test_resize_is_bound_by_quota_and_limits(plane, namespace):
    quota(plane, "q", {"requests.cpu": "1"})
    limits(plane, {"type": "Container", "max": {"memory": "1Gi"}, "default": {"memory": "512Mi"}})
    create(plane, pod("a", **needs("400m", "100Mi")))

    def resize(resources, ok=True):
        body = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        return plane.kubectl("patch", "pod", "a", "--subresource=resize", "-p", json.dumps(body), ok=ok)

    error = resize({"requests": {"cpu": "1100m"}}, ok=False)
    assert "exceeded quota: q, requested: requests.cpu=700m, used: requests.cpu=400m, limited: requests.cpu=1" in error
    assert "maximum memory usage per Container is 1Gi, but limit is 2Gi" in resize(
        {"limits": {"memory": "2Gi"}}, ok=False)
    resize({"requests": {"cpu": "900m"}})
    plane.wait_until(lambda: used(plane, "q") == {"requests.cpu": "900m"})


def test_sandbox_waits_for_a_limit_range(plane, namespace):
    limits(plane, {"type": "Pod", "max": {"memory": "64Mi"}})
    create(plane, sandbox("s", **needs("100m", "100Mi", {"memory": "100Mi"})))
    message = 'jsonpath={.status.conditions[?(@.type=="Ready")].message}'
    plane.wait_until(lambda: "maximum memory usage per Pod is 64Mi, but limit is 100Mi" in plane.kubectl(
        "get", "sandbox", "s", "-o", message))
    plane.kubectl("delete", "limits", "l")
    plane.wait_until(lambda: plane.get("pods")["items"], seconds=3)


def test_sandbox_waits_for_quota(plane, namespace):
    quota(plane, "q", {"pods": "1"})
    create(plane, pod("other"))
    create(plane, sandbox("s"))
    message = 'jsonpath={.status.conditions[?(@.type=="Ready")].message}'
    plane.wait_until(lambda: "exceeded quota: q" in plane.kubectl("get", "sandbox", "s", "-o", message))
    remove_pod(plane, "other")
    plane.wait_until(lambda: plane.get("pods")["items"] and plane.get("pod", "s"), seconds=3)
    plane.wait_until(lambda: "exceeded" not in plane.kubectl("get", "sandbox", "s", "-o", message))
    assert used(plane, "q") == {"pods": "1"}


# Limit ranges.


def limits(plane, *items, name="l"):
    create(plane, {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": items}})


def test_limit_range_gives_defaults(plane, namespace):
    limits(plane, {"type": "Container", "default": {"cpu": "500m", "memory": "256Mi"}, "defaultRequest": {"cpu": "100m"},
                   "max": {"cpu": "1"}})
    create(plane, pod("a"))
    a = plane.get("pod", "a")
    assert a["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "256Mi"}}
    assert a["status"]["qosClass"] == "Burstable"
    assert a["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container main; cpu, memory limit for container main")
    error = create(plane, pod("b", **needs("100m", limits={"cpu": "2"})), ok=False)
    assert 'pods "b" is forbidden: maximum cpu usage per Container is 1, but limit is 2' in error
    described = plane.kubectl("describe", "limits", "l")
    assert any(line.split() == ["Container", "cpu", "-", "1", "100m", "500m", "-"] for line in described.splitlines())


@pytest.mark.parametrize("item, container, text", [
    ({"type": "Container", "min": {"cpu": "100m"}}, needs("50m"),
     "minimum cpu usage per Container is 100m, but request is 50m"),
    ({"type": "Container", "maxLimitRequestRatio": {"memory": "2"}}, needs("1", "100Mi", {"memory": "300Mi"}),
     "memory max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
    ({"type": "Pod", "max": {"memory": "1Gi"}}, needs("1"),
     "maximum memory usage per Pod is 1Gi.  No limit is specified"),
    ({"type": "Pod", "max": {"cpu": "1", "memory": "1Gi"}}, needs("2", "2Gi", {"cpu": "2", "memory": "2Gi"}),
     "[maximum cpu usage per Pod is 1, but limit is 2, maximum memory usage per Pod is 1Gi, but limit is 2Gi]"),
], ids=["min", "ratio", "none", "several"])  # fmt: skip
def test_limit_range_bounds(plane, namespace, item, container, text):
    limits(plane, item)
    assert text in create(plane, pod("a", **container), ok=False)


def test_limit_range_of_claims(plane, namespace):
    limits(plane, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
             "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}}
    error = create(plane, claim, ok=False)
    assert "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi" in error
    assert "min value 2 is greater than max value 1" in create(
        plane, {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "x"},
                "spec": {"limits": [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}}, ok=False)


# Disruption budgets.


def budget(plane, name, **spec):
    create(plane, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
                   "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}})


def allowed(plane, name="b"):
    status = plane.get("pdb", name).get("status", {})
    return status.get("disruptionsAllowed"), status.get("currentHealthy"), status.get("desiredHealthy")


def test_budget_holds_back_evictions(plane, namespace):
    for name in ("a", "b", "c"):
        create(plane, pod(name, {"app": "x"}))
        ready(plane, namespace, name)
    budget(plane, "b", minAvailable=2)
    plane.wait_until(lambda: allowed(plane) == (1, 3, 2))
    assert plane.kubectl("get", "pdb", "b", "--no-headers").split()[:4] == ["b", "2", "N/A", "1"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert plane.open("POST", f"{path}/a/eviction", eviction).status == 201
    eviction["metadata"]["name"] = "b"
    refused = plane.open("POST", f"{path}/b/eviction", eviction)
    body = json.loads(refused.read())
    assert refused.status == 429 and body["reason"] == "TooManyRequests"
    assert refused.headers["Retry-After"] == str(body["details"]["retryAfterSeconds"]) == "1"
    assert body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert body["details"]["causes"][0]["message"] == "The disruption budget b needs 2 healthy pods and has 2 currently"
    plane.wait_until(lambda: allowed(plane) == (0, 2, 2))
    assert "disruptedPods" not in plane.get("pdb", "b")["status"]
    ready(plane, namespace, "b", "False")
    plane.wait_until(lambda: allowed(plane) == (0, 1, 2))
    plane.kubectl("patch", "pdb", "b", "--type=merge", "-p", '{"spec":{"minAvailable":"10%"}}')
    plane.wait_until(lambda: allowed(plane)[2] == 1)
    assert plane.open("POST", f"{path}/b/eviction", eviction).status == 201  # it is not ready: nothing is lost


def test_only_so_many_of_many_evictions_pass(plane, namespace):
    for i in range(12):
        create(plane, pod(f"p{i}", {"app": "x"}))
        ready(plane, namespace, f"p{i}")
    budget(plane, "b", maxUnavailable=3)
    plane.wait_until(lambda: allowed(plane) == (3, 12, 9))

    def evict(i):
        body = {"metadata": {"name": f"p{i}", "namespace": namespace}}
        return plane.open("POST", f"/api/v1/namespaces/{namespace}/pods/p{i}/eviction", body).status

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        codes = list(pool.map(evict, range(12)))
    assert (codes.count(201), codes.count(429)) == (3, 9)
