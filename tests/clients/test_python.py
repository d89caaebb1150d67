"""The Python client of Kubernetes, as it comes from PyPI."""

import threading
import time

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import WSClient

from instance import DEADLINE, sandbox, wait_until

GROUP = ("agents.x-k8s.io", "v1beta1", "default", "sandboxes")


@pytest.fixture
def api(up):
    return config.new_client_from_config(str(up.kubeconfig))


@pytest.fixture
def core(api):
    return client.CoreV1Api(api)


@pytest.fixture
def custom(api):
    return client.CustomObjectsApi(api)


def create_ready(up, custom, obj):
    custom.create_namespaced_custom_object(*GROUP, obj)
    up.wait_for(f"sandbox/{obj['metadata']['name']}", "condition=Ready")


def test_version_and_discovery(api):
    assert client.VersionApi(api).get_code().major == "1"
    groups = {g.name for g in client.ApisApi(api).get_api_versions().groups}
    assert {"agents.x-k8s.io", "apiextensions.k8s.io"} <= groups
    assert "pods" in {r.name for r in client.CoreV1Api(api).get_api_resources().resources}


def test_objects(core):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="m", labels={"a": "b"}), data={"k": "1"})
    made = core.create_namespaced_config_map("default", body)
    assert made.metadata.uid and made.metadata.creation_timestamp
    with pytest.raises(ApiException) as refusal:
        core.create_namespaced_config_map("default", body)
    assert refusal.value.status == 409 and "AlreadyExists" in refusal.value.body
    changed = core.patch_namespaced_config_map("m", "default", {"data": {"k": "2", "l": "3"}})
    assert changed.data == {"k": "2", "l": "3"}
    changed.data = {"only": "this"}
    assert core.replace_namespaced_config_map("m", "default", changed).data == {"only": "this"}
    with pytest.raises(ApiException) as refusal:
        core.replace_namespaced_config_map("m", "default", made)
    assert refusal.value.status == 409
    assert [m.metadata.name for m in core.list_namespaced_config_map("default", label_selector="a=b").items] == ["m"]
    assert core.delete_namespaced_config_map("m", "default").status == "Success"
    with pytest.raises(ApiException) as refusal:
        core.read_namespaced_config_map("m", "default")
    assert refusal.value.status == 404


def test_pages(core):
    for i in range(5):
        core.create_namespaced_config_map("default", {"metadata": {"name": f"page{i}", "labels": {"p": "y"}}})
    first = core.list_namespaced_config_map("default", label_selector="p=y", limit=2)
    rest = core.list_namespaced_config_map("default", label_selector="p=y", _continue=first.metadata._continue)
    assert [m.metadata.name for m in first.items + rest.items] == [f"page{i}" for i in range(5)]


def test_secrets(core):
    core.create_namespaced_secret("default", client.V1Secret(metadata={"name": "k"}, string_data={"a": "b"}))
    assert core.read_namespaced_secret("k", "default").data == {"a": "Yg=="}


def test_sandbox_and_watch(up, custom, core):
    """From its creation to its end, as a watcher sees it."""
    seen, begun = [], threading.Event()
    version = custom.list_namespaced_custom_object(*GROUP)["metadata"]["resourceVersion"]

    def look():
        w = watch.Watch()
        begun.set()
        for event in w.stream(
            custom.list_namespaced_custom_object, *GROUP, resource_version=version, timeout_seconds=60
        ):
            conditions = event["object"].get("status", {}).get("conditions", [])
            ready = next((c["status"] for c in conditions if c["type"] == "Ready"), None)
            seen.append((event["type"], ready))
            if event["type"] == "DELETED":
                w.stop()

    thread = threading.Thread(target=look)
    thread.start()
    assert begun.wait(DEADLINE)
    custom.create_namespaced_custom_object(*GROUP, sandbox("s"))
    wait_until(lambda: ("MODIFIED", "True") in seen, what=lambda: f"Ready in {seen}")
    pod = core.read_namespaced_pod("s", "default")
    assert pod.status.phase == "Running" and pod.status.container_statuses[0].ready
    assert pod.metadata.owner_references[0].kind == "Sandbox"
    custom.patch_namespaced_custom_object(*GROUP, "s", {"spec": {"operatingMode": "Suspended"}})
    up.wait_for("sandbox/s", "condition=Suspended")
    custom.delete_namespaced_custom_object(*GROUP, "s")
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert seen[0][0] == "ADDED" and seen[-1][0] == "DELETED"


def test_status_is_a_subresource(up, custom):
    create_ready(up, custom, sandbox("s"))
    obj = custom.get_namespaced_custom_object_status(*GROUP, "s")
    obj["spec"]["operatingMode"] = "Suspended"
    obj["status"]["nodeName"] = "elsewhere"
    changed = custom.replace_namespaced_custom_object_status(*GROUP, "s", obj)
    assert changed["spec"]["operatingMode"] == "Running", "only the status is written there"


def test_exec(up, custom, core, monkeypatch):
    create_ready(up, custom, sandbox("s"))
    update = WSClient.update

    def checked(self, *args, **keywords):
        """It waits for the socket: a frame that came along with the one it has read would have to wait for the next."""
        update(self, *args, **keywords)
        assert not self.is_open() or not self.sock.sock.pending()

    monkeypatch.setattr(WSClient, "update", checked)
    call = core.connect_get_namespaced_pod_exec
    text = stream(
        call,
        "s",
        "default",
        command=["sh", "-c", "echo out; echo err >&2"],
        stderr=True,
        stdin=False,
        stdout=True,
        tty=False,
    )
    assert sorted(text.split()) == ["err", "out"]
    session = stream(
        call, "s", "default", command=["sh"], stderr=True, stdin=True, stdout=True, tty=False, _preload_content=False
    )
    session.write_stdin("echo hello; exit 4\n")
    end = time.monotonic() + DEADLINE
    text = ""
    while session.is_open() and time.monotonic() < end:
        session.update(timeout=1)
        text += session.read_stdout() if session.peek_stdout() else ""
    assert text == "hello\n"
    assert session.returncode == 4
    session.close()


def test_exec_in_a_terminal(up, custom, core):
    create_ready(up, custom, sandbox("s"))
    session = stream(
        core.connect_get_namespaced_pod_exec,
        "s",
        "default",
        command=["sh", "-c", "stty size; exit 3"],
        stderr=False,
        stdin=True,
        stdout=True,
        tty=True,
        _preload_content=False,
    )
    session.run_forever(timeout=DEADLINE)
    assert session.returncode == 3
    assert len(session.read_stdout().split()) == 2


def test_exec_refused(up, custom, core):
    create_ready(up, custom, sandbox("s"))
    with pytest.raises(ApiException) as refusal:
        stream(core.connect_get_namespaced_pod_exec, "nope", "default", command=["true"], stdout=True)
    assert "404" in str(refusal.value)


def test_logs(up, custom, core):
    create_ready(up, custom, sandbox("s", "sh", "-c", "seq 100; sleep infinity"))
    wait_until(
        lambda: core.read_namespaced_pod_log("s", "default").split() == [str(i) for i in range(1, 101)],
        what="all lines",
    )
    assert core.read_namespaced_pod_log("s", "default", tail_lines=2) == "99\n100\n"
    lines = []
    w = watch.Watch()
    for line in w.stream(core.read_namespaced_pod_log, "s", "default"):
        lines.append(line)
        if len(lines) == 100:
            w.stop()
    assert lines == [str(i) for i in range(1, 101)]


def test_definitions(api, custom):
    """A kind of one's own, from its definition to its end."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}},
    }
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.example.org"},
            "spec": {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}}  # fmt: skip
    extensions = client.ApiextensionsV1Api(api)
    extensions.create_custom_resource_definition(body)
    try:
        where = ("example.org", "v1", "default", "gadgets")

        def served():
            try:
                return custom.list_namespaced_custom_object(*where)["items"] == []
            except ApiException:
                return False

        wait_until(served, what="the new kind")
        gadget = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 0}}
        with pytest.raises(ApiException) as refusal:
            custom.create_namespaced_custom_object(*where, gadget)
        assert refusal.value.status == 422 and "spec.size" in refusal.value.body
        gadget["spec"]["size"] = 1
        custom.create_namespaced_custom_object(*where, gadget)
    finally:
        extensions.delete_custom_resource_definition("gadgets.example.org")
    wait_until(
        lambda: not [
            d for d in extensions.list_custom_resource_definition().items if d.metadata.name == "gadgets.example.org"
        ],
        what="its end",
    )


def test_dynamic_client(up, api):
    """Which finds everything by discovery."""
    dyn = dynamic.DynamicClient(api)
    sandboxes = dyn.resources.get(api_version="agents.x-k8s.io/v1beta1", kind="Sandbox")
    made = sandboxes.create(body=sandbox("s"), namespace="default")
    assert made.spec.operatingMode == "Running"
    up.wait_for("sandbox/s", "condition=Ready")
    applied = sandboxes.server_side_apply(
        body={
            "apiVersion": "agents.x-k8s.io/v1beta1",
            "kind": "Sandbox",
            "metadata": {"name": "s", "labels": {"x": "y"}},
        },
        name="s",
        namespace="default",
        field_manager="python",
    )
    assert applied.metadata.labels.x == "y"
    sandboxes.delete(name="s", namespace="default")
