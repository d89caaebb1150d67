"""Pods on the one node: what fits, what waits and says why, names as long as they may be."""

import pytest

from instance import condition_of, sandbox, wait_until


def pod(name, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "host", "command": ["sleep", "1000"]}], **spec},
    }


def required(*expressions):
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    "spec,why",
    [
        ({"nodeSelector": {"disk": "ssd"}}, "didn't match Pod's node affinity/selector"),
        ({"affinity": required({"key": "disk", "operator": "In", "values": ["ssd"]})}, "didn't match"),
        ({"affinity": required({"key": "disk", "operator": "Exists"})}, "didn't match"),
        ({"schedulerName": "mine"}, 'no scheduler named "mine"'),
    ],
)
def test_a_pod_that_fits_nowhere_says_why(up, spec, why):
    up.create(pod("p", **spec))
    scheduled = condition_of(up.get("pod", "p"), "PodScheduled")
    assert scheduled["status"] == "False" and scheduled["reason"] == "Unschedulable" and why in scheduled["message"]
    up.create(sandbox("s", pod=spec))
    c = wait_until(lambda: condition_of(up.get("sandbox", "s"), "PodScheduled"))
    assert c["reason"] == "Unschedulable" and why in c["message"]
    up.kubectl("delete", "pod", "p", "--timeout=10s")
    up.kubectl("delete", "sandbox", "s", "--timeout=10s")


def test_a_pod_waits_for_the_node_to_change(up):
    name = up.kubectl("get", "nodes", "-o", "name").strip().removeprefix("node/")
    up.create(pod("p", nodeSelector={"disk": "ssd"}))
    up.create(pod("q", affinity=required({"key": "disk", "operator": "NotIn", "values": ["hdd"]})))
    up.wait_for("pod/q", "condition=Ready")
    try:
        up.kubectl("label", "node", name, "disk=ssd")
        up.wait_for("pod/p", "condition=Ready")
        (scheduled,) = [c for c in up.get("pod", "p")["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert scheduled["status"] == "True"
        up.kubectl("cordon", name)
        up.create(pod("r"))
        assert "unschedulable" in condition_of(up.get("pod", "r"), "PodScheduled")["message"]
        up.kubectl("uncordon", name)
        up.wait_for("pod/r", "condition=Ready")
    finally:
        up.kubectl("label", "node", name, "disk-")
        up.kubectl("uncordon", name)


def test_a_node_that_is_none(up):
    status, answer = up.api("POST", "/api/v1/namespaces/default/pods", pod("p", nodeName="other"))
    assert status == 422 and 'spec.nodeName: Not found: "other"' in answer["message"]
    up.create(sandbox("s", pod={"nodeName": "other"}))
    ready = wait_until(lambda: condition_of(up.get("sandbox", "s"), "Ready"))
    assert ready["reason"] == "ReconcilerError" and "spec.nodeName" in ready["message"]


@pytest.mark.parametrize(
    "spec,status,text",
    [
        ({"hostname": "UPPER_x"}, 422, "spec.hostname: Invalid value"),
        ({"serviceAccountName": "nosuch"}, 403, 'serviceaccount "nosuch" not found'),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "host",
                        "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}},
                    }
                ]
            },
            422,
            "must be less than or equal to memory limit of 1Gi",
        ),
    ],
)
def test_refused(up, spec, status, text):
    got, answer = up.api("POST", "/api/v1/namespaces/default/pods", pod("p", **spec))
    assert got == status and text in answer["message"], answer


def test_gated(up):
    up.create(pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    assert condition_of(up.get("pod", "p"), "PodScheduled")["reason"] == "SchedulingGated"
    up.kubectl("patch", "pod", "p", "--type=json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]')
    up.wait_for("pod/p", "condition=Ready")


def test_names_as_long_as_they_may_be(up):
    name = "x" * 253
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    up.create(pod(name))
    up.wait_for(f"pod/{name}", "condition=Ready")
    assert up.kubectl("exec", name, "--", "echo", "here") == "here\n"
    up.kubectl("logs", name)
    up.kubectl("delete", "pod", name)
    # d-NAME is the claim: 253 with it.
    long = "y" * 251
    up.create(sandbox(long, volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": claim}]))
    up.wait_for(f"sandbox/{long}", "condition=Ready")
    assert up.kubectl("exec", long, "--", "echo", "here") == "here\n"


def test_two_claims_of_one_name(up):
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    template = {"metadata": {"name": "d"}, "spec": claim}
    up.create(sandbox("s", volumeClaimTemplates=[template, template]))
    ready = wait_until(lambda: condition_of(up.get("sandbox", "s"), "Ready"))
    assert ready["reason"] == "ReconcilerError" and "volumeClaimTemplates[1].metadata.name" in ready["message"]


def test_a_claim_that_is_none(up):
    up.create(sandbox("s", volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": {}}]))
    ready = wait_until(lambda: condition_of(up.get("sandbox", "s"), "Ready"))
    assert ready["reason"] == "ReconcilerError" and "spec.accessModes: Required value" in ready["message"]


def test_a_block_volume(up):
    """Not a directory instead."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "volumeMode": "Block"}
    mount = [{"name": "d", "mountPath": "/d"}]
    up.create(sandbox("s", _volumeMounts=mount, volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": claim}]))
    wait_until(lambda: "block volumes" in (condition_of(up.get("sandbox", "s"), "Ready") or {}).get("message", ""))
