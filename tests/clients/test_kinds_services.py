"""Services and what follows their Pods, through unmodified kubectl."""
import json

from control_plane import NODE_TOKEN


def create(plane, body, ok=True):
    return plane.kubectl("create", "-f", "-", ok=ok, stdin=json.dumps(body))


def pod(name, ports=(), **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "host", "ports": list(ports)}], **spec}}


def service(name, ports, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": "web"}, "ports": ports, **spec}}


def report(plane, namespace, name, ip, ready="True", phase="Running"):
    """What the node says of a Pod."""
    status = {"status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}],
                         "conditions": [{"type": "Ready", "status": ready}]}}
    answer = plane.open("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", status, token=NODE_TOKEN,
                        headers={"Content-Type": "application/merge-patch+json"})
    assert answer.status == 200, answer.read()


def slices(plane, name):
    return plane.get("endpointslices", "-l", f"kubernetes.io/service-name={name}")["items"]


def endpoints(plane, name):
    """{address: ready} of all slices of a Service."""
    return {e["addresses"][0]: e["conditions"]["ready"] for s in slices(plane, name) for e in s["endpoints"]}


def test_endpoints_follow_pods(plane, namespace):
    create(plane, service("web", [{"port": 80, "targetPort": 8080}]))
    plane.wait_until(lambda: len(slices(plane, "web")) == 1)
    for name, ip in ("a", "10.0.0.1"), ("b", "10.0.0.2"):
        create(plane, pod(name))
        report(plane, namespace, name, ip)
    plane.wait_until(lambda: endpoints(plane, "web") == {"10.0.0.1": True, "10.0.0.2": True})
    plane.wait_until(lambda: "10.0.0.1:8080,10.0.0.2:8080" in plane.kubectl("get", "endpoints", "web"))
    report(plane, namespace, "a", "10.0.0.1", ready="False")
    plane.wait_until(lambda: endpoints(plane, "web") == {"10.0.0.1": False, "10.0.0.2": True})
    plane.wait_until(lambda: "10.0.0.1" not in plane.kubectl("get", "endpoints", "web"))
    report(plane, namespace, "a", "10.0.0.1", ready="False", phase="Failed")
    plane.wait_until(lambda: endpoints(plane, "web") == {"10.0.0.2": True})
    assert "10.0.0.2:8080" in plane.kubectl("describe", "service", "web")
    # What somebody else takes away comes back; with the Service all goes.
    plane.kubectl("delete", "endpoints", "web")
    plane.wait_until(lambda: "10.0.0.2:8080" in plane.kubectl("get", "endpoints", "--ignore-not-found"))
    plane.kubectl("delete", "service", "web")
    plane.wait_until(lambda: not plane.get("endpointslices")["items"] and not plane.get("endpoints")["items"])


def test_named_ports(plane, namespace):
    create(plane, service("web", [{"port": 80, "targetPort": "http"}]))
    for name, ip, number in ("a", "10.0.0.1", 8080), ("b", "10.0.0.2", 9090):
        create(plane, pod(name, [{"name": "http", "containerPort": number}]))
        report(plane, namespace, name, ip)
    create(plane, pod("c"))  # has no port of that name
    report(plane, namespace, "c", "10.0.0.3")

    def by_port():
        return {s["ports"][0]["port"]: s["endpoints"][0]["addresses"] for s in slices(plane, "web") if s["endpoints"]}

    plane.wait_until(lambda: by_port() == {8080: ["10.0.0.1"], 9090: ["10.0.0.2"]})
    assert endpoints(plane, "web") == {"10.0.0.1": True, "10.0.0.2": True}


def test_without_selector_nothing_is_touched(plane, namespace):
    create(plane, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "own"}, "spec": {"ports": [{"port": 1}]}})
    create(plane, {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "own"},
                   "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 1}]}]})
    create(plane, service("other", [{"port": 1}]))
    plane.wait_until(lambda: slices(plane, "other"))  # the controller has been by
    assert "192.0.2.1:1" in plane.kubectl("get", "endpoints", "own")


def test_priority_classes(plane, namespace):
    name = f"high-{namespace}"
    create(plane, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                   "value": 1000, "preemptionPolicy": "Never"})
    create(plane, pod("high", priorityClassName=name))
    create(plane, pod("plain"))
    create(plane, pod("system", priorityClassName="system-node-critical"))
    spec = plane.get("pod", "high")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    assert plane.get("pod", "plain")["spec"]["priority"] == 0
    assert plane.get("pod", "system")["spec"]["priority"] == 2000001000
    assert "no PriorityClass with name lost was found" in create(plane, pod("x", priorityClassName="lost"), ok=False)
    refused = create(plane, pod("y", priorityClassName=name, priority=5), ok=False)
    assert "the integer value of priority (5) must not be provided in pod spec" in refused
    plane.kubectl("label", "pod", "high", "a=b")  # an update keeps it
    assert plane.get("pod", "high")["spec"]["priority"] == 1000
    plane.kubectl("delete", "priorityclass", name)


def test_addresses(plane, namespace):
    port = [{"port": 1}]
    for ip, why in (("10.97.0.1", "not in the valid range"), ("10.96.0.1", "not in the valid range"),
                    ("nonsense", "a valid IPv4 address")):
        assert why in create(plane, service("bad", port, clusterIP=ip), ok=False)
    create(plane, service("one", port, clusterIP="10.96.77.7"))
    assert "already allocated" in create(plane, service("two", port, clusterIP="10.96.77.7"), ok=False)
    plane.kubectl("delete", "service", "one")
    create(plane, service("two", port, clusterIP="10.96.77.7"))
    create(plane, service("headless", port, clusterIP="None"))
    plane.stop()
    plane.start()
    assert "already allocated" in create(plane, service("three", port, clusterIP="10.96.77.7"), ok=False)


def test_default_storage_class(plane, namespace):
    def claim(name, **spec):
        create(plane, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
                       "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}})
        return plane.get("pvc", name)["spec"].get("storageClassName")

    made = plane.get("storageclass", "holt-local")
    assert made["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    assert claim("a") == "holt-local"
    assert claim("b", storageClassName="") == ""
    assert claim("c", storageClassName="other") == "other"
