"""The Sandbox kind (agents.x-k8s.io/v1beta1) with real sandboxes: what its users and their programs rely on."""

import datetime
import json
import time

import pytest

from instance import claim_template, condition_of, fnv1a32, net_namespace, net_namespace_users, sandbox, wait_until

SUSPEND = '{"spec":{"operatingMode":"Suspended"}}'
RESUME = '{"spec":{"operatingMode":"Running"}}'


def patch(up, name, body):
    up.kubectl("patch", "sandbox", name, "--type=merge", "-p", body if isinstance(body, str) else json.dumps(body))


def brief(obj):
    """{type: (status, reason, message)}"""
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in obj["status"]["conditions"]}


def wait_condition(up, name, kind, status, reason=None):
    def there():
        c = condition_of(up.get("sandbox", name), kind)
        return c if c.get("status") == status and reason in (None, c.get("reason")) else None

    return wait_until(there, what=lambda: f"{kind}={status} {reason} in {up.get('sandbox', name)}")


def in_time(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


SCHEDULED = ("True", "PodScheduled", "")
NOT_SUSPENDED = ("False", "NotSuspended", "Sandbox is not suspended")


def test_simple_sandbox(up):
    """Exact status; what the Pod and the Service carry."""
    template = {"labels": {"app": "x", "agents.x-k8s.io/mine": "no"}, "annotations": {"note": "y"}}
    ports = [{"containerPort": 8080, "name": "web"}, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]
    obj = up.ready_sandbox(sandbox("s", service=True, pod_metadata=template, _ports=ports))
    label = f"{fnv1a32('s'):08x}"
    selector = {"agents.x-k8s.io/sandbox-name-hash": label}
    pod, service = up.get("pod", "s"), up.get("service", "s")

    assert obj["spec"]["operatingMode"] == "Running" and obj["spec"]["shutdownPolicy"] == "Retain"
    assert brief(obj) == {
        "Ready": ("True", "DependenciesReady", "Pod is Ready; Service Exists"),
        "Suspended": NOT_SUSPENDED,
        "PodScheduled": SCHEDULED,
    }
    assert all(c["observedGeneration"] == obj["metadata"]["generation"] for c in obj["status"]["conditions"])
    assert obj["status"]["service"] == "s" and obj["status"]["serviceFQDN"] == "s.default.svc.cluster.local"
    assert obj["status"]["selector"] == f"agents.x-k8s.io/sandbox-name-hash={label}"
    assert obj["status"]["podIPs"] == [ip["ip"] for ip in pod["status"]["podIPs"]] and obj["status"]["podIPs"]
    assert obj["status"]["nodeName"] == pod["spec"]["nodeName"]
    assert obj["metadata"]["annotations"]["agents.x-k8s.io/pod-name"] == "s"

    assert pod["metadata"]["labels"] == {"app": "x", **selector}
    assert pod["metadata"]["annotations"]["note"] == "y"
    assert pod["metadata"]["annotations"]["agents.x-k8s.io/propagated-labels"] == "app"
    assert pod["metadata"]["annotations"]["agents.x-k8s.io/propagated-annotations"] == "note"
    for owned in (pod, service):
        owner = owned["metadata"]["ownerReferences"][0]
        assert owner | {"controller": True, "blockOwnerDeletion": True} == owner
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Sandbox", "s", obj["metadata"]["uid"])
        assert owner["apiVersion"] == "agents.x-k8s.io/v1beta1"
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == selector
    assert service["metadata"]["labels"] == selector
    found = [(p["port"], p["protocol"], p["name"], p["targetPort"]) for p in service["spec"]["ports"]]
    assert found == [(53, "TCP", "p-53-tcp", 53), (53, "UDP", "p-53-udp", 53), (8080, "TCP", "web", 8080)]


def test_without_a_service(up):
    obj = up.ready_sandbox(sandbox("s"))
    assert brief(obj)["Ready"] == ("True", "DependenciesReady", "Pod is Ready")
    assert up.get("service", "s") is None and not obj["status"].get("service")
    patch(up, "s", {"spec": {"service": True}})
    wait_until(lambda: up.get("sandbox", "s")["status"].get("service") == "s", what="the Service")
    patch(up, "s", {"spec": {"service": None}})  # unset keeps what is there
    patch(up, "s", {"metadata": {"annotations": {"touched": "1"}}})
    assert up.get("service", "s")
    patch(up, "s", {"spec": {"service": False}})
    wait_until(lambda: up.get("service", "s") is None, what="the end of the Service")
    wait_until(lambda: not up.get("sandbox", "s")["status"].get("service"), what="a status without it")


def test_metadata_of_the_template_is_live_and_its_spec_is_not(up):
    up.ready_sandbox(sandbox("s", pod_metadata={"labels": {"a": "1", "b": "1"}}))
    uid = up.get("pod", "s")["metadata"]["uid"]
    up.kubectl("label", "pod", "s", "mine=1")
    patch(up, "s", {"spec": {"podTemplate": {"metadata": {"labels": {"a": "2", "b": None, "c": "1"}}}}})
    wait_until(lambda: up.get("pod", "s")["metadata"]["labels"].get("c"), what="the new label")
    labels = up.get("pod", "s")["metadata"]["labels"]
    assert labels["a"] == "2" and "b" not in labels and labels["mine"] == "1"
    changed = [{"name": "main", "image": "host", "command": ["sleep", "1000"]}]
    patch(up, "s", {"spec": {"podTemplate": {"spec": {"containers": changed}}}})
    wait_until(
        lambda: condition_of(up.get("sandbox", "s"), "Ready").get("observedGeneration")
        == up.get("sandbox", "s")["metadata"]["generation"],
        what="the observed generation",
    )
    pod = up.get("pod", "s")
    assert pod["metadata"]["uid"] == uid and pod["spec"]["containers"][0]["command"] == ["sleep", "infinity"]


def test_suspend_and_resume(up):
    up.ready_sandbox(sandbox("s", service=True))
    before = up.get("sandbox", "s")
    uid = up.get("pod", "s")["metadata"]["uid"]
    time.sleep(1.1)  # transition times have whole seconds
    patch(up, "s", SUSPEND)
    wait_condition(up, "s", "Suspended", "True", "PodTerminated")
    obj = up.get("sandbox", "s")
    assert brief(obj) == {
        "Ready": ("False", "SandboxSuspended", "Sandbox is suspended"),
        "Suspended": ("True", "PodTerminated", "Pod has been terminated. Sandbox is suspended"),
    }
    assert up.get("pod", "s") is None and up.get("service", "s")
    assert not obj["status"].get("podIPs") and not obj["status"].get("nodeName")
    assert "agents.x-k8s.io/pod-name" not in obj["metadata"].get("annotations", {})
    moved = condition_of(obj, "Ready")["lastTransitionTime"]
    assert moved > condition_of(before, "Ready")["lastTransitionTime"]

    patch(up, "s", RESUME)
    wait_condition(up, "s", "Ready", "True")
    obj = up.get("sandbox", "s")
    assert brief(obj)["Suspended"] == NOT_SUSPENDED
    assert up.get("pod", "s")["metadata"]["uid"] != uid
    assert condition_of(obj, "Ready")["lastTransitionTime"] >= moved


def test_suspension_while_the_pod_terminates(up):
    deaf = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]
    up.ready_sandbox(sandbox("s", *deaf, pod={"terminationGracePeriodSeconds": 4}))
    watch = up.popen("kubectl", "get", "sandbox", "s", "-w", "-o", "json")
    patch(up, "s", SUSPEND)
    wait_condition(up, "s", "Suspended", "True")
    watch.kill()
    text = watch.communicate()[0]
    assert '"Pod is terminating. Sandbox is suspending"' in text and '"PodTerminating"' in text
    assert '"Sandbox is suspending"' in text


def test_created_suspended(up):
    up.create(sandbox("s", operatingMode="Suspended"))
    wait_condition(up, "s", "Suspended", "True", "PodTerminated")
    assert up.get("pod", "s") is None
    patch(up, "s", RESUME)
    wait_condition(up, "s", "Ready", "True")


def test_deleted_pod_comes_again(up):
    """And Suspended stays as it is."""
    up.ready_sandbox(sandbox("s"))
    first = up.get("pod", "s")["metadata"]["uid"]
    suspended = condition_of(up.get("sandbox", "s"), "Suspended")
    up.kubectl("delete", "pod", "s")
    wait_until(
        lambda: (up.get("pod", "s") or {"metadata": {"uid": first}})["metadata"]["uid"] != first, what="another Pod"
    )
    wait_condition(up, "s", "Ready", "True")
    assert condition_of(up.get("sandbox", "s"), "Suspended") == suspended


def test_foreign_pod_is_left_alone(up):
    """A Pod of the same name that is not ours: not taken, not deleted."""
    up.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "s"},
            "spec": sandbox("s")["spec"]["podTemplate"]["spec"],
        }
    )
    up.wait_for("pod/s", "condition=Ready")
    up.create(sandbox("s"))
    wait_condition(up, "s", "Ready", "False", "ReconcilerError")
    patch(up, "s", SUSPEND)
    wait_condition(up, "s", "Suspended", "False", "PodNotOwned")
    said = brief(up.get("sandbox", "s"))
    assert said["Suspended"][2] == "Refused to delete pod because it is not owned by this sandbox"
    assert said["Ready"] == ("False", "SandboxSuspended", "Sandbox is suspending")
    up.kubectl("delete", "sandbox", "s")
    assert up.get("pod", "s")["status"]["phase"] == "Running"


def test_adoptable_pod_is_taken(up):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s", "labels": {"agents.x-k8s.io/adoptable": "true"}},
           "spec": sandbox("s")["spec"]["podTemplate"]["spec"]}  # fmt: skip
    up.create(pod)
    uid = up.get("pod", "s")["metadata"]["uid"]
    obj = up.ready_sandbox(sandbox("s"))
    taken = up.get("pod", "s")["metadata"]
    assert taken["uid"] == uid and taken["ownerReferences"][0]["uid"] == obj["metadata"]["uid"]


def test_volume_claim_templates(up):
    template = claim_template()
    template["metadata"]["labels"] = {"keep": "me"}
    mounts = [{"name": "work", "mountPath": "/work"}]
    obj = up.ready_sandbox(sandbox("s", volumeClaimTemplates=[template], _volumeMounts=mounts))
    claim, pod = up.get("pvc", "work-s"), up.get("pod", "s")
    assert claim["metadata"]["ownerReferences"][0]["uid"] == obj["metadata"]["uid"]
    assert claim["metadata"]["labels"] == {"keep": "me", "agents.x-k8s.io/sandbox-name-hash": f"{fnv1a32('s'):08x}"}
    assert claim["status"]["phase"] == "Bound"
    volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "work")
    assert volume["persistentVolumeClaim"]["claimName"] == "work-s"
    up.exec("s", "sh", "-c", "echo kept > /work/file; echo lost > /root-file")
    patch(up, "s", SUSPEND)
    wait_condition(up, "s", "Suspended", "True")
    assert up.get("pvc", "work-s")["metadata"]["uid"] == claim["metadata"]["uid"]
    patch(up, "s", RESUME)
    wait_condition(up, "s", "Ready", "True")
    assert up.exec("s", "sh", "-c", "cat /work/file; ls /root-file 2>&1 || true").startswith("kept\n")
    assert up.exec("s", "test", "-e", "/root-file", code=1) is not None
    up.kubectl("delete", "pod", "s", "--wait=true")
    wait_condition(up, "s", "Ready", "True")
    wait_until(lambda: up.kubectl("exec", "s", "--", "cat", "/work/file", code=None).out == "kept\n", what="the file")


@pytest.mark.parametrize(
    "templates", [[], None, [claim_template("other")], [claim_template("work"), claim_template("more")]]
)
def test_volume_claim_templates_are_immutable(up, templates):
    up.create(sandbox("s", operatingMode="Suspended", volumeClaimTemplates=[claim_template("work")]))
    text = up.kubectl(
        "patch", "sandbox", "s", "--type=merge", "-p", json.dumps({"spec": {"volumeClaimTemplates": templates}}), code=1
    )
    assert "volumeClaimTemplates is immutable" in text
    patch(up, "s", {"spec": {"shutdownPolicy": "Delete"}})  # all else may change


def test_claim_templates_cannot_be_added(up):
    up.create(sandbox("s", operatingMode="Suspended"))
    body = {"spec": {"volumeClaimTemplates": [claim_template("work")]}}
    assert "volumeClaimTemplates is immutable" in up.kubectl(
        "patch", "sandbox", "s", "--type=merge", "-p", json.dumps(body), code=1
    )


def test_foreign_claim_is_an_error(up):
    up.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "work-s"},
            "spec": claim_template()["spec"],
        }
    )
    up.create(sandbox("s", volumeClaimTemplates=[claim_template()]))
    c = wait_condition(up, "s", "Ready", "False", "ReconcilerError")
    assert "work-s" in c["message"]
    up.kubectl("label", "pvc", "work-s", "agents.x-k8s.io/adoptable=true")
    wait_condition(up, "s", "Ready", "True")
    assert up.get("pvc", "work-s")["metadata"]["ownerReferences"][0]["name"] == "s"


@pytest.mark.parametrize("code,phase,reason", [(0, "Succeeded", "PodSucceeded"), (3, "Failed", "PodFailed")])
def test_finished(up, code, phase, reason):
    up.create(sandbox("s", "sh", "-c", f"echo done; exit {code}", pod={"restartPolicy": "Never"}))
    wait_condition(up, "s", "Finished", "True", reason)
    said = brief(up.get("sandbox", "s"))
    assert said["Ready"][:2] == ("False", reason)
    pod = up.get("pod", "s")
    assert pod["status"]["phase"] == phase and up.kubectl("logs", "s") == "done\n"
    time.sleep(1)  # it is not started again
    assert up.get("pod", "s")["metadata"]["uid"] == pod["metadata"]["uid"]


def test_expiry_with_retain(up):
    up.create(sandbox("s", service=True, shutdownTime=in_time(6)))
    wait_condition(up, "s", "Ready", "True")
    wait_condition(up, "s", "Ready", "False", "SandboxExpired")
    wait_until(lambda: up.get("pod", "s") is None and up.get("service", "s") is None, what="the end of Pod and Service")
    wait_until(lambda: up.get("sandbox", "s")["status"].keys() == {"conditions"}, what="a status of conditions only")
    said = brief(up.get("sandbox", "s"))
    assert said == {"Ready": ("False", "SandboxExpired", "Sandbox has expired"), "Suspended": NOT_SUSPENDED}
    patch(up, "s", {"spec": {"shutdownTime": in_time(3600)}})  # and it lives again
    wait_condition(up, "s", "Ready", "True")


def test_expiry_with_delete(up):
    up.create(sandbox("s", shutdownTime=in_time(4), shutdownPolicy="Delete"))
    wait_until(lambda: up.get("sandbox", "s") is None and up.get("pod", "s") is None, what="the end of the Sandbox")


def test_expiry_keeps_finished(up):
    up.create(sandbox("s", "true", shutdownTime=in_time(5), pod={"restartPolicy": "Never"}))
    wait_condition(up, "s", "Finished", "True", "PodSucceeded")
    wait_condition(up, "s", "Ready", "False", "SandboxExpired")
    wait_until(lambda: up.get("pod", "s") is None, what="the end of the Pod")
    assert condition_of(up.get("sandbox", "s"), "Finished")["reason"] == "PodSucceeded"


def test_claims_go_with_the_sandbox_only(up):
    up.create(sandbox("s", shutdownTime=in_time(3), volumeClaimTemplates=[claim_template()]))
    wait_condition(up, "s", "Ready", "False", "SandboxExpired")
    wait_until(lambda: up.get("pod", "s") is None, what="the end of the Pod")
    assert up.get("pvc", "work-s")
    up.kubectl("delete", "sandbox", "s")
    wait_until(lambda: up.get("pvc", "work-s") is None, what="the end of the claim")


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_deletion(up, cascade):
    """Pod, Service and claims go with it; nothing is left on the host."""
    mounts = [{"name": "work", "mountPath": "/work"}]
    up.ready_sandbox(sandbox("s", service=True, volumeClaimTemplates=[claim_template()], _volumeMounts=mounts))
    pod = up.get("pod", "s")["metadata"]["uid"]
    pids = up.processes(pod)
    networks = {net_namespace(pid) for pid in pids}
    assert pids and networks and net_namespace("self") not in networks
    up.exec(
        "s",
        "sh",
        "-c",
        "echo 1 > /work/file; (setsid sleep 1000 &) ; (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' &)",
    )
    assert "deleted" in up.kubectl("delete", "sandbox", "s", f"--cascade={cascade}")
    for kind, name in (("pod", "s"), ("service", "s"), ("pvc", "work-s")):
        wait_until(lambda kind=kind, name=name: up.get(kind, name) is None, what=f"the end of {kind}/{name}")
        if cascade == "foreground":
            assert up.get(kind, name) is None
    wait_until(lambda: not up.traces(pod), 20, what=lambda: f"an end without {up.traces(pod)}")
    for network in networks:
        wait_until(
            lambda network=network: not net_namespace_users(network),
            20,
            what=lambda: f"an end without {network}: {net_namespace_users(network)}",
        )
    wait_until(lambda: not list((up.data / "volumes").rglob("file")), 20, what="the end of the claim's files")


def test_orphaned_pod_goes_on(up):
    up.ready_sandbox(sandbox("s"))
    up.kubectl("delete", "sandbox", "s", "--cascade=orphan")
    pod = up.get("pod", "s")
    assert pod["status"]["phase"] == "Running" and not pod["metadata"].get("ownerReferences")


def test_twenty_at_once(up):
    names = [f"s{i}" for i in range(20)]
    objects = {"apiVersion": "v1", "kind": "List", "items": [sandbox(name) for name in names]}
    up.kubectl("create", "-f", "-", stdin=objects)
    up.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *[f"sandbox/{name}" for name in names])
    ips = [ip for s in up.items("sandboxes") for ip in s["status"]["podIPs"]]
    assert len(set(ips)) == len(ips) == 20
    uids = [pod["metadata"]["uid"] for pod in up.items("pods")]
    networks = {net_namespace(up.processes(uid)[0]) for uid in uids}
    assert len(networks) == 20
    up.kubectl("delete", "sandboxes", "--all")


def test_same_name_again_and_again(up):
    for i in range(4):
        up.ready_sandbox(sandbox("s", "sh", "-c", f"echo {i} > /round; exec sleep infinity"))
        wait_until(
            lambda i=i: up.kubectl("exec", "s", "--", "cat", "/round", code=None).out == f"{i}\n", what=f"round {i}"
        )
        up.kubectl("delete", "sandbox", "s", "--wait=true", "--cascade=foreground")


def test_inside(up):
    """What an agent sees: its own world, limits, nothing of the host's processes, no way out."""
    up.ready_sandbox(
        sandbox("s", _resources={"limits": {"memory": "128Mi", "cpu": "500m"}}, _env=[{"name": "A", "value": "b"}])
    )
    assert up.exec("s", "sh", "-c", "echo $A") == "b\n"
    assert up.exec("s", "hostname") == "s\n"
    inside = up.exec("s", "sh", "-c", "ls -d /proc/[0-9]* | wc -l")
    assert int(inside) < 10
    assert up.exec(
        "s", "sh", "-c", "ls /sys/class/net 2>/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3"
    ).split() in (["lo"], ["lo", "lo"])
    program = "import socket\ntry:\n    socket.create_connection(('1.1.1.1', 80), 2)\n    print('out')\nexcept OSError:\n    print('closed')"
    assert up.exec("s", "python3", "-c", program) == "closed\n"
    done = up.kubectl(
        "exec", "s", "--", "python3", "-c", "x = bytearray(400 << 20); x[::4096] = b'x' * len(x[::4096])", code=None
    )
    assert done.code == 137, done
    assert (
        up.get("pod", "s")["status"]["containerStatuses"][0]["restartCount"] == 0
        and up.exec("s", "echo", "alive") == "alive\n"
    )
