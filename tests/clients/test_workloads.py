"""Workload kinds that holt does not run: whoever sends one is told what to use instead."""
import json

import pytest

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
SET = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
KINDS = [
    ("apps/v1", "Deployment", "deployments.apps", {"replicas": 2, **SET}),
    ("apps/v1", "ReplicaSet", "replicasets.apps", {"replicas": 2, **SET}),
    ("apps/v1", "StatefulSet", "statefulsets.apps", {"serviceName": "web", **SET}),
    ("apps/v1", "DaemonSet", "daemonsets.apps", SET),
    ("batch/v1", "Job", "jobs.batch", {"template": TEMPLATE}),
    ("batch/v1", "CronJob", "cronjobs.batch", {"schedule": "@hourly", "jobTemplate": {"spec": {"template": TEMPLATE}}}),
]


@pytest.mark.parametrize("version,kind,resource,spec", KINDS, ids=[kind for _, kind, _, _ in KINDS])
def test_writes_say_what_to_use(plane, version, kind, resource, spec):
    text = json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec})
    for command in (["apply"], ["create"], ["apply", "--server-side"], ["apply", "--dry-run=server"], ["diff"]):
        refused = plane.kubectl(*command, "-f", "-", ok=False, stdin=text)
        assert f"{resource} " in refused and f"is forbidden: holt does not run {kind}s: " in refused, refused
        assert "a Sandbox (agents.x-k8s.io/v1beta1)" in refused, refused
    short = resource.partition(".")[0]
    assert f"(MethodNotAllowed): holt does not run {kind}s: " in plane.kubectl("get", short, ok=False)
    assert f"(MethodNotAllowed): holt does not run {kind}s: " in plane.kubectl("get", short, "-A", ok=False)
    assert f'(NotFound): {resource} "web" not found' in plane.kubectl("get", short, "web", ok=False)
    assert plane.kubectl("delete", "--ignore-not-found", short, "web") == ""


def test_imperative_commands(plane):
    assert "holt does not run Deployments" in plane.kubectl("create", "deployment", "web", "--image=x", ok=False)
    assert "holt does not run Jobs" in plane.kubectl("create", "job", "once", "--image=x", ok=False)
    assert "not found" in plane.kubectl("scale", "deployment/web", "--replicas=2", ok=False)
    assert "not found" in plane.kubectl("rollout", "status", "deployment/web", ok=False)
    assert "not found" in plane.kubectl("logs", "deployment/web", ok=False)


def test_a_manifest_of_many_is_applied_but_for_these(plane, namespace):
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}},
             {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": SET}]
    many = {"apiVersion": "v1", "kind": "List", "items": items}
    refused = plane.kubectl("apply", "-f", "-", ok=False, stdin=json.dumps(many))
    assert refused.count("holt does not run") == 1
    assert plane.get("configmap", "settings")


def test_what_lists_everything_stays_sane(plane, namespace):
    quiet = plane.kubectl("get", "all", "--v=0")
    assert "Error" not in quiet and "MethodNotAllowed" not in quiet
    rows = [line.split() for line in plane.kubectl("api-resources", "--no-headers").splitlines()]
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    listed = plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    assert "pods" in listed and not set(listed) & {resource for _, _, resource, _ in KINDS}
    assert plane.kubectl("delete", "all", "--all").strip() == "No resources found"
    assert "holt does not run" in plane.kubectl("explain", "statefulset")


def test_bodies_that_cannot_be_read_are_told_the_same(plane):
    """Typed clients send Protobuf; its messages are not known for kinds that are not served."""
    answer = plane.open("POST", "/apis/apps/v1/namespaces/default/deployments", {"not": "protobuf"},
                        headers={"Content-Type": "application/vnd.kubernetes.protobuf"})
    assert answer.status == 403 and b"holt does not run Deployments" in answer.read()
    answer = plane.open("GET", "/apis/apps/v1/namespaces/default/deployments?watch=1")
    assert answer.status == 405 and b"holt does not run Deployments" in answer.read()


def test_what_they_own_elsewhere_is_kept(plane, namespace):
    """An owner of a kind that is not served cannot be looked for: it counts as alive."""
    def owned(name, kind, version):
        owner = {"apiVersion": version, "kind": kind, "name": "gone", "uid": "0b5f0d0e-0000-4000-8000-000000000001"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}}

    plane.kubectl("create", "-f", "-", stdin=json.dumps(owned("of-a-set", "ReplicaSet", "apps/v1")))
    plane.kubectl("create", "-f", "-", stdin=json.dumps(owned("of-a-secret", "Secret", "v1")))
    plane.kubectl("wait", "--for=delete", "configmap/of-a-secret", "--timeout=10s")
    assert plane.get("configmap", "of-a-set")
