"""
The native backend against the known ways out. Each row tries the attack inside a real sandbox and, where it can be
told apart from a broken probe, the same on a control: root in fresh namespaces, without holt.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import wait_until

HERE = pathlib.Path(__file__).resolve().parent
DENIED = {"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "ENOENT", "EPROTONOSUPPORT", "EROFS"}
DEFAULT_CAPS = {0, 1, 3, 4, 5, 6, 7}  # CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID


@pytest.fixture(scope="session")
def tsys_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("tsys") / "tsys"
    subprocess.run(
        ["cc", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", "-static", "-o", path, HERE / "tsys.c"], check=True
    )
    path.parent.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def tsys(run, tsys_path):
    """tsys("mount", "BUF", …) → what the call answers inside."""

    def call(*args, options=()):
        r = run(*options, "--volume", f"{tsys_path}:/tsys:ro", "--", "/tsys", *map(str, args))
        assert r.code == 0, r
        return r.out.strip()

    return call


@pytest.fixture(scope="session")
def control(tsys_path, need_root):
    """The same call by root in fresh namespaces: mounts made there stay there."""

    def call(*args):
        done = subprocess.run(
            ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--propagation", "private", tsys_path, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=30,
        )
        return done.stdout.strip()

    return call


@pytest.fixture(scope="session")
def sh(run):
    def call(script, *options, **keywords):
        return run(*options, "--", "sh", "-c", script, **keywords)

    return call


@pytest.fixture(scope="session")
def py(run):
    def call(script, *options, **keywords):
        return run(*options, "--", "python3", "-c", script, **keywords)

    return call


# A. The runtime itself


def test_01_guest_cannot_be_overwritten(sh, holt):
    before = pathlib.Path(holt).stat().st_mtime_ns
    r = sh("readlink /proc/self/exe && (: > /proc/1/exe); readlink /proc/1/exe; cat /proc/1/exe; echo $?")
    assert "/usr/bin/readlink" in r.out and r.out.endswith("1\n")
    assert "Permission denied" in r.err
    assert pathlib.Path(holt).stat().st_mtime_ns == before


def test_02_no_descriptor_leaks(holt, need_root):
    fds = [os.open("/etc", os.O_RDONLY), os.open("/", os.O_RDONLY)]
    list_fds = "for f in /proc/self/fd/*; do echo $(basename $f) $(readlink $f); done"
    try:
        twin = subprocess.run(["sh", "-c", list_fds], capture_output=True, text=True, pass_fds=fds)
        assert "/etc" in twin.stdout
        done = subprocess.run(
            [holt, "run", "--", "sh", "-c", list_fds], capture_output=True, text=True, pass_fds=fds, timeout=30
        )
    finally:
        for fd in fds:
            os.close(fd)
    assert done.returncode == 0
    assert {line.split()[0] for line in done.stdout.splitlines()} <= {"0", "1", "2", "3"}
    assert "/etc" not in done.stdout and "guest" not in done.stdout
    r = subprocess.run([holt, "run", "--", "pwd", "-P"], capture_output=True, text=True, cwd="/etc", timeout=30)
    assert r.stdout == "/\n"


@pytest.mark.parametrize("cwd", [f"/proc/self/fd/{n}" for n in range(3, 12)] + ["/proc/1/root", "/proc/1/cwd", "/proc/1/fd/3"])
def test_03_workdir_through_proc(run, cwd):
    r = run("--workdir", cwd, "--", "echo", "started")
    assert r.code in (125, 126) and r.out == ""


def image_with(root, path, target):
    where = root / path
    where.parent.mkdir(parents=True, exist_ok=True)
    where.symlink_to(target)
    return ["--image", f"dir:{root}"]


def test_04_dev_null_of_the_image_is_a_link(run, busybox_root, tsys):
    options = image_with(busybox_root(), "dev/null", "/proc/sys/kernel/core_pattern")
    assert tsys("openat", -100, "/proc/sys/kernel/core_pattern", 1, options=options) in DENIED
    r = run(*options, "--", "sh", "-c", "echo x > /dev/null; ls -l /dev/null; cat /dev/null")
    assert r.code == 0 and r.out.startswith("crw-rw-rw-") and "1,   3" in r.out


@pytest.mark.parametrize("path", ["dev/console", "dev/pts/0", "dev/ptmx"])
def test_05_terminal_of_the_image_is_a_link(run, busybox_root, path):
    options = image_with(busybox_root(), path, "/proc/sysrq-trigger")
    r = run(*options, "--tty", "--", "sh", "-c", "readlink /proc/self/fd/0")
    assert r.code == 0 and re.search(r"^/dev/pts/\d+", r.out)


@pytest.mark.parametrize("name", ["dev", "proc", "sys"])
def test_06_directory_of_ours_is_a_link_in_the_image(run, busybox_root, tmp_path, name):
    evil = tmp_path / "evil"
    evil.mkdir()
    r = run(*image_with(busybox_root(), name, str(evil)), "--", "true")
    assert r.code == 125 and f"/{name}" in r.err
    assert list(evil.iterdir()) == []


@pytest.mark.parametrize("link", ["/proc/1/root", "/", "/../../../..", "/tmp/../.."])
def test_07_mount_target_through_a_link(run, busybox_root, tmp_path, traces, link):
    before = traces()
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "b").mkdir()
    root = busybox_root()
    options = image_with(root, "a", link + str(canary) if link.startswith("/.") else link)
    r = run(*options, "--volume", f"{tmp_path}:/a/b", "--", "cat", "/proc/self/mountinfo")
    assert r.code in (0, 125)
    assert str(canary) not in r.out or "/b " not in r.out.split(str(canary))[0]
    assert traces()["mounts"] == before["mounts"]


def test_07_mount_target_swapped_while_starting(holt, run, tmp_path, traces, need_root):
    """A volume that another process rearranges all the time is the parent of a mount point."""
    before = traces()
    (tmp_path / "d" / "x").mkdir(parents=True)
    swap = subprocess.Popen(
        ["sh", "-c", f"cd {tmp_path}; while :; do mv d e; ln -s / d; rm d; mv e d; done"], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(60):
            r = run("--volume", f"{tmp_path}:/v", "--volume", f"{tmp_path}:/v/d/x", "--", "cat", "/proc/self/mountinfo")
            assert r.code in (0, 125), r
            for line in r.out.splitlines():
                assert line.split()[4] == "/" or line.split()[4].split("/")[1] in ("v", "x", "proc", "dev", "sys", "usr")
    finally:
        swap.kill()
        swap.wait()
    assert traces()["mounts"] == before["mounts"]


def test_08_proc_of_the_image_is_not_used(run, busybox_root):
    root = busybox_root()
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "uid_map").write_text("0 0 4294967295\n")
    r = run("--image", f"dir:{root}", "--", "cat", "/proc/self/uid_map")
    assert re.fullmatch(r"\s+0\s+\d{9,}\s+65536\n", r.out)


def test_09_no_shared_mounts(sh):
    assert sh("grep -c -e shared: -e master: /proc/self/mountinfo").out == "0\n"


def test_10_old_root_is_gone(sh, py):
    mounts = sh("cut -d' ' -f5 /proc/self/mountinfo").out.split()
    assert all(re.match(r"^/($|usr$|lib|bin$|sbin$|dev|proc|sys$)", m) for m in mounts), mounts
    r = py(
        "import os\nos.mkdir('/tmp/x')\ntry:\n os.chroot('/tmp/x')\nexcept OSError as e:\n print(e.strerror)\n"
        "[os.chdir('..') for _ in range(64)]\nprint(sorted(os.listdir('.')))"
    )
    assert r.out.startswith("Operation not permitted")
    assert "'proc'" in r.out and "'boot'" not in r.out and "'lost+found'" not in r.out


def test_11_only_own_processes(sh):
    r = sh("ls /proc | grep -c '^[0-9]'; ls -A /sys; ls /sys/kernel/debug /sys/firmware")
    assert int(r.out.split()[0]) <= 5 and len(r.out.split()) == 1
    assert r.err.count("No such file") == 2


@pytest.mark.parametrize(
    "name", ["kcore", "keys", "key-users", "kallsyms", "sysrq-trigger", "timer_list", "kmsg", "interrupts"]
)
def test_12_masked_proc_files(sh, name):
    if not os.path.exists(f"/proc/{name}"):
        pytest.skip("this kernel does not have it")
    r = sh(f"head -c1 /proc/{name} && echo LEAK; echo x > /proc/{name} && echo WRITTEN; chmod 777 /proc/{name} && echo CHANGED")
    assert r.out == ""


def test_12_proc_settings_are_read_only(sh):
    r = sh("cat /proc/sys/kernel/ostype; for f in kernel/hostname vm/overcommit_memory net/ipv4/ip_forward; do echo 1 > /proc/sys/$f && echo WRITTEN; done")
    assert r.out == "Linux\n" and ("Read-only" in r.err or "Permission" in r.err)
    for d in ("bus", "fs", "irq"):
        assert f"/proc/{d}" in sh("awk '$6 ~ /^ro/ {print $5}' /proc/self/mountinfo").out


def test_13_core_dumps(sh, tsys):
    assert sh("ulimit -c").out == "0\n"
    assert tsys("openat", -100, "/proc/sys/kernel/core_pattern", 1) in DENIED
    assert tsys("openat", -100, "/proc/sys/kernel/core_pattern", 0) == "OK"
    assert sh("kill -SEGV $$").code == 128 + signal.SIGSEGV


def test_14_cgroup_v1_release_agent(sh, tsys, control):
    assert tsys("mount", "cgroup", "/tmp", "cgroup", 0, "memory") in DENIED
    assert control("mount", "tmpfs", "/tmp", "tmpfs", 0, "NULL") == "OK"
    assert sh("find / -name release_agent 2>/dev/null").out == ""
    assert set(sh("cut -d: -f3 /proc/self/cgroup").out.split()) == {"/"}


def test_15_procfs_by_user_namespace(sh):
    r = sh("unshare -Urmpf --mount-proc true; echo $?")
    assert r.out != "0\n" and "Operation not permitted" in r.err


def caps(text, name):
    bits = int(re.search(rf"^{name}:\s+([0-9a-f]+)$", text, re.M).group(1), 16)
    return {i for i in range(64) if bits >> i & 1}


def test_16_capabilities(sh):
    text = sh("cat /proc/self/status").out
    assert caps(text, "CapInh") == caps(text, "CapAmb") == set()
    assert caps(text, "CapBnd") == caps(text, "CapEff") == caps(text, "CapPrm") == DEFAULT_CAPS
    user = sh("cat /proc/self/status", "--user", "1000").out
    assert caps(user, "CapEff") == caps(user, "CapPrm") == caps(user, "CapInh") == caps(user, "CapAmb") == set()
    none = sh("cat /proc/self/status", "--cap-drop", "CHOWN", "--cap-drop", "CAP_FSETID").out
    assert caps(none, "CapBnd") == DEFAULT_CAPS - {0, 4}


@pytest.mark.parametrize("user", ["1000:", "-1", "0x0", "4294967295", "1000:-1", "1000:x:y", ":5", "1e3", " 5", "65536"])
def test_16_odd_users_are_refused(run, user):
    assert run("--user", user, "--", "true").code == 125


def test_17_nothing_is_written_through_links_of_the_image(run, busybox_root, tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("untouched")
    root = busybox_root()
    for name in ("etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/passwd", "etc/mtab", "tmp", "run"):
        image_with(root, name, str(canary))
    listing = sorted(p.relative_to(root) for p in root.rglob("*"))
    assert run("--image", f"dir:{root}", "--", "true").code == 0
    assert canary.read_text() == "untouched"
    assert sorted(p.relative_to(root) for p in root.rglob("*")) == listing


READ_MEMORY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
into = ctypes.create_string_buffer(16)
source = ctypes.create_string_buffer(b"from the child")
child = os.fork()
if child == 0:
    import time; time.sleep(10)
for pid, address in ((child, ctypes.addressof(source)), (1, int(sys.argv[1], 0))):
    local = Iovec(ctypes.addressof(into), 8)
    remote = Iovec(address, 8)
    n = libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    print(n, os.strerror(ctypes.get_errno()) if n < 0 else into.value.decode())
os.kill(child, 9)
"""


def test_19_memory_of_the_guest_cannot_be_read(run):
    """Of a child it can: that is the twin."""
    r = run("--", "python3", "-c", READ_MEMORY, "0x400000")
    assert r.out.splitlines() == ["8 from the", "-1 Operation not permitted"]


def test_19_guest_cannot_be_read(sh, tsys):
    r = sh("cat /proc/1/environ; ls /proc/1/root /proc/1/fd /proc/1/map_files; cat /proc/1/mem /proc/1/maps /proc/1/stack; cat /proc/self/environ | wc -c")
    assert r.out.strip().isdigit() and int(r.out) > 0
    assert r.err.count("denied") + r.err.count("not permitted") >= 5
    assert tsys("kcmp", 1, 1, 0, 0, 0) in DENIED


def test_20_guest_cannot_be_stopped(sh, tsys):
    assert tsys("ptrace", 16, 1, 0, 0) in DENIED  # ATTACH
    assert tsys("ptrace", 0x4206, 1, 0, 0) in DENIED  # SEIZE
    r = sh("for s in 1 2 9 15 19 11 6 17; do kill -$s 1; done; sleep 0.1; echo alive")
    assert r.out == "alive\n" and r.code == 0


def test_20_guest_cannot_be_starved(sh, tsys, control):
    """Its limits and its priority are not the payload's, though the user ids are the same; those of others are."""
    for name, *args in (
        ("prlimit64", 1, 7, "BUF", 0),
        ("sched_setscheduler", 1, 5, "BUF"),
        ("sched_setaffinity", 1, 8, "BUF"),
        ("setpriority", 0, 1, 19),
        ("setpriority", 2, 0, 19),
        ("ioprio_set", 1, 1, 0x6000),
        ("ioprio_set", 3, 0, 0x6000),
    ):
        assert tsys(name, *args) == "EPERM", (name, args)
    assert tsys("setpriority", 0, 0, 19) == "OK" and tsys("ioprio_set", 1, 0, 0x6000) == "OK"
    # What it is for: the guest still starts processes and tells how they end.
    r = sh("prlimit --pid 1 --nofile=1 --as=1 --cpu=1; renice 19 -u 0; prlimit --pid $$ --core=0 && echo alive; exit 7")
    assert r.out.endswith("alive\n") and r.code == 7


@pytest.mark.skip(reason="the guest's socket is closed in every other process; holt receives without room for descriptors")
def test_21_descriptors_sent_to_the_host():
    pass


# B. The kernel


def test_22_no_new_privileges(sh):
    assert "NoNewPrivs:\t1" in sh("cat /proc/self/status").out
    r = sh("cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; chmod 755 /tmp; stat -c %a /tmp/id; setpriv --reuid 1000 --regid 1000 --clear-groups /tmp/id -u")
    assert r.out == "4755\n1000\n"


def test_23_seccomp(sh, tsys, control):
    assert "Seccomp:\t2" in sh("cat /proc/self/status").out
    assert tsys(1000) == "ENOSYS"
    assert tsys("getpid") == control("getpid") == "OK"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 only")
def test_24_foreign_system_calls(tsys, control):
    assert tsys("x32", "getpid") == "ENOSYS"
    assert tsys("int80", 20) == "KILLED"
    assert control("int80", 20) in ("OK", "KILLED")  # a kernel may lack the 32-bit gate


def test_25_user_namespaces(sh, tsys, control):
    assert tsys("unshare", 0x10000000) == "EPERM" and control("unshare", 0x10000000) == "OK"
    assert tsys("clone", 0x10000011, 0) == "EPERM" and control("clone", 0x10000011, 0) == "OK"
    assert tsys("clone", 17, 0) == "OK"
    assert tsys("clone3", "BUF", 64) == "ENOSYS"
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000, 0x80):
        assert tsys("unshare", flag) == "EPERM", hex(flag)
    assert tsys("unshare", 0x200) == "OK"
    assert sh("unshare -U true").code != 0


@pytest.mark.skip(reason="there is no profile for nested sandboxes: user namespaces are never allowed inside")
def test_26_nested_sandboxes():
    pass


# name, arguments, answers a control may give besides OK: what the kernel says once it has let the caller pass.
CALLS = [
    (27, "io_uring_setup", [8, "BUF"], {"ENOSYS", "EPERM"}),
    (27, "io_uring_enter", [-1, 0, 0, 0, 0, 0], {"EBADF", "ENOSYS"}),
    (27, "io_uring_register", [-1, 0, 0, 0], {"EBADF", "EINVAL", "ENOSYS"}),
    (28, "userfaultfd", [1], {"ENOSYS"}),
    (29, "bpf", [0, "BUF", 128], {"EINVAL", "EPERM"}),
    (30, "add_key", ["user", "a", "b", 1, -3], set()),
    (30, "keyctl", [0, -3, 0], {"ENOKEY"}),
    (30, "request_key", ["user", "a", "NULL", 0], {"ENOKEY"}),
    (31, "perf_event_open", ["BUF", 0, -1, -1, 0], {"EINVAL", "E2BIG", "ENOENT", "EOPNOTSUPP", "ENODEV"}),
    (37, "mount", ["tmpfs", "/tmp", "tmpfs", 0, "NULL"], set()),
    (37, "umount2", ["/nonexistent", 0], {"ENOENT"}),
    (37, "umount2", ["/proc", 2], set()),
    (37, "pivot_root", ["/nonexistent", "/nonexistent"], {"ENOENT"}),
    (37, "fsopen", ["tmpfs", 0], set()),
    (37, "fsconfig", [-1, 0, 0, 0, 0], {"EINVAL", "EBADF"}),
    (37, "fsmount", [-1, 0, 0], {"EBADF"}),
    (37, "fspick", [-100, "/", 0], {"EINVAL"}),
    (37, "open_tree", [-100, "/", 1], {"EINVAL"}),
    (37, "move_mount", [-1, "", -1, "", 0], {"EBADF", "ENOENT"}),
    (37, "mount_setattr", [-100, "/", 0, "BUF", 32], {"EINVAL"}),
    (37, "open_tree_attr", [-100, "/", 1, "BUF", 32], {"EINVAL", "ENOSYS"}),
    (38, "open_by_handle_at", [-1, "BUF", 0], {"EINVAL", "EBADF"}),
    (39, "init_module", ["NULL", 0, ""], {"ENOEXEC", "EFAULT", "ENOSYS", "EPERM"}),
    (39, "finit_module", [-1, "", 0], {"EBADF", "ENOSYS", "EPERM"}),
    (39, "delete_module", ["no_such_module_x", 0], {"ENOENT", "EWOULDBLOCK", "EAGAIN", "ENOSYS", "EPERM"}),
    (39, "kexec_load", [0, 99, "NULL", 0xFFFF], {"EINVAL", "ENOSYS", "EPERM"}),
    (39, "reboot", [1, 2, 3, 0], {"EINVAL"}),
    (39, "swapon", ["/nonexistent", 0], {"ENOENT", "ENOSYS"}),
    (39, "swapoff", ["/nonexistent"], {"ENOENT", "ENOSYS"}),
    (39, "acct", ["/nonexistent"], {"ENOENT", "ENOSYS"}),
    (39, "quotactl", [0x80000100, "/nonexistent", 0, 0], {"EINVAL", "ENOENT", "ENOTBLK", "ENOSYS", "ENODEV", "ESRCH"}),
    (39, "settimeofday", [8, 0], {"EFAULT"}),
    (39, "clock_settime", [77, "BUF"], {"EINVAL"}),
    (39, "clock_adjtime", [77, "BUF"], {"EINVAL"}),
    (39, "iopl", [4], {"EINVAL", "ENOSYS"}),
    (39, "ioperm", [0x12345, 1, 1], {"EINVAL", "ENOSYS"}),
    (39, "nfsservctl", [0], {"ENOSYS"}),
    (39, "lookup_dcookie", [0, 0, 0], {"EINVAL", "ENOSYS", "EPERM"}),
    (39, "sysctl", [0], {"ENOSYS"}),
    (39, "vhangup", [], set()),
    (39, "setns", [-1, 0], {"EBADF"}),
    (39, "sethostname", ["x", 1], set()),
    (39, "setdomainname", ["x", 1], set()),
    (39, "chroot", ["/nonexistent"], {"ENOENT"}),
    (39, "sysfs", [3], {"ENOSYS"}),
    (39, "fanotify_init", [0x8000000, 0], {"EINVAL", "ENOSYS"}),
    (39, "kcmp", [1, 1, 99, 0, 0], {"EINVAL", "ENOSYS", "EPERM"}),
    (39, "migrate_pages", [0, 0, 0, 0], {"EINVAL", "ENOSYS"}),
    (39, "mbind", [0, 0, 99, 0, 0, 0], {"EINVAL", "ENOSYS"}),
    (39, "memfd_secret", [0], {"ENOSYS"}),
    (45, "vmsplice", [-1, "NULL", 0, 0], {"EBADF"}),
    (52, "modify_ldt", [0, "BUF", 16], {"ENOSYS"}),
    (52, "personality", [0x0040000], set()),
    (53, "syslog", [10, "NULL", 0], set()),
]


@pytest.mark.parametrize("row,name,args,passed", CALLS, ids=[f"{c[0]}_{c[1]}" for c in CALLS])
def test_refused_calls(tsys, control, row, name, args, passed):
    answer, twin = tsys(name, *args), control(name, *args)
    if twin in ("EPERM", "EACCES", "ENOSYS"):
        assert twin in passed, f"the control itself is refused: {twin}"  # known: this kernel lacks or locks it
    else:
        assert twin == "OK" or twin in passed, twin
    assert answer in ("EPERM", "EACCES", "ENOSYS"), answer


def test_27_28_30_are_as_if_not_built(tsys):
    """Programs fall back to something else."""
    assert tsys("io_uring_setup", 8, "BUF") == "ENOSYS"
    assert tsys("userfaultfd", 1) == "ENOSYS"
    assert tsys("add_key", "user", "a", "b", 1, -3) == "ENOSYS"
    assert tsys("modify_ldt", 0, "BUF", 16) == "ENOSYS"


def test_32_tracing_inside_works(sh, py):
    """strace and gdb are an agent's tools; only the guest is out of reach."""
    r = py(
        "import ctypes, os\nl = ctypes.CDLL(None, use_errno=True)\npid = os.fork()\n"
        "if pid == 0:\n import time; time.sleep(10)\n"
        "r = l.ptrace(16, pid, 0, 0)\nos.waitpid(pid, 0)\nl.ptrace(17, pid, 0, 0)\nos.kill(pid, 9)\nprint(r)"
    )
    assert r.out == "0\n"


def test_34_socket_families(run, tsys_path):
    script = "for f in $(seq 0 46); do for p in 0 12; do echo $f $p $(/tsys socket $f 3 $p) $(/tsys socket $f 2 $p) $(/tsys socket $f 1 $p); done; done"
    r = run("--volume", f"{tsys_path}:/tsys:ro", "--", "sh", "-c", script)
    ok = {tuple(map(int, line.split()[:2])) for line in r.out.splitlines() if "OK" in line.split()[2:]}
    assert {f for f, _ in ok} <= {1, 2, 10, 16}
    assert {(2, 0), (10, 0), (16, 0)} <= ok and (16, 12) not in ok
    answers = {a for line in r.out.splitlines() for a in line.split()[2:]} - {"OK"}
    assert answers <= DENIED | {"EINVAL", "ESOCKTNOSUPPORT"}


@pytest.mark.parametrize(
    "family,kind,protocol", [(40, 1, 0), (38, 5, 0), (16, 3, 12), (16, 3, 6), (2, 5, 132), (2, 1, 262), (10, 2, 136)],
    ids=["vsock", "alg", "netfilter", "xfrm", "sctp", "mptcp", "udplite"],
)  # fmt: skip
def test_33_34_families_with_holes(tsys, family, kind, protocol):
    assert tsys("socket", family, kind, protocol) in DENIED


def test_35_kernel_tls(py):
    r = py(
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(s.getsockname())\n"
        "c.setsockopt(6, 1, 1)\ntry:\n c.setsockopt(6, 31, b'tls')\nexcept OSError as e:\n print(e.strerror)"
    )
    assert r.out == "Operation not permitted\n"


def test_36_raw_sockets(tsys, control):
    assert tsys("socket", 17, 3, 768) in DENIED and control("socket", 17, 3, 768) == "OK"
    assert tsys("socket", 2, 3, 1) == "EPERM" and control("socket", 2, 3, 1) == "OK"


def test_36_ping_and_low_ports_need_no_capability(py):
    r = py("import socket\nsocket.socket(2, 2, 1)\ns = socket.create_server(('127.0.0.1', 80))\nprint('ok')", "--user", "1000")
    assert r.out == "ok\n"


def test_40_41_typing_into_the_terminal(run):
    script = (
        "import fcntl, ctypes\nl = ctypes.CDLL(None, use_errno=True)\n"
        "for request in (0x5412, 0x541c, 0x100005412, 0xffff00005412):\n"
        " r = l.syscall(16, 0, ctypes.c_ulong(request), b'x')\n print(r, ctypes.get_errno())\n"
        "fcntl.ioctl(0, 0x5413, bytes(8))\nprint('fine')"
    )
    r = run("--tty", "--", "python3", "-c", script)
    assert r.out.replace("\r", "").splitlines() == ["-1 1"] * 4 + ["fine"]


def test_43_ids_are_not_the_hosts(holt, need_root):
    p = subprocess.Popen([holt, "run", "--", "sh", "-c", "cat /proc/self/uid_map /proc/self/gid_map; sleep 30"], stdout=subprocess.PIPE, text=True)
    try:
        uid_map, gid_map = p.stdout.readline().split(), p.stdout.readline().split()
        assert uid_map == gid_map and uid_map[0] == "0" and uid_map[2] == "65536"
        base = int(uid_map[1])
        assert base >= 100000
        owners = {d.stat().st_uid for d in pathlib.Path("/proc").glob("[0-9]*") if d.exists()}
        assert base in owners
    finally:
        p.kill()
        p.wait()


def test_44_groups(sh):
    assert sh("id -G").out == "0\n"
    assert sh("id -G", "--user", "1000").out == "1000\n"
    assert sh("id -G", "--user", "1000:33").out == "33\n"


@pytest.mark.skip(reason="holes in what must stay allowed cannot be filtered: untrusted tenants get gVisor or a VM")
def test_46_holes_in_the_rest():
    pass


@pytest.mark.skip(reason="the mitigations of the processor are the kernel's default; there is no hardened profile yet")
def test_48_speculation():
    pass


# 49, Landlock without the other walls, is tests/unit/test_landlock.c.


def test_50_devices(sh, tsys):
    r = sh("find /dev -type b -o -type c | sort")
    assert r.out.split() == ["/dev/full", "/dev/null", "/dev/pts/ptmx", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"]
    for kind, device in (("b", "8 0"), ("c", "1 1"), ("c", "10 200")):
        r = sh(f"mknod /tmp/b {kind} {device}")
        assert r.code != 0 and ("not permitted" in r.err or "denied" in r.err)
    assert sh("mkfifo /tmp/f && echo ok").out == "ok\n"


def test_51_no_devices_elsewhere(sh):
    r = sh("awk '$6 !~ /nodev/ {print $5}' /proc/self/mountinfo")
    assert r.out.split() == ["/dev", "/dev/pts"]
    assert sh("awk '$6 !~ /nosuid/ {print $5}' /proc/self/mountinfo").out == ""


# C. Resources


BOMB = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"


def test_54_fork_bomb(run, holt, py):
    r = py("import os, time\ntry:\n while True:\n  if os.fork() == 0: time.sleep(100)\nexcept OSError as e: print(e.errno)", "--pids", "50")
    assert r.out == "11\n"
    p = subprocess.Popen([holt, "run", "--pids", "500", "--", "python3", "-c", BOMB])
    try:
        time.sleep(0.5)
        assert run("--", "true").code == 0
        start = time.monotonic()
        p.send_signal(signal.SIGKILL)
        p.wait()
        assert time.monotonic() - start < 1
    finally:
        p.kill()
        p.wait()


def test_55_memory_bomb(py):
    r = py("b = bytearray(1 << 34)\nfor i in range(0, 1 << 34, 4096): b[i] = 1", "--memory", "64Mi")
    assert r.code in (1, 137)
    r = py("b = []\nwhile True: b.append(bytearray(1 << 20))", "--memory", "64Mi")
    assert r.code == 137 and "out of memory" in r.err


@pytest.mark.parametrize("path", ["/f", "/usr/f", "/dev/shm/f", "/tmp/f"])
def test_56_files_are_limited(sh, path):
    r = sh(f"dd if=/dev/zero of={path} bs=1M count=1000 2>&1; stat -c %s {path}", "--memory", "128Mi")
    assert "No space left" in r.out and int(r.out.split()[-1]) <= 64 << 20


def test_56_number_of_files_is_limited(py):
    r = py("import os\nn = 0\ntry:\n while n < 10**6:\n  open(f'/tmp/{n}', 'w').close(); n += 1\nexcept OSError as e: print(e.errno, n)", "--memory", "64Mi")
    assert r.out.startswith("28 ") and int(r.out.split()[1]) < 20000


def test_57_real_time(sh, py):
    assert "not permitted" in sh("chrt -f 50 true").err
    assert sh("chrt -o 0 true").code == 0
    assert sh("ulimit -r").out == "0\n"


def test_57_real_time_is_not_inherited(holt, need_root):
    show = "chrt -p $$ | head -n 1"
    twin = subprocess.run(["chrt", "-f", "10", "sh", "-c", show], capture_output=True, text=True)
    if twin.returncode != 0 or "FIFO" not in twin.stdout:
        pytest.skip("this machine does not grant real-time scheduling")
    done = subprocess.run(["chrt", "-f", "10", holt, "run", "--", "sh", "-c", show], capture_output=True, text=True, timeout=30)
    assert "SCHED_OTHER" in done.stdout, done


def test_58_limits_of_users_are_apart(holt, py):
    exhaust = "import ctypes, sys, time\nl = ctypes.CDLL(None)\nn = 0\nwhile l.inotify_init1(0) >= 0: n += 1\nprint(n, flush=True)\n"
    p = subprocess.Popen([holt, "run", "--", "python3", "-c", exhaust + "time.sleep(60)"], stdout=subprocess.PIPE, text=True)
    try:
        first = int(p.stdout.readline())
        assert first > 0
        assert int(py(exhaust).out) == first
    finally:
        p.kill()
        p.wait()
    r = py("import os\nfds = []\ntry:\n while True: fds.append(os.openpty())\nexcept OSError as e: print(len(fds))")
    assert int(r.out) <= 256


def test_59_output_flood(run):
    start = time.monotonic()
    r = run("--timeout", "1s", "--", "sh", "-c", "yes | head -c 20000000 >&2; exit 3")
    assert r.code == 3 and len(r.err) == 20000000
    assert time.monotonic() - start < 20


def test_60_orphans(py, traces):
    before = traces()
    r = py("import os\nfor _ in range(3000):\n pid = os.fork()\n if pid == 0:\n  os.fork(); os._exit(0)\n os.waitpid(pid, 0)\nprint('done')")
    assert r.out == "done\n"
    assert wait_until(lambda: traces() == before), traces()


def test_61_destroyed_while_forking(run, traces):
    before = traces()
    for _ in range(10):
        assert run("--pids", "300", "--timeout", "200ms", "--", "python3", "-c", BOMB).code == 124
    assert wait_until(lambda: traces() == before), traces()


def test_62_stuck_command(run):
    start = time.monotonic()
    r = run("--timeout", "1s", "--", "sleep", "100")
    assert r.code == 124 and "time limit" in r.err and time.monotonic() - start < 2


@pytest.mark.skip(reason="filling the machine disturbs whatever else runs on it; the ranges are limited by uid_range.h")
def test_63_exhausted_host():
    pass


# D. Network


def test_66_no_network_but_lo(py, holt):
    import socket

    name = b"\0holt-probe-%d" % os.getpid()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(name)
        s.listen()
        twin = socket.socket(socket.AF_UNIX)
        twin.connect(name)
        twin.close()
        r = py(
            f"import socket\ntry:\n socket.socket(1).connect({name!r})\nexcept OSError as e: print(e.strerror)\n"
            "print(sorted(n for _, n in socket.if_nameindex()))\n"
            "try:\n socket.create_connection(('192.0.2.1', 80), 1)\nexcept OSError as e: print(e.strerror)"
        )
    assert r.out.splitlines() == ["Connection refused", "['lo']", "Network is unreachable"]


# E. Volumes and roots


def test_82_links_of_a_volume_source(run, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "out").symlink_to("/etc/shadow")
    r = run("--volume", f"{tmp_path}/link:/v", "--", "sh", "-c", "cat /v/f; cat /v/out")
    assert r.out == "x" and r.code != 0  # a link in the volume is resolved inside


def test_84_overlay_attributes_of_an_image(run, busybox_root):
    root = busybox_root()
    (root / "secret").mkdir()
    (root / "secret" / "file").write_text("x")
    (root / "dir").mkdir()
    os.setxattr(root / "dir", "trusted.overlay.redirect", b"/secret")
    r = run("--image", f"dir:{root}", "--", "ls", "/dir")
    assert "file" not in r.out


def test_87_setuid_on_a_shared_volume(run, tmp_path):
    volume = tmp_path / "shared"
    volume.mkdir(mode=0o777)
    volume.chmod(0o777)
    r = run("--volume", f"{volume}:/v", "--", "sh", "-c", "cp /usr/bin/id /v/id && chmod 4755 /v/id && stat -c %a /v/id")
    assert r.out == "4755\n"
    r = run("--volume", f"{volume}:/v", "--user", "1000", "--", "/v/id", "-u")
    assert r.out == "1000\n"


def test_88_read_only_root(run, tsys):
    r = run("--read-only", "--", "sh", "-c", "touch /x; mount -o remount,rw /; echo x > /etc/passwd; rm /etc/passwd; mkdir /usr/d")
    assert r.err.count("Read-only file system") == 4 and r.code != 0
    assert tsys("mount", "none", "/", "NULL", 32, "NULL", options=["--read-only"]) in DENIED


def test_89_root_is_really_writable(sh, busybox_root):
    assert sh("touch /x && rm /x && echo ok").out == "ok\n"
    assert sh("touch /x && rm /x && echo ok", "--image", f"dir:{busybox_root()}").out == "ok\n"


def test_secrets_of_the_host_are_not_there(sh):
    """The image "host" holds programs, not data."""
    r = sh("ls -A /root /home/user /opt /srv /mnt /media /var/lib /run /boot /etc/shadow /etc/ssh /etc/ssl/private /etc/kubernetes 2>&1")
    lines = [l for l in r.out.splitlines() if l and not l.endswith(":") and "No such file" not in l]
    assert lines == ["lock"]
    assert shutil.which("sh")
