"""Lists, watches and deletion as informers and controllers lean on them, on the wire."""
import json
import random
import threading
import time

import pytest

from control_plane import ADMIN_TOKEN, ControlPlane

MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def ns(plane, request):
    """A namespace of the test's own."""
    name = f"n{abs(hash(request.node.name)) % 10**9}"
    plane.open("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).read()
    return name


@pytest.fixture
def maps(ns):
    return f"/api/v1/namespaces/{ns}/configmaps"


def make(plane, path, name, **more):
    metadata = {"name": name, **more.pop("metadata", {})}
    status, made = plane.call("POST", path, {"metadata": metadata, **more})
    assert status == 201, made
    return made


def version(thing):
    return thing["metadata"]["resourceVersion"]


def names(listed):
    return [i["metadata"]["name"] for i in listed["items"]]


class Watch:
    def __init__(self, plane, path, **query):
        text = "&".join(f"{k}={v}" for k, v in {"watch": "1", **query}.items())
        self.stream = plane.open("GET", f"{path}?{text}", timeout=60)
        self.status = self.stream.status

    def next(self):
        line = self.stream.readline()
        return json.loads(line) if line else None

    def take(self, count):
        """(type, name) of the next events."""
        events = [self.next() for _ in range(count)]
        return [(e["type"], e["object"]["metadata"]["name"]) for e in events]

    def close(self):
        self.stream.close()


# --- lists ---


def test_pages_are_of_one_snapshot(plane, maps):
    for i in range(25):
        make(plane, maps, f"m{i:02}")
    _, first = plane.call("GET", f"{maps}?limit=10")
    assert names(first) == [f"m{i:02}" for i in range(10)] and first["metadata"]["remainingItemCount"] == 15
    for i in range(25):
        assert plane.call("DELETE", f"{maps}/m{i:02}")[0] == 200
    make(plane, maps, "m99")
    _, second = plane.call("GET", f"{maps}?limit=10&continue={first['metadata']['continue']}")
    _, third = plane.call("GET", f"{maps}?limit=10&continue={second['metadata']['continue']}")
    assert names(second) + names(third) == [f"m{i:02}" for i in range(10, 25)]
    assert version(first) == version(second) == version(third) and "continue" not in third["metadata"]
    assert names(plane.call("GET", f"{maps}?resourceVersion={version(first)}&resourceVersionMatch=Exact")[1]) == [
        f"m{i:02}" for i in range(25)]
    assert names(plane.call("GET", maps)[1]) == ["m99"]


def test_a_page_with_a_selector_tells_no_rest(plane, maps):
    for i in range(6):
        make(plane, maps, f"m{i}", metadata={"labels": {"even": str(i % 2 == 0).lower()}})
    _, page = plane.call("GET", f"{maps}?limit=2&labelSelector=even%3Dtrue")
    assert names(page) == ["m0", "m2"] and "remainingItemCount" not in page["metadata"]
    _, rest = plane.call("GET", f"{maps}?limit=2&labelSelector=even%3Dtrue&continue={page['metadata']['continue']}")
    assert names(rest) == ["m4"]


@pytest.mark.parametrize("query, code, text", [
    ("continue=xx", 400, "continue key is not valid"),
    ("resourceVersion=abc", 400, "resourceVersion"),
    ("resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
    ("resourceVersion=0&resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
    ("resourceVersion=1&resourceVersionMatch=Sometimes", 422, "resourceVersionMatch"),
    ("sendInitialEvents=true", 422, "sendInitialEvents"),
    ("labelSelector=%21%21", 400, "unable to parse requirement"),
    ("fieldSelector=spec.nothing%3Dx", 400, "is not a known field selector"),
    ("resourceVersion=99999999", 504, "Too large resource version: 99999999"),
])
def test_lists_that_are_refused(plane, maps, query, code, text):
    status, answer = plane.call("GET", f"{maps}?{query}")
    assert (status, answer["code"]) == (code, code) and text in answer["message"], answer


# --- watches ---


def test_a_watch_begins_where_it_is_told(plane, maps):
    old = make(plane, maps, "a")
    make(plane, maps, "b")
    for query in ({}, {"resourceVersion": "0"}):
        assert sorted(Watch(plane, maps, **query).take(2)) == [("ADDED", "a"), ("ADDED", "b")]
    assert Watch(plane, maps, resourceVersion=version(old)).take(1) == [("ADDED", "b")]
    assert Watch(plane, maps, fieldSelector="metadata.name%3Db").take(1) == [("ADDED", "b")]
    assert Watch(plane, f"{maps}/a").take(1) == [("ADDED", "a")]
    after = Watch(plane, maps, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    make(plane, maps, "c")
    assert after.take(1) == [("ADDED", "c")]


def test_a_streaming_list_ends_with_its_bookmark(plane, maps):
    for i in range(3):
        make(plane, maps, f"m{i}")
    w = Watch(plane, maps, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
    assert sorted(w.take(3)) == [("ADDED", f"m{i}") for i in range(3)]
    end = w.next()
    assert end["type"] == "BOOKMARK" and end["object"]["kind"] == "ConfigMap"
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert version(end["object"]) == version(plane.call("GET", maps)[1])
    make(plane, maps, "m3")
    assert w.take(1) == [("ADDED", "m3")]


@pytest.mark.parametrize("query, code", [
    ("sendInitialEvents=true", 422), ("resourceVersionMatch=NotOlderThan", 422), ("resourceVersion=x", 400),
    ("sendInitialEvents=true&resourceVersionMatch=Exact", 422), ("resourceVersion=99999999", 504),
])
def test_watches_that_are_refused(plane, maps, query, code):
    status, answer = plane.call("GET", f"{maps}?watch=1&{query}")
    assert (status, answer["kind"]) == (code, "Status"), answer


def test_objects_enter_and_leave_a_selection(plane, maps):
    w = Watch(plane, maps, labelSelector="in%3Dyes")
    make(plane, maps, "m", metadata={"labels": {"in": "no"}})
    changes = []
    for value in ("yes", "yes", "no", "yes"):
        body = {"metadata": {"labels": {"in": value}}, "data": {"n": str(len(changes))}}
        changes.append(plane.call("PATCH", f"{maps}/m", body, MERGE)[1])
    plane.call("DELETE", f"{maps}/m")
    events = [w.next() for _ in range(5)]
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert [version(e["object"]) for e in events[:4]] == [version(c) for c in changes]
    assert int(version(events[4]["object"])) > int(version(changes[3]))  # that of the deletion
    assert events[4]["object"]["data"] == {"n": "3"}  # the last state


def test_a_write_that_changes_nothing_is_none(plane, maps):
    made = make(plane, maps, "m", data={"a": "b"})
    w = Watch(plane, maps, resourceVersion=version(made))
    _, same = plane.call("PATCH", f"{maps}/m", {"data": {"a": "b"}}, MERGE)
    assert version(same) == version(made)
    make(plane, maps, "n")
    assert w.take(1) == [("ADDED", "n")]


def test_a_watch_ends_when_it_was_told_to(plane, maps):
    make(plane, maps, "m")
    began = time.monotonic()
    w = Watch(plane, maps, timeoutSeconds="2", allowWatchBookmarks="true")
    events = [w.next() for _ in range(3)]
    assert [e and e["type"] for e in events] == ["ADDED", "BOOKMARK", None]
    assert set(events[1]["object"]["metadata"]) == {"resourceVersion", "creationTimestamp"}
    assert time.monotonic() - began >= 1.9
    plain = Watch(plane, maps, timeoutSeconds="1")
    assert plain.take(1) == [("ADDED", "m")] and plain.next() is None  # bookmarks come only when asked for


def test_forms_of_a_watch(plane, maps):
    make(plane, maps, "m")
    table = plane.open("GET", f"{maps}?watch=1", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    rows = json.loads(table.readline())["object"]
    assert rows["kind"] == "Table" and rows["rows"][0]["cells"][0] == "m" and rows["columnDefinitions"]
    partial = plane.open("GET", f"{maps}?watch=1",
                         headers={"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"})
    assert set(json.loads(partial.readline())["object"]) == {"kind", "apiVersion", "metadata"}
    legacy = plane.open("GET", maps.replace("/api/v1/", "/api/v1/watch/"))
    assert json.loads(legacy.readline())["type"] == "ADDED"


class Informer(threading.Thread):
    """Lists, then watches from there, through whatever happens, as clients do."""

    def __init__(self, plane, path):
        super().__init__(daemon=True)
        self.plane, self.path = plane, path
        self.store, self.events, self.lists, self.last, self.done = {}, [], 0, None, False

    def run(self):
        while not self.done:
            try:
                self.follow()
            except (OSError, ValueError):
                time.sleep(0.05)  # the server is being restarted

    def follow(self):
        if self.last is None:
            _, listed = self.plane.call("GET", self.path)
            self.lists += 1
            self.store = {i["metadata"]["name"]: version(i) for i in listed["items"]}
            self.last = version(listed)
        w = Watch(self.plane, self.path, resourceVersion=self.last, timeoutSeconds="30")
        while not self.done and (event := w.next()):
            if event["type"] == "ERROR":
                self.last = None
                return
            name, self.last = event["object"]["metadata"]["name"], version(event["object"])
            self.events.append((event["type"], name, int(self.last)))
            if event["type"] == "DELETED":
                del self.store[name]
            else:
                assert (event["type"] == "ADDED") == (name not in self.store)
                self.store[name] = self.last


def test_a_watcher_through_kills(holt):
    """The server is killed again and again while somebody writes and somebody watches: nothing that was acknowledged is
    lost, nothing comes twice or out of order."""
    plane = ControlPlane(holt)
    path = "/api/v1/namespaces/default/configmaps"
    informer = Informer(plane, path)
    informer.start()
    chance = random.Random(7)
    acknowledged, stop = {}, threading.Event()

    def write():
        for i in range(100000):
            name = f"m{chance.randrange(30)}"
            if stop.is_set():
                return
            try:
                if name in acknowledged and chance.random() < 0.4:
                    acknowledged.pop(name, None)
                    plane.call("DELETE", f"{path}/{name}")
                elif name in acknowledged:
                    acknowledged[name] = None  # unknown until answered
                    status, changed = plane.call("PATCH", f"{path}/{name}", {"data": {"n": str(i)}}, MERGE)
                    acknowledged[name] = version(changed) if status == 200 else acknowledged.pop(name)
                else:
                    status, made = plane.call("POST", path, {"metadata": {"name": name}})
                    if status in (201, 409):
                        acknowledged[name] = version(made) if status == 201 else None
            except (OSError, ValueError):
                time.sleep(0.02)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    for _ in range(6):
        seen = len(informer.events)
        plane.wait_until(lambda: len(informer.events) > seen + 20, 60)
        time.sleep(chance.random() * 0.2)
        plane.stop(kill=True)
        plane.start()
    stop.set()
    writer.join(60)
    listed = {i["metadata"]["name"]: version(i) for i in plane.call("GET", path)[1]["items"]}
    plane.wait_until(lambda: informer.store == listed, 60)
    assert all(v is None or listed[name] == v for name, v in acknowledged.items() if name in listed or v)
    assert informer.lists == 1, "it could always go on from where it was"
    order = [revision for _, _, revision in informer.events]
    assert order == sorted(set(order))
    informer.done = True
    plane.close()


def test_what_is_too_old_is_told(holt):
    """History is bounded: behind its end are an error, and a list that goes on in the present."""
    plane = ControlPlane(holt)
    path = "/api/v1/namespaces/default/configmaps"
    for i in range(4):
        make(plane, path, f"m{i}")
    _, page = plane.call("GET", f"{path}?limit=2")
    churn = json.dumps({"data": {"n": "%d"}})

    def write(k):
        client = plane.connection()
        for i in range(3000):
            client.request("PATCH", f"{path}/m0", churn % (k * 10**6 + i),
                           {"Authorization": f"Bearer {ADMIN_TOKEN}", **MERGE})
            answer = client.getresponse()
            assert answer.status == 200
            answer.read()

    def too_old():
        status, answer = plane.call("GET", f"{path}?watch=1&resourceVersion={version(page)}&timeoutSeconds=1")
        return status == 410

    for _ in range(20):
        threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if plane.open("GET", f"{path}?watch=1&resourceVersion={version(page)}&timeoutSeconds=1").status == 410:
            break
    status, gone = plane.call("GET", f"{path}?watch=1&resourceVersion={version(page)}")
    assert (status, gone["reason"], gone["code"]) == (410, "Expired", 410)
    status, gone = plane.call("GET", f"{path}?resourceVersion={version(page)}&resourceVersionMatch=Exact")
    assert (status, gone["reason"]) == (410, "Expired")
    make(plane, path, "m9")
    status, gone = plane.call("GET", f"{path}?limit=2&continue={page['metadata']['continue']}")
    assert (status, gone["reason"]) == (410, "Expired")
    rest = plane.call("GET", f"{path}?limit=2&continue={gone['metadata']['continue']}")[1]
    assert names(rest) == ["m2", "m3"]
    assert names(plane.call("GET", f"{path}?continue={rest['metadata']['continue']}")[1]) == ["m9"]
    plane.close()


# --- deletion ---


def owner(thing, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": thing["metadata"]["name"], "uid": thing["metadata"]["uid"], **more}


def chain(plane, maps):
    """root ← middle ← leaf"""
    root = make(plane, maps, "root")
    middle = make(plane, maps, "middle", metadata={"ownerReferences": [owner(root, blockOwnerDeletion=True)]})
    make(plane, maps, "leaf", metadata={"ownerReferences": [owner(middle, blockOwnerDeletion=True)]})
    return root


def listed(plane, maps):
    return names(plane.call("GET", maps)[1])


def test_background_deletion_takes_what_is_owned(plane, maps):
    chain(plane, maps)
    assert plane.call("DELETE", f"{maps}/root", {"propagationPolicy": "Background"})[1]["status"] == "Success"
    assert "root" not in listed(plane, maps)
    plane.wait_until(lambda: listed(plane, maps) == [])


def test_foreground_deletion_waits_for_what_is_owned(plane, maps):
    chain(plane, maps)
    plane.call("PATCH", f"{maps}/leaf", {"metadata": {"finalizers": ["x.example/hold"]}}, MERGE)
    _, going = plane.call("DELETE", f"{maps}/root", {"propagationPolicy": "Foreground"})
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"] and going["metadata"]["deletionTimestamp"]
    plane.wait_until(lambda: plane.call("GET", f"{maps}/leaf")[1]["metadata"].get("deletionTimestamp"))
    assert listed(plane, maps) == ["leaf", "middle", "root"]
    plane.call("PATCH", f"{maps}/leaf", {"metadata": {"finalizers": None}}, MERGE)
    plane.wait_until(lambda: listed(plane, maps) == [])


def test_orphans_stay(plane, maps):
    chain(plane, maps)
    plane.call("DELETE", f"{maps}/root", {"propagationPolicy": "Orphan"})
    plane.wait_until(lambda: listed(plane, maps) == ["leaf", "middle"])
    assert "ownerReferences" not in plane.call("GET", f"{maps}/middle")[1]["metadata"]
    assert "ownerReferences" in plane.call("GET", f"{maps}/leaf")[1]["metadata"]
    # The older way to say the same.
    again = make(plane, maps, "again")
    make(plane, maps, "child", metadata={"ownerReferences": [owner(again)]})
    plane.call("DELETE", f"{maps}/again", {"orphanDependents": True})
    plane.wait_until(lambda: listed(plane, maps) == ["child", "leaf", "middle"])


def test_one_owner_of_two_is_enough(plane, maps):
    one, two = make(plane, maps, "one"), make(plane, maps, "two")
    make(plane, maps, "child", metadata={"ownerReferences": [owner(one), owner(two)]})
    plane.call("DELETE", f"{maps}/one")
    plane.wait_until(lambda: len(plane.call("GET", f"{maps}/child")[1]["metadata"]["ownerReferences"]) == 1)
    plane.call("DELETE", f"{maps}/two")
    plane.wait_until(lambda: listed(plane, maps) == [])


def test_an_owner_that_never_was(plane, maps):
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "00000000-0000-4000-8000-000000000000"}
    make(plane, maps, "child", metadata={"ownerReferences": [ghost]})
    plane.wait_until(lambda: listed(plane, maps) == [])


def test_finalizers_hold_and_the_policy_may_change(plane, maps):
    make(plane, maps, "m", metadata={"finalizers": ["a.example/x", "b.example/y"]})
    first = plane.call("DELETE", f"{maps}/m")[1]["metadata"]["deletionTimestamp"]
    assert plane.call("DELETE", f"{maps}/m")[1]["metadata"]["deletionTimestamp"] == first
    status, refused = plane.call("PATCH", f"{maps}/m", {"metadata": {"finalizers": ["a.example/x", "c.example/z"]}}, MERGE)
    assert status == 422 and "no new finalizers can be added" in refused["message"]
    assert plane.call("PATCH", f"{maps}/m", {"metadata": {"finalizers": ["a.example/x"]}}, MERGE)[0] == 200
    plane.call("PATCH", f"{maps}/m", {"metadata": {"finalizers": []}}, MERGE)
    assert listed(plane, maps) == []


@pytest.mark.parametrize("preconditions, code", [({"uid": "x"}, 409), ({"resourceVersion": "1"}, 409), ({}, 200)])
def test_preconditions(plane, maps, preconditions, code):
    make(plane, maps, "m")
    status, answer = plane.call("DELETE", f"{maps}/m", {"preconditions": preconditions})
    assert status == code, answer
    assert listed(plane, maps) == (["m"] if code == 409 else [])


def test_delete_collection(plane, maps):
    for i in range(6):
        make(plane, maps, f"m{i}", metadata={"labels": {"odd": str(i % 2)}})
    status, gone = plane.call("DELETE", f"{maps}?labelSelector=odd%3D1&dryRun=All")
    assert status == 200 and len(listed(plane, maps)) == 6
    status, gone = plane.call("DELETE", f"{maps}?labelSelector=odd%3D1")
    assert status == 200 and gone["kind"] == "ConfigMapList" and names(gone) == ["m1", "m3", "m5"]
    assert listed(plane, maps) == ["m0", "m2", "m4"]
    assert plane.call("DELETE", f"{maps}?propagationPolicy=Nonsense")[0] == 422


def test_a_dry_run_leaves_nothing(plane, maps):
    made = make(plane, maps, "m", data={"a": "b"})
    w = Watch(plane, maps, resourceVersion=version(made))
    assert plane.call("POST", f"{maps}?dryRun=All", {"metadata": {"name": "x"}})[0] == 201
    assert plane.call("PATCH", f"{maps}/m?dryRun=All", {"data": {"a": "c"}}, MERGE)[1]["data"] == {"a": "c"}
    assert plane.call("PUT", f"{maps}/m?dryRun=All", dict(made, data={"a": "d"}))[1]["data"] == {"a": "d"}
    assert plane.call("DELETE", f"{maps}/m?dryRun=All")[0] == 200
    assert plane.call("POST", f"{maps}?dryRun=Some", {"metadata": {"name": "x"}})[0] == 422
    assert plane.call("GET", f"{maps}/m")[1] == made and listed(plane, maps) == ["m"]
    make(plane, maps, "end")
    assert w.take(1) == [("ADDED", "end")]
