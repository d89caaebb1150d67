"""Waiting for the end of an object in whose place another comes at once."""

import json

PODS = "/api/v1/namespaces/default/pods"
BY_NAME = PODS + "?fieldSelector=metadata.name%3Dp"


def pod():
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "host"}]}}


def uids(plane, query):
    answer = json.load(plane.open("GET", query))
    return [i["metadata"]["uid"] for i in answer["items"]], answer["metadata"]["resourceVersion"]


def test_a_list_of_any_revision_shows_what_has_just_ended(plane):
    """kubectl delete lists with resourceVersion=0 and watches from there for the end."""
    first = json.load(plane.open("POST", PODS, pod()))["metadata"]["uid"]
    assert plane.open("DELETE", f"{PODS}/p").status == 200
    assert plane.open("DELETE", f"{PODS}/p?gracePeriodSeconds=0").status == 200
    assert uids(plane, BY_NAME)[0] == [], "the present is the present"
    found, revision = uids(plane, BY_NAME + "&resourceVersion=0")
    assert found == [first]
    second = json.load(plane.open("POST", PODS, pod()))["metadata"]["uid"]
    assert uids(plane, BY_NAME)[0] == [second]
    found, revision = uids(plane, BY_NAME + "&resourceVersion=0")
    assert found == [first]
    watch = plane.open("GET", f"{BY_NAME}&watch=1&timeoutSeconds=1&resourceVersion={revision}")
    events = [json.loads(line) for line in watch.read().splitlines()]
    assert [(e["type"], e["object"]["metadata"]["uid"]) for e in events][:2] == [("DELETED", first), ("ADDED", second)]
    assert second in uids(plane, PODS + "?resourceVersion=0")[0], "a list of all is of the present"
    plane.open("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
