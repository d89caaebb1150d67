"""The JavaScript clients, as they come from npm: each test of tests/clients/node is one here."""

import os
import pathlib
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

from instance import DEADLINE

HERE = pathlib.Path(__file__).resolve().parent / "node"
INSTALLED = HERE.parents[2] / "build" / "node"


@pytest.fixture(scope="module")
def installed():
    """The clients with their packages, at the versions of the lock file."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    lock = HERE / "package-lock.json"
    done = INSTALLED / ".ready"
    if not done.exists() or done.read_bytes() != lock.read_bytes():
        shutil.rmtree(INSTALLED, ignore_errors=True)
        INSTALLED.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, INSTALLED)
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=INSTALLED, check=True
        )
        shutil.copy(lock, done)
    for source in HERE.glob("*.mjs"):
        shutil.copy(source, INSTALLED)
    return INSTALLED


def test_kubernetes_client_node(up, installed, record_property):
    env = dict(os.environ, KUBECONFIG=str(up.kubeconfig))
    report = installed / "report.xml"
    done = subprocess.run(
        ["node", "--test", "--test-reporter=junit", f"--test-reporter-destination={report}", "kubernetes.test.mjs"],
        cwd=installed, env=env, capture_output=True, text=True, timeout=4 * DEADLINE,
    )  # fmt: skip
    cases = xml.etree.ElementTree.parse(report).findall(".//testcase")
    failed = {c.get("name"): "".join(c.find("failure").itertext()) for c in cases if c.find("failure") is not None}
    record_property("cases", len(cases))
    assert not failed and done.returncode == 0, f"{failed}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    assert len(cases) >= 7
