#!/usr/bin/env python3
"""
Every number of docs/benchmarks.md, in one run: start-up beside peers, latencies through the API of a holt started for
it, the API server under load, memory when idle. With --write the results go into docs/benchmarks.md.

    tests/bench/run.py --holt build/holt [--rounds 200] [--write]
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lines(argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True, timeout=600)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def with_holt(holt, build, rounds):
    """Numbers that need a running holt."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="holt-bench-"))
    work.chmod(0o711)  # the API server runs as a user of its own
    run, data = work / "run", work / "data"
    argv = [holt, "up", "--run-dir", run, "--data-dir", data, "--listen", f"127.0.0.1:{free_port()}", "--stop-sandboxes"]
    with open(work / "log", "wb") as log:
        up = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log)
    try:
        subprocess.run([holt, "wait", "--run-dir", str(run), "--timeout", "60s"], check=True)
        rss = {}
        for pid in children(up.pid):
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            rss[name] = rss_kib(pid)
        config = data / "admin.kubeconfig"
        api = lines([build / "tests/bench/bench_api", config, rounds])
        load = lines([build / "tests/bench/bench_apiserver", config, 64, 5000, "configmap"])
        watch = lines([build / "tests/bench/bench_watch", config])
        return rss, api, load, watch
    finally:
        up.terminate()
        up.wait(60)
        shutil.rmtree(work, ignore_errors=True)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_many_objects(holt, build, count=50000):
    """The API server alone with many Sandboxes: memory, start, idle."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="holt-bench-"))
    config = work / "config"

    def start():
        read_end, write_end = os.pipe()
        argv = [holt, "control", "--data-dir", work / "data", "--run-dir", work / "run", "--kubeconfig", config]
        argv += ["--listen", f"127.0.0.1:{port}", "--ready-fd", write_end]
        with open(work / "log", "ab") as log:
            began = time.monotonic()
            process = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log, pass_fds=[write_end])
            os.close(write_end)
            with os.fdopen(read_end) as ready:
                assert ready.read(5) == "ready", (work / "log").read_text()
            return process, time.monotonic() - began

    port = free_port()
    try:
        process, _ = start()
        empty = rss_kib(process.pid)
        lines([build / "tests/bench/bench_apiserver", config, 64, count, "sandbox", "keep"])
        process.terminate()
        process.wait(60)
        process, start_s = start()
        time.sleep(3)
        full, before = rss_kib(process.pid), cpu_seconds(process.pid)
        time.sleep(5)
        idle_s = cpu_seconds(process.pid) - before
        process.terminate()
        process.wait(60)
        return {"bytes_each": (full - empty) * 1024 / count, "start_s": start_s, "idle_s": idle_s}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) // (1 << 20)
    return f"{os.cpu_count()} × {model}, {memory} GiB, Linux {os.uname().release}"


def report(start, rss, api, load, watch, many):
    ours = next(r for r in start if r["label"] == "holt run")
    peer = next((r for r in start if r["label"].startswith("bwrap")), None)
    out = ["# Benchmarks", "", "Written by `make bench` (`tests/bench/run.py --write`): run it again to check each number.", ""]
    out += [f"{datetime.date.today()}, {machine()}, load {os.getloadavg()[0]:.1f} at the end.", ""]
    out += ["## Start to end of `true`", "", "One busybox root, all commands interleaved in one run; the ratio is to `holt run`.", ""]
    out += ["| command | n | min ms | median ms | p90 ms | median ratio |", "|---|---|---|---|---|---|"]
    for r in start:
        out.append(
            f"| {r['label']} | {r['n']} | {r['min_us'] / 1000:.2f} | {r['median_us'] / 1000:.2f} "
            f"| {r['p90_us'] / 1000:.2f} | {r['median_us'] / ours['median_us']:.2f} |"
        )
    if peer:
        ratio = ours["median_us"] / peer["median_us"]
        out += ["", f"`holt run` takes {ratio:.2f} of bwrap's median here, with more isolation (goal: 0.6)."]
    out += ["", "## Through the API, one client", ""]
    out += ["| path | n | min ms | p50 ms | p99 ms | goal |", "|---|---|---|---|---|---|"]
    goals = {
        "cold": ("POST Sandbox → Ready seen by a watcher", "p50 ≤ 10 ms"),
        "gone": ("DELETE Sandbox → Pod gone", ""),
        "exec": ("exec `true` on a kept connection", "p50 ≤ 2 ms"),
    }
    for r in api:
        label, goal = goals.get(r["name"], (r["name"], ""))
        out.append(
            f"| {label} | {r['n']} | {r['min_us'] / 1000:.2f} | {r['p50_us'] / 1000:.2f} | {r['p99_us'] / 1000:.2f} | {goal} |"
        )
    out += ["", "## The API server under load", "", "ConfigMaps, durable before each answer.", ""]
    out += ["| what | clients | n | per second | p50 ms | p99 ms |", "|---|---|---|---|---|---|"]
    for r in load:
        out.append(
            f"| {r['name']} | {r['clients']} | {r['n']} | {r['per_second']:.0f} "
            f"| {r['p50_us'] / 1000:.2f} | {r['p99_us'] / 1000:.2f} |"
        )
    out += ["", "One write and 1,000 watchers on this machine, and a list of 10,000 objects to its last byte.", ""]
    out += ["| what | n | p50 ms | p99 ms | max ms | goal |", "|---|---|---|---|---|---|"]
    labels = {
        "fanout_each": ("write → one of the watchers", "p99 ≤ 20 ms"),
        "fanout_all": ("write → the last watcher", ""),
        "list": ("list", "≤ 150 ms"),
    }
    for r in watch:
        label, goal = labels[r["name"]]
        out.append(
            f"| {label} | {r['n']} | {r['p50_us'] / 1000:.1f} | {r['p99_us'] / 1000:.1f} | {r['max_us'] / 1000:.1f} | {goal} |"
        )
    out += ["", "## 50,000 objects", "", "Suspended Sandboxes in the API server alone.", ""]
    out += ["| what | | goal |", "|---|---|---|"]
    out.append(f"| resident memory of each | {many['bytes_each'] / 1000:.1f} kB | ≤ 20 kB |")
    out.append(f"| start until it serves | {many['start_s']:.2f} s | ≤ 2 s |")
    out.append(f"| processor time in 5 idle seconds | {many['idle_s']:.2f} s | 0 |")
    out += ["", "## Memory when idle", "", "| process | RSS MiB |", "|---|---|"]
    out += [f"| {name} | {kib / 1024:.1f} |" for name, kib in sorted(rss.items())]
    out += ["", "Goal: `holt-control` ≤ 30 MiB.", ""]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holt", default=str(ROOT / "build/holt"))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the results into docs/benchmarks.md")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root")
    holt = os.path.abspath(args.holt)
    build = pathlib.Path(holt).parent
    targets = ["bench_api", "bench_apiserver", "bench_start", "bench_watch"]
    subprocess.run(["ninja", "-C", str(build), *(f"tests/bench/{t}" for t in targets)], check=True, stdout=subprocess.DEVNULL)
    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        start_argv = [sys.executable, ROOT / "tests/bench/start.py", "--holt", holt, "--timer", build / "tests/bench/bench_start"]
        start_argv += ["--rounds", args.rounds, "--json", results.name]
        subprocess.run([str(a) for a in start_argv], check=True, stdout=subprocess.DEVNULL)
        start = json.load(results)["results"]
    text = report(start, *with_holt(holt, build, args.rounds), with_many_objects(holt, build))
    print(text)
    if args.write:
        (ROOT / "docs/benchmarks.md").write_text(text)


if __name__ == "__main__":
    main()
