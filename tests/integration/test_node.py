"""holt node with real sandboxes: Pods from their creation to their last trace."""

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from cluster import Cluster, condition, state, status_of, wait_until


@pytest.fixture(scope="module")
def cluster(holt, need_root, tmp_path_factory):
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(0o755)
    c = Cluster(holt, "--allow-dir-images", "--allow-host-path", str(shared))
    c.shared = shared
    yield c
    c.close()


@pytest.fixture(autouse=True)
def clean(request):
    """After each test nothing is left, at most ten seconds after the deletion of its Pods."""
    if "cluster" not in request.fixturenames:
        yield
        return
    c = request.getfixturevalue("cluster")
    before = c.traces()
    yield
    if c.node.poll() is not None:
        c.start_node()
    for pod in c.api("GET", "/api/v1/namespaces/default/pods")["items"]:
        c.delete_pod(pod["metadata"]["name"], grace=1, wait=False)
    for kind in ("secrets", "configmaps", "persistentvolumeclaims"):
        c.api("DELETE", f"/api/v1/namespaces/default/{kind}")
    assert wait_until(lambda: c.traces() == before, 10), (c.traces(), before, c.log("node")[-3000:])


# Running to an end.


@pytest.mark.parametrize("code,phase", [(0, "Succeeded"), (3, "Failed"), (137, "Failed")])
def test_exit_codes(cluster, code, phase):
    assert cluster.finish("p", f"echo out; echo err >&2; exit {code}", phase=phase) == "out\nerr\n"
    pod = cluster.pod("p")
    ended = state(pod)["terminated"]
    assert ended["exitCode"] == code and ended["reason"] == ("Error" if code else "Completed")
    assert ended["startedAt"] <= ended["finishedAt"]
    assert condition(pod, "Ready") == "False"
    assert not cluster.guests(pod["metadata"]["uid"])


def test_death_by_signal(cluster):
    cluster.finish("p", "kill -SEGV $$$$", phase="Failed")
    assert state(cluster.pod("p"))["terminated"]["exitCode"] == 139
    assert state(cluster.pod("p"))["terminated"]["signal"] == 11


@pytest.mark.parametrize(
    "command,container,code,text",
    [
        (["nosuchcmd"], {}, 127, "nosuchcmd"),
        (["/etc/passwd"], {}, 126, "/etc/passwd"),
        (["true"], {"workingDir": "/nope"}, 126, "/nope"),
    ],
)
def test_what_cannot_run(cluster, command, container, code, text):
    cluster.start_pod("p", *command, container=container)
    ended = state(cluster.wait_phase("p", "Failed"))["terminated"]
    assert ended["reason"] == "ContainerCannotRun" and ended["exitCode"] == code and text in ended["message"]


def test_status_of_a_running_pod(cluster):
    cluster.shell("p", "sleep 1000")
    pod = cluster.wait_ready("p")
    for kind in ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        assert condition(pod, kind) == "True"
    status = pod["status"]
    assert status["phase"] == "Running" and status["podIP"].startswith("10.88.") and status["startTime"]
    assert status["podIPs"] == [{"ip": status["podIP"]}] and status["hostIP"]
    own = status_of(pod)
    assert own["ready"] and own["started"] and own["restartCount"] == 0
    assert own["containerID"].startswith("holt://") and own["image"] == "host"


def test_restarts_and_back_off(cluster):
    cluster.shell("p", "echo run; exit 1", restartPolicy="Always")
    message = cluster.wait_waiting("p", "CrashLoopBackOff")
    assert message.startswith("back-off 10s restarting failed container=main pod=p_default(")
    pod = cluster.pod("p")
    own = status_of(pod)
    assert own["restartCount"] == 2 and own["lastState"]["terminated"]["exitCode"] == 1
    assert pod["status"]["phase"] == "Running" and condition(pod, "Ready") == "False"
    assert cluster.logs("p", "?previous=true") == "run\n"
    assert ("BackOff", message) in cluster.events("p")


def test_on_failure(cluster):
    script = "test -e /v/x && exit 0; touch /v/x; exit 1"
    cluster.shell("p", script, restartPolicy="OnFailure", volumes=[{"name": "v"}],
                  container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]})  # fmt: skip
    pod = cluster.wait_phase("p", "Succeeded")
    assert status_of(pod)["restartCount"] == 1  # and an emptyDir outlives the container


def test_root_is_fresh_after_a_restart(cluster):
    cluster.shell("p", "ls /here 2>/dev/null; touch /here; exit 1", restartPolicy="Always")
    cluster.wait_waiting("p", "CrashLoopBackOff")
    assert cluster.logs("p", "?previous=true") == ""


def test_init_containers(cluster):
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    init = [
        {"name": f"i{n}", "image": "host", "command": ["sh", "-c", f"echo {n} >>/v/order; echo init {n}"], **mount}
        for n in range(2)
    ]
    out = cluster.finish("p", "cat /v/order", container=mount, initContainers=init, volumes=[{"name": "v"}])
    assert out == "0\n1\n"
    pod = cluster.pod("p")
    assert [c["state"]["terminated"]["reason"] for c in pod["status"]["initContainerStatuses"]] == ["Completed"] * 2
    assert cluster.logs("p", "?container=i1") == "init 1\n"


def test_failing_init_container(cluster):
    cluster.shell("p", "echo never", initContainers=[{"name": "i", "image": "host", "command": ["false"]}])
    pod = cluster.wait_phase("p", "Failed")
    assert state(pod, "i", "initContainerStatuses")["terminated"]["exitCode"] == 1
    assert "waiting" in state(pod) and condition(pod, "Initialized") == "False"


def test_deadline(cluster):
    began = time.monotonic()
    cluster.shell("p", "sleep 1000", activeDeadlineSeconds=2)
    pod = cluster.wait_phase("p", "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded" and time.monotonic() - began < 8


# Limits.


def test_oom(cluster):
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    cluster.start_pod("p", "python3", "-c", "x = bytearray(200 << 20)", container=limits)
    ended = state(cluster.wait_phase("p", "Failed"))["terminated"]
    assert ended["reason"] == "OOMKilled" and ended["exitCode"] == 137
    assert "67108864" in ended["message"] and re.search(r"peak \d{8,} bytes", ended["message"])
    assert any(reason == "OOMKilled" for reason, _ in cluster.events("p"))


def test_exit_137_is_no_oom(cluster):
    cluster.finish("p", "exit 137", phase="Failed", container={"resources": {"limits": {"memory": "64Mi"}}})
    assert state(cluster.pod("p"))["terminated"]["reason"] == "Error"


def test_cpu_limit(cluster):
    script = "import time\nt = time.time()\nwhile time.time() - t < 1: pass\nprint(time.process_time())"
    cluster.start_pod("p", "python3", "-c", script, container={"resources": {"limits": {"cpu": "300m"}}})
    cluster.wait_phase("p", "Succeeded")
    assert 0.15 < float(cluster.logs("p")) < 0.6


def test_output_flood(cluster):
    """The node stays small and quick, and what it has time for is all that is printed: nothing is missing."""
    cluster.start_pod("flood", "timeout", "6", "yes")
    cluster.wait_ready("flood")
    time.sleep(3)
    began = time.monotonic()
    cluster.finish("p", "true")
    assert time.monotonic() - began < 2
    rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{cluster.node.pid}/status").read_text()).group(1))
    assert rss < 60_000
    uid = cluster.wait_phase("flood", "Failed")["metadata"]["uid"]  # the files are at rest
    files = list((cluster.data / "logs" / f"default_flood_{uid}" / "main").iterdir())
    assert sum(f.stat().st_size for f in files) < 40 << 20
    assert not any("F:dropped=" in f.read_text() for f in files)


def test_burst_of_output(cluster):
    """More than any buffer on its way holds, in small pieces and in large ones, to a client that is slow too."""
    cluster.finish("p", "seq 1 400000")
    assert cluster.logs("p") == "".join(f"{n}\n" for n in range(1, 400001))
    assert cluster.logs("p", "?tailLines=2") == "399999\n400000\n"
    cluster.finish("q", "line=$(printf %01000d 0); for i in $(seq 13000); do echo $i $line; done")
    lines = cluster.logs("q").splitlines()
    assert [line.split()[0] for line in lines] == [str(n) for n in range(1, 13001)]
    assert len(cluster.logs("q", "?tailLines=12000").splitlines()) == 12000
    assert len(cluster.logs("q", "?limitBytes=9000000")) == 9000000
    assert len(cluster.logs("q", "?follow=true").splitlines()) == 13000


def test_disk_limits(cluster):
    """Seen at the next look, every ten seconds."""
    limits = {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}
    cluster.shell("root", "head -c 9000000 /dev/zero >/x; sleep 1000", container=limits)
    cluster.shell("honest", "head -c 1000000 /dev/zero >/x; sleep 1000", container=limits)
    cluster.shell("volume", "head -c 9000000 /dev/zero >/v/x; sleep 1000",
                  container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                  volumes=[{"name": "v", "emptyDir": {"sizeLimit": "4Mi"}}])  # fmt: skip
    for name, text in (("root", "ephemeral-storage limit of 4194304"), ("volume", 'EmptyDir volume "v"')):
        status = cluster.wait_phase(name, "Failed", 20)["status"]
        assert status["reason"] == "Evicted" and text in status["message"]
    assert condition(cluster.pod("honest"), "Ready") == "True"


# Changes while it runs.


def patch_container(cluster, name, change):
    patch = {"spec": {"containers": [{"name": "main", **change}]}}
    cluster.api("PATCH", f"/api/v1/namespaces/default/pods/{name}", patch, "application/strategic-merge-patch+json")


def test_another_image(cluster, busybox_root):
    other = f"dir:{busybox_root()}"
    cluster.shell("p", "ls /; sleep 1000", terminationGracePeriodSeconds=1)
    cluster.wait_ready("p")
    patch_container(cluster, "p", {"image": other})
    pod = cluster.wait_pod("p", lambda p: status_of(p).get("restartCount") == 1 and condition(p, "Ready") == "True")
    assert status_of(pod)["image"] == other and wait_until(lambda: cluster.logs("p").startswith("bin\n"), 2)


# Last words.


def test_termination_message(cluster):
    cluster.finish("p", "echo bye >/dev/termination-log; exit 1", phase="Failed")
    assert state(cluster.pod("p"))["terminated"]["message"] == "bye\n"


def test_termination_message_from_logs(cluster):
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    cluster.finish("p", "echo one; echo two; exit 1", phase="Failed", container=policy)
    assert state(cluster.pod("p"))["terminated"]["message"] == "one\ntwo\n"


def test_long_and_binary_termination_message(cluster):
    cluster.finish("p", "head -c 100000 /dev/urandom >/dev/termination-log; exit 1", phase="Failed")
    assert len(state(cluster.pod("p"))["terminated"]["message"]) <= 4096


# Inputs.


def test_environment(cluster):
    cluster.create("configmaps", {"metadata": {"name": "m"}, "data": {"k": "from map", "bad": "x"}})
    cluster.create("secrets", {"metadata": {"name": "s"}, "stringData": {"k": "from secret"}})
    env = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)b"},
        {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    more = {"env": env, "envFrom": [{"configMapRef": {"name": "m"}, "prefix": "X_"}], "args": ["$(B)"]}
    script = 'echo "$B|$M|$S|$X_k|$HOSTNAME|$HOME|$0|$CPU|$IP"'
    out = cluster.finish("p", script, container=more).strip().split("|")
    assert out[:8] == ["ab", "from map", "from secret", "from map", "p", "/root", "ab", str(os.cpu_count())]
    assert out[8] == cluster.pod("p")["status"]["podIP"]


def test_missing_config_map_then_there(cluster):
    env = [{"name": "M", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]
    cluster.shell("p", "echo $M", container={"env": env})
    message = cluster.wait_waiting("p", "CreateContainerConfigError")
    assert message == 'spec.containers[0].env[0]: configmap "late" not found'
    assert not cluster.groups()
    cluster.create("configmaps", {"metadata": {"name": "late"}, "data": {"k": "now"}})
    cluster.wait_phase("p", "Succeeded")
    assert cluster.logs("p") == "now\n"


def test_content_volumes(cluster):
    cluster.create("configmaps", {"metadata": {"name": "m"}, "data": {"a": "A"}, "binaryData": {"b": "AAE="}})
    cluster.create("secrets", {"metadata": {"name": "s"}, "stringData": {"k": "secret"}})
    volumes = [
        {"name": "m", "configMap": {"name": "m"}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400, "items": [{"key": "k", "path": "d/key"}]}},
        {"name": "d", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "m"}}]}},
        {"name": "o", "configMap": {"name": "none", "optional": True}},
    ]
    mounts = [{"name": v["name"], "mountPath": f"/v/{v['name']}"} for v in volumes]
    mounts.append({"name": "m", "mountPath": "/etc/one", "subPath": "a"})
    script = (
        "cat /v/m/a /etc/one; wc -c </v/m/b; cat /v/s/d/key; stat -Lc ' %a' /v/s/d/key; cat /v/d/labels; echo;"
        "ls /v/p | tr '\\n' ' '; ls /v/o; touch /v/m/x 2>/dev/null || echo ro"
    )
    out = cluster.finish("p", script, container={"volumeMounts": mounts}, volumes=volumes,
                         metadata={"labels": {"l": "x"}})  # fmt: skip
    assert out == 'AA2\nsecret 400\nl="x"\na b k ro\n'


def test_users_and_groups(cluster):
    context = {"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 2000, "supplementalGroups": [3000]}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    out = cluster.finish("p", "id -u; id -g; id -G; touch /v/x && stat -c '%u %g' /v/x; touch /x 2>&1 | grep -c denied",
                         securityContext=context, container=mount, volumes=[{"name": "v"}])  # fmt: skip
    assert out == "1000\n1001\n1001 2000 3000\n1000 2000\n1\n"


def test_read_only_root_and_capabilities(cluster):
    context = {"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    out = cluster.finish("p", "touch /x 2>&1; grep CapEff /proc/self/status", container={"securityContext": context})
    assert "Read-only file system" in out and "CapEff:\t0000000000000000" in out


def test_memory_volume(cluster):
    volume = {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    out = cluster.finish("p", "df -k /v | tail -1 | awk '{print $2}'; head -c 3000000 /dev/zero >/v/x || echo full",
                         container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=[volume])  # fmt: skip
    assert out.startswith("1024\n") and out.endswith("full\n")


def test_sub_paths(cluster):
    mounts = [{"name": "v", "mountPath": "/a", "subPath": "x/y"}, {"name": "v", "mountPath": "/whole"}]
    out = cluster.finish("p", "touch /a/f; ls /whole/x/y", container={"volumeMounts": mounts}, volumes=[{"name": "v"}])
    assert out == "f\n"


def claim(name):
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def claim_pod(cluster, name, script, **more):
    return cluster.finish(name, script, container={"volumeMounts": [{"name": "v", "mountPath": "/v", **more}]},
                          volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])  # fmt: skip


def test_claims(cluster):
    cluster.create("persistentvolumeclaims", claim("c"))
    path = "/api/v1/namespaces/default/persistentvolumeclaims/c"
    assert wait_until(lambda: cluster.api("GET", path).get("status", {}).get("phase") == "Bound", 5)
    bound = cluster.api("GET", path)
    volume = cluster.api("GET", f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}")
    assert bound["status"]["capacity"] == {"storage": "1Gi"} and volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]

    claim_pod(cluster, "a", "echo kept >/v/f; touch /v/other; chown 33 /v/other")
    assert claim_pod(cluster, "b", "cat /v/f; stat -c '%u' /v/f /v/other") == "kept\n0\n33\n"
    assert claim_pod(cluster, "r", "touch /v/g 2>/dev/null || echo ro", readOnly=True) == "ro\n"
    [directory] = (cluster.data / "volumes" / "pvc" / "default").iterdir()
    assert (directory / "f").stat().st_uid == 0 and (directory / "other").stat().st_uid == 33
    # A link that one Pod plants leads no later one out.
    claim_pod(cluster, "l", "ln -s /etc /v/link")
    cluster.start_pod("evil", "ls", container={"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "link"}]},
                      volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])  # fmt: skip
    assert "subPath link" in cluster.wait_waiting("evil", "CreateContainerError")

    for name in "abrl":
        cluster.delete_pod(name)
    cluster.delete_pod("evil")
    cluster.api("DELETE", path)
    assert wait_until(lambda: not directory.exists(), 5)
    gone = f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}"
    assert wait_until(lambda: cluster.call("GET", gone)[0] == 404, 5)


def test_missing_claim_then_there(cluster):
    cluster.shell("p", "echo ok", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                  volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])  # fmt: skip
    assert 'persistentvolumeclaim "c" not found' in cluster.wait_waiting("p", "CreateContainerConfigError")
    cluster.create("persistentvolumeclaims", claim("c"))
    cluster.wait_phase("p", "Succeeded", 5)


def test_host_path(cluster):
    directory = cluster.shared / "owned"
    directory.mkdir()
    os.chown(directory, 1234, 1234)
    volume = {"name": "v", "hostPath": {"path": str(directory), "type": "Directory"}}
    cluster.finish("p", "touch /v/new", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=[volume])
    assert (directory / "new").stat().st_uid == 1234


# What is refused.


@pytest.mark.parametrize(
    "spec,container,field",
    [
        ({"hostNetwork": True}, {}, "spec.hostNetwork"),
        ({"runtimeClassName": "gvisor"}, {}, "spec.runtimeClassName"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}, {}, "spec.volumes[0].hostPath"),
        ({}, {"securityContext": {"privileged": True}}, "spec.containers[0].securityContext.privileged"),
        ({}, {"resources": {"limits": {"memory": "1Mi"}}}, "spec.containers[0].resources.limits.memory"),
        ({}, {"lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}, "spec.containers[0].lifecycle.postStart"),
    ],
)
def test_refused(cluster, spec, container, field):
    if "runtimeClassName" in spec:  # one that there is, and that this node does not have
        body = {"metadata": {"name": spec["runtimeClassName"]}, "handler": "runsc"}
        cluster.api("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)
    cluster.shell("p", "sleep 1000", container=container, **spec)
    message = cluster.wait_waiting("p", "CreateContainerConfigError")
    assert message.startswith(field + ": ")
    assert not cluster.groups() and cluster.pod("p")["status"]["phase"] == "Pending"
    assert ("Failed", message) in cluster.events("p")


def test_two_containers(cluster):
    main = {"name": "main", "image": "host"}
    cluster.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": [main, {"name": "b", "image": "host"}]}})
    assert cluster.wait_waiting("p", "CreateContainerConfigError").startswith("spec.containers[1]: ")


# Images.


def test_missing_image_then_imported(cluster, busybox_root):
    cluster.start_pod("p", "busybox", "echo", "hi", image="acme/tool:1")
    message = cluster.wait_waiting("p", "ErrImagePull")
    assert "holt image import acme/tool:1 PATH" in message
    subprocess.run([cluster.holt, "image", "import", "--data-dir", cluster.data, "acme/tool:1", busybox_root()], check=True)
    cluster.wait_phase("p", "Succeeded", 5)
    assert cluster.logs("p") == "hi\n"
    # In use, the image loses its name but not its layers.
    remove = [cluster.holt, "image", "rm", "--data-dir", cluster.data, "acme/tool:1"]
    subprocess.run(remove, check=True)
    assert len(list((cluster.data / "images" / "layers").iterdir())) == 1
    assert subprocess.run(remove, capture_output=True).returncode == 1


def test_image_that_is_never_pulled(cluster):
    cluster.start_pod("p", "true", image="acme/none", container={"imagePullPolicy": "Never"})
    cluster.wait_waiting("p", "ErrImageNeverPull")


def test_invalid_image(cluster):
    cluster.start_pod("p", "true", image="a//b")
    assert cluster.wait_waiting("p", "InvalidImageName").startswith("spec.containers[0].image: ")


def test_directory_image(cluster, busybox_root):
    out = cluster.finish("p", "echo $0 works; ls /", image=f"dir:{busybox_root()}")
    assert out.startswith("sh works\nbin\n")


def make_oci_layout(directory, root, config):
    """An OCI image layout of one layer."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    layer = put(subprocess.run(["tar", "-C", root, "-cf", "-", "."], check=True, capture_output=True).stdout)
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    document = {"os": "linux", "architecture": machine, "config": config,
                "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}  # fmt: skip
    manifest = {"schemaVersion": 2, "config": put(json.dumps(document).encode()),
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **layer}]}  # fmt: skip
    index = {"schemaVersion": 2, "manifests": [put(json.dumps(manifest).encode())]}
    (directory / "index.json").write_text(json.dumps(index))
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def test_image_configuration(cluster, busybox_root, tmp_path):
    """Entrypoint, environment, directory, user by name and stop signal come from the image."""
    root = busybox_root()
    (root / "etc").mkdir()
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n")
    (root / "work").mkdir()
    script = "echo $A; pwd; id -u; echo $HOME; trap 'echo usr1; exit 5' USR1; while :; do /bin/sleep 0.05; done"
    make_oci_layout(tmp_path, root, {"Entrypoint": ["/bin/sh", "-c"], "Cmd": [script], "Env": ["A=b"],
                                     "WorkingDir": "/work", "User": "app", "StopSignal": "SIGUSR1"})  # fmt: skip
    subprocess.run([cluster.holt, "image", "import", "--data-dir", cluster.data, "conf", tmp_path], check=True)
    cluster.start_pod("p", image="conf", metadata={"finalizers": ["example.com/hold"]}, terminationGracePeriodSeconds=20)
    cluster.wait_ready("p")
    assert wait_until(lambda: cluster.logs("p") == "b\n/work\n1000\n/home/app\n", 3)
    cluster.delete_pod("p", wait=False)
    pod = cluster.wait_pod("p", lambda p: "terminated" in state(p), 5)
    assert state(pod)["terminated"]["exitCode"] == 5
    cluster.api("PATCH", "/api/v1/namespaces/default/pods/p", {"metadata": {"finalizers": None}},
                "application/merge-patch+json")  # fmt: skip
    assert wait_until(lambda: cluster.pod("p") is None, 3)
    subprocess.run([cluster.holt, "image", "rm", "--data-dir", cluster.data, "conf"], check=True)


# Ends.


def test_graceful_end(cluster):
    volumes = [{"name": "v", "hostPath": {"path": str(cluster.shared)}}]
    cluster.shell("p", "trap 'sleep 0.3; echo term >/v/said; exit 0' TERM; touch /v/up; while :; do sleep 0.05; done",
                  volumes=volumes, container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]})  # fmt: skip
    assert wait_until((cluster.shared / "up").exists)
    began = time.monotonic()
    cluster.delete_pod("p", grace=20)
    assert 0.3 <= time.monotonic() - began < 3
    assert (cluster.shared / "said").read_text() == "term\n"


def test_deaf_to_term(cluster):
    cluster.shell("p", "trap '' TERM; touch /tmp/up; while :; do sleep 0.05; done")
    cluster.wait_ready("p")
    time.sleep(0.2)
    began = time.monotonic()
    cluster.delete_pod("p", grace=1)
    assert 0.9 <= time.monotonic() - began < 4


def test_pre_stop(cluster):
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo $HOSTNAME >/v/hook"]}}}
    cluster.shell("p", "sleep 1000", volumes=[{"name": "v", "hostPath": {"path": str(cluster.shared)}}],
                  container={"lifecycle": hook, "volumeMounts": [{"name": "v", "mountPath": "/v"}]})  # fmt: skip
    cluster.wait_ready("p")
    cluster.delete_pod("p")
    assert (cluster.shared / "hook").read_text() == "p\n"


def test_forced_deletion(cluster):
    cluster.shell("p", "trap '' TERM; while :; do sleep 0.05; done")
    uid = cluster.wait_ready("p")["metadata"]["uid"]
    cluster.delete_pod("p", grace=0)
    assert wait_until(lambda: not cluster.guests(uid), 2)


def test_deletion_during_a_fork_bomb(cluster):
    cluster.shell("p", "f() { f | f & }; f; sleep 1000", container={"resources": {"limits": {"memory": "256Mi"}}})
    cluster.wait_ready("p")
    time.sleep(1)
    cluster.delete_pod("p", grace=0)


def test_same_name_again(cluster):
    for _ in range(5):
        cluster.shell("p", "sleep 1000")
        cluster.delete_pod("p", grace=0)
    cluster.finish("p", "true")


# Probes.


def test_readiness_probe(cluster):
    probe = {"exec": {"command": ["test", "-e", "/v/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    cluster.shell("p", "sleep 1000", volumes=[{"name": "v", "hostPath": {"path": str(cluster.shared)}}],
                  container={"readinessProbe": probe, "volumeMounts": [{"name": "v", "mountPath": "/v"}]})  # fmt: skip
    pod = cluster.wait_phase("p", "Running")
    assert condition(pod, "Ready") == "False" and not status_of(pod)["ready"] and status_of(pod)["started"]
    (cluster.shared / "ready").touch()
    cluster.wait_ready("p", 4)
    (cluster.shared / "ready").unlink()
    cluster.wait_pod("p", lambda p: condition(p, "Ready") == "False", 4)
    assert any(reason == "Unhealthy" for reason, _ in cluster.events("p"))


def test_liveness_probe(cluster):
    probe = {"exec": {"command": ["test", "!", "-e", "/sick"]}, "periodSeconds": 1, "failureThreshold": 1}
    cluster.shell("p", "sleep 1; touch /sick; sleep 1000", restartPolicy="Always",
                  terminationGracePeriodSeconds=1, container={"livenessProbe": probe})  # fmt: skip
    pod = cluster.wait_pod("p", lambda p: status_of(p).get("restartCount", 0) >= 1, 10)
    assert status_of(pod)["lastState"]["terminated"]["exitCode"] in (137, 143)


def test_http_probe_is_told_of(cluster):
    cluster.shell("p", "sleep 1000", container={"readinessProbe": {"httpGet": {"port": 80}}})
    cluster.wait_ready("p")
    assert any("spec.containers[0].readinessProbe is ignored" in m for _, m in cluster.events("p"))


# Restarts of the node.


def lines_of(cluster, name):
    return [int(line) for line in cluster.logs(name).split()]


def test_adoption(cluster):
    cluster.shell("p", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.005; done", restartPolicy="Always")
    before = cluster.wait_ready("p")
    guest = min(cluster.guests(before["metadata"]["uid"]), key=int)
    time.sleep(0.3)
    for _ in range(3):
        cluster.kill_node()
        assert guest in cluster.guests()
        time.sleep(0.3)
        cluster.start_node()
    time.sleep(0.3)
    lines = lines_of(cluster, "p")
    assert lines == list(range(len(lines))) and len(lines) > 100
    after = cluster.pod("p")
    assert status_of(after) == status_of(before) and after["status"]["podIP"] == before["status"]["podIP"]


def test_end_while_the_node_is_away(cluster):
    cluster.shell("p", "trap 'exit 7' TERM; while :; do sleep 0.05; done")
    uid = cluster.wait_ready("p")["metadata"]["uid"]
    time.sleep(0.2)
    cluster.kill_node()
    guest = min(map(int, cluster.guests(uid)))
    child = pathlib.Path(f"/proc/{guest}/task/{guest}/children").read_text().split()[0]
    os.kill(int(child), signal.SIGTERM)
    time.sleep(0.5)
    cluster.start_node()
    assert state(cluster.wait_phase("p", "Failed"))["terminated"]["exitCode"] == 7


def test_sandbox_lost_while_the_node_is_away(cluster):
    cluster.shell("p", "sleep 1000", restartPolicy="Always")
    uid = cluster.wait_ready("p")["metadata"]["uid"]
    cluster.kill_node()
    os.kill(min(map(int, cluster.guests(uid))), signal.SIGKILL)
    cluster.start_node()
    pod = cluster.wait_pod("p", lambda p: status_of(p).get("restartCount") == 1 and condition(p, "Ready") == "True")
    assert status_of(pod)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_never_twice(cluster):
    """However soon after its start node and sandbox are lost: a Pod that may run once does, and says so."""
    volumes = [{"name": "v", "hostPath": {"path": str(cluster.shared)}}]
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    for i in range(12):
        cluster.shell(f"once{i}", f"echo run >>/v/once{i}; sleep 1000", volumes=volumes, container=mount)
        uid = cluster.wait_pod(f"once{i}", lambda p: condition(p, "Ready") == "True")["metadata"]["uid"]
        cluster.kill_node()
        os.kill(min(map(int, cluster.guests(uid))), signal.SIGKILL)
        cluster.start_node()
        ended = state(cluster.wait_phase(f"once{i}", "Failed"))["terminated"]
        assert ended["reason"] == "ContainerStatusUnknown"
        assert (cluster.shared / f"once{i}").read_text() == "run\n"


def test_machine_restarted(cluster):
    """The run directory is gone with all processes, the data is there."""
    cluster.shell("a", "sleep 1000", restartPolicy="Always")
    cluster.shell("n", "sleep 1000")
    uids = [cluster.wait_ready(name)["metadata"]["uid"] for name in "an"]
    cluster.kill_node()
    for uid in uids:
        os.kill(min(map(int, cluster.guests(uid))), signal.SIGKILL)
        subprocess.run(["rm", "-r", cluster.run / "pods" / uid], check=True)
    cluster.start_node()
    pod = cluster.wait_pod("a", lambda p: status_of(p).get("restartCount") == 1 and condition(p, "Ready") == "True")
    assert status_of(pod)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert state(cluster.wait_phase("n", "Failed"))["terminated"]["reason"] == "ContainerStatusUnknown"


def test_deleted_while_the_node_is_away(cluster):
    cluster.shell("p", "sleep 1000")
    cluster.shell("q", "sleep 1000")
    cluster.wait_ready("p")
    cluster.wait_ready("q")
    cluster.kill_node()
    cluster.delete_pod("p", grace=0, wait=False)
    cluster.delete_pod("q", grace=5, wait=False)
    cluster.start_node()
    assert wait_until(lambda: not cluster.groups() and cluster.pod("q") is None, 8), cluster.log("node")[-2000:]


def test_killed_again_and_again_while_pods_come_and_go(cluster):
    """No sandbox without Pod, none twice, no trace."""
    for round_ in range(6):
        for i in range(4):
            # Whether it ran may be unclear; then only this policy runs it again.
            cluster.shell(f"p{round_}-{i}", "sleep 1000", restartPolicy="Always")
        time.sleep(0.005 * round_ * 3)
        cluster.kill_node()
        cluster.start_node()
        for i in range(4):
            cluster.wait_ready(f"p{round_}-{i}")
        for i in range(4):
            cluster.delete_pod(f"p{round_}-{i}", grace=0, wait=False)
        cluster.kill_node()
        cluster.start_node()
    assert wait_until(lambda: not cluster.groups(), 8)


def children_of(pid):
    """(pid, name, state) of each."""
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            text = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if text["PPid"].strip() == str(pid):
            yield int(text["Pid"]), text["Name"], text["State"][0]


def test_zygote_killed(cluster):
    [zygote] = [pid for pid, name, _ in children_of(cluster.node.pid) if name == "holt-zygote"]
    os.kill(zygote, signal.SIGKILL)
    cluster.finish("p", "true")
    # One helper at most waits to be reaped by the next of its kind.
    assert wait_until(lambda: [n for _, n, state in children_of(cluster.node.pid) if state == "Z"] in ([], ["holt-node"]), 2)


def test_control_restarted(cluster):
    cluster.shell("p", "sleep 1000")
    cluster.wait_ready("p")
    cluster.control.kill()
    cluster.control.wait()
    cluster.start_control()
    cluster.finish("q", "true")
    assert condition(cluster.pod("p"), "Ready") == "True"
    cluster.delete_pod("p", grace=0)


def test_foreign_api_server_removes_nothing(holt, cluster):
    """A data directory is swept by its own API server's word only."""
    cluster.shell("p", "sleep 1000")
    uid = cluster.wait_ready("p")["metadata"]["uid"]
    known = cluster.data / "cluster"
    mine = known.read_text()
    cluster.kill_node()
    known.write_text("another")
    cluster.delete_pod("p", grace=0, wait=False)
    cluster.start_node()
    time.sleep(1)
    assert cluster.guests(uid) and "belongs to another API server" in cluster.log("node")
    cluster.kill_node()
    known.write_text(mine)
    cluster.start_node()
    assert wait_until(lambda: not cluster.guests(uid), 5)


# Many.


def test_many_at_once(cluster):
    names = [f"p{i}" for i in range(40)]
    for name in names:
        cluster.shell(name, "sleep 1000")
    addresses = {cluster.wait_ready(name)["status"]["podIP"] for name in names}
    assert len(addresses) == 40
    ids = {pathlib.Path(f"/proc/{pid}/uid_map").read_text().split()[1] for pid in cluster.guests()}
    assert len(ids) == 40 and all(int(i) >= 0x10000000 for i in ids)


def sockets_of(pid):
    return sum(os.readlink(f).startswith("socket:") for f in pathlib.Path(f"/proc/{pid}/fd").iterdir())


def test_one_connection_for_each(cluster):
    for i in range(20):
        cluster.shell(f"p{i}", "sleep 1000")
        cluster.wait_ready(f"p{i}")
        if i == 4:
            before = sockets_of(cluster.node.pid)
    assert sockets_of(cluster.node.pid) - before <= 15 + 2


def test_node_object(cluster):
    node = cluster.api("GET", "/api/v1/nodes/node-of-the-test")
    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "True" and int(node["status"]["capacity"]["cpu"]) == os.cpu_count()
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-of-the-test"
    assert wait_until(lambda: cluster.call("GET", lease)[0] == 200, 15)
    assert json.loads(cluster.call("GET", lease)[1])["spec"]["holderIdentity"] == "node-of-the-test"
