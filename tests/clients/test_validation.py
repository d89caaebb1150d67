"""What is wrong with objects of built-in kinds, field by field, as a Kubernetes API server has it."""
import pytest


NS = "/api/v1/namespaces/default"
NET = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
MERGE = {"Content-Type": "application/merge-patch+json"}


def causes(answer):
    return [(c["field"], c["reason"]) for c in answer["details"]["causes"]]


def pod(spec=None, **container):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "host", **container}], **(spec or {})}}


@pytest.mark.parametrize("body, field, reason", [
    (pod(image=""), "spec.containers[0].image", "Required"),
    (pod(name="C_"), "spec.containers[0].name", "Invalid"),
    (pod(env=[{"name": "a=b", "value": "c"}]), "spec.containers[0].env[0].name", "Invalid"),
    (pod(livenessProbe={}), "spec.containers[0].livenessProbe", "Required"),
    (pod(readinessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}), "spec.containers[0].readinessProbe.tcpSocket", "Forbidden"),
    (pod(lifecycle={"preStop": {}}), "spec.containers[0].lifecycle.preStop", "Required"),
    (pod({"nodeSelector": {"a b": "c"}}), "spec.nodeSelector", "Invalid"),
    (pod({"initContainers": [{"name": "c", "image": "x"}]}), "spec.initContainers[0].name", "Duplicate"),
])  # fmt: skip
def test_pods(plane, body, field, reason):
    status, answer = plane.call("POST", f"{NS}/pods?dryRun=All", body)
    assert status == 422 and causes(answer) == [(field, f"FieldValue{reason}")], answer


def test_pods_that_are_good(plane):
    probe = {"httpGet": {"port": "web", "path": "/"}}
    good = pod({"nodeSelector": {"kubernetes.io/os": "linux"}}, env=[{"name": "a.b-c", "value": "d"}], livenessProbe=probe,
               lifecycle={"postStart": {"exec": {"command": ["a"]}}, "preStop": {"sleep": {"seconds": 1}}})
    assert plane.call("POST", f"{NS}/pods?dryRun=All", good)[0] == 201
    status, answer = plane.call("POST", f"{NS}/pods?dryRun=All", pod({"runtimeClassName": "none"}))
    assert status == 403 and 'RuntimeClass "none" not found' in answer["message"]


def test_a_pod_does_not_move(plane):
    assert plane.call("POST", f"{NS}/pods", pod())[0] == 201
    status, answer = plane.call("PATCH", f"{NS}/pods/p", {"spec": {"nodeName": "elsewhere"}}, MERGE)
    assert status == 422 and causes(answer) == [("spec", "FieldValueForbidden")]


@pytest.mark.parametrize("spec, field", [
    ({"ports": [{"port": 80, "targetPort": "A_"}]}, "spec.ports[0].targetPort"),
    ({"ports": [{"port": 80}], "selector": {"a b": "c"}}, "spec.selector"),
])
def test_services(plane, spec, field):
    status, answer = plane.call("POST", f"{NS}/services", {"metadata": {"name": "s"}, "spec": spec})
    assert status == 422 and causes(answer) == [(field, "FieldValueInvalid")], answer


@pytest.mark.parametrize("kind, data, missing", [
    ("kubernetes.io/tls", {"tls.crt": ""}, ["data[tls.key]"]), ("kubernetes.io/tls", {"tls.crt": "", "tls.key": ""}, []),
    ("kubernetes.io/basic-auth", {}, ["data[username]", "data[password]"]), ("kubernetes.io/basic-auth", {"username": ""}, []),
    ("kubernetes.io/ssh-auth", {}, ["data[ssh-privatekey]"]), ("kubernetes.io/dockerconfigjson", {}, ["data[.dockerconfigjson]"]),
    ("kubernetes.io/service-account-token", {}, ["metadata.annotations[kubernetes.io/service-account.name]"]),
    ("example.com/mine", {}, []),
])
def test_types_of_secrets(plane, kind, data, missing):
    status, answer = plane.call("POST", f"{NS}/secrets?dryRun=All", {"metadata": {"name": "s"}, "type": kind, "data": data})
    assert status == (422 if missing else 201), answer
    if missing:
        assert causes(answer) == [(field, "FieldValueRequired") for field in missing]


def test_claims(plane):
    claim = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0"}}}}
    path = f"{NS}/persistentvolumeclaims"
    status, answer = plane.call("POST", path, claim)
    assert status == 422 and causes(answer) == [("spec.resources[storage]", "FieldValueInvalid")]
    claim["spec"]["resources"]["requests"]["storage"] = "1Gi"
    assert plane.call("POST", path, claim)[0] == 201
    for change in ({"accessModes": ["ReadWriteMany"]}, {"resources": {"requests": {"storage": "2Gi"}}}):
        status, answer = plane.call("PATCH", f"{path}/c", {"spec": change}, MERGE)
        assert status == 422 and causes(answer) == [("spec", "FieldValueForbidden")]
    assert plane.call("PATCH", f"{path}/c/status", {"status": {"phase": "Bound"}}, MERGE)[0] == 200
    assert plane.call("PATCH", f"{path}/c", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, MERGE)[0] == 200
    status, answer = plane.call("PATCH", f"{path}/c", {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}, MERGE)
    assert status == 422 and causes(answer)[0] == ("spec.resources.requests.storage", "FieldValueForbidden")


@pytest.mark.parametrize("spec, field", [
    ({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0"}}]}]}, "spec.ingress[0].from[0].ipBlock.cidr"),
    ({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]}, "spec.egress[0].to[0].ipBlock.except[0]"),
    ({"egress": [{"to": [{"ipBlock": {"cidr": "::/0", "except": ["x"]}}]}]}, "spec.egress[0].to[0].ipBlock.except[0]"),
    ({"egress": [{"ports": [{"port": 80, "endPort": 70}]}]}, "spec.egress[0].ports[0].endPort"),
    ({"egress": [{"ports": [{"port": 70000}]}]}, "spec.egress[0].ports[0].port"),
    ({"ingress": [{"ports": [{"port": "A_"}]}]}, "spec.ingress[0].ports[0].port"),
    ({}, None),
    ({"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32"]}}], "ports": [{"port": 1, "endPort": 9}]}]}, None),
])  # fmt: skip
def test_network_policies(plane, spec, field):
    status, answer = plane.call("POST", f"{NET}?dryRun=All", {"metadata": {"name": "n"}, "spec": spec})
    assert status == (422 if field else 201), answer
    if field:
        assert [f for f, _ in causes(answer)] == [field]
    else:
        assert answer["spec"]["podSelector"] == {}


@pytest.mark.parametrize("finalizer, code", [("mine", 422), ("example.com/mine", 201), ("orphan", 201), ("a b/c", 422)])
def test_finalizers_have_a_domain(plane, finalizer, code):
    body = {"metadata": {"name": "f", "finalizers": [finalizer]}}
    assert plane.call("POST", f"{NS}/configmaps?dryRun=All", body)[0] == code


def test_methods_of_the_wrong_path(plane):
    for method, path in (("POST", "/api/v1/configmaps"), ("DELETE", "/api/v1/configmaps"), ("PUT", f"{NS}/configmaps"), ("PATCH", f"{NS}/configmaps")):
        body = None if method == "DELETE" else {"metadata": {"name": "x"}}
        status, answer = plane.call(method, path, body, MERGE if method == "PATCH" else None)
        assert (status, answer["reason"]) == (405, "MethodNotAllowed"), (method, path)


def test_a_dry_run_answers_as_the_deletion_would(plane):
    assert plane.call("POST", f"{NS}/configmaps", {"metadata": {"name": "d"}})[0] == 201
    assert plane.call("DELETE", f"{NS}/configmaps/d?dryRun=All", None)[1]["status"] == "Success"
    assert plane.call("DELETE", f"{NS}/configmaps/d", None)[1]["status"] == "Success"
