"""The small built-in kinds: made, shown with their columns, changed and taken away through unmodified kubectl."""
import json

import pytest


def create(plane, body, ok=True):
    return plane.kubectl("create", "-f", "-", ok=ok, stdin=json.dumps(body))


def apply(plane, body, ok=True):
    return plane.kubectl("apply", "-f", "-", ok=ok, stdin=json.dumps(body))


def patch(plane, kind, name, change, ok=True):
    return plane.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(change), ok=ok)


def table(plane, *args):
    """[{column: cell}] of kubectl get, cut where the header's columns begin."""
    lines = plane.kubectl("get", *args).splitlines()
    starts, at = [], 0
    names = lines[0].split("   ")
    names = [n.strip() for n in names if n.strip()]
    for name in names:
        at = lines[0].index(name, at)
        starts.append(at)
        at += len(name)
    return [{n: line[s:e].strip() for n, s, e in zip(names, starts, starts[1:] + [None])} for line in lines[1:]]


KINDS = [
    # kind, apiVersion, what it says, cells besides NAME and AGE, a change, cells that change with it
    ("runtimeclass", "node.k8s.io/v1", "RuntimeClass", {"handler": "native"}, {"HANDLER": "native"},
     {"overhead": {"podFixed": {"memory": "16Mi"}}}, {}),
    ("controllerrevision", "apps/v1", "ControllerRevision", {"revision": 3, "data": {"spec": {"any": [1]}}},
     {"CONTROLLER": "<none>", "REVISION": "3"}, {"revision": 4}, {"REVISION": "4"}),
    ("networkpolicy", "networking.k8s.io/v1", "NetworkPolicy",
     {"spec": {"podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [
         {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]},
               "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
     {"POD-SELECTOR": "app=web,tier in (a,b),!old"}, {"spec": {"podSelector": {"matchLabels": None, "matchExpressions": None}}}, {"POD-SELECTOR": "<none>"}),
    ("lease", "coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
     {"HOLDER": "me"}, {"spec": {"holderIdentity": "you", "renewTime": "2026-01-01T00:00:00.000000Z"}}, {"HOLDER": "you"}),
    ("priorityclass", "scheduling.k8s.io/v1", "PriorityClass", {"value": 100, "description": "some"},
     {"VALUE": "100", "GLOBAL-DEFAULT": "false", "PREEMPTIONPOLICY": "PreemptLowerPriority"}, {"description": "more"}, {}),
    ("storageclass", "storage.k8s.io/v1", "StorageClass", {"provisioner": "example.com/disk"},
     {"PROVISIONER": "example.com/disk", "RECLAIMPOLICY": "Delete", "VOLUMEBINDINGMODE": "Immediate",
      "ALLOWVOLUMEEXPANSION": "false"}, {"allowVolumeExpansion": True}, {"ALLOWVOLUMEEXPANSION": "true"}),
]


@pytest.mark.parametrize("kind,version,name,body,cells,change,changed", KINDS, ids=[k[0] for k in KINDS])
def test_life(plane, namespace, kind, version, name, body, cells, change, changed):
    def row():
        return next(r for r in table(plane, kind) if r["NAME"] == "it")

    create(plane, {"apiVersion": version, "kind": name, "metadata": {"name": "it"}, **body})
    made = plane.get(kind, "it")
    assert made["apiVersion"] == version and made["metadata"]["uid"]
    shown = row()
    assert {c: shown[c] for c in cells} == cells and set(shown) == {"NAME", "AGE", *cells}
    assert shown["AGE"].endswith("s")
    assert "already exists" in create(plane, {"apiVersion": version, "kind": name, "metadata": {"name": "it"}, **body},
                                      ok=False)
    patch(plane, kind, "it", change)
    shown = row()
    assert {c: shown[c] for c in changed} == changed
    assert plane.get(kind, "it")["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    plane.kubectl("label", kind, "it", "a=b")
    assert len(plane.get(kind, "-l", "a=b")["items"]) == 1
    described = plane.kubectl("describe", kind, "it")
    assert "Name:" in described and "it" in described
    assert f"KIND:       {name}" in plane.kubectl("explain", kind)
    plane.kubectl("delete", kind, "it")
    assert "(NotFound)" in plane.kubectl("get", kind, "it", ok=False)


def test_network_policy_defaults(plane, namespace):
    def policy(name, **spec):
        create(plane, {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name},
                       "spec": {"podSelector": {}, **spec}})
        return plane.get("netpol", name)["spec"]["policyTypes"]

    assert policy("in") == ["Ingress"]
    assert policy("both", egress=[{}]) == ["Ingress", "Egress"]
    assert policy("out", policyTypes=["Egress"]) == ["Egress"]


def test_controller_of_a_revision(plane, namespace):
    create(plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
    plane.kubectl("create", "-f", "-", stdin=json.dumps(
        {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "metadata": {"name": "other"}, "data": {"a": 1}}))
    assert "data: Invalid value" in patch(plane, "controllerrevision", "other", {"data": {"a": 2}}, ok=False)
    plane.kubectl("delete", "controllerrevision", "other")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": True,
             "uid": plane.get("configmap", "owner")["metadata"]["uid"]}
    create(plane, {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
                   "metadata": {"name": "r", "ownerReferences": [owner]}})
    assert table(plane, "controllerrevision")[0]["CONTROLLER"] == "configmap/owner"
    refused = create(plane, {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "s"}}, ok=False)
    assert "revision: Required value" in refused


def test_runtime_class_rules(plane):
    def runtime(**spec):
        return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "rules"}, **spec}

    assert "handler: Required value" in create(plane, runtime(), ok=False)
    assert "handler: Invalid value" in create(plane, runtime(handler="Not A Label"), ok=False)
    create(plane, runtime(handler="native"))
    assert "handler: Invalid value" in patch(plane, "runtimeclass", "rules", {"handler": "other"}, ok=False)
    plane.kubectl("delete", "runtimeclass", "rules")


def test_lease_rules(plane, namespace):
    def lease(**spec):
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}

    for spec, text in (({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds: Invalid value: 0: "),
                       ({"leaseTransitions": -1}, "spec.leaseTransitions: Invalid value: -1: ")):
        assert text in create(plane, lease(**spec), ok=False)


def test_default_storage_class_is_marked(plane):
    shown = {r["NAME"]: r for r in table(plane, "sc")}
    assert shown["holt-local (default)"]["PROVISIONER"] == "holt.dev/local"
    assert "IsDefaultClass:        Yes" in plane.kubectl("describe", "sc", "holt-local")
    plane.kubectl("annotate", "sc", "holt-local", "storageclass.kubernetes.io/is-default-class=false", "--overwrite")
    assert [r["NAME"] for r in table(plane, "sc")] == ["holt-local"]
    plane.kubectl("annotate", "sc", "holt-local", "storageclass.kubernetes.io/is-default-class=true", "--overwrite")


def test_storage_class_rules(plane):
    def storage(**fields):
        return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "rules"}, **fields}

    assert "provisioner: Required value" in create(plane, storage(), ok=False)
    create(plane, storage(provisioner="a.b/c", parameters={"type": "x"}))
    for change in ({"provisioner": "d.e/f"}, {"parameters": {"type": "y"}}, {"reclaimPolicy": "Retain"},
                   {"volumeBindingMode": "WaitForFirstConsumer"}):
        refused = patch(plane, "sc", "rules", change, ok=False)
        field = next(iter(change))
        assert f"{field}: Forbidden: updates to {field} are forbidden." in refused or (
            f"{field}: Invalid value" in refused and "field is immutable" in refused), refused
    plane.kubectl("delete", "sc", "rules")


def test_priority_class_rules(plane, namespace):
    def priority(name, value=10, **fields):
        return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
                **fields}

    shown = {r["NAME"]: r["VALUE"] for r in table(plane, "pc")}
    assert shown == {"system-cluster-critical": "2000000000", "system-node-critical": "2000001000"}
    assert "prefix are reserved for system use only" in create(plane, priority("system-mine"), ok=False)
    assert "maximum allowed value of a user defined priority is 1000000000" in create(
        plane, priority("high", 1000000001), ok=False)
    assert "this is a system priority class and cannot be deleted" in plane.kubectl(
        "delete", "pc", "system-node-critical", ok=False)
    create(plane, priority("high", 1000000000))
    assert "value: Forbidden: may not be changed in an update." in patch(plane, "pc", "high", {"value": 1}, ok=False)
    refused = patch(plane, "pc", "high", {"preemptionPolicy": "Never"}, ok=False)
    assert "preemptionPolicy: Invalid value" in refused and "field is immutable" in refused

    create(plane, priority("usual", 7, globalDefault=True))
    refused = create(plane, priority("second", 8, globalDefault=True), ok=False)
    assert "PriorityClass usual is already marked as default. Only one default can exist" in refused
    assert "already marked as default" in patch(plane, "pc", "high", {"globalDefault": True}, ok=False)
    patch(plane, "pc", "usual", {"description": "still the one"})
    create(plane, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                   "spec": {"containers": [{"name": "main", "image": "host"}]}})
    assert plane.get("pod", "p")["spec"]["priority"] == 7
    assert plane.get("pod", "p")["spec"]["priorityClassName"] == "usual"
    patch(plane, "pc", "usual", {"globalDefault": False})
    patch(plane, "pc", "high", {"globalDefault": True})
    plane.kubectl("delete", "pc", "usual", "high")
    plane.stop()
    plane.start()
    assert {r["NAME"] for r in table(plane, "pc")} == {"system-cluster-critical", "system-node-critical"}


def test_events(plane, namespace):
    create(plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    uid = plane.get("configmap", "c")["metadata"]["uid"]
    about = {"kind": "ConfigMap", "apiVersion": "v1", "name": "c", "namespace": namespace, "uid": uid}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "c.1"}, "involvedObject": about, "type": "Warning",
             "reason": "Odd", "message": "it is\nodd", "source": {"component": "tester", "host": "h"}, "count": 3,
             "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:10:00Z"}
    create(plane, event)
    row = table(plane, "events")[0]
    assert (row["TYPE"], row["REASON"], row["OBJECT"]) == ("Warning", "Odd", "configmap/c")
    assert row["MESSAGE"].startswith("it is")
    wide = table(plane, "events", "-o", "wide")[0]
    assert wide["SOURCE"] == "tester, h" and wide["COUNT"] == "3" and wide["NAME"] == "c.1"
    assert table(plane, "events.events.k8s.io")[0]["OBJECT"] == "configmap/c"
    other = plane.get("events.v1.events.k8s.io", "c.1")
    assert other["regarding"]["name"] == "c" and other["note"] == "it is\nodd" and other["deprecatedCount"] == 3
    assert "Odd" in plane.kubectl("describe", "configmap", "c")
    assert "Odd" in plane.kubectl("events", "--for=configmap/c")
    assert plane.kubectl("get", "events", "--field-selector", "type=Normal").strip() == ""
    patch(plane, "event", "c.1", {"count": 4})
    assert table(plane, "events", "-o", "wide")[0]["COUNT"] == "4"
    wrong = {**event, "metadata": {"name": "c.2", "namespace": "default"}}
    assert "does not match event.namespace" in plane.kubectl("create", "-n", "default", "-f", "-", ok=False,
                                                             stdin=json.dumps(wrong))
    plane.kubectl("delete", "event", "c.1")
    assert plane.get("events")["items"] == []


def test_environments_and_ports_may_repeat(plane, namespace):
    """As in clusters: a later variable of the same name hides an earlier one. Sandboxes, being custom, refuse it."""
    container = {"name": "main", "image": "host", "env": [{"name": n, "value": v} for n, v in ("A1", "B2", "A3")],
                 "ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}]}
    create(plane, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}})
    assert [e["name"] + e["value"] for e in plane.get("pod", "p")["spec"]["containers"][0]["env"]] == ["A1", "B2", "A3"]
    sandbox = {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "s"},
               "spec": {"podTemplate": {"spec": {"containers": [container]}}}}
    assert 'containers[0].env[2]: Duplicate value: {"name":"A"}' in create(plane, sandbox, ok=False)
    mounts = {"name": "main", "image": "host", "volumeMounts": [{"name": "v", "mountPath": "/v"}] * 2}
    refused = create(plane, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"},
                             "spec": {"containers": [mounts], "volumes": [{"name": "v", "emptyDir": {}}]}}, ok=False)
    assert "volumeMounts[1]: Duplicate value" in refused
