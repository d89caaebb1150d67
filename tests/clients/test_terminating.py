"""Namespaces that wait for what is in them say what they wait for, through unmodified kubectl."""
import json


def create(plane, body, ok=True):
    return plane.kubectl("create", "-f", "-", ok=ok, stdin=json.dumps(body))


def config_map(namespace, name, *finalizers):
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers)}}


def conditions(plane, name):
    return {c["type"]: c for c in plane.get("namespace", name)["status"].get("conditions", [])}


def release(plane, namespace, name):
    plane.kubectl("patch", "configmap", name, "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_finalizers_that_stay_are_told(plane):
    create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stuck"}})
    for body in (config_map("stuck", "a", "one.example.com/x"), config_map("stuck", "b", "one.example.com/x", "two.org/y"),
                 config_map("stuck", "free")):
        create(plane, body)
    create(plane, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                   "metadata": {"name": "l", "namespace": "stuck", "finalizers": ["one.example.com/x"]}})
    plane.kubectl("delete", "namespace", "stuck", "--wait=false")
    plane.wait_until(lambda: conditions(plane, "stuck"))
    assert {t: (c["status"], c["reason"], c["message"]) for t, c in conditions(plane, "stuck").items()} == {
        "NamespaceDeletionDiscoveryFailure":
            ("False", "ResourcesDiscovered", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure":
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        "NamespaceDeletionContentFailure":
            ("False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        "NamespaceContentRemaining":
            ("True", "SomeResourcesRemain", "Some resources are remaining: configmaps. has 2 resource instances, "
             "leases.coordination.k8s.io has 1 resource instances"),
        "NamespaceFinalizersRemaining":
            ("True", "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "
             "one.example.com/x in 3 resource instances, two.org/y in 1 resource instances"),
    }
    described = plane.kubectl("describe", "namespace", "stuck")
    assert "Status:       Terminating" in described and "SomeFinalizersRemain" in described
    assert "one.example.com/x in 3 resource instances" in described

    # The report follows, its times stay, and nothing is written while nothing happens.
    since = conditions(plane, "stuck")["NamespaceContentRemaining"]["lastTransitionTime"]
    release(plane, "stuck", "a")
    plane.wait_until(
        lambda: "configmaps. has 1 " in conditions(plane, "stuck")["NamespaceContentRemaining"]["message"])
    assert conditions(plane, "stuck")["NamespaceContentRemaining"]["lastTransitionTime"] == since
    version = plane.get("namespace", "stuck")["metadata"]["resourceVersion"]
    plane.stop()
    plane.start()
    release(plane, "stuck", "b")
    plane.wait_until(
        lambda: "configmaps" not in conditions(plane, "stuck")["NamespaceContentRemaining"]["message"])
    assert plane.get("namespace", "stuck")["metadata"]["resourceVersion"] != version
    plane.kubectl("patch", "lease", "l", "-n", "stuck", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    plane.kubectl("wait", "--for=delete", "namespace/stuck", "--timeout=10s")


def test_pods_that_take_their_time_are_told(plane):
    create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slow"}})
    create(plane, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "slow"},
                   "spec": {"containers": [{"name": "main", "image": "host"}]}})
    plane.kubectl("delete", "namespace", "slow", "--wait=false")
    plane.wait_until(lambda: conditions(plane, "slow"))
    found = conditions(plane, "slow")
    assert found["NamespaceContentRemaining"]["message"] == "Some resources are remaining: pods. has 1 resource instances"
    assert (found["NamespaceFinalizersRemaining"]["status"], found["NamespaceFinalizersRemaining"]["reason"]) == (
        "False", "ContentHasNoFinalizers")
    refused = create(plane, config_map("slow", "late"), ok=False)
    assert "unable to create new content in namespace slow because it is being terminated" in refused
    plane.kubectl("delete", "pod", "p", "-n", "slow", "--grace-period=0", "--force")
    plane.kubectl("wait", "--for=delete", "namespace/slow", "--timeout=10s")


def test_an_empty_namespace_goes_without_a_word(plane):
    create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}})
    version = plane.get("namespace", "empty")["metadata"]["resourceVersion"]
    answer = plane.open("GET", f"/api/v1/namespaces?watch=1&fieldSelector=metadata.name=empty&resourceVersion={version}")
    plane.kubectl("delete", "namespace", "empty")
    events = [json.loads(answer.readline()) for _ in range(2)]
    assert [e["type"] for e in events] == ["MODIFIED", "DELETED"]
    assert not any("conditions" in e["object"]["status"] for e in events)
    answer.close()
