"""Unmodified kubectl against the real binary: what its users do all day."""
import json
import pathlib
import subprocess
import time

import pytest

from control_plane import NODE_TOKEN, USER_TOKEN

POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]},
}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"k": "1"}}
SANDBOX = {
    "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "s"},
    "spec": {"operatingMode": "Suspended",
             "podTemplate": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}},
}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                                                     "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"},
                                         {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "description": "What a widget is to be.", "properties": {
                    "size": {"type": "string", "enum": ["S", "M", "L"], "description": "How big."},
                    "replicas": {"type": "integer", "minimum": 0, "default": 1}}},
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}},
        }],
    },
}


def create(plane, *objects):
    for o in objects:
        plane.kubectl("create", "-f", "-", stdin=json.dumps(o))


def test_version_and_discovery(plane):
    assert "Server Version" in plane.kubectl("version")
    names = plane.kubectl("api-resources", "-o", "name").split()
    assert {"pods", "secrets", "sandboxes.agents.x-k8s.io", "customresourcedefinitions.apiextensions.k8s.io"} <= set(names)
    assert "v1" in plane.kubectl("api-versions").split()
    assert plane.kubectl("get", "--raw", "/readyz") == "ok"


def test_get_outputs(plane, namespace):
    create(plane, POD, MAP)
    assert plane.kubectl("get", "pods").split()[5:9] == ["p", "0/1", "Pending", "0"]
    wide = plane.kubectl("get", "pods", "-o", "wide")
    assert "node1" in wide and "NOMINATED NODE" in wide
    assert "kind: Pod" in plane.kubectl("get", "pod", "p", "-o", "yaml")
    assert plane.kubectl("get", "pod", "p", "-o", "name") == "pod/p\n"
    assert plane.kubectl("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}") == "node1"
    assert "app=x" in plane.kubectl("get", "pods", "--show-labels")
    assert "p" in plane.kubectl("get", "pods", "--sort-by=.metadata.name")
    assert "No resources found" in plane.kubectl("get", "pods", "-l", "app=y", "-o", "name") or \
        plane.kubectl("get", "pods", "-l", "app=y", "-o", "name") == ""
    assert plane.kubectl("get", "pods", "-l", "app in (x,z)", "-o", "name") == "pod/p\n"
    assert plane.kubectl("get", "pods", "--field-selector", "spec.nodeName=node1", "-o", "name") == "pod/p\n"
    assert plane.kubectl("get", "pods", "--field-selector", "status.phase!=Pending", "-o", "name") == ""
    assert "field label not supported" in plane.kubectl("get", "pods", "--field-selector", "spec.x=y", ok=False)
    assert "pod/p" in plane.kubectl("get", "all")
    assert namespace in plane.kubectl("get", "pods", "-A")
    assert "NotFound" in plane.kubectl("get", "pod", "nope", ok=False)
    assert "the server doesn't have a resource type" in plane.kubectl("get", "nonsense", ok=False)


def test_pages(plane, namespace):
    for i in range(7):
        create(plane, dict(MAP, metadata={"name": f"m{i}"}))
    assert len(plane.get("configmaps", "--chunk-size=3")["items"]) == 7
    first = json.loads(plane.kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/configmaps?limit=3"))
    assert len(first["items"]) == 3 and first["metadata"]["remainingItemCount"] == 4
    plane.kubectl("delete", "configmap", "m5")
    create(plane, dict(MAP, metadata={"name": "m9"}))
    rest = json.loads(plane.kubectl(
        "get", "--raw", f"/api/v1/namespaces/{namespace}/configmaps?limit=10&continue={first['metadata']['continue']}"))
    # The pages of one list show one moment.
    assert [i["metadata"]["name"] for i in rest["items"]] == ["m3", "m4", "m5", "m6"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_create_refusals(plane, namespace):
    create(plane, MAP)
    assert "AlreadyExists" in plane.kubectl("create", "-f", "-", stdin=json.dumps(MAP), ok=False)
    bad = dict(MAP, metadata={"name": "Bad_Name"})
    assert "RFC 1123 subdomain" in plane.kubectl("create", "-f", "-", stdin=json.dumps(bad), ok=False)
    elsewhere = dict(MAP, metadata={"name": "m", "namespace": "nowhere"})
    assert 'namespaces "nowhere" not found' in plane.kubectl("create", "-f", "-", stdin=json.dumps(elsewhere), ok=False)


def test_dry_run(plane, namespace):
    out = plane.kubectl("create", "-f", "-", "--dry-run=server", "-o", "name", stdin=json.dumps(MAP))
    assert out == "configmap/m\n"
    assert plane.kubectl("get", "configmaps", "-o", "name") == ""


def test_imperative_create(plane, namespace):
    plane.kubectl("create", "configmap", "c", "--from-literal=a=b")
    plane.kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    plane.kubectl("create", "serviceaccount", "sa")
    plane.kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080")
    plane.kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    plane.kubectl("run", "p", "--image=busybox", "--env=A=B", "--port=80")
    assert plane.get("configmap", "c")["data"] == {"a": "b"}
    assert plane.get("secret", "s")["data"] == {"a": "Yg=="}
    assert plane.get("service", "svc")["spec"]["ports"][0]["targetPort"] == 8080
    assert plane.get("role", "r")["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    assert plane.get("pod", "p")["spec"]["containers"][0]["env"] == [{"name": "A", "value": "B"}]


def test_patches(plane, namespace):
    create(plane, POD, SANDBOX)
    plane.kubectl("patch", "pod", "p", "-p", '{"spec":{"containers":[{"name":"c","image":"other"}]}}')
    assert plane.get("pod", "p")["spec"]["containers"][0]["image"] == "other"
    plane.kubectl("patch", "pod", "p", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/x","value":"y"}]')
    plane.kubectl("patch", "sandbox", "s", "--type=merge", "-p", '{"spec":{"shutdownTime":"2030-01-01T00:00:00Z"}}')
    assert plane.get("sandbox", "s")["spec"]["shutdownTime"] == "2030-01-01T00:00:00Z"
    assert plane.get("pod", "p")["metadata"]["labels"] == {"app": "x", "x": "y"}
    assert "The request is invalid" in plane.kubectl(
        "patch", "pod", "p", "--type=json", "-p", '[{"op":"remove","path":"/spec/nope"}]', ok=False)
    assert "pod updates may not change fields" in plane.kubectl(
        "patch", "pod", "p", "-p", '{"spec":{"hostNetwork":true}}', ok=False)


def test_label_and_annotate(plane, namespace):
    create(plane, MAP)
    plane.kubectl("label", "configmap", "m", "x=y", "a-")
    plane.kubectl("annotate", "configmap", "m", "n=1")
    plane.kubectl("annotate", "configmap", "m", "n=2", "--overwrite")
    metadata = plane.get("configmap", "m")["metadata"]
    assert metadata["labels"] == {"x": "y"} and metadata["annotations"] == {"n": "2"}


def test_client_side_apply(plane, namespace):
    def apply(o):
        return plane.kubectl("apply", "-f", "-", stdin=json.dumps(o))
    assert "created" in apply(MAP)
    assert "unchanged" in apply(MAP)
    assert "configured" in apply(dict(MAP, data={"j": "2"}))
    assert plane.get("configmap", "m")["data"] == {"j": "2"}
    assert "created" in apply(SANDBOX)
    assert "unchanged" in apply(SANDBOX)
    both = {"apiVersion": "v1", "kind": "List", "items": [MAP, SANDBOX]}
    assert "configured" in apply(both)
    assert plane.kubectl("diff", "-f", "-", stdin=json.dumps(MAP)) == ""


def test_server_side_apply(plane, namespace):
    plane.needs_kubectl(21)
    def apply(o, *args, ok=True):
        return plane.kubectl("apply", "--server-side", "-f", "-", *args, stdin=json.dumps(o), ok=ok)
    apply(MAP)
    conflict = apply(dict(MAP, data={"k": "2"}), "--field-manager=other", ok=False)
    assert 'conflict with "kubectl": .data.k' in conflict
    apply(dict(MAP, data={"k": "2"}), "--field-manager=other", "--force-conflicts")
    apply({**MAP, "data": {}})
    assert plane.get("configmap", "m")["data"] == {"k": "2"}
    apply(SANDBOX)
    managers = {e["manager"] for e in plane.get("sandbox", "s", "--show-managed-fields")["metadata"]["managedFields"]}
    assert "kubectl" in managers


def test_migration_to_server_side_apply(plane, namespace):
    plane.needs_kubectl(26)
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(MAP))
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(dict(MAP, data={"k": "2"})))
    assert plane.get("configmap", "m")["data"] == {"k": "2"}


def test_edit_and_replace(plane, namespace):
    create(plane, MAP)
    env_edit = ["env", "KUBE_EDITOR=sed -i s/k:/z:/"]
    subprocess.run(
        [*env_edit, f"KUBECONFIG={plane.kubeconfig}", f"KUBECACHEDIR={plane.dir}/cache", "kubectl", "edit", "configmap", "m"],
        check=True, capture_output=True)
    assert plane.get("configmap", "m")["data"] == {"z": "1"}
    plane.kubectl("replace", "-f", "-", stdin=json.dumps(dict(MAP, data={"r": "1"})))
    assert plane.get("configmap", "m")["data"] == {"r": "1"}
    stale = plane.get("configmap", "m")
    plane.kubectl("label", "configmap", "m", "new=1")
    assert "the object has been modified" in plane.kubectl("replace", "-f", "-", stdin=json.dumps(stale), ok=False)


def test_wait_and_watch(plane, namespace):
    plane.needs_kubectl(23)
    create(plane, SANDBOX)
    watch = subprocess.Popen(
        ["kubectl", "--kubeconfig", plane.kubeconfig, "get", "configmaps", "-w", "-o", "name"],
        stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    create(plane, MAP)
    assert watch.stdout.readline() == "configmap/m\n"
    plane.kubectl("delete", "configmap", "m")
    assert watch.stdout.readline() == "configmap/m\n"
    watch.kill()
    watch.wait()
    waiting = subprocess.Popen(
        ["kubectl", "--kubeconfig", plane.kubeconfig, "wait", "--for=jsonpath={.spec.operatingMode}=Running",
         "sandbox/s", "--timeout=10s"], stdout=subprocess.PIPE, text=True)
    plane.kubectl("patch", "sandbox", "s", "--type=merge", "-p", '{"spec":{"operatingMode":"Running"}}')
    assert waiting.communicate()[0] == "sandbox.agents.x-k8s.io/s condition met\n"


def test_pod_deletion_takes_the_node(plane, namespace):
    create(plane, POD)
    deletion = subprocess.Popen(["kubectl", "--kubeconfig", plane.kubeconfig, "delete", "pod", "p"],
                                stdout=subprocess.PIPE, text=True)
    plane.wait_until(lambda: "Terminating" in plane.kubectl("get", "pods"))
    assert deletion.poll() is None
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    assert plane.open("DELETE", path, {"gracePeriodSeconds": 0}, token=NODE_TOKEN).status == 200
    assert "deleted" in deletion.communicate(timeout=10)[0]
    assert plane.open("GET", path).status == 404


def test_owners(plane, namespace):
    create(plane, MAP)
    owner = plane.get("configmap", "m")["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": owner, "blockOwnerDeletion": True}
    create(plane, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "child", "ownerReferences": [reference]}})
    plane.kubectl("delete", "configmap", "m", "--cascade=orphan")
    assert "ownerReferences" not in plane.get("secret", "child")["metadata"]
    create(plane, MAP)
    reference["uid"] = plane.get("configmap", "m")["metadata"]["uid"]
    create(plane, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "child2", "ownerReferences": [reference]}})
    plane.kubectl("delete", "configmap", "m", "--cascade=foreground")
    assert plane.kubectl("get", "secrets", "-o", "name") == "secret/child\n"


def test_namespaces(plane):
    plane.kubectl("create", "namespace", "gone")
    plane.kubectl("create", "configmap", "-n", "gone", "c")
    assert "serviceaccount/default" in plane.kubectl("get", "serviceaccounts", "-n", "gone", "-o", "name")
    plane.kubectl("delete", "namespace", "gone")
    assert "NotFound" in plane.kubectl("get", "namespace", "gone", ok=False)
    assert "may not be deleted" in plane.kubectl("delete", "namespace", "default", ok=False)


def test_events(plane, namespace):
    create(plane, POD)
    uid = plane.get("pod", "p")["metadata"]["uid"]
    involved = {"kind": "Pod", "apiVersion": "v1", "name": "p", "namespace": namespace, "uid": uid}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    create(plane, {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.1"}, "involvedObject": involved,
                   "reason": "Pulled", "message": "it was pulled", "type": "Normal", "source": {"component": "node"},
                   "firstTimestamp": now, "lastTimestamp": now, "count": 1})
    assert "it was pulled" in plane.kubectl("describe", "pod", "p")
    assert "Pulled" in plane.kubectl("get", "events")
    assert "it was pulled" in plane.kubectl("get", "events.events.k8s.io", "-o", "yaml")
    plane.needs_kubectl(26)
    assert "it was pulled" in plane.kubectl("events", "--for", "pod/p")


def test_describe(plane, namespace):
    create(plane, POD, MAP, SANDBOX, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"},
                                      "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}})
    assert "QoS Class:" in plane.kubectl("describe", "pod", "p")
    assert "Guaranteed" in plane.kubectl("describe", "pod", "p")
    for what in ("configmap/m", "sandbox/s", "service/svc", "serviceaccount/default", f"namespace/{namespace}"):
        assert "Name:" in plane.kubectl("describe", what)


def test_explain(plane):
    for what in ("pod.spec.containers", "sandbox.spec", "configmap.data", "service.spec.ports", "crd.spec"):
        out = plane.kubectl("explain", what)
        assert "DESCRIPTION" in out and "FIELD" in out
    assert "podTemplate" in plane.kubectl("explain", "sandbox", "--recursive")


def test_custom_resources(plane, namespace):
    create(plane, WIDGETS)
    plane.kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=5s")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": "M"}}
    create(plane, widget)
    assert plane.kubectl("get", "wd").split()[:3] == ["NAME", "SIZE", "AGE"]
    assert "How big." in plane.kubectl("explain", "widget.spec.size")
    plane.kubectl("scale", "widget", "w", "--replicas=3")
    w = plane.get("widget", "w")
    assert "spec.replicas in body should be greater than or equal to 0" in plane.kubectl(
        "patch", "widget", "w", "--type=merge", "-p", '{"spec":{"replicas":-1}}', ok=False)
    assert w["spec"]["replicas"] == 3 and w["metadata"]["generation"] == 2
    if "--subresource" in plane.kubectl("patch", "--help"):
        plane.kubectl("patch", "widget", "w", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":3}}')
        assert plane.get("widget", "w")["status"] == {"replicas": 3}
    plane.kubectl("delete", "crd", "widgets.example.com")
    plane.kubectl("get", "widgets", ok=False)


def test_defaults(plane, namespace):
    create(plane, POD)
    spec = plane.get("pod", "p")["spec"]
    assert spec["restartPolicy"] == "Always" and spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30 and spec["securityContext"] == {}
    assert spec["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    create(plane, SANDBOX)
    assert "restartPolicy" not in plane.get("sandbox", "s")["spec"]["podTemplate"]["spec"]


def test_unknown_fields(plane, namespace):
    pod = json.loads(json.dumps(POD))
    pod["spec"]["containers"][0]["imagee"] = "typo"
    refused = plane.kubectl("create", "-f", "-", stdin=json.dumps(pod), ok=False)
    assert 'strict decoding error: unknown field "spec.containers[0].imagee"' in refused
    path = f"/api/v1/namespaces/{namespace}/pods"
    warned = plane.open("POST", path, pod)
    assert warned.status == 201
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.containers[0].imagee\\""'
    assert "imagee" not in json.load(warned)["spec"]["containers"][0]
    assert plane.open("POST", path + "?fieldValidation=Ignore", dict(pod, metadata={"name": "q"})).headers["Warning"] is None
    assert plane.open("POST", path + "?fieldValidation=Nonsense", pod).status == 422
    create(plane, MAP)
    patch = plane.open("PATCH", f"/api/v1/namespaces/{namespace}/configmaps/m?fieldValidation=Strict", {"nope": 1},
                       headers={"Content-Type": "application/merge-patch+json"})
    assert patch.status == 422 and 'strict decoding error: unknown field "nope"' in json.load(patch)["message"]
    applied = plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps({**MAP, "nope": 1}), ok=False)
    assert "Kind=ConfigMap): .nope: field not declared in schema" in applied


def test_validation(plane, namespace):
    refused = plane.kubectl("create", "-f", "-", ok=False, stdin=json.dumps(
        {**SANDBOX, "spec": {"operatingMode": "Flying", "podTemplate": {"spec": {"containers": []}}}}))
    assert 'Unsupported value: "Flying": supported values: "Running", "Suspended"' in refused
    assert "spec.containers: Required value" in plane.kubectl(
        "create", "-f", "-", ok=False, stdin=json.dumps({**POD, "spec": {"containers": []}}))
    assert "must be of type" in plane.kubectl(
        "create", "-f", "-", "--validate=false", ok=False, stdin=json.dumps({**MAP, "data": {"a": 1}}))
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                                                      "resources": {"requests": {"storage": "1Gi"}}}}]
    create(plane, {**SANDBOX, "spec": {**SANDBOX["spec"], "volumeClaimTemplates": claims}})
    assert "volumeClaimTemplates is immutable" in plane.kubectl(
        "patch", "sandbox", "s", "--type=json", "-p", '[{"op":"remove","path":"/spec/volumeClaimTemplates"}]', ok=False)


def test_rules(plane, namespace):
    """x-kubernetes-validations of a custom kind, and definitions whose rules cannot work."""
    gadgets = json.loads(json.dumps(WIDGETS).replace("widget", "gadget").replace("Widget", "Gadget").replace("wd", "gg"))
    spec = gadgets["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["hosts"] = {"type": "array", "maxItems": 10, "items": {"type": "string"}}
    spec["x-kubernetes-validations"] = [
        {"rule": "!has(self.hosts) || self.hosts.all(h, h.matches('^[a-z.]+$') && h.size() <= 20)",
         "messageExpression": "'bad hosts: ' + self.hosts.filter(h, !h.matches('^[a-z.]+$')).join(', ')"},
        {"rule": "self.size == oldSelf.size", "message": "size is immutable", "fieldPath": ".size",
         "reason": "FieldValueForbidden"},
    ]
    gadgets["spec"]["versions"][0]["additionalPrinterColumns"] = []
    broken = json.loads(json.dumps(gadgets))
    schema = broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["x-kubernetes-validations"][1]["rule"] = "self.colour == 'red'"
    schema["properties"]["replicas"]["default"] = "one"
    said = plane.kubectl("create", "-f", "-", stdin=json.dumps(broken), ok=False)
    assert "undefined field 'colour'" in said
    assert 'properties[replicas].default: Invalid value: "string"' in said

    create(plane, gadgets)
    plane.kubectl("wait", "--for=condition=Established", "crd/gadgets.example.com")
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"},
              "spec": {"size": "S", "hosts": ["a.b", "A", "-"]}}
    said = plane.kubectl("create", "-f", "-", stdin=json.dumps(gadget), ok=False)
    assert 'The Gadget "g" is invalid: spec: Invalid value: "object": bad hosts: A, -' in said
    gadget["spec"]["hosts"] = ["a.b"]
    create(plane, gadget)
    said = plane.kubectl("patch", "gadget", "g", "--type=merge", "-p", '{"spec":{"size":"M"}}', ok=False)
    assert 'The Gadget "g" is invalid: spec.size: Forbidden: size is immutable' in said
    plane.kubectl("patch", "gadget", "g", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    plane.kubectl("delete", "crd", "gadgets.example.com")


def test_claim_templates_are_immutable(plane, namespace):
    claims = [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
                                                   "resources": {"requests": {"storage": "1Gi"}}}}]
    sandbox = json.loads(json.dumps(SANDBOX))
    sandbox["spec"]["volumeClaimTemplates"] = claims
    create(plane, sandbox)
    for change in ('[{"op":"remove","path":"/spec/volumeClaimTemplates"}]',
                   '[{"op":"replace","path":"/spec/volumeClaimTemplates","value":[]}]',
                   '[{"op":"replace","path":"/spec/volumeClaimTemplates/0/metadata/name","value":"w"}]'):
        said = plane.kubectl("patch", "sandbox", "s", "--type=json", "-p", change, ok=False)
        assert 'The Sandbox "s" is invalid: spec: Invalid value: "object": volumeClaimTemplates is immutable' in said
    plane.kubectl("annotate", "sandbox", "s", "a=b")


def test_definitions_for_clusters_are_valid(plane):
    for path in sorted((pathlib.Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml")):
        said = plane.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", str(path))
        assert "serverside-applied" in said, path


def test_who_may_what(plane):
    def code(method, path, token):
        return plane.open(method, path, token=token).status
    assert code("GET", "/api/v1/pods", None) == 401
    assert code("GET", "/nonsense", "wrong") == 401
    assert code("GET", "/healthz", None) == 200
    assert code("GET", "/apis", USER_TOKEN) == 200
    refused = plane.open("GET", "/api/v1/namespaces/default/secrets/x", token=USER_TOKEN)
    assert refused.status == 403
    assert json.load(refused)["message"] == \
        'secrets "x" is forbidden: User "alice" cannot get resource "secrets" in API group "" in the namespace "default"'
    assert code("GET", "/api/v1/pods", NODE_TOKEN) == 200
    assert code("DELETE", "/api/v1/namespaces/default/secrets/x", NODE_TOKEN) == 403


def test_reviews(plane):
    assert plane.kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert plane.kubectl("auth", "can-i", "create", "pods", "--as=alice", ok=False) == ""
    assert 'User "alice" cannot list' in plane.kubectl("get", "pods", "--as=alice", ok=False)
    assert "p" not in plane.kubectl("get", "pods", "-o", "name", "--as=system:node:n", "--as-group=system:nodes")
    impersonated = plane.open("GET", "/api/v1/pods", token=NODE_TOKEN, headers={"Impersonate-User": "admin"})
    assert impersonated.status == 403


def test_watch_on_the_wire(plane, namespace):
    path = f"/api/v1/namespaces/{namespace}/pods"
    listed = json.load(plane.open("GET", path))
    create(plane, POD)
    with plane.open("GET", f"{path}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}&timeoutSeconds=2"
                           "&allowWatchBookmarks=true") as stream:
        events = [json.loads(line) for line in stream]
    assert [e["type"] for e in events] == ["ADDED", "BOOKMARK"]
    assert events[0]["object"]["kind"] == "Pod"
    with plane.open("GET", f"{path}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                           "&allowWatchBookmarks=true&timeoutSeconds=1") as stream:
        first, second = json.loads(stream.readline()), json.loads(stream.readline())
    assert first["type"] == "ADDED"
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert plane.open("GET", f"{path}?watch=1&sendInitialEvents=true").status == 422
    assert plane.open("GET", f"{path}?watch=1&resourceVersion=99999999").status == 504
    table = json.load(plane.open("GET", path, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}))
    assert table["kind"] == "Table" and table["rows"][0]["cells"][0] == "p"
    partial = json.load(plane.open("GET", path, headers={
        "Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}))
    assert partial["items"][0].keys() == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize("kill", [False, True])
def test_watches_go_on_after_a_restart(plane, namespace, kill):
    create(plane, MAP)
    plane.kubectl("create", "-f", "-", stdin=json.dumps(POD))
    version = plane.get("configmap", "m")["metadata"]["resourceVersion"]
    plane.kubectl("label", "pod", "p", "n=1")
    plane.stop(kill=kill)
    plane.start()
    assert plane.get("configmap", "m")["metadata"]["resourceVersion"] == version
    with plane.open("GET", f"/api/v1/namespaces/{namespace}/pods?watch=1&resourceVersion={version}&timeoutSeconds=1") as s:
        events = [json.loads(line) for line in s]
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED"]
