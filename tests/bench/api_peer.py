#!/usr/bin/env python3
"""
holt's API server beside etcd and kube-apiserver, both built from their modules (tests/cluster/servers, which needs go and
takes long the first time): the same programs against both, one after the other, durable before each answer.

    tests/bench/api_peer.py --holt build/holt [--rounds 3] [--objects 5000] [--write]

With --write the results go into docs/benchmarks-api.md.
"""

import argparse
import base64
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import ssl

from run import ROOT, cpu_seconds, free_port, lines, machine, rss_kib

TOKEN = "token-of-the-benchmark"


def build_servers(target):
    """etcd and kube-apiserver in target."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        sys.exit("go is needed to build etcd and kube-apiserver")
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run([go, "build", "-o", target, "./..."], cwd=ROOT / "tests/cluster/servers", check=True)


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit("a server did not become ready")
        time.sleep(0.1)


def answers(port, path):
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


class Peer:
    """etcd and kube-apiserver with what they ship as defaults, but for admission that needs a cluster."""

    def __init__(self, servers, work):
        etcd_port, peer_port, self.port = free_port(), free_port(), free_port()
        (work / "tokens").write_text(f'{TOKEN},admin,a1,"system:masters"\n')
        key = work / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        log = open(work / "log", "ab")
        client, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        self.processes = [
            subprocess.Popen(
                [servers / "etcd", "--data-dir", work / "etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"],
                stdout=log, stderr=log,
            )
        ]  # fmt: skip
        began = time.monotonic()
        self.processes.append(
            subprocess.Popen(
                [servers / "kube-apiserver", "--etcd-servers", client, "--cert-dir", work / "certs", "--secure-port", str(self.port),
                 "--bind-address", "127.0.0.1", "--token-auth-file", work / "tokens", "--authorization-mode", "RBAC",
                 "--service-account-issuer", "https://issuer", "--service-account-key-file", key,
                 "--service-account-signing-key-file", key, "--disable-admission-plugins", "ServiceAccount"],
                stdout=log, stderr=log,
            )
        )  # fmt: skip
        wait_until(lambda: answers(self.port, "/readyz"))
        wait_until(lambda: answers(self.port, "/api/v1/namespaces/default"))
        self.start_s = time.monotonic() - began
        ca = base64.b64encode((work / "certs/apiserver.crt").read_bytes()).decode()
        self.kubeconfig = work / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip


class Holt:
    def __init__(self, holt, work):
        self.port = free_port()
        self.kubeconfig = work / "kubeconfig"
        read_end, write_end = os.pipe()
        argv = [holt, "control", "--data-dir", work / "data", "--run-dir", work / "run", "--kubeconfig", self.kubeconfig]
        argv += ["--listen", f"127.0.0.1:{self.port}", "--ready-fd", str(write_end)]
        began = time.monotonic()
        with open(work / "log", "ab") as log:
            self.processes = [subprocess.Popen(argv, stdout=log, stderr=log, pass_fds=[write_end])]
        os.close(write_end)
        with os.fdopen(read_end) as ready:
            assert ready.read(5) == "ready", (work / "log").read_text()
        self.start_s = time.monotonic() - began


def measure(server, build, objects, rounds):
    pids = [p.pid for p in server.processes]
    time.sleep(5)
    before = sum(map(cpu_seconds, pids))
    time.sleep(5)
    result = {
        "start until ready, s": server.start_s,
        "resident when idle, MiB": sum(map(rss_kib, pids)) / 1024,
        "processor when idle, %": (sum(map(cpu_seconds, pids)) - before) / 5 * 100,
    }
    for round in range(rounds):
        for r in lines([build / "tests/bench/bench_apiserver", server.kubeconfig, 64, objects, "configmap"]):
            for key, unit, better in (("per_second", "/s, 64 clients", max), ("p50_us", " p50, ms", min), ("p99_us", " p99, ms", min)):
                value = r[key] if key == "per_second" else r[key] / 1000
                name = r["name"] + unit
                result[name] = better(result[name], value) if name in result else value
    for r in lines([build / "tests/bench/bench_watch", server.kubeconfig, 1000, 50, 10000]):
        result[f"{r['name']} p50, ms"] = r["p50_us"] / 1000
        result[f"{r['name']} p99, ms"] = r["p99_us"] / 1000
    result["resident after all that, MiB"] = sum(map(rss_kib, pids)) / 1024
    return result


def run_one(make, build, objects, rounds):
    work = pathlib.Path(tempfile.mkdtemp(prefix="holt-bench-"))
    server = make(work)
    try:
        return measure(server, build, objects, rounds)
    finally:
        for p in reversed(server.processes):
            p.terminate()
            p.wait(60)
        shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holt", default=str(ROOT / "build/holt"))
    parser.add_argument("--servers", help="directory with etcd and kube-apiserver; built when not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--write", action="store_true", help="put the results into docs/benchmarks-api.md")
    args = parser.parse_args()
    holt = os.path.abspath(args.holt)
    build = pathlib.Path(holt).parent
    servers = pathlib.Path(args.servers) if args.servers else build / "servers"
    if not args.servers:
        build_servers(servers)
    targets = ["bench_apiserver", "bench_watch"]
    subprocess.run(["ninja", "-C", str(build), *(f"tests/bench/{t}" for t in targets)], check=True, stdout=subprocess.DEVNULL)
    ours = run_one(lambda work: Holt(holt, work), build, args.objects, args.rounds)
    theirs = run_one(lambda work: Peer(servers, work), build, args.objects, args.rounds)
    out = ["# The API server beside etcd and kube-apiserver", "", "Written by `tests/bench/api_peer.py --write`; best of "
           f"{args.rounds} rounds where there are several.", "", f"{datetime.date.today()}, {machine()}.", ""]  # fmt: skip
    out += ["| | holt | etcd + kube-apiserver 1.33 | theirs / ours |", "|---|---|---|---|"]
    for name, value in ours.items():
        ratio = f"{theirs[name] / value:.2f}" if value else ""
        out.append(f"| {name} | {value:.2f} | {theirs[name]:.2f} | {ratio} |")
    text = "\n".join(out) + "\n"
    print(text)
    if args.write:
        (ROOT / "docs/benchmarks-api.md").write_text(text)


if __name__ == "__main__":
    main()
