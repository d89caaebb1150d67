"""A whole holt of one's own (`holt up`) in directories of its own, and what it leaves on the host."""

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from control_plane import free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Long enough for a machine with ten times more to do than it can; nothing waits for it when all goes well.
DEADLINE = 60.0
# The promise is ten seconds from the deletion; a busy machine gets some more.
CLEAN_DEADLINE = 20.0


def wait_until(condition, seconds=DEADLINE, what="it", step=0.02):
    """The first true value of condition(); fails when time is up."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what() if callable(what) else what} did not come to pass in {seconds:.0f} s")
        time.sleep(step)


def read(path):
    """The text of a file of /proc or the like, "" when it is gone."""
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def command_of(pid):
    return [part for part in read(f"/proc/{pid}/cmdline").split("\0") if part]


def is_alive(pid):
    stat = read(f"/proc/{pid}/stat")
    return bool(stat) and stat.rpartition(")")[2].split()[0] not in "ZX"


def children_of(pid):
    """Of all its threads."""
    found = []
    for tasks in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in read(tasks).split()]
    return found


def all_pids():
    return [int(p.name) for p in pathlib.Path("/proc").glob("[0-9]*")]


def net_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def condition_of(obj, kind):
    return next((c for c in (obj or {}).get("status", {}).get("conditions", []) if c["type"] == kind), {})


def sandbox(name, *command, **spec):
    """The object. Keywords starting with an underscore go into the container, pod= into the Pod's spec."""
    container = {"name": "main", "image": "host", "command": list(command or ["sleep", "infinity"])}
    container |= {key[1:]: spec.pop(key) for key in list(spec) if key.startswith("_")}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container], **spec.pop("pod", {})}
    template = {"spec": pod, **({"metadata": spec.pop("pod_metadata")} if "pod_metadata" in spec else {})}
    return {
        "apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
        "spec": {"podTemplate": template, **spec},
    }  # fmt: skip


def claim_template(name="work"):
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"<exit {self.code}, out {self.out!r}, err {self.err!r}>"


class Instance:
    def __init__(self, holt, *arguments, start=True, data=None):
        self.holt = holt
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holt-up-"))
        self.dir.chmod(0o755)
        self.data, self.run = data or self.dir / "data", self.dir / "run"
        self.home = self.dir / "home"
        self.home.mkdir()
        self.port = free_port()
        self.arguments = [str(a) for a in arguments]
        self.kubeconfig = self.dir / "kubeconfig"
        self.up = None
        self.started = []  # clients that a test may leave running
        self._tls = None
        if start:
            self.start()

    # The supervisor and its three.

    def command(self, *more):
        return [
            self.holt, "up", "--data-dir", str(self.data), "--run-dir", str(self.run),
            "--listen", f"127.0.0.1:{self.port}", "--kubeconfig", str(self.kubeconfig), *self.arguments, *more,
        ]  # fmt: skip

    def start(self, *more):
        """Returns when it has said that it is ready."""
        read_end, write_end = os.pipe()
        with open(self.dir / "log", "a") as log:
            self.up = subprocess.Popen(
                self.command("--ready-fd", str(write_end), *more),
                pass_fds=[write_end], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        os.close(write_end)
        with os.fdopen(read_end) as ready:
            assert select.select([ready], [], [], DEADLINE)[0] and ready.read(5) == "ready", self.log()
        return self

    def log(self):
        return read(self.dir / "log")

    def child(self, name):
        """The pid of control, node or egress, or None."""
        if self.up is None:
            return None
        for pid in children_of(self.up.pid):
            if command_of(pid)[1:2] == [name]:
                return pid
        return None

    def children(self):
        return {name: self.child(name) for name in ("control", "node", "egress")}

    def wait_ready(self):
        done = subprocess.run(
            [self.holt, "wait", "--run-dir", str(self.run), "--timeout", f"{DEADLINE:.0f}s"],
            capture_output=True, text=True, timeout=DEADLINE + 10,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + self.log()

    def kill(self, name, sig=signal.SIGKILL):
        """Kills one of the three and returns when its successor is ready."""
        old = wait_until(lambda: self.child(name), what=f"a running {name}")
        os.kill(old, sig)
        wait_until(lambda: self.child(name) not in (None, old), what=f"another {name}")
        self.wait_ready()

    def kill_up(self):
        """Kills the supervisor; its children go with it."""
        pids = [pid for pid in self.children().values() if pid]
        self.up.kill()
        self.up.wait()
        wait_until(lambda: not any(map(is_alive, pids)), what="the end of the children")

    def stop(self, timeout=DEADLINE):
        """As systemd would stop it; the exit status."""
        self.up.send_signal(signal.SIGTERM)
        return self.up.wait(timeout)

    def close(self):
        """Ends everything and takes everything away, whatever state it is in; what it found left behind."""
        for process in self.started:
            process.kill()
            process.wait()
        if self.up and self.up.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill_up()
        self.kill_strays()
        left = {"processes": [(pid, command_of(pid)) for pid in self.processes()], "mounts": self.mounts()}
        for group in self.groups():
            for pid in read(group / "cgroup.procs").split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        wait_until(lambda: not self.processes(), what="the end of the sandboxes")
        for mount in reversed(self.mounts()):
            subprocess.run(["umount", "-l", mount], check=False)
        for group in self.groups():
            try:
                wait_until(lambda group=group: not read(group / "cgroup.procs"), 10)
                group.rmdir()
            except (AssertionError, OSError):
                left.setdefault("groups", []).append(str(group))
        for parent in self.group_parents():
            try:
                parent.rmdir()
            except OSError:
                pass
        for name, _ in self.id_ranges():
            (pathlib.Path("/run/holt/uid") / name).unlink(missing_ok=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        return left

    def kill_strays(self):
        """Processes of holt that outlived their supervisor, which is a fault that a test may be looking for."""
        for pid in all_pids():
            command = command_of(pid)
            if command[:1] == ["holt"] and str(self.run) in command:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    # Clients.

    def environment(self, **more):
        return dict(
            os.environ,
            KUBECONFIG=str(self.kubeconfig),
            KUBECACHEDIR=str(self.home / "cache"),
            HOME=str(self.home),
            **more,
        )

    def call(self, *command, stdin=None, timeout=DEADLINE + 30, **env):
        """Runs a client to its end."""
        done = subprocess.run(
            [str(c) for c in command], input=stdin, capture_output=True, text=True, timeout=timeout,
            env=self.environment(**env), cwd=ROOT,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def kubectl(self, *args, stdin=None, code=0, timeout=DEADLINE + 30, **env):
        """What it printed; with another code than 0, also its complaint. code=None: the Answer, whatever it is."""
        if stdin is not None and not isinstance(stdin, str):
            stdin = json.dumps(stdin)
        done = self.call("kubectl", *args, stdin=stdin, timeout=timeout, **env)
        if code is None:
            return done
        assert done.code == code, f"kubectl {' '.join(map(str, args))}: {done}\n{self.log()[-3000:]}"
        return done.out if code == 0 else done.out + done.err

    def popen(self, *command, **keywords):
        """A client that runs beside the test; ended with the instance at the latest."""
        keywords = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
                    "text": True, **keywords}  # fmt: skip
        process = subprocess.Popen([str(c) for c in command], env=self.environment(), cwd=ROOT, **keywords)
        self.started.append(process)
        return process

    def create(self, *objects):
        for obj in objects:
            self.kubectl("create", "-f", "-", stdin=obj)

    def get(self, kind, name, *args):
        """The object, None when there is none."""
        done = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json", *args, code=None)
        assert done.code == 0, done
        return json.loads(done.out) if done.out.strip() else None

    def items(self, kind, *args):
        """The objects of a kind in the default namespace."""
        return json.loads(self.kubectl("get", kind, "-o", "json", *args))["items"]

    def exec(self, pod, *command, stdin=None, code=0):
        return self.kubectl("exec", "-i", pod, "--", *command, stdin=stdin or "", code=code)

    def wait_for(self, target, what, timeout=DEADLINE):
        """kubectl wait; what it saw instead when it was in vain."""
        done = self.kubectl(
            "wait", f"--for={what}", f"--timeout={timeout:.0f}s", target, code=None, timeout=timeout + 30
        )
        if done.code:
            kind, _, name = target.partition("/")
            seen = self.kubectl("get", kind, name, "-o", "yaml", code=None)
            pods = self.kubectl("get", "pods", "-A", code=None)
            raise AssertionError(f"{target} {what}: {done}\n{seen.out}\n{pods.out}\n{self.log()[-3000:]}")

    def ready_sandbox(self, obj):
        self.create(obj)
        self.wait_for(f"sandbox/{obj['metadata']['name']}", "condition=Ready")
        return self.get("sandbox", obj["metadata"]["name"])

    def tls(self):
        if self._tls is None:
            config = self.config()
            authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
            self._tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
            user = config["users"][0]["user"]
            pair = self.dir / "admin.pem"
            pair.touch(0o600)
            pair.write_bytes(
                base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
            )
            self._tls.load_cert_chain(pair)
        return self._tls

    def config(self):
        return json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))

    def open(self, method, path, body=None, kind="application/json", timeout=DEADLINE):
        """The answer of the API as it comes: .status and a body to read. body: bytes, text or an object."""
        if isinstance(body, str):
            body = body.encode()
        elif body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", method=method, data=body, headers={"Content-Type": kind}
        )
        try:
            return urllib.request.urlopen(request, context=self.tls(), timeout=timeout)
        except urllib.error.HTTPError as error:
            return error

    def api(self, method, path, body=None, kind="application/json"):
        """(status, object)"""
        with self.open(method, path, body, kind) as answer:
            text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text.decode(errors="replace")

    # What is on the host.

    def group_parents(self):
        """Control groups of this instance, one per hierarchy: named after the run directory, as src/cli/up.c says."""
        name = f"holt-{fnv1a32(os.path.realpath(self.run)):08x}"
        top = pathlib.Path("/sys/fs/cgroup")
        return [d for d in (top / name, *top.glob(f"*/{name}")) if d.is_dir()]

    def groups(self):
        return sorted(d for parent in self.group_parents() for d in parent.iterdir() if d.is_dir())

    def processes(self, uid=""):
        """Host pids of the processes in sandboxes, of all or of the Pod with this uid."""
        found = set()
        for group in self.groups():
            if group.name.startswith(uid):
                found |= {int(pid) for pid in read(group / "cgroup.procs").split()}
        return sorted(found)

    def mounts(self):
        """Mount points in the namespace of the host that lie in our directories or are made of them."""
        lines = read("/proc/self/mountinfo").splitlines()
        return [line.split()[4] for line in lines if str(self.dir) in line]

    def id_ranges(self):
        """Claimed ranges of ids: (file, owner)."""
        files = pathlib.Path("/run/holt/uid")
        found = [(f.name, read(f)) for f in files.iterdir() if f.is_file()] if files.is_dir() else []
        return sorted((name, owner) for name, owner in found if str(self.run) in owner)

    def workload(self, uid, command):
        """The pid of the process in a Pod whose command line starts with these words."""
        for pid in self.processes(uid):
            if command_of(pid)[: len(command)] == list(command):
                return pid
        return None

    def traces(self, uid):
        """Everything that still shows that the Pod with this uid was here; empty when nothing does."""
        found = [f"process {pid} {command_of(pid)}" for pid in self.processes(uid)]
        found += [f"cgroup {g}" for g in self.groups() if uid in g.name]
        found += [f"mount {line}" for line in read("/proc/self/mountinfo").splitlines() if uid in line]
        found += [f"ids {name}" for name, owner in self.id_ranges() if uid in owner]
        for top in (self.data, self.run):
            for directory, directories, files in os.walk(top):
                found += [f"file {directory}/{name}" for name in directories + files if uid in name]
        return found


def net_namespace_users(name):
    """Who keeps a network namespace ("net:[4026532345]") alive: processes in it, descriptors on it, mounts of it."""
    found = []
    inode = name.partition("[")[2].rstrip("]")
    for pid in all_pids():
        if net_namespace(pid) == name:
            found.append(f"process {pid} {command_of(pid)}")
        try:
            for fd in os.scandir(f"/proc/{pid}/fd"):
                if os.readlink(fd.path) == name:
                    found.append(f"descriptor {fd.path} of {command_of(pid)}")
        except OSError:
            continue
    found += [f"mount {line}" for line in read("/proc/self/mountinfo").splitlines() if f"net:[{inode}]" in line]
    return found


def fnv1a32(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
