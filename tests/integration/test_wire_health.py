"""What the paths say that probes ask."""
import pytest

from control_plane import ControlPlane


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
def test_health(holt, name):
    plane = ControlPlane(holt)
    try:
        assert plane.open("GET", f"/{name}", token="nobody").read() == b"ok"
        assert plane.open("GET", f"/{name}/ping").read() == b"ok"
        assert plane.open("GET", f"/{name}?verbose").read().decode() == f"[+]ping ok\n{name} check passed\n"
        assert plane.open("GET", f"/{name}/nothing").status == 404
    finally:
        plane.close()
