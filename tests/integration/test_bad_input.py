"""What is wrong is refused or reported in words that name it; nothing crashes, nothing hangs, nothing is half made."""

import json
import os
import signal
import subprocess
import time

import pytest

from instance import DEADLINE, condition_of, is_alive, sandbox, wait_until

SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
STRICT = "?fieldValidation=Strict"


@pytest.fixture(autouse=True)
def nobody_crashed(request):
    """The processes of holt are the same before and after."""
    if "up" not in request.fixturenames:
        yield
        return
    instance = request.getfixturevalue("up")
    before = instance.children()
    yield
    assert instance.children() == before, instance.log()[-3000:]
    assert instance.kubectl("get", "--raw", "/readyz") == "ok"


def change(obj, path, value):
    """A copy of obj with another value at path."""
    obj = json.loads(json.dumps(obj))
    at = obj
    for step in path[:-1]:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    at[path[-1]] = value
    return obj


POD = ("spec", "podTemplate", "spec")
MAIN = (*POD, "containers", 0)


# What the API server refuses.


@pytest.mark.parametrize(
    "path,named",
    [
        (("spec", "podTemplat"), "spec.podTemplat"),
        (("spec", "replicas"), "spec.replicas"),
        (("metadata", "lables"), "metadata.lables"),
        ((*POD, "contaners"), "spec.podTemplate.spec.contaners"),
        ((*MAIN, "imagee"), "spec.podTemplate.spec.containers[0].imagee"),
        ((*MAIN, "resources", "limit"), "spec.podTemplate.spec.containers[0].resources.limit"),
        (("spce",), "spce"),
    ],
)
def test_unknown_fields(up, path, named):
    status, answer = up.api("POST", SANDBOXES + STRICT, change(sandbox("s"), path, {}))
    assert status == 400 and f'unknown field "{named}"' in answer["message"], answer
    assert f'unknown field "{named}"' in up.kubectl("apply", "-f", "-", stdin=change(sandbox("s"), path, {}), code=1)
    assert up.get("sandbox", "s") is None


@pytest.mark.parametrize(
    "path,value,named",
    [
        (("spec", "operatingMode"), "Sleeping", "spec.operatingMode"),
        (("spec", "operatingMode"), 1, "spec.operatingMode"),
        (("spec", "shutdownPolicy"), "Explode", "spec.shutdownPolicy"),
        (("spec", "shutdownTime"), "tomorrow", "spec.shutdownTime"),
        (("spec", "service"), "yes", "spec.service"),
        (("spec", "podTemplate"), [], "spec.podTemplate"),
        (("spec", "podTemplate"), None, "spec.podTemplate"),
        ((*POD, "containers"), {}, "containers"),
        ((*POD, "containers"), None, "containers"),
        ((*MAIN, "command"), "sleep infinity", "command"),
        ((*MAIN, "name"), 5, "name"),
        ((*MAIN, "env"), [{"name": "A", "value": 1}], "value"),
        ((*POD, "terminationGracePeriodSeconds"), "soon", "terminationGracePeriodSeconds"),
        (("spec", "volumeClaimTemplates"), {"a": 1}, "volumeClaimTemplates"),
        (("metadata", "labels"), {"a": 1}, "labels"),
        (("metadata", "labels"), {"a b": "c"}, "metadata.labels"),
        (("metadata", "annotations"), {"a": "x" * 300000}, "annotations"),
        (("spec",), None, "spec"),
    ],
)
def test_wrong_values(up, path, value, named):
    status, answer = up.api("POST", SANDBOXES, change(sandbox("s"), path, value))
    assert status in (400, 422) and named in answer["message"], answer
    assert up.get("sandbox", "s") is None


@pytest.mark.parametrize(
    "limits,named",
    [
        ({"memory": "abc"}, "memory"),
        ({"memory": ""}, "memory"),
        ({"memory": "-1"}, "memory"),
        ({"cpu": "1.5.5"}, "cpu"),
        ({"memory": "1e99999"}, "memory"),
        ({"memory": ["1Gi"]}, "memory"),
    ],
)
@pytest.mark.parametrize("kind", ["sandboxes", "pods"])
def test_limits_that_are_none(up, kind, limits, named):
    """Refused at once, or said in the Ready message: never ignored."""
    body = change(sandbox("s"), (*MAIN, "resources"), {"limits": limits})
    if kind == "pods":
        body = {"metadata": {"name": "s"}, "spec": body["spec"]["podTemplate"]["spec"]}
    status, answer = up.api("POST", SANDBOXES if kind == "sandboxes" else "/api/v1/namespaces/default/pods", body)
    if status == 201 and kind == "sandboxes":
        ready = wait_until(
            lambda: not_ready(up, "s", named), what=lambda: f"a refusal of {limits}: {up.get('sandbox', 's')['status']}"
        )
        assert ready["status"] == "False"
        return
    if status == 201:
        wait_until(
            lambda: named in json.dumps(waiting_of(up.get("pod", "s"))),
            what=lambda: f"a refusal of {limits}: {up.get('pod', 's')}",
        )
        return
    assert status in (400, 422) and named in answer["message"], answer


def waiting_of(pod):
    return [c["state"].get("waiting") for c in pod["status"].get("containerStatuses", [])]


def not_ready(up, name, *words):
    """The Ready condition once its message has these words."""
    ready = condition_of(up.get("sandbox", name), "Ready")
    return ready if ready.get("status") == "False" and all(w in ready["message"] for w in words) else None


@pytest.mark.parametrize(
    "name",
    ["Upper", "under_score", "-dash", "dash-", "dot..dot", "sp ace", "a/b", "ü", "", "a" * 254, "..", "a%2Fb", "x\n"],
    ids=lambda name: name[:12],
)
def test_names_that_are_none(up, name):
    status, answer = up.api("POST", SANDBOXES, sandbox(name))
    assert status == 422 and "metadata.name" in answer["message"], answer


@pytest.mark.parametrize("name", ["a" * 63, "a" * 64, "a" * 200, "dots.are.allowed"])
def test_long_names(up, name):
    """Names that are right for a Sandbox and hard on everything made of them."""
    status, answer = up.api("POST", SANDBOXES, sandbox(name, service=None))
    if status == 422:
        assert "metadata.name" in answer["message"]
        return
    assert status == 201, answer
    up.wait_for(f"sandbox/{name}", "condition=Ready")
    assert up.exec(name, "echo", "here") == "here\n"
    assert len(up.exec(name, "hostname").strip()) <= 63


def test_pod_that_is_refused(up):
    """What the API server says about the Pod reaches who made the Sandbox."""
    obj = sandbox("s", _volumeMounts=[{"name": "nowhere", "mountPath": "/v"}])
    up.create(obj)
    ready = wait_until(lambda: not_ready(up, "s", "nowhere"), what=lambda: f"the refusal: {up.get('sandbox', 's')}")
    assert ready["reason"] == "ReconcilerError" and "volumeMounts[0].name" in ready["message"]
    del obj["spec"]["podTemplate"]["spec"]["containers"][0]["volumeMounts"]
    up.kubectl("replace", "-f", "-", stdin=obj)
    up.wait_for("sandbox/s", "condition=Ready")


def test_service_of_a_name_that_is_no_label(up):
    """A Service's name is stricter than a Sandbox's: said, not looped on."""
    up.create(sandbox("0.dots", service=True))
    ready = wait_until(lambda: not_ready(up, "0.dots", "0.dots"), what="a message that names it")
    assert ready["reason"] == "ReconcilerError", ready


@pytest.mark.parametrize("path", [SANDBOXES, CONFIG_MAPS])
def test_huge_objects(up, path):
    body = sandbox("s") if path == SANDBOXES else {"metadata": {"name": "s"}}
    body = change(body, ("metadata", "annotations"), {"a": "x" * (4 << 20)})
    status, answer = up.api("POST", path, body)
    assert status in (413, 422), answer
    assert "large" in json.dumps(answer).lower() or "long" in json.dumps(answer).lower()


def test_object_above_the_limit_of_a_request(up):
    """Refused before it is read; the connection may be cut."""
    body = json.dumps({"metadata": {"name": "s"}, "data": {"a": "x" * (20 << 20)}}).encode()
    try:
        status, answer = up.api("POST", CONFIG_MAPS, body)
        assert status == 413, answer
    except (BrokenPipeError, ConnectionResetError):
        pass
    except OSError as error:
        assert "Broken pipe" in str(error) or "reset" in str(error) or "EOF" in str(error), error


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)


def test_yaml_bomb(up):
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n"
    started = time.monotonic()
    status, answer = up.api("POST", CONFIG_MAPS, head + BOMB, kind="application/yaml")
    assert status in (400, 413), answer
    assert time.monotonic() - started < 20
    status, answer = up.api("POST", CONFIG_MAPS, head + "data: " + "[" * 100000, kind="application/yaml")
    assert status == 400, answer
    status, answer = up.api("POST", CONFIG_MAPS, head + "data: {k: v}\n", kind="application/yaml")
    assert status == 201, answer
    path = f"{CONFIG_MAPS}/s?fieldManager=t"
    status, answer = up.api("PATCH", path, head + BOMB, kind="application/apply-patch+yaml")
    assert status in (400, 413), answer


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', "1", "{}x", '{"metadata":{"name":"a"},"metadata":{"name":"b"}}', '{"metadata":{"name":"\\ud800"}}',
     "{" * 100000, '{"a":' * 50000 + "1" + "}" * 50000, "\x00", '{"metadata":{"name":"s"},"data":{"a":1e999}}', b"\xff\xfe{}",
     '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}', '{"apiVersion":"v2","metadata":{"name":"s"}}'],
    ids=lambda text: str(text[:12]),
)  # fmt: skip
def test_no_json(up, text):
    status, answer = up.api("POST", CONFIG_MAPS + STRICT, text)
    assert status in (400, 422) and answer["kind"] == "Status" and answer["message"], answer


@pytest.mark.parametrize("kind", ["application/xml", "application/vnd.kubernetes.protobuf", "text/plain"])
def test_kinds_of_content(up, kind):
    status, answer = up.api("POST", CONFIG_MAPS, "k8s\0garbage", kind=kind)
    assert status in (400, 415), answer


@pytest.mark.parametrize(
    "kind,patch",
    [
        ("application/json-patch+json", '[{"op":"replace","path":"/data/nope/deeper","value":1}]'),
        ("application/json-patch+json", '[{"op":"explode","path":"/data"}]'),
        ("application/json-patch+json", '{"data":{}}'),
        ("application/json-patch+json", '[{"op":"test","path":"/data/a","value":"2"}]'),
        ("application/merge-patch+json", "[]"),
        ("application/merge-patch+json", '{"data":'),
        ("application/merge-patch+json", '{"data":{"a":{"b":1}}}'),
        ("application/merge-patch+json", '{"metadata":{"uid":"other"}}'),
        ("application/strategic-merge-patch+json", '{"data":{"$patch":"explode"}}'),
        ("application/apply-patch+yaml", "- a\n- b\n"),
        ("application/unknown+json", "{}"),
    ],
)
def test_patches_that_are_none(up, kind, patch):
    assert up.api("POST", CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})[0] == 201
    status, answer = up.api("PATCH", f"{CONFIG_MAPS}/m?fieldManager=t", patch, kind=kind)
    assert status in (400, 409, 415, 422) and answer["message"], answer
    assert up.get("configmap", "m")["data"] == {"a": "1"}


# What only the node finds out.


def test_missing_image(up):
    """Said where its owner looks; and it runs as soon as the image is there."""
    up.create(sandbox("s", _image="no-such-image:1"))
    ready = wait_until(
        lambda: not_ready(up, "s", "no-such-image:1"), what=lambda: f"a message that names it: {up.get('sandbox', 's')}"
    )
    assert "ErrImagePull" in ready["message"] or "ImagePullBackOff" in ready["message"], ready
    waiting = up.get("pod", "s")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] in ("ErrImagePull", "ImagePullBackOff") and "no-such-image:1" in waiting["message"]
    assert "no-such-image:1" in up.kubectl("describe", "pod", "s")


@pytest.mark.parametrize(
    "image", ["", "UPPER CASE", "../../etc/passwd", "a" * 5000, "dir:/etc", "x@sha256:zz"], ids=lambda name: name[:12]
)
def test_images_that_are_none(up, image):
    status, answer = up.api("POST", SANDBOXES, sandbox("s", _image=image))
    if status != 201:
        assert status == 422 and "image" in answer["message"]
        return
    wait_until(lambda: not_ready(up, "s", "mage"), what=lambda: f"a message about the image: {up.get('sandbox', 's')}")


def test_memory_of_one_byte(up):
    """Too little to start a process in: an end or a refusal with a cause."""
    up.create(sandbox("s", _resources={"limits": {"memory": "1"}}))
    ready = wait_until(lambda: not_ready(up, "s", "("), what=lambda: f"a cause: {up.get('sandbox', 's')}")
    assert "memory" in ready["message"] or "OOM" in ready["message"], ready


@pytest.mark.parametrize("memory", ["100Ti", "8Ei"])
def test_memory_that_the_machine_does_not_have(up, memory):
    up.create(sandbox("s", _resources={"limits": {"memory": memory}}))
    ready = wait_until(lambda: not_ready(up, "s", "("), what=lambda: f"a cause: {up.get('sandbox', 's')}")
    assert "containers[0].resources.requests.memory: is more than" in ready["message"], ready


def test_cpu_that_the_machine_does_not_have(up):
    """A share of the processors, and a limit that is never reached."""
    up.create(sandbox("s", _resources={"limits": {"cpu": "100000"}}))
    up.wait_for("sandbox/s", "condition=Ready")


@pytest.mark.parametrize(
    "pod,container,named",
    [
        ({"hostNetwork": True}, {}, "hostNetwork"),
        ({"hostPID": True}, {}, "hostPID"),
        ({}, {"securityContext": {"privileged": True}}, "privileged"),
        ({}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "capabilities"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, "hostPath"),
        ({"volumes": [{"name": "v", "nfs": {"server": "a", "path": "/"}}]}, {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, "v"),
        ({"runtimeClassName": "gvisor"}, {}, "runtimeClassName"),
    ],
)  # fmt: skip
def test_what_would_weaken_the_walls_is_refused(up, pod, container, named):
    """By name, not by leaving it out."""
    more = {f"_{key}": value for key, value in container.items()}
    status, answer = up.api("POST", SANDBOXES, sandbox("s", pod=pod, **more))
    if status != 201:
        assert named in answer["message"], answer
        return
    wait_until(
        lambda: not_ready(up, "s", named), what=lambda: f"a message that names {named}: {up.get('sandbox', 's')}"
    )
    made = up.get("pod", "s")
    assert not made or not up.processes(made["metadata"]["uid"])


def test_command_that_is_not_there(up):
    up.create(sandbox("s", "/no/such/program", pod={"restartPolicy": "Never"}))
    wait_until(
        lambda: not_ready(up, "s", "/no/such/program"),
        what=lambda: f"a message that names it: {up.get('sandbox', 's')}",
    )
    assert condition_of(up.get("sandbox", "s"), "Finished")["reason"] == "PodFailed"


def test_crash_loop(up):
    up.create(sandbox("s", "sh", "-c", "exit 3"))
    wait_until(lambda: not_ready(up, "s", "CrashLoopBackOff"), what=lambda: f"a crash loop: {up.get('sandbox', 's')}")
    assert up.get("pod", "s")["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3


def test_exec_of_what_is_not_there(up):
    up.ready_sandbox(sandbox("s"))
    done = up.kubectl("exec", "s", "--", "no-such-program", code=None)
    assert done.code in (126, 127) or done.code == 1 and "no-such-program" in done.err, done
    assert "not found" in up.kubectl("exec", "nope", "--", "true", code=1)
    assert "nope" in up.kubectl("exec", "s", "-c", "nope", "--", "true", code=1)
    assert "nope" in up.kubectl("logs", "s", "-c", "nope", code=1)
    for arguments in (["true"] * 5000, ["x" * 100000]):
        done = up.kubectl("exec", "s", "--", "echo", *arguments, code=None)
        assert done.code != 0 or done.out, "it worked, or it was said"


# The machine.


def unshared(instance, size):
    """holt up with its data on a file system of this size, seen by no one else."""
    instance.data.mkdir()
    script = f'mount -t tmpfs -o size={size},mode=0711 tmpfs "$0" && exec "$@"'
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, str(instance.data), *instance.command()]


def test_full_disk(own):
    """Writes are refused with a cause, reads go on; when there is room again, so do writes."""
    instance = own(start=False)
    with open(instance.dir / "log", "a") as log:
        instance.up = subprocess.Popen(unshared(instance, "12m"), stdout=log, stderr=log, start_new_session=True)
    instance.wait_ready()
    assert instance.api("POST", CONFIG_MAPS, {"metadata": {"name": "kept"}, "data": {"a": "1"}})[0] == 201
    children = instance.children()
    refusal, made = None, []
    for i in range(40):
        status, answer = instance.api("POST", CONFIG_MAPS, {"metadata": {"name": f"m{i}"}, "data": {"a": "x" * 700000}})
        if status != 201:
            refusal = (status, answer)
            break
        made.append(f"m{i}")
    assert refusal and refusal[0] >= 500, refusal
    assert "space" in refusal[1]["message"] or "full" in refusal[1]["message"], refusal
    assert instance.get("configmap", "kept")["data"] == {"a": "1"}
    assert {m["metadata"]["name"] for m in instance.items("configmaps")} - {"kube-root-ca.crt"} == {"kept", *made}
    assert instance.children() == children
    data = f"/proc/{instance.up.pid}/root{instance.data}"
    subprocess.run(["mount", "--version"], check=True, capture_output=True)
    subprocess.run(
        ["nsenter", "-t", str(instance.up.pid), "-m", "mount", "-o", "remount,size=64m", str(instance.data)], check=True
    )
    wait_until(
        lambda: instance.api("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {"name": "kept"}, "data": {"a": "2"}})[0]
        == 200,
        what="a write that works again",
    )
    instance.kill("control")
    assert instance.get("configmap", "kept")["data"] == {"a": "2"}
    assert {m["metadata"]["name"] for m in instance.items("configmaps")} >= set(made)
    assert os.path.isdir(data)
    assert instance.stop() == 0


def test_full_disk_at_the_start(own):
    """No room for anything: a clear end, no hang."""
    instance = own(start=False)
    done = subprocess.run(unshared(instance, "8k"), capture_output=True, text=True, timeout=DEADLINE)
    text = done.stdout + done.stderr
    assert done.returncode == 125 and ("No space left" in text or "full" in text), text


def test_sandbox_that_fills_its_volume(up):
    """What an agent writes is its own affair: the next one and the API server go on."""
    mounts = [{"name": "v", "mountPath": "/v"}]
    volume = [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}]
    up.ready_sandbox(sandbox("s", pod={"volumes": volume}, _volumeMounts=mounts))
    done = up.kubectl("exec", "s", "--", "dd", "if=/dev/zero", "of=/v/x", "bs=1M", "count=64", code=None)
    assert done.code == 1 and "No space left" in done.err, done
    assert up.exec("s", "echo", "here") == "here\n"


def test_unreadable_data_directory(own):
    instance = own()
    instance.kubectl("create", "configmap", "m")
    assert instance.stop() == 0
    store = next(instance.data.rglob("store.db"))
    store.rename(store.with_suffix(".kept"))
    store.mkdir()
    done = subprocess.run(instance.command(), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 125 and str(store) in done.stdout + done.stderr, done
    store.rmdir()
    store.with_suffix(".kept").rename(store)
    instance.start()
    assert instance.get("configmap", "m")


def test_stopped_process_is_no_hang(own):
    """A node that does not answer: the API goes on, and what was asked meanwhile is done afterwards."""
    instance = own()
    node = instance.child("node")
    os.kill(node, signal.SIGSTOP)
    try:
        instance.create(sandbox("s"))
        wait_until(
            lambda: condition_of(instance.get("sandbox", "s"), "Ready").get("status") == "False", what="a status"
        )
    finally:
        os.kill(node, signal.SIGCONT)
    instance.wait_for("sandbox/s", "condition=Ready")
    assert is_alive(node)
