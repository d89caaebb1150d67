"""What one user's flood does to another user's latency.

fairness.py HOLT [HOLT...]: for each binary, the latency of bob's GETs alone, and while alice floods the server with
reads, with writes and with LISTs of 10,000 objects. Needs wrk and h2load.
"""
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

OBJECTS = 10000
SECONDS = 4
PATH = "/api/v1/namespaces/default/configmaps"


def realtime(pid, priority):
    """What is measured is the server's doing, not that of a scheduler with more to run than processors. Needs root."""
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO if priority else os.SCHED_OTHER, os.sched_param(priority))
    except PermissionError:
        pass


class Server:
    def __init__(self, holt):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holt-fairness-"))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        (self.dir / "tokens").write_text('alice-t,alice,a,"system:masters"\nbob-t,bob,b,"system:masters"\n')
        read_end, write_end = os.pipe()
        self.process = subprocess.Popen(
            [holt, "control", "--data-dir", self.dir / "data", "--run-dir", self.dir / "run",
             "--listen", f"127.0.0.1:{self.port}", "--token-file", self.dir / "tokens", "--ready-fd", str(write_end)],
            pass_fds=[write_end], stderr=open(self.dir / "log", "a"))
        os.close(write_end)
        with os.fdopen(read_end) as ready:
            assert ready.read(5) == "ready", (self.dir / "log").read_text()
        realtime(self.process.pid, 1)

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.dir)

    def url(self, path):
        return f"https://127.0.0.1:{self.port}{path}"


def load(server, *options, path, body=None):
    """A flood by alice, until it is terminated."""
    command = ["h2load", *options, "-H", "Authorization: Bearer alice-t"]
    if body:
        command += ["-H", "Content-Type: application/json", "-d", body]
    return subprocess.Popen([*command, server.url(path)], stdout=subprocess.PIPE, text=True)


def probe(server, seconds=SECONDS):
    """Latencies of bob's GETs in ms, one after the other on one connection."""
    realtime(0, 2)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=ssl._create_unverified_context())
    latencies, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        connection.request("GET", PATH + "/hello", headers={"Authorization": "Bearer bob-t"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        latencies.append((time.monotonic() - start) * 1000)
        time.sleep(0.001)
    realtime(0, 0)
    return sorted(latencies)


def show(what, latencies, alone=None):
    p = {q: latencies[min(len(latencies) - 1, int(len(latencies) * q / 100))] for q in (50, 99)}
    factor = f"  p99 x{p[99] / alone[int(len(alone) * 0.99)]:.1f}" if alone else ""
    print(f"  {what:38} p50 {p[50]:7.2f} ms  p99 {p[99]:7.2f} ms  max {latencies[-1]:7.2f} ms{factor}", flush=True)


def fill(server, body):
    flood = load(server, "-n", str(OBJECTS), "-c", "16", "--h1", path=PATH, body=body)
    assert f"{OBJECTS} 2xx" in flood.communicate()[0]


def measure(holt):
    print(holt)
    server = Server(holt)
    try:
        body, hello = server.dir / "body.json", server.dir / "hello.json"
        body.write_text(json.dumps({"metadata": {"generateName": "x-"}, "data": {"a": "b" * 1500}}))
        hello.write_text(json.dumps({"metadata": {"name": "hello"}, "data": {"a": "b"}}))
        load(server, "-n", "1", "-c", "1", "--h1", path=PATH, body=hello).wait()
        fill(server, body)
        alone = probe(server)
        show("alone", alone)
        floods = [("64 connections of GETs", ("-c", "64", "--h1"), PATH + "/hello", None),
                  ("4 connections of LISTs", ("-c", "4", "--h1"), PATH + f"?limit={OBJECTS}", None),
                  ("4 connections of LISTs as tables", ("-c", "4", "--h1", "-H", TABLE), PATH + f"?limit={OBJECTS}",
                   None),
                  ("64 connections of creates", ("-c", "64", "--h1"), PATH, body)]  # last: it leaves many objects
        for what, options, path, data in floods:
            flood = load(server, "-D", str(SECONDS + 2), *options, path=path, body=data)
            time.sleep(1)
            show(what, probe(server), alone)
            rate = [line for line in flood.communicate()[0].splitlines() if line.startswith("finished")]
            print(f"    alice: {rate[0]}" if rate else "    alice: no answers")
    finally:
        server.close()


TABLE = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"

if __name__ == "__main__":
    for binary in sys.argv[1:]:
        measure(binary)
