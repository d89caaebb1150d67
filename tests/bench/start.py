#!/usr/bin/env python3
"""
`holt run -- /bin/true` beside its peers: the time from starting the command to its end, on the same root (busybox).

    tests/bench/start.py --holt build/holt --timer build/tests/bench/bench_start [--rounds 200] [--json FILE]

Peers that are not installed are left out. All run interleaved; compare within one run only. crun needs a machine
without a half-used version 2 control group mount, so it gets a mount namespace in which that one is gone; the cost of
unshare(1) is measured alone and told beside.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def make_root(path):
    busybox = shutil.which("busybox")
    if not busybox:
        sys.exit("busybox is needed: apt-get install busybox-static")
    (path / "bin").mkdir(parents=True)
    for name in ("proc", "dev", "tmp", "sys"):
        (path / name).mkdir()
    shutil.copy(busybox, path / "bin" / "busybox")
    for applet in ("true", "sh"):
        (path / "bin" / applet).symlink_to("busybox")


def make_bundle(path, root):
    path.mkdir()
    spec = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": ["/bin/true"],
            "env": ["PATH=/bin"],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": str(root), "readonly": True},
        "hostname": "bench",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
        ],
        "linux": {"namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")]},
    }
    (path / "config.json").write_text(json.dumps(spec))


def commands(holt, work):
    root = work / "root"
    make_root(root)
    true = str(root / "bin" / "true")
    bwrap = ["bwrap", "--unshare-all", "--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"]
    yield "fork+exec", [true]
    yield "holt run", [holt, "run", "--image", f"dir:{root}", "--", "/bin/true"]
    yield "holt run, all limits", [
        holt, "run", "--memory", "256Mi", "--cpus", "1", "--pids", "100", "--image", f"dir:{root}", "--", "/bin/true",
    ]  # fmt: skip
    yield "holt run, image host", [holt, "run", "--", "/usr/bin/true"]
    if shutil.which("bwrap"):
        yield "bwrap --unshare-all", bwrap
    bundle = work / "bundle"
    make_bundle(bundle, root)
    state = work / "state"
    if shutil.which("runc"):
        script = f"exec runc --root {state}/runc run --bundle {bundle} b$$"
        yield "runc run", ["sh", "-c", script]
    if shutil.which("crun"):
        hybrid = os.path.isdir("/sys/fs/cgroup/unified")
        inner = f"exec crun --root {state}/crun run --bundle {bundle} b$$"
        leave = "umount /sys/fs/cgroup/unified; " if hybrid else ""
        yield "crun run", ["unshare", "-m", "sh", "-c", leave + inner] if hybrid else ["sh", "-c", inner]
        if hybrid:
            yield "(unshare -m, umount)", ["unshare", "-m", "sh", "-c", leave + "exec true"]


def slow_commands(work):
    if shutil.which("runsc"):
        script = f"exec runsc --root {work}/state/runsc --platform=ptrace --network=none run --bundle {work}/bundle b$$"
        yield "runsc run (ptrace)", ["sh", "-c", script]


def measure(timer, rounds, list_of_commands):
    argv = [timer, str(rounds)]
    for i, (label, command) in enumerate(list_of_commands):
        argv += ["---"] * (i > 0) + [label, *command]
    if len(argv) == 2:
        return []
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holt", default="build/holt")
    parser.add_argument("--timer", default="build/tests/bench/bench_start")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", help="write the results here too")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root")

    work = pathlib.Path(tempfile.mkdtemp(prefix="holt-bench-"))
    try:
        results = measure(args.timer, args.rounds, list(commands(os.path.abspath(args.holt), work)))
        results += measure(args.timer, max(args.rounds // 20, 3), list(slow_commands(work)))
    finally:
        shutil.rmtree(work, ignore_errors=True)

    base = next(r for r in results if r["label"] == "holt run")
    print(f"{'':24} {'n':>5} {'min ms':>8} {'median':>8} {'p90':>8} {'min/holt':>9} {'med/holt':>9}")
    for r in results:
        r["min_ratio"] = r["min_us"] / base["min_us"]
        r["median_ratio"] = r["median_us"] / base["median_us"]
        note = f"  {r['failed']} failed" if r["failed"] else ""
        print(
            f"{r['label']:24} {r['n']:5} {r['min_us'] / 1000:8.2f} {r['median_us'] / 1000:8.2f} {r['p90_us'] / 1000:8.2f}"
            f" {r['min_ratio']:9.2f} {r['median_ratio']:9.2f}{note}"
        )
    peer = next((r for r in results if r["label"].startswith("bwrap")), None)
    if peer:
        print(f"\nholt run / bwrap: min {base['min_us'] / peer['min_us']:.2f}, median {base['median_us'] / peer['median_us']:.2f} (goal: 0.6)")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"benchmark": "start", "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
