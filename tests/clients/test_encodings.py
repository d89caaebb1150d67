"""The forms in which objects come and go: JSON, YAML, protobuf, and what is said where there is none of them."""
import json
import subprocess

import pytest
import yaml

from control_plane import ControlPlane
from test_go import build

PROTOBUF = "application/vnd.kubernetes.protobuf"
NS = "/api/v1/namespaces/default"

POD = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "rich", "labels": {"a": "b", "empty": ""}, "annotations": {"text": "line\nline\t\"ü\""}, "finalizers": ["x/y"]},
    "spec": {
        "hostname": "h", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False,
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False, "supplementalGroups": [1, 2], "sysctls": []},
        "volumes": [
            {"name": "e", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0, "items": [{"key": "k", "path": "p", "mode": 256}]}},
            {"name": "p", "projected": {"sources": [{"configMap": {"name": "c", "optional": True}},
                                                    {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
        ],
        "containers": [{
            "name": "c", "image": "host", "command": ["sh", "-c", "", "true"],
            "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "L", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}],
            "ports": [{"containerPort": 80, "protocol": "UDP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": 0.1}},
            "readinessProbe": {"httpGet": {"port": "web", "path": "/", "httpHeaders": [{"name": "X", "value": ""}]}, "initialDelaySeconds": 3},
            "livenessProbe": {"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 1},
            "lifecycle": {"preStop": {"sleep": {"seconds": 0}}},
            "volumeMounts": [{"name": "e", "mountPath": "/e", "subPath": "s"}, {"name": "m", "mountPath": "/m", "readOnly": True}],
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
        }],
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
    },
}

OBJECTS = [
    ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}),
    (f"{NS}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "AP8=", "empty": ""}, "immutable": False}),
    (f"{NS}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v\n"}, "binaryData": {"b": "gA=="}}),
    (f"{NS}/pods", POD),
    (f"{NS}/services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                        "spec": {"selector": {"a": "b"}, "ports": [{"name": "h", "port": 80, "targetPort": "web"}, {"name": "i", "port": 81, "targetPort": 8}]}}),
    (f"{NS}/events", {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "rich", "namespace": "default"},
                      "reason": "R", "message": "m", "eventTime": "2026-01-02T03:04:05.000006Z", "reportingComponent": "r", "reportingInstance": "i", "action": "a", "type": "Normal"}),
    (f"{NS}/persistentvolumeclaims", {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "p"},
                                      "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}}),
    (f"{NS}/resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "10", "count/x.y": 3}}}),
    (f"{NS}/limitranges", {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}}),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
     {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases",
     {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.123456Z"}}),
    ("/apis/policy/v1/namespaces/default/poddisruptionbudgets",
     {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "d"}, "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}}),
    ("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
     {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"}, "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}}),
    ("/apis/storage.k8s.io/v1/storageclasses", {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "sc"}, "provisioner": "p"}),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "pc"}, "value": -3}),
    ("/apis/apps/v1/namespaces/default/controllerrevisions",
     {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "cr"}, "data": {"any": [1, None]}, "revision": 2}),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
     {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
      "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
               "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                   "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"n": 1.5},
                                                             "additionalProperties": True},
                                                    "l": {"type": "array", "items": {"type": "integer", "maximum": 3, "enum": [1, 2]}, "x-kubernetes-list-type": "set"}}}}}]}}),
]


@pytest.fixture(scope="module")
def plane(holt):
    control = ControlPlane(holt)
    for path, thing in OBJECTS:
        make(control, path, thing)
    yield control
    control.close()


def read(plane, path, accept):
    """Body and media type of a GET."""
    answer = plane.open("GET", path, headers={"Accept": accept})
    return answer.read(), answer.headers["Content-Type"]


def make(plane, path, thing):
    answer = plane.open("POST", path, thing)
    assert answer.status == 201, answer.read()


class Program:
    def __init__(self, plane, path):
        self.process = subprocess.Popen([path], env={"KUBECONFIG": str(plane.kubeconfig), "HOME": str(plane.dir)},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip().split(" ", 2)


@pytest.fixture(scope="module")
def compare(plane):
    program = Program(plane, build("protobuf"))
    yield program
    program.process.stdin.close()
    assert program.process.wait(20) == 0


def test_protobuf_objects(plane, compare):
    for path, thing in OBJECTS:
        assert compare("get", f"{path}/{thing['metadata']['name']}") == ["application/json", PROTOBUF, "same"], path


def test_protobuf_lists(plane, compare):
    for path, _ in OBJECTS:
        assert compare("get", path) == ["application/json", PROTOBUF, "same"], path
    for path in ("/api/v1/nodes", "/api/v1/serviceaccounts", "/api/v1/namespaces?limit=1", f"{NS}/endpoints",
                 "/apis/events.k8s.io/v1/events", "/apis/discovery.k8s.io/v1/endpointslices", "/apis/rbac.authorization.k8s.io/v1/clusterroles"):
        assert compare("get", path) == ["application/json", PROTOBUF, "same"], path


def test_protobuf_of_a_long_list(plane, compare):
    make(plane, "/api/v1/namespaces", {"metadata": {"name": "many"}})
    for i in range(500):
        make(plane, "/api/v1/namespaces/many/configmaps", {"metadata": {"name": f"m{i}"}, "data": {"k": "v" * (i * 7)}})
    assert compare("get", "/api/v1/namespaces/many/configmaps") == ["application/json", PROTOBUF, "same"]
    assert compare("get", "/api/v1/namespaces/many/configmaps?limit=300") == ["application/json", PROTOBUF, "same"]


def test_protobuf_errors(plane, compare):
    assert compare("get", f"{NS}/configmaps/none") == ["application/json", PROTOBUF, "same"]
    assert compare("get", f"{NS}/configmaps?labelSelector=%21%21") == ["application/json", PROTOBUF, "same"]


def test_protobuf_watch(plane, compare):
    for path, _ in OBJECTS:
        assert compare("watch", f"{path}?watch=1&allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "2") == [
            "application/json", f"{PROTOBUF};stream=watch", "same"], path


def test_protobuf_post(plane, compare):
    for path, thing in OBJECTS:
        other = dict(thing, metadata=dict(thing["metadata"], name=thing["metadata"]["name"] + "2"))
        if thing["kind"] == "CustomResourceDefinition":
            continue  # its name is made of its names
        result = compare("post", path, json.dumps(other))[2]
        assert result.endswith(thing["kind"]), (path, result)
        made = json.load(plane.open("GET", f"{path}/{other['metadata']['name']}"))
        first = json.load(plane.open("GET", f"{path}/{thing['metadata']['name']}"))
        for key in ("data", "binaryData", "rules", "value", "provisioner", "revision"):
            assert made.get(key) == first.get(key), path
    assert "already exists" in compare("post", f"{NS}/configmaps", json.dumps(OBJECTS[2][1]))[2]


def test_protobuf_of_a_custom_kind(plane):
    path = "/apis/example.com/v1/namespaces/default/things"
    make(plane, path, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
    assert read(plane, f"{path}/t", f"{PROTOBUF},application/json")[1] == "application/json"
    body, media = read(plane, f"{path}/t", PROTOBUF)
    assert json.loads(body)["code"] == 406 and media == "application/json"
    body, media = read(plane, f"{path}", f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    assert json.loads(body)["kind"] == "PartialObjectMetadataList" and media == "application/json"


def test_yaml_answers(plane):
    for path, thing in OBJECTS:
        one = f"{path}/{thing['metadata']['name']}"
        for p in (one, path):
            body, media = read(plane, p, "application/yaml")
            assert media == "application/yaml"
            assert yaml.safe_load(body) == json.load(plane.open("GET", p)), p
    body, media = read(plane, "/api/v1/namespaces/none/pods", "application/yaml")
    assert yaml.safe_load(body)["items"] == [] and media == "application/yaml"
    body, media = read(plane, f"{NS}/pods/none", "application/yaml")
    assert yaml.safe_load(body)["reason"] == "NotFound" and media == "application/yaml"
    body, media = read(plane, f"{NS}/pods?watch=1", "application/yaml")
    assert json.loads(body)["code"] == 406


def test_yaml_of_a_long_list(plane):
    make(plane, "/api/v1/namespaces", {"metadata": {"name": "lines"}})
    texts = ["yes", "1e3", "null", "0x1", "2026-01-02", "a: b", "# no", "- x", " lead", "trail ", "two\nlines\n", "\ttab", "ü€😀", "'", '"', "{", "~", ".inf", ""]
    for i in range(150):
        make(plane, "/api/v1/namespaces/lines/configmaps", {"metadata": {"name": f"m{i}"}, "data": {"k": texts[i % len(texts)]}})
    body, media = read(plane, "/api/v1/namespaces/lines/configmaps", "application/yaml")
    listed = json.load(plane.open("GET", "/api/v1/namespaces/lines/configmaps"))
    assert yaml.safe_load(body) == listed and media == "application/yaml" and len(listed["items"]) == 150
    # And back again.
    text = yaml.safe_dump(dict(listed["items"][10], metadata={"name": "again"}), allow_unicode=True)
    answer = plane.open("POST", "/api/v1/namespaces/lines/configmaps", text=text, headers={"Content-Type": "application/yaml", "Accept": "application/yaml"})
    assert yaml.safe_load(answer.read())["data"] == listed["items"][10]["data"]


def test_create_everything_that_kubectl_can(plane):
    """kubectl's own generators send protobuf."""
    for words in (
        "namespace k", "configmap k --from-literal=a=b", "secret generic k --from-literal=a=b", "secret docker-registry kd --docker-username=u --docker-password=p",
        "serviceaccount k", "role k --verb=get --resource=pods", "rolebinding k --role=k --serviceaccount=default:k", "clusterrole k --verb=get --resource=pods",
        "clusterrolebinding k --clusterrole=k --user=u", "quota k --hard=pods=1000", "poddisruptionbudget k --selector=a=b --min-available=1",
        "poddisruptionbudget k2 --selector=a=b --max-unavailable=50%", "priorityclass k --value=5", "service clusterip k --tcp=80:80",
        "service nodeport kn --tcp=80", "service loadbalancer kl --tcp=80", "service externalname ke --external-name=x.example",
    ):
        assert "created" in plane.kubectl("create", *words.split()), words
    assert plane.kubectl("create", "token", "k").count(".") == 2
    for words in ("deployment k --image=host", "job k --image=host", "cronjob k --image=host --schedule=@daily", "ingress k --rule=x/=s:80"):
        assert "created" not in plane.kubectl("create", *words.split(), ok=False), words


def refs(v):
    if isinstance(v, dict):
        for k, x in v.items():
            if k == "$ref" and isinstance(x, str):
                yield x
            else:
                yield from refs(x)
    elif isinstance(v, list):
        for x in v:
            yield from refs(x)


def test_openapi_v2(plane):
    answer = plane.open("GET", "/openapi/v2", headers={"Accept": "application/json"})
    document, etag = json.load(answer), answer.headers["ETag"]
    assert document["swagger"] == "2.0"
    assert {r.removeprefix("#/definitions/") for r in refs(document)} <= set(document["definitions"])
    by_kind = {(k["group"], k["version"], k["kind"]): d for d in document["definitions"].values()
               for k in d.get("x-kubernetes-group-version-kind", [])}
    pod = by_kind["", "v1", "Pod"]
    assert pod["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert by_kind["agents.x-k8s.io", "v1beta1", "Sandbox"]["properties"]["spec"]["type"] == "object"
    assert ("example.com", "v1", "Thing") in by_kind
    create = document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"]
    assert create["parameters"][0]["schema"]["$ref"].endswith("v1.Pod") and create["responses"]["201"]
    assert "nullable" not in json.dumps(document["definitions"]["io.k8s.api.core.v1.Pod"])
    assert plane.open("GET", "/openapi/v2", headers={"Accept": "application/json", "If-None-Match": etag}).status == 304
    empty = plane.open("GET", "/openapi/v2", headers={"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"})
    assert empty.read() == b"" and "proto-openapi.spec.v2.v1.0" in empty.headers["Content-Type"]
