"""The demonstration of the README, word for word."""

import pathlib
import subprocess

from instance import ROOT, sandbox, wait_until

AGENT = (ROOT / "examples" / "agent.py").read_text()
OUTPUT = "3 cities, 970920 people, the largest is Lisbon; wc counts 4 lines\n"


def test_python_sandbox(up):
    assert "created" in up.kubectl("apply", "-f", "examples/python-sandbox.yaml")
    up.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "sandbox/python")
    table = up.kubectl("get", "sandboxes").splitlines()
    assert table[0].split() == ["NAME", "READY", "REASON", "AGE"]
    assert table[1].split()[:3] == ["python", "True", "DependenciesReady"]

    assert up.kubectl("exec", "-i", "python", "--", "python3", "-", stdin=AGENT) == OUTPUT
    assert up.exec("python", "cat", "result.txt") == "970920\n"
    assert up.exec("python", "sh", "-c", "exit 7", code=7)

    pod = up.get("pod", "python")["metadata"]["uid"]
    up.kubectl("patch", "sandbox", "python", "--type=merge", "-p", '{"spec":{"operatingMode":"Suspended"}}')
    up.kubectl("wait", "--for=condition=Suspended", "--timeout=60s", "sandbox/python")
    assert up.get("pod", "python") is None
    wait_until(lambda: not up.traces(pod), what=lambda: f"an end without {up.traces(pod)}")

    up.kubectl("patch", "sandbox", "python", "--type=merge", "-p", '{"spec":{"operatingMode":"Running"}}')
    up.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "sandbox/python")
    assert up.get("pod", "python")["metadata"]["uid"] != pod
    assert up.exec("python", "cat", "/work/result.txt") == "970920\n", "the volume survives suspension"

    assert "deleted" in up.kubectl("delete", "-f", "examples/python-sandbox.yaml")
    assert up.get("sandbox", "python") is None
    wait_until(lambda: up.get("pvc", "work-python") is None, what="the end of the claim")
    wait_until(lambda: not list(pathlib.Path(up.data, "volumes").rglob("result.txt")), what="the end of its files")


def test_agent_that_fails_says_so(up):
    up.kubectl("apply", "-f", "examples/python-sandbox.yaml")
    up.wait_for("sandbox/python", "condition=Ready")
    done = up.kubectl("exec", "-i", "python", "--", "python3", "-", stdin="raise SystemExit(7)", code=None)
    assert done.code == 7 and "exit code 7" in done.err
    done = up.kubectl("exec", "-i", "python", "--", "python3", "-", stdin="1/0", code=None)
    assert done.code == 1 and "ZeroDivisionError" in done.err


def test_hello(up):
    up.kubectl("apply", "-f", "examples/hello-sandbox.yaml")
    up.wait_for("sandbox/hello", "condition=Ready")
    assert up.exec("hello", "python3", "-c", "import platform; print(platform.system())") == "Linux\n"


def test_the_same_program_by_holt_run(holt, need_root, tmp_path):
    done = subprocess.run(
        [holt, "run", "--", "python3", "-"], input=AGENT, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, OUTPUT), done.stderr
    assert not list(tmp_path.iterdir()), "what it wrote stays in the sandbox"


def test_the_programs_of_holt(up, holt):
    """ls, exec, ps, logs, cp and rm against the same instance."""
    up.kubectl("apply", "-f", "examples/python-sandbox.yaml")
    up.wait_for("sandbox/python", "condition=Ready")
    assert "python" in up.call(holt, "ls").out
    done = up.call(holt, "exec", "-i", "python", "--", "python3", "-", stdin=AGENT)
    assert (done.code, done.out) == (0, OUTPUT), done
    assert up.call(holt, "exec", "python", "--", "sh", "-c", "exit 9").code == 9
    assert "sleep" in up.call(holt, "ps", "python").out
    source = up.dir / "to-copy"
    source.write_text("copied\n")
    done = up.call(holt, "cp", str(source), "python:/work/copy")
    assert done.code == 0, done
    assert up.exec("python", "cat", "/work/copy") == "copied\n"
    done = up.call(holt, "cp", "python:/work/copy", str(up.dir / "back"))
    assert done.code == 0 and (up.dir / "back").read_text() == "copied\n", done
    assert up.call(holt, "rm", "python").code == 0
    assert up.get("sandbox", "python") is None


def test_create_without_kubectl(up, holt):
    done = up.call(holt, "create", "--memory", "64Mi", "-e", "A=b", "mine")
    assert done.code == 0 and done.out == "sandbox mine is ready\n", done
    assert up.call(holt, "exec", "mine", "--", "sh", "-c", "echo $A").out == "b\n"
    assert up.get("sandbox", "mine")["spec"]["podTemplate"]["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "64Mi"}
    }
    done = up.call(holt, "create", "other", "--", "sh", "-c", "echo up; sleep 1000")
    assert done.code == 0 and up.call(holt, "logs", "other").out == "up\n", done
    for arguments, text in (
        (["mine"], "already exists"),
        (["UPPER"], "metadata.name"),
        (["x", "--image", "host"], "options go before the name"),
        (["--env", "A", "x"], "--env"),
        (["--memory", "lots", "x"], "memory"),
        (["--image", "nosuch", "x1"], "is not on this node"),
        (["--memory", "1", "x2"], "less than the 4Mi"),
        ([], "name the sandbox"),
    ):
        done = up.call(holt, "create", "--timeout", "20s", *arguments)
        assert done.code != 0 and text in done.err, (arguments, done)


def test_messages(up, holt):
    """What is wrong is said once, and by name."""
    up.create(sandbox("s"))
    up.wait_for("sandbox/s", "condition=Ready")
    for arguments, code, text in (
        (["ls", "-n", "nosuch"], 0, 'no sandboxes in the namespace "nosuch"'),
        (["attach", "s", "p99"], 125, "holt: no process with this id\n"),
        (["exec", "s"], 64, "holt: exec: name the command"),
        (["cp", "a", "b"], 64, "holt: cp: one side"),
        (["image"], 64, "holt image import"),
        (["run", "--memory", "1", "--", "true"], 125, "--memory: less than the 4Mi"),
        (["run", "--memory", "1Pi", "--", "true"], 125, "--memory: more than"),
        (["run", "--pids", "0", "--", "true"], 125, "--pids"),
        (["run", "--cpus", "100000", "--", "true"], 125, "the most there can be"),
    ):
        done = up.call(holt, *arguments)
        assert done.code == code and text in done.err, (arguments, done)
    for command in ("run", "up", "create", "exec", "cp", "ls", "rm", "logs", "doctor", "wait", "image"):
        done = up.call(holt, command, "--help")
        assert done.code == 0 and done.out.startswith("Usage: holt "), done
