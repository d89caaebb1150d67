"""holt run: exit codes, streams, limits, and that nothing is left behind however it ends."""

import concurrent.futures
import hashlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from conftest import wait_until


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code(run, code):
    assert run("--", "sh", "-c", f"exit {code}").code == code


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT])
def test_death_by_signal(run, sig):
    assert run("--", "sh", "-c", f"kill -{int(sig)} $$").code == 128 + sig


def test_streams_are_apart(run):
    r = run("--", "sh", "-c", "echo out; echo err >&2")
    assert (r.out, r.err, r.code) == ("out\n", "err\n", 0)


def test_stdin_and_its_end(run):
    assert run("--", "cat", input="hello\n").out == "hello\n"
    assert run("--", "sh", "-c", "cat; echo done", input="").out == "done\n"
    big = "0123456789abcdef" * 65536
    assert run("--", "sha256sum", input=big).out == run("--", "sha256sum", input=big).out
    assert run("--", "wc", "-c", input=big).out.strip() == str(len(big))


def test_no_stdin_leaves_it_alone(holt, need_root):
    script = f"{holt} run --no-stdin -- cat; cat"
    done = subprocess.run(["sh", "-c", script], input="kept\n", capture_output=True, text=True, timeout=30)
    assert done.stdout == "kept\n"


def test_large_output_is_whole(holt, need_root):
    script = f"{holt} run -- head -c 50000000 /dev/zero | wc -c"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "50000000"


def test_reader_that_leaves(holt, need_root):
    """The command learns that nobody reads, as in a pipe."""
    start = time.monotonic()
    done = subprocess.run(["sh", "-c", f"{holt} run -- yes | head -n 1"], capture_output=True, text=True, timeout=30)
    assert done.stdout == "y\n"
    assert time.monotonic() - start < 10


def test_slow_reader_costs_no_memory(holt, need_root):
    p = subprocess.Popen([holt, "run", "--", "yes"], stdout=subprocess.PIPE)
    time.sleep(1)
    rss = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{p.pid}/status").read()).group(1))
    p.kill()
    p.wait()
    assert rss < 20000


def test_missing_command(run):
    r = run("--", "no-such-command")
    assert r.code == 127 and "no-such-command" in r.err


def test_command_that_cannot_run(run):
    r = run("--", "/etc/passwd")
    assert r.code == 126 and "/etc/passwd" in r.err


@pytest.mark.parametrize("image", ["dir:/no/such/dir", "nonsense:latest", "dir:/etc/passwd"])
def test_missing_image(run, image):
    r = run("--image", image, "--", "true")
    assert r.code == 125 and image.removeprefix("dir:") in r.err


@pytest.mark.parametrize(
    "options",
    [
        ["--memory", "much"],
        ["--cpus", "0"],
        ["--cpus", "1.2.3"],
        ["--timeout", "soon"],
        ["--volume", "/tmp"],
        ["--volume", "/no/such:/x"],
        ["--volume", "/tmp:relative"],
        ["--volume", "/tmp:/proc/x"],
        ["--volume", "/tmp:/a/../b"],
        ["--volume", "/tmp:/x:rx"],
        ["--volume", "/dev/null:/x"],
        ["--user", "nobody-knows"],
        ["--env", "=x"],
        ["--cap-drop", "EVERYTHING"],
        ["--unknown"],
    ],
)
def test_bad_options(run, traces, options):
    before = traces()
    r = run(*options, "--", "true")
    assert r.code == 125 and len(r.err.splitlines()) == 1
    assert wait_until(lambda: traces() == before), traces()


def test_no_command(run):
    assert run().code == 125
    assert run("--").code == 125


def test_environment(run, monkeypatch):
    monkeypatch.setenv("FROM_HOST", "taken")
    monkeypatch.setenv("SECRET", "hidden")
    r = run("--env", "A=1", "--env", "B=x=y", "--env", "FROM_HOST", "--env", "A=2", "--", "env")
    env = dict(line.split("=", 1) for line in r.out.splitlines())
    assert env["A"] == "2" and env["B"] == "x=y" and env["FROM_HOST"] == "taken"
    assert "SECRET" not in env
    assert env["PATH"] and env["HOME"] == "/root"


def test_workdir(run):
    assert run("--workdir", "/usr/bin", "--", "pwd").out == "/usr/bin\n"
    r = run("--workdir", "/no/such", "--", "pwd")
    assert r.code == 125 and "/no/such" in r.err


def test_user(run):
    assert run("--user", "1000", "--", "id", "-u").out == "1000\n"
    assert run("--user", "1000:33", "--", "id", "-g").out == "33\n"
    r = run("--user", "user", "--", "sh", "-c", "id -un; echo $HOME; touch /x")
    assert r.out == "user\n/home/user\n" and r.code != 0


def test_hostname(run):
    assert run("--", "hostname").out == "holt\n"
    assert run("--hostname", "den", "--", "hostname").out == "den\n"


def test_root_is_fresh_and_writable(run):
    r = run("--", "sh", "-c", "touch /x /usr/x /etc/x && ls /x /usr/x /etc/x && rm /usr/bin/env && echo gone")
    assert r.code == 0 and "gone" in r.out
    assert run("--", "sh", "-c", "ls /x /usr/x").code != 0
    assert os.path.exists("/usr/bin/env") and not os.path.exists("/usr/x")


def test_read_only_root(run):
    r = run("--read-only", "--", "sh", "-c", "touch /x; touch /usr/x; touch /tmp/x && echo tmp; echo 1 > /dev/shm/x && echo shm")
    assert r.out == "tmp\nshm\n" and r.err.count("Read-only file system") == 2


def test_timeout_kills_the_tree(run, traces):
    before = traces()
    start = time.monotonic()
    r = run("--timeout", "1s", "--", "sh", "-c", "setsid sleep 1000 & (sleep 1000 &) ; sleep 1000")
    assert r.code == 124 and "time limit" in r.err
    assert 0.9 < time.monotonic() - start < 3
    assert wait_until(lambda: traces() == before), traces()


def test_timeout_of_a_process_that_ignores_signals(run):
    r = run("--timeout", "500ms", "--", "sh", "-c", "trap '' TERM INT HUP; while :; do :; done")
    assert r.code == 124


def test_memory_limit_is_told(run):
    r = run("--memory", "64Mi", "--", "python3", "-c", "b = bytearray(1 << 30)")
    assert r.code == 137
    assert "out of memory" in r.err and "64.0 MiB" in r.err


def test_pids_limit(run):
    script = "import os, time\nn = 0\ntry:\n while n < 1000:\n  if os.fork() == 0: time.sleep(100)\n  n += 1\nexcept OSError as e: print(n, e.strerror)"
    r = run("--pids", "20", "--", "python3", "-c", script)
    n, error = r.out.split(" ", 1)
    assert 10 <= int(n) < 20 and "Resource temporarily unavailable" in error


def test_cpu_limit(run):
    script = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    used = float(run("--cpus", "0.2", "--", "python3", "-c", script).out)
    assert 0.1 < used < 0.4


@pytest.fixture
def volume(tmp_path):
    d = tmp_path / "volume"
    d.mkdir(mode=0o755)
    (d / "file").write_text("content")
    return d


def test_volume_is_written_with_the_hosts_owner(run, volume):
    r = run("--volume", f"{volume}:/v", "--", "sh", "-c", "stat -c %u /v /v/file; echo new > /v/new; mkdir -p /v/a/b")
    assert (r.code, r.out) == (0, "0\n0\n")
    assert (volume / "new").read_text() == "new\n"
    assert (volume / "new").stat().st_uid == 0


def test_volume_of_a_user_stays_the_users(run, volume):
    os.chown(volume, 1234, 1234)
    os.chown(volume / "file", 1234, 1234)
    r = run("--volume", f"{volume}:/v", "--", "sh", "-c", "stat -c %u /v/file; echo new > /v/new; stat -c %u /v/new")
    assert (r.code, r.out) == (0, "0\n0\n")
    assert (volume / "new").stat().st_uid == 1234
    (volume / "roots").write_text("x")
    assert run("--volume", f"{volume}:/v", "--", "stat", "-c", "%u", "/v/roots").out == "65534\n"


def test_read_only_volume(run, volume):
    r = run("--volume", f"{volume}:/v:ro", "--", "sh", "-c", "cat /v/file; touch /v/x")
    assert r.out == "content" and r.code != 0 and "Read-only" in r.err


def test_volume_of_a_file(run, volume):
    r = run("--volume", f"{volume / 'file'}:/etc/deep/file", "--", "cat", "/etc/deep/file")
    assert r.out == "content"


def test_volume_shows_no_mounts_below(run):
    """Only the directory itself is shared, not what the host mounts inside it."""
    assert run("--volume", "/proc:/v", "--", "true").code in (0, 125)
    r = run("--volume", "/sys:/v", "--", "ls", "/v/fs/cgroup")
    assert r.out == ""


def read_until(fd, text, seconds=10):
    got = b""
    end = time.monotonic() + seconds
    while text not in got and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 4096)
            except OSError:
                break
            if not data:
                break
            got += data
    return got


def test_terminal(holt, need_root):
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(holt, [holt, "run", "--", "sh"])
    os.write(fd, b"tty; stty size; echo $((40 + 2))\n")
    got = read_until(fd, b"\n42")
    assert b"/dev/pts/" in got and b"\n42" in got
    os.write(fd, b"sleep 100\n")
    time.sleep(0.3)
    os.write(fd, b"\x03")  # the key goes to the sleep inside, not to holt
    os.write(fd, b"echo still $((1 + 1))\n")
    assert b"still 2" in read_until(fd, b"still 2")
    os.write(fd, b"exit 9\n")
    read_until(fd, b"never", 2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    os.close(fd)


def test_terminal_size_follows(holt, need_root):
    import fcntl
    import struct
    import termios

    pid, fd = pty.fork()
    if pid == 0:
        os.execv(holt, [holt, "run", "--", "sh"])
    os.write(fd, b"echo up\n")
    read_until(fd, b"\nup")
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 37, 91, 0, 0))
    time.sleep(0.2)
    os.write(fd, b"stty size\n")
    assert b"37 91" in read_until(fd, b"37 91")
    os.write(fd, b"exit\n")
    read_until(fd, b"never", 1)
    os.waitpid(pid, 0)
    os.close(fd)


def test_no_terminal_without_one(run):
    assert "not a tty" in run("--", "tty").out


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on(holt, need_root, sig):
    script = f"trap 'echo got; exit 5' {int(sig)}; echo ready; while :; do sleep 0.05; done"
    p = subprocess.Popen([holt, "run", "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    p.send_signal(sig)
    assert p.wait(timeout=10) == 5
    assert p.stdout.read() == "got\n"


def test_twenty_at_once(run, traces):
    before = traces()
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda i: run("--", "sh", "-c", f"cat /proc/self/uid_map; sleep 0.5; exit {i}"), range(20)))
    assert [r.code for r in results] == list(range(20))
    bases = {r.out.split()[1] for r in results}
    assert len(bases) >= 2  # those that were alive together differ; see the next test
    assert wait_until(lambda: traces() == before), traces()


def test_ranges_of_two_differ(holt, need_root):
    def start():
        p = subprocess.Popen(
            [holt, "run", "--", "sh", "-c", "cat /proc/self/uid_map; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return p, int(p.stdout.readline().split()[1])

    (a, base_a), (b, base_b) = start(), start()
    assert abs(base_a - base_b) >= 65536 and min(base_a, base_b) >= 0x10000000
    for p in (a, b):
        p.communicate("\n", timeout=10)
        assert p.returncode == 0


@pytest.mark.parametrize("whole_group", [False, True])
def test_killed_holt_leaves_nothing(holt, need_root, traces, whole_group):
    before = traces()
    script = "setsid sleep 1000 & (trap '' TERM HUP; sleep 1000) & echo ready; sleep 1000"
    p = subprocess.Popen([holt, "run", "--memory", "256Mi", "--cpus", "1", "--", "sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert p.stdout.readline() == b"ready\n"
    assert traces() != before
    if whole_group:
        os.killpg(p.pid, signal.SIGKILL)
    else:
        p.kill()
    p.wait()
    assert wait_until(lambda: traces() == before), traces()


def test_killed_at_any_moment_leaves_nothing(holt, need_root, traces):
    before = traces()
    for i in range(60):
        p = subprocess.Popen([holt, "run", "--memory", "256Mi", "--", "sleep", "1000"], stdout=subprocess.DEVNULL)
        time.sleep(i * 0.0001)
        p.kill()
        p.wait()
    # One that was killed between the control group and the reaper leaves an empty group, and the next run takes it.
    assert wait_until(lambda: traces()["processes"] == before["processes"])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        commands = [[holt, "run", "--memory", "64Mi", "--", "sleep", "0.5"]] * 8
        list(pool.map(lambda c: subprocess.run(c, timeout=30), commands))
    assert wait_until(lambda: traces() == before), traces()


BOMB = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"


def test_nothing_left_after_a_fork_bomb(run, traces):
    before = traces()
    for _ in range(5):
        r = run("--pids", "200", "--timeout", "300ms", "--", "python3", "-c", BOMB)
        assert r.code == 124
    assert wait_until(lambda: traces() == before), traces()


def test_doctor(holt):
    import json

    done = subprocess.run([holt, "doctor", "--json"], capture_output=True, text=True, timeout=30)
    report = json.loads(done.stdout)
    assert {"isolation", "kernel", "cgroups", "limits", "tools"} == set(report)
    for group in report.values():
        for name, entry in group.items():
            assert entry["state"] in ("ok", "limited", "missing"), name
            assert entry["detail"]
            assert entry["state"] != "missing" or entry["fix"], name
    assert (done.returncode == 0) == (report["isolation"]["native"]["state"] != "missing")
    text = subprocess.run([holt, "doctor"], capture_output=True, text=True, timeout=30).stdout
    assert "isolation" in text and "native" in text


def test_imported_image(holt, need_root, busybox_root, tmp_path):
    """As `holt image import` has put it there: layers, environment, user, directory and command of the image."""
    root, data = busybox_root(), str(tmp_path / "data")
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/home/app:/bin/sh\n")
    layer, config = tmp_path / "layer.tar", tmp_path / "config.json"
    subprocess.run(["tar", "-C", root, "-cf", layer, "."], check=True)
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    config.write_text(json.dumps({
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "config": {"Env": ["A=image", "B=image"], "User": "app", "WorkingDir": "/etc",
                   "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo $A $B; id -u; pwd"]},
    }))  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps([{"Config": "config.json", "RepoTags": ["app:1"], "Layers": ["layer.tar"]}]))
    archive = tmp_path / "app.tar"
    subprocess.run(["tar", "-C", tmp_path, "-cf", archive, "manifest.json", "config.json", "layer.tar"], check=True)
    subprocess.run([holt, "image", "import", "--data-dir", data, "app:1", archive], check=True)

    def run(*arguments):
        return subprocess.run([holt, "run", "--data-dir", data, *arguments], capture_output=True, text=True, timeout=60)

    done = run("--image", "app:1", "-e", "B=ours")
    assert (done.returncode, done.stdout) == (0, "image ours\n1234\n/etc\n"), done
    done = run("--image=app:1", "--user", "0", "--workdir", "/bin", "--", "sh", "-c", "pwd; id -u; exit 5")
    assert (done.returncode, done.stdout) == (5, "/bin\n0\n"), done
    done = run("--image", "nosuch", "--", "true")
    assert done.returncode == 125 and "holt image import nosuch PATH" in done.stderr
    # It is not removed under a running one; who removes it waits.
    running = subprocess.Popen([holt, "run", "--data-dir", data, "--image", "app:1", "--", "sh", "-c", "echo up; read x; ls /bin/busybox"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "up\n"
    removal = subprocess.Popen([holt, "image", "rm", "--data-dir", data, "app:1"])
    with pytest.raises(subprocess.TimeoutExpired):
        removal.wait(0.5)
    assert running.communicate("go\n")[0] == "/bin/busybox\n"
    assert removal.wait(30) == 0


def test_needs_no_loader(holt):
    """The small program runs where the C library it was built with is not installed."""
    if not os.path.exists(os.path.join(os.path.dirname(os.path.realpath(holt)), "holt-core")):
        pytest.skip("built in one part")
    headers = subprocess.run(["readelf", "-lW", holt], capture_output=True, text=True, check=True).stdout
    assert "LOAD" in headers
    assert "INTERP" not in headers
