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


# --- types of Services ---


def node_ports(plane, name):
    return [p.get("nodePort") for p in plane.get("service", name)["spec"]["ports"]]


def retype(plane, name, ok=True, **spec):
    return plane.kubectl("patch", "service", name, "--type=merge", "-p", json.dumps({"spec": spec}), ok=ok)


def test_node_ports(plane, namespace):
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]
    create(plane, service("np", ports, type="NodePort"))
    given = node_ports(plane, "np")
    assert len(set(given)) == 2 and all(30000 <= p <= 32767 for p in given)
    row = plane.kubectl("get", "service", "np", "--no-headers").split()
    assert row[1] == "NodePort" and row[4] == f"80:{given[0]}/TCP,53:{given[1]}/UDP"
    for number, why in ((80, "The range of valid ports is 30000-32767"), (given[0], "provided port is already allocated")):
        refused = create(plane, service("other", [{"port": 1, "nodePort": number}], type="NodePort"), ok=False)
        assert f"spec.ports[0].nodePort: Invalid value: {number}: " in refused and why in refused
    refused = create(plane, service("other", [{"port": 1, "nodePort": 31000}]), ok=False)
    assert "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'" in refused
    refused = create(plane, service("other", [{"port": 1}], type="NodePort", clusterIP="None"), ok=False)
    assert "may not be set to 'None' for NodePort services" in refused

    # An update that does not speak of it keeps it; another type gives it back.
    plane.kubectl("label", "service", "np", "a=b")
    retype(plane, "np", ports=ports)
    assert node_ports(plane, "np") == given
    create(plane, service("two", [{"port": 1}], type="NodePort"))
    assert "already allocated" in retype(plane, "two", ports=[{"port": 1, "nodePort": given[0]}], ok=False)
    retype(plane, "np", type="ClusterIP")
    assert node_ports(plane, "np") == [None, None]
    assert "externalTrafficPolicy" not in plane.get("service", "np")["spec"]
    retype(plane, "two", ports=[{"port": 1, "nodePort": given[0]}])
    assert node_ports(plane, "two") == [given[0]]
    plane.stop()
    plane.start()
    refused = create(plane, service("three", [{"port": 1, "nodePort": given[0]}], type="NodePort"), ok=False)
    assert "already allocated" in refused
    plane.kubectl("delete", "service", "two")
    both = [{"name": n, "port": 53, "protocol": p, "nodePort": given[0]} for n, p in (("t", "TCP"), ("u", "UDP"))]
    create(plane, service("dns", both, type="NodePort"))
    assert node_ports(plane, "dns") == [given[0]] * 2


def test_load_balancers_wait(plane, namespace):
    create(plane, service("lb", [{"port": 80}], type="LoadBalancer"))
    assert 30000 <= node_ports(plane, "lb")[0] <= 32767
    assert plane.kubectl("get", "service", "lb", "--no-headers").split()[3] == "<pending>"
    create(plane, service("bare", [{"port": 80}], type="LoadBalancer", allocateLoadBalancerNodePorts=False))
    assert node_ports(plane, "bare") == [None]


def test_families(plane, namespace):
    refused = create(plane, service("six", [{"port": 80}], ipFamilies=["IPv6"]), ok=False)
    assert 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster' in refused
    refused = create(plane, service("six", [{"port": 80}], ipFamilyPolicy="RequireDualStack"), ok=False)
    assert "this cluster is not configured for dual-stack services" in refused
    refused = create(plane, service("six", [{"port": 80}], clusterIP="fd00::1"), ok=False)
    assert "a valid IPv4 address" in refused
    refused = create(plane, service("six", [{"port": 80}], clusterIP="10.96.3.3", clusterIPs=["10.96.3.3", "fd00::1"]), ok=False)
    assert "services are IPv4 only" in refused
    create(plane, service("four", [{"port": 80}], ipFamilyPolicy="PreferDualStack"))
    assert plane.get("service", "four")["spec"]["ipFamilies"] == ["IPv4"]


def test_external_names(plane, namespace):
    def outside(name, **spec):
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"type": "ExternalName", **spec}}

    assert "spec.externalName: Required value" in create(plane, outside("x"), ok=False)
    assert "spec.externalName: Invalid value" in create(plane, outside("x", externalName="not a name"), ok=False)
    refused = create(plane, outside("x", externalName="a.example.com", clusterIP="10.96.5.5"), ok=False)
    assert "spec.clusterIPs: Forbidden: may not be set for ExternalName services" in refused
    create(plane, outside("x", externalName="a.example.com"))
    assert plane.kubectl("get", "service", "x", "--no-headers").split()[1:5] == [
        "ExternalName", "<none>", "a.example.com", "<none>"]
    assert "spec.ports: Required value" in retype(plane, "x", type="ClusterIP", ok=False)
    retype(plane, "x", type="ClusterIP", ports=[{"port": 80}])
    spec = plane.get("service", "x")["spec"]
    assert spec["clusterIP"].startswith("10.96.") and "externalName" not in spec
    create(plane, service("taken", [{"port": 1}], clusterIP="10.96.5.6"))
    retype(plane, "x", type="ExternalName", externalName="b.example.com")
    spec = plane.get("service", "x")["spec"]
    assert "clusterIP" not in spec and "clusterIPs" not in spec and "ipFamilies" not in spec
    refused = retype(plane, "x", type="ClusterIP", clusterIP="10.96.5.6", ok=False)
    assert "already allocated" in refused


def test_the_servers_own_service(plane):
    made = plane.get("service", "kubernetes", "-n", "default")
    assert made["spec"]["clusterIP"] == "10.96.0.1"
    assert made["spec"]["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": plane.port}]
    plane.kubectl("delete", "service", "kubernetes", "-n", "default")
    plane.stop()
    plane.start()
    assert plane.get("service", "kubernetes", "-n", "default")["spec"]["clusterIP"] == "10.96.0.1"
