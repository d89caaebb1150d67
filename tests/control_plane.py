"""A control plane of one's own (`holt control`, no node), and clients of it. Its fixtures are in conftest.py."""
import base64
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import pytest

ADMIN_TOKEN = "admin-token-of-the-tests"
NODE_TOKEN = "node-token-of-the-tests"
USER_TOKEN = "user-token-of-the-tests"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class ControlPlane:
    def __init__(self, holt, *options):
        """options: further ones of `holt control`."""
        self.holt = holt
        self.options = options
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holt-clients-"))
        self.port = free_port()
        self.kubeconfig = self.dir / "admin.conf"
        (self.dir / "tokens").write_text(
            f'{ADMIN_TOKEN},admin,,"system:masters"\n{NODE_TOKEN},system:node:node1,n1,"system:nodes"\n{USER_TOKEN},alice,a1,"dev"\n'
        )
        self.process = None
        self.start()

    def start(self):
        # Once: a new one would not have the namespace that tests choose.
        kubeconfig = [] if self.kubeconfig.exists() else ["--kubeconfig", self.kubeconfig]
        read_end, write_end = os.pipe()
        self.process = subprocess.Popen(
            [self.holt, "control", "--data-dir", self.dir / "data", "--run-dir", self.dir / "run",
             "--listen", f"127.0.0.1:{self.port}", *kubeconfig, "--node-name", "node1",
             "--token-file", self.dir / "tokens", "--ready-fd", str(write_end), *self.options],
            pass_fds=[write_end], stderr=open(self.dir / "log", "a"),
        )
        os.close(write_end)
        with os.fdopen(read_end) as ready:
            assert ready.read(5) == "ready", (self.dir / "log").read_text()

    def stop(self, kill=False):
        (self.process.kill if kill else self.process.terminate)()
        assert kill or self.process.wait(20) == 0, (self.dir / "log").read_text()
        self.process.wait(20)

    def close(self):
        try:
            self.stop()
        finally:  # one that does not end must not disturb the tests that follow
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir)

    def kubectl(self, *args, ok=True, stdin=None, timeout=30):
        env = dict(os.environ, KUBECONFIG=str(self.kubeconfig), KUBECACHEDIR=str(self.dir / "cache"),
                   HOME=str(self.dir))
        done = subprocess.run(["kubectl", *args], env=env, input=stdin, capture_output=True, text=True, timeout=timeout)
        assert not ok or done.returncode == 0, f"kubectl {' '.join(args)}\n{done.stdout}{done.stderr}"
        assert ok or done.returncode != 0, f"kubectl {' '.join(args)} should have failed\n{done.stdout}{done.stderr}"
        return done.stdout if ok else done.stderr

    def needs_kubectl(self, minor):
        """Skips the test when kubectl is older than 1.MINOR."""
        version = json.loads(self.kubectl("version", "--client", "-o", "json"))["clientVersion"]
        if int(version["minor"].rstrip("+")) < minor:
            pytest.skip(f"kubectl {version['gitVersion']} cannot do that")

    def get(self, *args):
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def open(self, method, path, body=None, token=ADMIN_TOKEN, headers=None, timeout=30, text=None):
        """The answer as it comes: .status and a body to read. text: sent as it is, in place of body."""
        text = text if text is not None or body is None else json.dumps(body)
        context = ssl.create_default_context(cafile=str(self.ca_file()))
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=method,
                                         data=text.encode() if text is not None else None)
        request.add_header("Content-Type", "application/json")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            return urllib.request.urlopen(request, context=context, timeout=timeout)
        except urllib.error.HTTPError as error:
            return error

    def call(self, method, path, body=None, headers=None):
        """Status and JSON of the answer."""
        answer = self.open(method, path, body, headers=headers)
        return answer.status, json.loads(answer.read())

    def connection(self):
        """One that stays, for many requests."""
        context = ssl.create_default_context(cafile=str(self.ca_file()))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context)

    def ca_file(self):
        path = self.dir / "ca.crt"
        if not path.exists():
            data = subprocess.run(
                ["kubectl", "--kubeconfig", self.kubeconfig, "config", "view", "--raw", "-o",
                 "jsonpath={.clusters[0].cluster.certificate-authority-data}"],
                check=True, capture_output=True, text=True).stdout
            part = self.dir / f"ca.crt.{threading.get_ident()}"
            part.write_bytes(base64.b64decode(data))
            part.rename(path)  # whole, for threads that come at the same time
        return path

    def wait_until(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come to pass"
            time.sleep(0.02)


class User:
    """kubectl as alice, who is in the group dev."""

    def __init__(self, plane, token=USER_TOKEN):
        self.plane = plane
        self.token = token

    def run(self, *args, stdin=None):
        env = dict(os.environ, KUBECONFIG="/dev/null", KUBECACHEDIR=str(self.plane.dir / "cache-user"),
                   HOME=str(self.plane.dir))
        return subprocess.run(
            ["kubectl", "--server", f"https://127.0.0.1:{self.plane.port}", "--certificate-authority",
             str(self.plane.ca_file()), "--token", self.token, *args],
            env=env, input=stdin, capture_output=True, text=True, timeout=30)

    def ok(self, *args, stdin=None):
        done = self.run(*args, stdin=stdin)
        assert done.returncode == 0, f"{args}\n{done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, *args, stdin=None):
        done = self.run(*args, stdin=stdin)
        assert done.returncode != 0, f"{args} should have failed\n{done.stdout}{done.stderr}"
        return done.stderr

    def call(self, method, path, body=None, headers=None):
        answer = self.plane.open(method, path, body, token=self.token, headers=headers)
        text = answer.read()
        return answer.status, json.loads(text) if text[:1] == b"{" else text
