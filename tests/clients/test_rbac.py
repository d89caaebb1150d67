"""Who may do what, through unmodified kubectl with the tokens of users: roles, bindings, and ways around them."""
import json

import pytest

from control_plane import User

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def alice(plane):
    """With nothing but what everybody has; the namespaces a and b are empty."""
    yield User(plane)
    for binding in plane.get("clusterrolebindings")["items"]:
        if binding["metadata"]["name"].startswith("test"):
            plane.kubectl("delete", "clusterrolebinding", binding["metadata"]["name"])
    for role in plane.get("clusterroles")["items"]:
        if role["metadata"]["name"].startswith("test"):
            plane.kubectl("delete", "clusterrole", role["metadata"]["name"])
    for kind in "rolebindings", "roles", "configmaps", "secrets":
        plane.kubectl("delete", kind, "--all", "-n", "default")


def grant(plane, role, kind="clusterrole", user="alice", ns="default"):
    plane.kubectl("create", "rolebinding", f"test-{role}".replace(":", "-"), f"--{kind}={role}", f"--user={user}", "-n", ns)


def rules(name, *rules, kind="Role", **more):
    metadata = {"name": name} if kind == "ClusterRole" else {"name": name, "namespace": "default"}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules), **more}


def rule(resources, verbs, group="", **more):
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def binding(name, role, kind="ClusterRole", user="alice", cluster=False, ref=None):
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding" if cluster else "RoleBinding",
            "metadata": {"name": name} if cluster else {"name": name, "namespace": "default"},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}]}


def test_nothing_is_given(alice):
    assert alice.refused("get", "pods").strip() == (
        'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods" in API group "" in '
        'the namespace "default"')
    assert alice.refused("get", "nodes").strip() == (
        'Error from server (Forbidden): nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" '
        'at the cluster scope')
    status, body = alice.call("GET", "/metrics")
    assert (status, body["message"]) == (403, 'forbidden: User "alice" cannot get path "/metrics"')
    assert "agents.x-k8s.io/v1beta1" in alice.ok("api-versions")
    status, body = alice.call("GET", "/api/v1/namespaces/default/pods/p/log")
    assert body["message"] == ('pods "p" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in '
                               'the namespace "default"')
    assert body["details"] == {"name": "p", "kind": "pods"}


def test_default_roles(plane, alice):
    for name in "cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user":
        assert plane.get("clusterrole", name)["rules"]
    grant(plane, "view")
    alice.ok("get", "pods,services,configmaps,sandboxes,pvc,serviceaccounts")
    assert "cannot list" in alice.refused("get", "secrets")
    assert "cannot list" in alice.refused("get", "roles")
    assert 'cannot list resource "pods" in API group "" in the namespace "kube-system"' in alice.refused(
        "get", "pods", "-n", "kube-system")
    assert "at the cluster scope" in alice.refused("get", "pods", "-A")
    assert "cannot create" in alice.refused("create", "configmap", "x")
    grant(plane, "edit")
    alice.ok("create", "configmap", "x")
    alice.ok("create", "secret", "generic", "s")
    assert "cannot create" in alice.refused("create", "role", "r", "--verb=get", "--resource=pods")
    grant(plane, "admin")
    alice.ok("create", "role", "r", "--verb=get", "--resource=pods")
    alice.ok("create", "rolebinding", "more", "--clusterrole=edit", "--user=bob")
    assert "at the cluster scope" in alice.refused("get", "clusterroles")
    plane.kubectl("delete", "rolebinding", "--all")
    assert "forbidden" in alice.refused("get", "configmaps")


def test_names(plane, alice):
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("one", rule("configmaps", "get list watch delete", resourceNames=["mine"]))))
    grant(plane, "one", kind="role")
    for name in "mine", "other":
        plane.kubectl("create", "configmap", name)
    alice.ok("get", "configmap", "mine")
    assert 'configmaps "other" is forbidden' in alice.refused("get", "configmap", "other")
    assert "cannot list" in alice.refused("get", "configmaps")
    shown = json.loads(alice.ok("get", "configmaps", "--field-selector=metadata.name=mine", "-o", "json"))
    assert [i["metadata"]["name"] for i in shown["items"]] == ["mine"]
    for selector in "metadata.name=other", "metadata.name!=mine", "metadata.name=other,metadata.name=mine":
        assert "cannot list" in alice.refused("get", "configmaps", "--field-selector", selector)
    both = json.loads(alice.ok("get", "configmaps", "--field-selector=metadata.name=mine,metadata.name=other", "-o",
                               "json"))
    assert both["items"] == []
    # The first of two parameters counts, for the right and for the list.
    status, body = alice.call("GET", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dmine&"
                                     "fieldSelector=metadata.name%3Dother")
    assert status == 403 or [i["metadata"]["name"] for i in body["items"]] == ["mine"]
    status, body = alice.call("DELETE", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dmine")
    assert status == 403 and "cannot deletecollection" in body["message"]


def test_subresources(plane, alice):
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("pods", rule("pods", "*"), rule("*/scale", "get", "agents.x-k8s.io"))))
    grant(plane, "pods", kind="role")
    pods = "/api/v1/namespaces/default/pods/p"
    for path, what in [("/exec?command=id", "exec"), ("/log", "log"), ("/exec/?command=id", "exec"), ("//log", "log"),
                       ("/proxy/index.html", "proxy"), ("/log/x", "log"), ("/%6cog", "log"), ("/status", "status")]:
        status, body = alice.call("GET", pods + path)
        assert status == 403 and f'resource "pods/{what}"' in body["message"], path
    assert alice.call("GET", pods)[0] == 404
    assert alice.call("GET", pods + "%2Flog")[0] == 404
    assert alice.call("POST", pods + "/eviction", {})[0] == 403
    assert alice.call("PATCH", pods + "/ephemeralcontainers", {})[0] == 403
    sandboxes = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/s"
    assert alice.call("GET", sandboxes + "/scale")[0] == 404
    assert alice.call("GET", sandboxes + "/status")[0] == 403
    assert alice.call("GET", sandboxes)[0] == 403


def test_paths(plane, alice):
    """Rights in one namespace, asked for with paths that could be read otherwise."""
    grant(plane, "view")
    good = "/api/v1/namespaces/default/configmaps"
    assert alice.call("GET", good)[0] == 200
    for path in [
        "/api/v1/configmaps", "/api/v1/namespaces//configmaps", "/api/v1/watch/configmaps",
        "/api/v1/namespaces/kube-system/configmaps", "/api/v1/namespaces/default/../kube-system/configmaps",
        "/api/v1/namespaces/default%2F..%2Fkube-system/configmaps", "/api/v1/namespaces/%2e%2e/configmaps",
        "/api/v1/namespaces/default/configmaps/../../kube-system/configmaps/x",
        "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/configmaps/../secrets",
        "/api/v1/namespaces/default/Secrets", "/api/v1/namespaces/default/secrets/", "//api/v1/namespaces/default/secrets",
        "/api//v1/namespaces/default/secrets/x", "/api/v1/namespaces/default/%73ecrets",
        "/api/v1/watch/namespaces/default/secrets", "/healthz/../metrics", "/api/../metrics", "/apis/%2e%2e/metrics",
        "/api/v1/namespaces/default/configmaps%2Fx%2F..%2F..%2Fsecrets", "/api/v1/namespaces/default/configmaps%00/x",
    ]:
        status, body = alice.call("GET", path)
        assert status in (400, 403, 404), path
        assert body["kind"] == "Status", path
    status, body = alice.call("DELETE", good)
    assert status == 403 and "cannot deletecollection" in body["message"]
    for method, verb in [("POST", "create"), ("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete")]:
        path = good if method == "POST" else good + "/x"
        status, body = alice.call(method, path, {}, headers={"X-HTTP-Method-Override": "GET"})
        assert status == 403 and f"cannot {verb}" in body["message"]


def test_escalation_by_roles(plane, alice):
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("roles", rule("roles rolebindings", "get list create update patch", RBAC), rule("configmaps", "get"))))
    grant(plane, "roles", kind="role")
    text = alice.refused("create", "-f", "-", stdin=json.dumps(rules("more", rule("secrets", "get"))))
    assert ('roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" (groups=["dev" "system:authenticated"]) '
            'is attempting to grant RBAC permissions not currently held:\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}') in text
    for bad in [rule("*", "get"), rule("configmaps", "*"), rule("configmaps", "get", "*"), rule("configmaps/x", "get"),
                rule("roles", "escalate", RBAC), rule("clusterroles", "bind", RBAC), rule("users", "impersonate")]:
        assert "not currently held" in alice.refused("create", "-f", "-", stdin=json.dumps(rules("more", bad)))
    less = rules("less", rule("configmaps", "get", resourceNames=["x"]))
    alice.ok("create", "-f", "-", stdin=json.dumps(less))
    path = f"/apis/{RBAC}/v1/namespaces/default/roles/less"
    more = rules("less", rule("configmaps", "get delete"))
    assert alice.call("PUT", path, more)[0] == 403
    assert alice.call("PATCH", path, {"rules": more["rules"]},
                      headers={"Content-Type": "application/merge-patch+json"})[0] == 403
    assert alice.call("PATCH", path, [{"op": "replace", "path": "/rules/0/verbs", "value": ["*"]}],
                      headers={"Content-Type": "application/json-patch+json"})[0] == 403
    assert alice.call("PATCH", path + "?fieldManager=x&force=true", more,
                      headers={"Content-Type": "application/apply-patch+yaml"})[0] == 403
    assert alice.call("PUT", path + "?dryRun=All", more)[0] == 403
    assert alice.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}},
                      headers={"Content-Type": "application/merge-patch+json"})[0] == 200
    # Who may escalate may.
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("esc", rule("roles", "escalate", RBAC))))
    grant(plane, "esc", kind="role")
    assert alice.call("PUT", path, more)[0] == 200


def test_escalation_by_binding(plane, alice):
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("test-binder", rule("rolebindings clusterrolebindings", "get create update patch", RBAC),
        kind="ClusterRole")))
    plane.kubectl("create", "clusterrolebinding", "test-binder", "--clusterrole=test-binder", "--user=alice")
    for cluster in False, True:
        text = alice.refused("create", "-f", "-", stdin=json.dumps(binding("test-own", "cluster-admin", cluster=cluster)))
        assert "not currently held" in text and '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}' in text
    # To oneself, to others, to a ServiceAccount: all the same.
    assert "not currently held" in alice.refused("create", "rolebinding", "x", "--clusterrole=view",
                                                 "--serviceaccount=default:default")
    assert 'clusterroles.rbac.authorization.k8s.io "none" not found' in alice.refused("create", "rolebinding", "x", "--clusterrole=none", "--user=bob")
    # What is held may be given on; the role of a binding stays, its subjects are checked when they change.
    alice.ok("create", "clusterrolebinding", "test-pass", "--clusterrole=test-binder", "--user=bob")
    plane.kubectl("create", "clusterrolebinding", "test-admin", "--clusterrole=cluster-admin", "--user=carol")
    path = f"/apis/{RBAC}/v1/clusterrolebindings/test-admin"
    assert alice.call("PUT", path, binding("test-admin", "cluster-admin", cluster=True))[0] == 403
    assert alice.call("PATCH", path, {"subjects": [{"kind": "User", "name": "alice", "apiGroup": RBAC}]},
                      headers={"Content-Type": "application/merge-patch+json"})[0] == 403
    path = f"/apis/{RBAC}/v1/clusterrolebindings/test-pass"
    assert alice.call("PUT", path, binding("test-pass", "cluster-admin", cluster=True))[0] == 403
    # "bind" lets one role be given.
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("test-bind", rule("clusterroles", "bind", RBAC, resourceNames=["view"]), kind="ClusterRole")))
    plane.kubectl("create", "clusterrolebinding", "test-bind", "--clusterrole=test-bind", "--user=alice")
    alice.ok("create", "rolebinding", "x", "--clusterrole=view", "--user=alice")
    assert "not currently held" in alice.refused("create", "rolebinding", "y", "--clusterrole=edit", "--user=alice")
    alice.ok("get", "pods")


def test_role_ref_is_immutable(plane, alice):
    grant(plane, "view")
    path = f"/apis/{RBAC}/v1/namespaces/default/rolebindings/test-view"
    answer = plane.open("PUT", path, binding("test-view", "edit"))
    body = json.loads(answer.read())
    assert answer.status == 422
    assert body["message"] == (
        'RoleBinding.rbac.authorization.k8s.io "test-view" is invalid: roleRef: Invalid value: rbac.RoleRef{APIGroup:'
        '"rbac.authorization.k8s.io", Kind:"ClusterRole", Name:"edit"}: cannot change roleRef')


def test_put_and_apply_need_create(plane, alice):
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("writer", rule("roles", "get update patch", RBAC), rule("configmaps sandboxes", "get update patch"),
        rule("leases", "get update patch", "coordination.k8s.io"))))
    grant(plane, "writer", kind="role")
    role = rules("new", rule("configmaps", "get"))
    path = f"/apis/{RBAC}/v1/namespaces/default/roles/new"
    expected = ('roles.rbac.authorization.k8s.io "new" is forbidden: User "alice" cannot create resource "roles" in API '
                'group "rbac.authorization.k8s.io" in the namespace "default"')
    status, body = alice.call("PUT", path, role)
    assert (status, body["message"]) == (403, expected)
    apply = {"Content-Type": "application/apply-patch+yaml"}
    status, body = alice.call("PATCH", path + "?fieldManager=x", role, headers=apply)
    assert (status, body["message"]) == (403, expected)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
    path = "/api/v1/namespaces/default/configmaps/new?fieldManager=x"
    assert alice.call("PATCH", path, config, headers=apply)[0] == 403
    plane.kubectl("create", "configmap", "new")
    assert alice.call("PATCH", path, {**config, "data": {"a": "b"}}, headers=apply)[0] == 200
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    assert alice.call("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", lease)[0] == 403


def test_aggregation(plane, alice):
    grant(plane, "view")
    assert "cannot list" in alice.refused("get", "leases.coordination.k8s.io")
    role = rules("test-more", rule("leases", "list", "coordination.k8s.io"), kind="ClusterRole")
    role["metadata"]["labels"] = {f"{RBAC}/aggregate-to-view": "true"}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(role))
    alice.ok("get", "leases.coordination.k8s.io")
    for name in "view", "edit", "admin":
        assert role["rules"][0] in plane.get("clusterrole", name)["rules"]
    plane.kubectl("delete", "clusterrole", "test-more")
    assert "cannot list" in alice.refused("get", "leases.coordination.k8s.io")
    # Roles that select each other.
    for name in "abc":
        other = {"a": "b", "b": "c", "c": "a"}[name]
        role = rules(f"test-{name}", kind="ClusterRole",
                     aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"next": other}}]})
        role["metadata"]["labels"] = {"next": name}
        plane.kubectl("create", "-f", "-", stdin=json.dumps(role))
    extra = rules("test-d", rule("pods", "get"), kind="ClusterRole")
    extra["metadata"]["labels"] = {"next": "a"}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(extra))
    assert plane.get("clusterrole", "test-c")["rules"] == extra["rules"]


def test_only_who_has_all_may_aggregate(plane, alice):
    plane.kubectl("create", "-f", "-", stdin=json.dumps(rules("test-roles", rule("clusterroles", "create update", RBAC), kind="ClusterRole")))
    plane.kubectl("create", "clusterrolebinding", "test-roles", "--clusterrole=test-roles", "--user=alice")
    role = rules("test-agg", kind="ClusterRole",
                 aggregationRule={"clusterRoleSelectors": [{"matchLabels": {f"{RBAC}/aggregate-to-admin": "true"}}]})
    text = alice.refused("create", "-f", "-", stdin=json.dumps(role))
    assert "not currently held" in text and '{NonResourceURLs:["*"], Verbs:["*"]}' in text


def test_bad_roles_and_bindings(plane):
    for body, message in [
        (rules("x", rule("pods", "")), "rules[0].verbs: Required value: verbs must contain at least one value"),
        (rules("x", {"verbs": ["get"], "resources": ["pods"]}),
         "rules[0].apiGroups: Required value: resource rules must supply at least one api group"),
        (rules("x", {"verbs": ["get"], "apiGroups": [""]}),
         "rules[0].resources: Required value: resource rules must supply at least one resource"),
        (rules("x", {"verbs": ["get"], "nonResourceURLs": ["/x"]}),
         'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'),
        (rules("x", rule("pods", "get", nonResourceURLs=["/x"]), kind="ClusterRole"),
         "rules cannot apply to both regular resources and non-resource URLs"),
        (binding("x", "view", kind="Role", cluster=True),
         'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'),
        ({**binding("x", "view", cluster=True), "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
         "subjects[0].namespace: Required value"),
        ({**binding("x", "view"), "subjects": [{"kind": "Other", "name": "s"}]}, "subjects[0].kind: Unsupported value"),
        (binding("x", "a/b"), "roleRef.name: Invalid value: \"a/b\""),
        (binding("a%b", "view"), 'metadata.name: Invalid value: "a%b"'),
    ]:
        assert message in plane.kubectl("create", "-f", "-", ok=False, stdin=json.dumps(body))


def test_rights_survive_a_restart(plane, alice):
    grant(plane, "view")
    plane.kubectl("annotate", "clusterrole", "system:discovery", "note=kept")
    plane.stop(kill=True)
    plane.start()
    alice.ok("get", "pods")
    assert "cannot list" in alice.refused("get", "secrets")
    assert plane.get("clusterrole", "system:discovery")["metadata"]["annotations"]["note"] == "kept"


def test_what_a_default_role_lacks_is_added_at_start(plane):
    for name, keep in ("system:basic-user", True), ("system:discovery", False):
        plane.kubectl("patch", "clusterrole", name, "--type=json", "-p", '[{"op": "replace", "path": "/rules", "value": []}]')
        if keep:
            plane.kubectl("annotate", "--overwrite", "clusterrole", name, "rbac.authorization.kubernetes.io/autoupdate=false")
    plane.stop()
    plane.start()
    assert plane.get("clusterrole", "system:discovery")["rules"]
    assert not plane.get("clusterrole", "system:basic-user").get("rules")
    plane.kubectl("annotate", "--overwrite", "clusterrole", "system:basic-user", "rbac.authorization.kubernetes.io/autoupdate=true")
    plane.stop()
    plane.start()
    assert plane.get("clusterrole", "system:basic-user")["rules"]


def test_rights_go_with_their_namespace(plane, alice):
    for _ in range(2):
        plane.kubectl("create", "namespace", "passing")
        assert "forbidden" in alice.refused("get", "pods", "-n", "passing")
        grant(plane, "view", ns="passing")
        alice.ok("get", "pods", "-n", "passing")
        plane.kubectl("delete", "namespace", "passing")


def test_auth_reconcile_and_describe(plane, alice):
    """What kubectl does with roles besides applying them."""
    role = rules("kept", rule("configmaps", "get"))
    more = rules("kept", rule("pods", "list"))
    for body in role, more, binding("kept", "kept", kind="Role"):
        plane.kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps(body))
    alice.ok("get", "pods")
    assert 'configmaps "x" not found' in alice.refused("get", "configmap", "x")
    assert ["pods", "[]", "[]", "[list]"] in [
        line.split() for line in plane.kubectl("describe", "role", "kept").splitlines()
    ]
    assert "alice" in plane.kubectl("describe", "rolebinding", "kept")
    assert "Role/kept" in plane.kubectl("get", "rolebinding", "kept", "-o", "wide")
    plane.kubectl("create", "role", "made", "--verb=get", "--resource=pods/log", "--resource-name=p")
    assert plane.get("role", "made")["rules"] == [
        {"apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["p"], "verbs": ["get"]}
    ]
