"""Unmodified kubectl: exec, terminals, attach and cp, over WebSocket and over SPDY/3.1."""

import filecmp
import hashlib
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from fcntl import ioctl

import pytest

from instance import DEADLINE, ROOT, sandbox, wait_until


@pytest.fixture(autouse=True, params=["true", "false"], ids=["websocket", "spdy"])
def transport(request, monkeypatch):
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", request.param)


class Terminal:
    """kubectl on a terminal of its own."""

    def __init__(self, up, *command, rows=24, columns=80):
        self.master, slave = pty.openpty()
        self.resize(rows, columns, self.master)
        self.process = subprocess.Popen(
            [*map(str, command)], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=up.environment(TERM="xterm"), cwd=ROOT,
        )  # fmt: skip
        os.close(slave)
        up.started.append(self.process)
        self.seen = ""

    def resize(self, rows, columns, fd=None):
        ioctl(self.master if fd is None else fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if fd is None:
            self.process.send_signal(signal.SIGWINCH)

    def send(self, text):
        os.write(self.master, text.encode())

    def expect(self, text):
        """Reads until it has seen this; what came before it."""
        end = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} is not in {self.seen!r}"
            if select.select([self.master], [], [], 0.5)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the other end is closed
                    data = b""
                assert data, f"it ended without {text!r}: {self.seen!r}"
                self.seen += data.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def end(self):
        """What is left, and the exit code."""
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data.decode(errors="replace")
        os.close(self.master)
        return self.process.wait(DEADLINE), self.seen


@pytest.fixture
def s(up):
    """A running sandbox s."""
    up.ready_sandbox(sandbox("s"))
    return up


# exec


@pytest.mark.parametrize("code", [0, 1, 2, 42, 126, 255])
def test_exit_codes(s, code):
    done = s.kubectl("exec", "s", "--", "sh", "-c", f"exit {code}", code=None)
    assert done.code == code
    assert not code or f"exit code {code}" in done.err


def test_death_by_signal(s):
    assert s.kubectl("exec", "s", "--", "sh", "-c", "kill -9 $$", code=None).code == 137


def test_streams_are_apart(s):
    done = s.kubectl("exec", "s", "--", "sh", "-c", "echo out; echo err >&2", code=None)
    assert (done.code, done.out, done.err) == (0, "out\n", "err\n")


def test_input_and_its_end(s):
    assert s.exec("s", "sort", stdin="b\na\n") == "a\nb\n"
    assert s.exec("s", "wc", "-c", stdin="x" * 3_000_000).strip() == "3000000"
    assert s.kubectl("exec", "s", "--", "cat") == "", "without -i there is no input"


def test_large_output_is_whole(s):
    assert len(s.kubectl("exec", "s", "--", "head", "-c", "20000000", "/dev/zero")) == 20_000_000
    text = s.kubectl("exec", "s", "--", "seq", "300000")
    assert text == "".join(f"{i}\n" for i in range(1, 300001))


def test_hundred_megabytes_each_way(s):
    data = os.urandom(1 << 20) * 100
    done = subprocess.run(
        ["kubectl", "exec", "-i", "s", "--", "sha256sum"], input=data, capture_output=True, env=s.environment()
    )
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest(), done.stderr
    done = subprocess.run(
        ["kubectl", "exec", "-i", "s", "--", "cat"], input=data, capture_output=True, env=s.environment()
    )
    assert done.stdout == data, done.stderr


def test_program_that_does_not_read_its_input(s):
    """Its end comes through though the client still has much to say."""
    with open("/dev/zero") as endless:
        client = s.popen("kubectl", "exec", "-i", "s", "--", "sh", "-c", "head -c 3 >&2; exit 9", stdin=endless)
        assert client.wait(DEADLINE) == 9


def test_clients_that_read_late_get_all(s):
    """Of programs that have ended long ago and of such that still wait, whatever holds the rest."""
    sizes = range(1_000_000, 9_000_000, 500_000)
    clients = [s.popen("kubectl", "exec", "s", "--", "head", "-c", str(n), "/dev/zero") for n in sizes]
    time.sleep(8)  # more than a server waits for an answer
    for n, client in zip(sizes, clients):
        out, _ = client.communicate(timeout=DEADLINE)
        assert len(out) == n and client.returncode == 0, out[-200:]


def test_output_comes_as_it_is_made(s):
    client = s.popen(
        "kubectl", "exec", "-i", "s", "--", "sh", "-c", "echo first; read x; echo second $x", stdin=subprocess.PIPE
    )
    assert client.stdout.readline() == "first\n"
    client.stdin.write("and\n")
    client.stdin.flush()
    assert client.stdout.readline() == "second and\n"
    assert client.wait(DEADLINE) == 0


def test_eight_at_once(s):
    clients = [
        s.popen("kubectl", "exec", "-i", "s", "--", "sh", "-c", f"cat; echo {i}; exit {i}", stdin=subprocess.PIPE)
        for i in range(8)
    ]
    for i, client in enumerate(clients):
        out, _ = client.communicate(f"hello {i}\n", timeout=DEADLINE)
        assert out.startswith(f"hello {i}\n{i}\n") and client.returncode == i


def test_client_that_goes_takes_its_program_along(s):
    """As on any terminal: hung up on, and killed if it does not listen."""
    uid = s.get("pod", "s")["metadata"]["uid"]
    client = s.popen("kubectl", "exec", "s", "--", "sh", "-c", "trap '' HUP; echo there; while :; do sleep 0.2; done")
    assert client.stdout.readline() == "there\n"
    assert s.workload(uid, ["sh", "-c"])
    client.kill()
    wait_until(lambda: not s.workload(uid, ["sh", "-c"]), what="its end")


# Terminals


def test_terminal(s):
    t = Terminal(s, "kubectl", "exec", "-it", "s", "--", "sh", rows=31, columns=97)
    t.send("stty size; tty; echo answer-$((40+2))\n")
    t.expect("31 97")
    t.expect("/dev/pts/")
    t.expect("answer-42")
    t.resize(50, 120)
    for _ in range(50):  # the news of it may come a little later
        t.send("stty size; echo si''ze\n")
        if "50 120" in t.expect("size\r\n"):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the new size did not arrive")
    t.send("exit 5\n")
    code, rest = t.end()
    assert code == 5, rest


def test_terminal_and_control_c(s):
    t = Terminal(s, "kubectl", "exec", "-it", "s", "--", "sh")
    t.send("sleep 1000; echo after-$?\n")
    uid = s.get("pod", "s")["metadata"]["uid"]
    wait_until(lambda: s.workload(uid, ["sleep", "1000"]), what="the sleep")
    t.send("\x03")
    wait_until(lambda: not s.workload(uid, ["sleep", "1000"]), what="its end")
    t.send("echo still-$((1+1))\n")
    t.expect("still-2")
    t.send("\x04")
    assert t.end()[0] in (0, 130)


# attach


def test_attach(up):
    up.ready_sandbox(sandbox("s", "sh", "-c", "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.1; done"))
    client = up.popen("kubectl", "attach", "s")
    wait_until(lambda: client.stdout.readline().startswith("tick "), what="a tick")
    client.kill()


def test_run_and_attach(up):
    """kubectl run -i: a Pod of its own, to its end."""
    done = up.kubectl(
        "run", "r", "-i", "--rm", "--image=host", "--restart=Never", "--command", "--", "sh", "-c", "read x; echo got $x; exit 3",
        stdin="it\n", code=None,
    )  # fmt: skip
    assert "got it" in done.out and done.code == 3, done
    wait_until(lambda: up.get("pod", "r") is None, what="its end")


# cp: tar over exec


def test_cp_of_a_directory(s, tmp_path):
    source, back = tmp_path / "tree", tmp_path / "back"
    source.mkdir()
    (source / "deep" / "er").mkdir(parents=True)
    (source / "a").write_bytes(os.urandom(300_000))
    (source / "deep" / "er" / "b").write_text("text\n")
    (source / "empty").touch()
    s.kubectl("cp", str(source), "s:/tmp/tree")
    assert s.exec("s", "cat", "/tmp/tree/deep/er/b") == "text\n"
    s.exec("s", "ln", "-s", "a", "/tmp/tree/link")
    done = s.kubectl("cp", "s:/tmp/tree", str(back), code=None)
    assert done.code == 0 and "skipping symlink" in done.err, done
    assert not (back / "link").exists(), "kubectl copies no links out"
    compared = filecmp.dircmp(source, back)
    assert not compared.left_only and not compared.right_only and not compared.diff_files
    assert (back / "deep" / "er" / "b").read_text() == "text\n"


def test_cp_of_links_in(s, tmp_path):
    """They arrive as links."""
    source = tmp_path / "links"
    source.mkdir()
    (source / "file").write_text("text\n")
    (source / "link").symlink_to("file")
    s.kubectl("cp", str(source), "s:/tmp/links")
    assert s.exec("s", "readlink", "/tmp/links/link") == "file\n"


def test_cp_of_much(s):
    source, back = s.dir / "much", s.dir / "much-again"
    source.write_bytes(os.urandom(100_000_000))
    s.kubectl("cp", str(source), "s:/tmp/much")
    s.kubectl("cp", "s:/tmp/much", str(back), "--retries=0")
    assert filecmp.cmp(source, back, shallow=False)
    source.unlink()
    back.unlink()


def test_cp_of_nothing_there(s):
    """What kubectl says of it, and its code, are a race of its own."""
    s.kubectl("cp", "s:/tmp/nothing", str(s.dir / "none"), code=None)
    assert not (s.dir / "none").exists()
    failed = s.kubectl("exec", "s", "--", "tar", "cf", "-", "/tmp/nothing", code=2)
    assert "No such file" in failed
