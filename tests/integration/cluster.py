"""A control plane and a node of its own, from the real binary, for tests of Pods."""

import base64
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

NODE = "node-of-the-test"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, seconds=10.0, step=0.02):
    """The first true value of condition(), or the last value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(step)


def uid_claims():
    """Which ranges of user ids are taken, and in whose name."""
    for path in pathlib.Path("/run/holt/uid").iterdir():
        try:
            yield path, path.read_text(errors="replace")
        except (FileNotFoundError, IsADirectoryError):
            pass


class Cluster:
    def __init__(self, holt, *node_args):
        self.holt = holt
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holt-node-"))
        self.dir.chmod(0o755)
        self.data, self.run = self.dir / "data", self.dir / "run"
        self.port = free_port()
        self.group = f"holt-test-{self.port}"  # the control groups' parent
        self.node_args = node_args
        (self.dir / "tokens").write_text(f'node,system:node:{NODE},n,"system:nodes"\nadmin,admin,a,"system:masters"\n')
        self.kubeconfig = self.dir / "admin.conf"
        self.node_config = self.dir / "node.conf"
        self.control = self.node = None
        self.start_control()
        admin = json.loads(self.kubeconfig.read_text())
        ca = base64.b64decode(admin["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=ca)
        admin["users"][0]["user"] = {"token": "node"}
        self.node_config.write_text(json.dumps(admin))
        self.start_node()

    # Processes.

    def _spawn(self, name, *args):
        read_end, write_end = os.pipe()
        with open(self.dir / f"{name}.log", "a") as log:
            process = subprocess.Popen(
                [self.holt, name, *map(str, args), "--ready-fd", str(write_end)], pass_fds=[write_end], stderr=log
            )
        os.close(write_end)
        with os.fdopen(read_end) as ready:
            assert ready.read(5) == "ready", self.log(name)
        return process

    def start_control(self):
        self.control = self._spawn(
            "control", "--data-dir", self.data, "--run-dir", self.run, "--listen", f"127.0.0.1:{self.port}",
            "--kubeconfig", self.kubeconfig, "--node-name", NODE, "--token-file", self.dir / "tokens",
        )  # fmt: skip

    def start_node(self, *more):
        self.node = self._spawn(
            "node", "--kubeconfig", self.node_config, "--node-name", NODE, "--data-dir", self.data, "--run-dir",
            self.run, "--cgroup-parent", self.group, *self.node_args, *more,
        )  # fmt: skip

    def kill_node(self, sig=signal.SIGKILL):
        self.node.send_signal(sig)
        self.node.wait(20)

    def close(self):
        self.node.send_signal(signal.SIGUSR1)
        try:
            assert self.node.wait(40) == 0, self.log("node")
        finally:
            self.node.kill()
            self.control.kill()
            self.control.wait()
            for group in self.groups():
                subprocess.run(["sh", "-c", f"kill -9 $(cat {group}/cgroup.procs)"], stderr=subprocess.DEVNULL)
            for path, owner in uid_claims():
                if owner.strip() == f"node {self.run}":
                    path.unlink()
            shutil.rmtree(self.dir, ignore_errors=True)

    def log(self, name):
        return (self.dir / f"{name}.log").read_text()

    # The API.

    def call(self, method, path, body=None, kind="application/json"):
        c = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=30)
        headers = {"Authorization": "Bearer admin", "Content-Type": kind}
        c.request(method, path, body if body is None or isinstance(body, str) else json.dumps(body), headers)
        answer = c.getresponse()
        text = answer.read()
        c.close()
        return answer.status, text.decode()

    def api(self, method, path, body=None, kind="application/json"):
        status, text = self.call(method, path, body, kind)
        assert status < 300, f"{method} {path}: {status} {text}"
        return json.loads(text)

    def create(self, plural, body, ns="default", group="api/v1"):
        return self.api("POST", f"/{group}/namespaces/{ns}/{plural}", body)

    def pod(self, name):
        status, text = self.call("GET", f"/api/v1/namespaces/default/pods/{name}")
        return json.loads(text) if status == 200 else None

    def start_pod(self, name, *command, image="host", container=None, metadata=None, **spec):
        main = {"name": "main", "image": image, **({"command": list(command)} if command else {}), **(container or {})}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [main], **spec}
        return self.create("pods", {"metadata": {"name": name, **(metadata or {})}, "spec": spec})

    def shell(self, name, script, **more):
        return self.start_pod(name, "sh", "-c", script, **more)

    def wait_pod(self, name, condition, seconds=15.0):
        pod = None

        def check():
            nonlocal pod
            pod = self.pod(name)
            return pod is not None and condition(pod)

        assert wait_until(check, seconds), json.dumps(pod and pod.get("status"), indent=1) + self.log("node")[-3000:]
        return pod

    def wait_phase(self, name, phase, seconds=15.0):
        return self.wait_pod(name, lambda p: p["status"].get("phase") == phase, seconds)

    def wait_ready(self, name, seconds=15.0):
        return self.wait_pod(name, lambda p: condition(p, "Ready") == "True", seconds)

    def wait_waiting(self, name, reason, seconds=15.0):
        """The message of the waiting state once its reason is this one."""
        pod = self.wait_pod(name, lambda p: state(p).get("waiting", {}).get("reason") == reason, seconds)
        return state(pod)["waiting"].get("message", "")

    def delete_pod(self, name, grace=None, wait=True):
        query = "" if grace is None else f"?gracePeriodSeconds={grace}"
        self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}{query}")
        if wait:
            assert wait_until(lambda: self.pod(name) is None, 20), self.log("node")[-3000:]

    def logs(self, name, query=""):
        status, text = self.call("GET", f"/api/v1/namespaces/default/pods/{name}/log{query}")
        assert status == 200, text
        return text

    def finish(self, name, script, phase="Succeeded", **more):
        """Runs a script to its end; its output."""
        self.shell(name, script, **more)
        self.wait_phase(name, phase, 20)
        return self.logs(name)

    def events(self, name):
        items = self.api("GET", "/api/v1/namespaces/default/events")["items"]
        return [(e["reason"], e["message"]) for e in items if e["involvedObject"]["name"] == name]

    # What is on the host.

    def groups(self):
        found = []
        for pattern in (self.group, f"*/{self.group}"):
            for top in pathlib.Path("/sys/fs/cgroup").glob(pattern):
                found += [str(d) for d in top.iterdir() if d.is_dir()]
        return sorted(found)

    def guests(self, uid=""):
        """Process ids in the sandboxes of a Pod."""
        found = set()
        for group in self.groups():
            try:
                found |= set(pathlib.Path(group, "cgroup.procs").read_text().split()) if uid in group else set()
            except OSError:
                pass  # just removed
        return found

    def traces(self):
        """Everything that Pods may leave."""
        files = [str(p.relative_to(self.dir)) for d in ("data/pods", "data/logs", "data/trash", "run/pods")
                 for p in (self.dir / d).iterdir()]  # fmt: skip
        blanks = len(list((self.data / "blank").iterdir()))
        owned = max(0, len([c for c in uid_claims() if c[1].startswith(f"node {self.run}")]) - blanks)
        mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        return {"files": sorted(files), "groups": self.groups(), "ids": owned, "mounts": sorted(mounts)}


def status_of(pod, name="main", which="containerStatuses"):
    return next((c for c in pod["status"].get(which, []) if c["name"] == name), {})


def state(pod, name="main", which="containerStatuses"):
    return status_of(pod, name, which).get("state", {})


def condition(pod, kind):
    return next((c["status"] for c in pod["status"].get("conditions", []) if c["type"] == kind), None)
