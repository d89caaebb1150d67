"""GET /metrics, read by Prometheus' own parser."""
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from control_plane import ADMIN_TOKEN, USER_TOKEN

MAPS = "/api/v1/namespaces/default/configmaps"


def samples(plane):
    answer = plane.open("GET", "/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return [s for f in text_string_to_metric_families(answer.read().decode()) for s in f.samples]


def value(plane, name, **labels):
    return sum(s.value for s in samples(plane) if s.name == name and labels.items() <= s.labels.items())


def test_requests_are_counted(plane):
    made = dict(verb="POST", resource="configmaps", group="", version="v1")
    before = value(plane, "apiserver_request_total", code="201", **made)
    for i in range(5):
        assert plane.open("POST", MAPS, {"metadata": {"name": f"m{i}"}}).status == 201
    assert plane.open("POST", MAPS, {"metadata": {"name": "m0"}}).status == 409
    assert value(plane, "apiserver_request_total", code="201", **made) == before + 5
    assert value(plane, "apiserver_request_total", code="409", **made) == 1
    assert value(plane, "apiserver_request_duration_seconds_count", **made) == before + 6
    assert value(plane, "apiserver_request_duration_seconds_bucket", le="+Inf", **made) == before + 6
    assert 0 < value(plane, "apiserver_request_duration_seconds_sum", **made) < 60
    assert value(plane, "apiserver_storage_objects", resource="configmaps") >= 5
    assert value(plane, "apiserver_storage_objects", resource="sandboxes.agents.x-k8s.io") == 0


def test_what_goes_on_is_counted_while_it_does(plane):
    watching = dict(verb="WATCH", resource="secrets")
    assert value(plane, "apiserver_longrunning_requests", **watching) == 0
    stream = plane.open("GET", "/api/v1/secrets?watch=1&resourceVersion=0")
    plane.wait_until(lambda: value(plane, "apiserver_longrunning_requests", **watching) == 1)
    assert plane.open("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}}).status == 201
    assert b"ADDED" in stream.readline()
    assert value(plane, "apiserver_watch_events_total", resource="secrets") == 1
    stream.close()
    plane.wait_until(lambda: value(plane, "apiserver_longrunning_requests", **watching) == 0)
    assert value(plane, "apiserver_request_total", code="200", **watching) == 1
    assert value(plane, "apiserver_request_duration_seconds_count", **watching) == 0
    # This request itself.
    assert value(plane, "apiserver_current_inflight_requests", request_kind="readOnly") == 1


def test_process(plane):
    assert value(plane, "process_resident_memory_bytes") > 1 << 20
    assert value(plane, "process_open_fds") > 5
    assert abs(value(plane, "process_start_time_seconds") - plane.dir.stat().st_ctime) < 3600
    assert value(plane, "holt_store_revision") == value(plane, "holt_store_durable_revision") > 0


def test_labels_are_not_the_clients_to_choose(plane):
    before = len(samples(plane))
    for i in range(200):
        assert plane.open("GET", f"/apis/g{i}.example/v1/things{i}").status == 404
        assert plane.open("GET", f"/api/v1/namespaces/default/pods/p/sub{i}").status == 404
        assert plane.open("GET", f"/nothing{i}").status == 404
    assert len(samples(plane)) < before + 60


def test_who_may_read_it(plane):
    assert plane.open("GET", "/metrics", token=None).status == 401
    assert plane.open("GET", "/metrics", token=USER_TOKEN).status == 403
    group = {"Impersonate-User": "prometheus", "Impersonate-Group": "system:monitoring"}
    assert plane.open("GET", "/metrics", token=ADMIN_TOKEN, headers=group).status == 200
    assert value(plane, "holt_unauthorized_requests_total") == 1


def test_many_at_once(plane):
    threads = [threading.Thread(target=lambda: [plane.open("GET", MAPS).read() for _ in range(20)]) for _ in range(8)]
    before = value(plane, "apiserver_request_total", verb="LIST", resource="configmaps", code="200")
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert value(plane, "apiserver_request_total", verb="LIST", resource="configmaps", code="200") == before + 160
