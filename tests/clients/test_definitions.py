"""CustomResourceDefinitions as other projects have them, through unmodified kubectl: kinds of anyone's own."""
import copy
import json

import pytest


def create(plane, body, ok=True):
    return plane.kubectl("create", "-f", "-", ok=ok, stdin=json.dumps(body))


def apply(plane, body, ok=True):
    return plane.kubectl("apply", "-f", "-", ok=ok, stdin=json.dumps(body))


def define(plane, definition):
    create(plane, definition)
    name = definition["metadata"]["name"]
    plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=10s")
    return name


def patch(plane, target, change, ok=True, *more):
    return plane.kubectl("patch", *target.split("/"), "--type=merge", "-p", json.dumps(change), *more, ok=ok)


def conditions(plane, name):
    return {c["type"]: c for c in plane.get("crd", name)["status"]["conditions"]}


def definition(group, plural, kind, versions, scope="Namespaced", **names):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind, **names},
                     "versions": versions}}


def version(name, properties, storage=True, served=True, root=None, **more):
    return {"name": name, "served": served, "storage": storage, **more,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties, **(root or {})}}}


STRING = {"type": "string"}
CONDITIONS = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    "items": {"type": "object", "required": ["type", "status"], "properties": {
        "type": STRING, "status": {"type": "string", "enum": ["True", "False", "Unknown"]}, "reason": STRING,
        "message": STRING, "lastTransitionTime": {"type": "string", "format": "date-time"}}}}

# As cert-manager has it.
CERTIFICATES = definition("certs.example.com", "certificates", "Certificate", [version("v1", {
    "spec": {
        "type": "object", "required": ["secretName", "issuerRef"],
        "properties": {
            "secretName": STRING,
            "duration": {"type": "string", "default": "2160h"},
            "dnsNames": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set", "maxItems": 3},
            "usages": {"type": "array", "items": {"type": "string", "enum": ["signing", "server auth", "client auth"]}},
            "issuerRef": {"type": "object", "required": ["name"], "properties": {
                "name": STRING, "kind": {"type": "string", "default": "Issuer"}, "group": STRING}},
            "privateKey": {"type": "object", "default": {}, "properties": {
                "algorithm": {"type": "string", "default": "RSA", "enum": ["RSA", "ECDSA", "Ed25519"]},
                "size": {"type": "integer", "format": "int32", "minimum": 256, "maximum": 8192}}},
            "secretTemplate": {"type": "object", "properties": {
                "labels": {"type": "object", "additionalProperties": STRING}}},
            "keystores": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {
                "jks": {"type": "object", "properties": {"create": {"type": "boolean"}}}}},
            "port": {"x-kubernetes-int-or-string": True},
            "renewBefore": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True,
                            "pattern": "^[0-9]+%?$"},
            "template": {"type": "object", "x-kubernetes-embedded-resource": True,
                         "x-kubernetes-preserve-unknown-fields": True},
            "note": {"type": "string", "nullable": True},
        }},
    "status": {"type": "object", "properties": {
        "conditions": CONDITIONS, "notAfter": {"type": "string", "format": "date-time"},
        "revision": {"type": "integer"}}},
}, subresources={"status": {}}, selectableFields=[{"jsonPath": ".spec.secretName"}, {"jsonPath": ".spec.issuerRef.name"}],
    additionalPrinterColumns=[
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Secret", "type": "string", "jsonPath": ".spec.secretName"},
        {"name": "Issuer", "type": "string", "jsonPath": ".spec.issuerRef.name", "priority": 1},
        {"name": "Expires", "type": "date", "jsonPath": ".status.notAfter"},
        {"name": "Rev", "type": "integer", "jsonPath": ".status.revision"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}])],
    shortNames=["cert", "certs"], categories=["all", "cert-stuff"])


def certificate(name, **spec):
    return {"apiVersion": "certs.example.com/v1", "kind": "Certificate", "metadata": {"name": name},
            "spec": {"secretName": f"{name}-tls", "issuerRef": {"name": "ca"}, **spec}}


@pytest.fixture(scope="module")
def certificates(plane):
    name = define(plane, CERTIFICATES)
    yield name
    plane.kubectl("delete", "crd", name)


def test_defaults_pruning_and_open_parts(plane, certificates, namespace):
    create(plane, certificate("a", port=8443))
    spec = plane.get("cert", "a")["spec"]
    assert spec == {"secretName": "a-tls", "issuerRef": {"name": "ca", "kind": "Issuer"}, "duration": "2160h",
                    "privateKey": {"algorithm": "RSA"}, "port": 8443}
    # kubectl refuses unknown fields; without its question they are dropped, except where everything is kept.
    body = certificate("b", lost=1, keystores={"jks": {"create": True, "lost": 1}, "own": {"deep": [1]}}, port="https",
                       privateKey={"size": 4096}, note=None, secretTemplate={"labels": {"k": "v"}})
    refused = create(plane, body, ok=False)
    assert 'unknown field "spec.lost"' in refused and 'unknown field "spec.keystores.jks.lost"' in refused
    assert "keystores.own" not in refused
    plane.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(body))
    spec = plane.get("cert", "b")["spec"]
    assert "lost" not in spec and spec["keystores"] == {"jks": {"create": True}, "own": {"deep": [1]}}
    assert spec["port"] == "https" and spec["privateKey"] == {"size": 4096, "algorithm": "RSA"}
    assert spec["note"] is None and spec["secretTemplate"] == {"labels": {"k": "v"}}
    patch(plane, "cert/b", {"spec": {"duration": None}})  # a default comes back
    assert plane.get("cert", "b")["spec"]["duration"] == "2160h"


@pytest.mark.parametrize("spec,text", [
    ({"secretName": None}, "spec.secretName: Required value"),
    ({"issuerRef": {}}, "spec.issuerRef.name: Required value"),
    ({"dnsNames": ["a", "b", "a"]}, 'spec.dnsNames[2]: Duplicate value: "a"'),
    ({"dnsNames": ["a", "b", "c", "d"]}, "spec.dnsNames: Too many: 4: must have at most 3 items"),
    ({"usages": ["signing", "spying"]},
     'spec.usages[1]: Unsupported value: "spying": supported values: "signing", "server auth", "client auth"'),
    ({"privateKey": {"size": 1}},
     "spec.privateKey.size: Invalid value: 1: spec.privateKey.size in body should be greater than or equal to 256"),
    ({"port": True}, "spec.port"),
    ({"port": 1.5}, "spec.port"),
    ({"renewBefore": "soon"}, "spec.renewBefore in body should match '^[0-9]+%?$'"),
    ({"secretTemplate": {"labels": {"k": 1}}}, 'spec.secretTemplate.labels.k in body must be of type string: "integer"'),
    ({"template": {"spec": {}}}, "spec.template.apiVersion: Required value: must not be empty"),
    ({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b!"}}}},
     "spec.template.metadata.labels: Invalid value"),
], ids=lambda v: "" if isinstance(v, str) else "spec")
def test_refusals(plane, certificates, namespace, spec, text):
    body = certificate("bad", **spec)
    if spec.get("secretName", 1) is None:
        del body["spec"]["secretName"]
    refused = create(plane, body, ok=False)
    assert text in refused and 'The Certificate "bad" is invalid' in refused, refused


def test_embedded_resources(plane, certificates, namespace):
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"any": [1]}}
    create(plane, certificate("e", template=inner))
    assert plane.get("cert", "e")["spec"]["template"] == inner


def test_status_and_columns(plane, certificates, namespace):
    create(plane, certificate("c") | {"status": {"revision": 9}})
    made = plane.get("certificate", "c")
    assert "status" not in made and made["metadata"]["generation"] == 1
    status = {"revision": 2, "notAfter": "2020-01-01T00:00:00Z", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}
    patch(plane, "cert/c", {"status": status, "spec": {"secretName": "ignored"}}, True, "--subresource=status")
    made = plane.get("certificate", "c")
    assert made["status"] == status and made["spec"]["secretName"] == "c-tls" and made["metadata"]["generation"] == 1
    patch(plane, "cert/c", {"status": None, "spec": {"secretName": "new"}})
    made = plane.get("certificate", "c")
    assert made["status"] == status and made["metadata"]["generation"] == 2
    plane.kubectl("wait", "--for=condition=Ready", "cert/c", "--timeout=5s")
    bad = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}]}}
    refused = patch(plane, "cert/c", bad, False, "--subresource=status")
    assert 'status.conditions[1]: Duplicate value: {"type":"Ready"}' in refused, refused

    create(plane, certificate("d"))
    rows = [line.split() for line in plane.kubectl("get", "certs").splitlines()]
    assert rows[0] == ["NAME", "READY", "SECRET", "EXPIRES", "REV", "AGE"]
    assert rows[1][:3] == ["c", "True", "new"] and rows[1][4] == "2"
    assert rows[2][:2] == ["d", "d-tls"]  # what is missing is an empty cell
    assert plane.kubectl("get", "certs", "-o", "wide").split()[:7] == [
        "NAME", "READY", "SECRET", "ISSUER", "EXPIRES", "REV", "AGE"]
    assert "c" in plane.kubectl("get", "certs", "--sort-by=.status.revision").split()


def test_selectable_fields_and_categories(plane, certificates, namespace):
    for name, issuer in ("one", "ca"), ("two", "acme"), ("three", "acme"):
        create(plane, certificate(name, issuerRef={"name": issuer}))

    def found(selector):
        return plane.kubectl("get", "cert", "-o", "name", "--field-selector", selector).split()

    assert found("spec.issuerRef.name=acme") == [f"certificate.certs.example.com/{n}" for n in ("three", "two")]
    assert found("spec.issuerRef.name!=acme,spec.secretName=one-tls") == ["certificate.certs.example.com/one"]
    refused = plane.kubectl("get", "cert", "--field-selector", "spec.duration=1h", ok=False)
    assert 'field label not supported: spec.duration' in refused, refused
    assert "certificate.certs.example.com/one" in plane.kubectl("get", "all", "-o", "name").split()
    assert "certificate.certs.example.com/one" in plane.kubectl("get", "cert-stuff", "-o", "name").split()
    plane.kubectl("delete", "cert", "--field-selector", "spec.issuerRef.name=acme")
    assert found("metadata.name!=x") == ["certificate.certs.example.com/one"]


def test_apply_merges_lists_by_key(plane, certificates, namespace):
    def conditions_by(manager, *items):
        body = {"apiVersion": "certs.example.com/v1", "kind": "Certificate", "metadata": {"name": "s"},
                "status": {"conditions": [{"type": t, "status": s} for t, s in items]}}
        return plane.kubectl("apply", "--server-side", "--subresource=status", f"--field-manager={manager}", "-f", "-",
                             stdin=json.dumps(body))

    plane.needs_kubectl(32)
    create(plane, certificate("s"))
    conditions_by("one", ("Ready", "True"))
    conditions_by("two", ("Issuing", "False"))
    conditions_by("one", ("Ready", "False"))
    assert [(c["type"], c["status"]) for c in plane.get("cert", "s")["status"]["conditions"]] == [
        ("Ready", "False"), ("Issuing", "False")]


# As the documentation of Kubernetes has it, with a history.
def cron_versions(stored="v1"):
    old = version("v1beta1", {"spec": {"type": "object", "properties": {"cronSpec": STRING, "replicas": {
        "type": "integer"}}}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        storage=stored == "v1beta1", deprecated=True, subresources={"status": {}})
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
             "labelSelectorPath": ".status.selector"}
    new = version("v1", {
        "spec": {"type": "object", "properties": {
            "cronSpec": {"type": "string", "pattern": "^(\\S+ ){4}\\S+$"}, "image": {"type": "string", "default": "host"},
            "replicas": {"type": "integer", "minimum": 0, "maximum": 10}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": STRING}}},
        storage=stored == "v1", subresources={"status": {}, "scale": scale})
    gone = version("v1alpha1", {}, storage=False, served=False)
    return [gone, old, new]


CRONTABS = definition("cron.example.com", "crontabs", "CronTab", cron_versions(), shortNames=["ct"])


def crontab(name, api="v1", **spec):
    return {"apiVersion": f"cron.example.com/{api}", "kind": "CronTab", "metadata": {"name": name},
            "spec": {"cronSpec": "* * * * */5", **spec}}


def test_versions_and_scale(plane, namespace):
    first = copy.deepcopy(CRONTABS)
    first["spec"]["versions"] = cron_versions("v1beta1")
    name = define(plane, first)
    assert plane.get("crd", name)["status"]["storedVersions"] == ["v1beta1"]
    create(plane, crontab("a", "v1beta1", replicas=1))
    assert plane.get("ct", "a")["apiVersion"] == "cron.example.com/v1"
    patch(plane, "ct/a", {"spec": {"replicas": 1, "cronSpec": "* * * * 1"}})
    assert plane.get("ct", "a")["spec"]["image"] == "host"  # written as v1, with the defaults of that
    old = plane.get("crontabs.v1beta1.cron.example.com", "a")
    assert old["apiVersion"] == "cron.example.com/v1beta1" and old["spec"]["cronSpec"] == "* * * * 1"
    assert plane.kubectl("get", "crontabs.v1alpha1.cron.example.com", ok=False)

    # What is stored from now on is v1; what was stored is shown in all versions all the same.
    apply(plane, CRONTABS)
    assert plane.get("crd", name)["status"]["storedVersions"] == ["v1beta1", "v1"]
    create(plane, crontab("b", image="own", replicas=2))
    assert {i["metadata"]["name"]: i["apiVersion"] for i in plane.get("crontabs.v1beta1.cron.example.com")["items"]} == {
        "a": "cron.example.com/v1beta1", "b": "cron.example.com/v1beta1"}
    without = copy.deepcopy(CRONTABS)
    without["spec"]["versions"] = cron_versions()[2:]
    refused = apply(plane, without, ok=False)
    assert 'status.storedVersions[0]: Invalid value: "v1beta1": must appear in spec.versions' in refused, refused
    for stored, text in (["v1beta1"], "must have the storage version v1"), (["v1", "v9"], "must appear in spec.versions"):
        refused = patch(plane, f"crd/{name}", {"status": {"storedVersions": stored}}, False, "--subresource=status")
        assert text in refused, refused
    patch(plane, f"crd/{name}", {"status": {"storedVersions": ["v1"]}}, True, "--subresource=status")
    apply(plane, without)
    assert plane.kubectl("get", "crontabs.v1beta1.cron.example.com", ok=False)
    assert plane.get("ct", "a")["spec"]["replicas"] == 1
    apply(plane, CRONTABS)

    # Whoever asks for the old version is warned.
    answer = plane.open("GET", f"/apis/cron.example.com/v1beta1/namespaces/{namespace}/crontabs")
    assert answer.headers["Warning"] == '299 - "cron.example.com/v1beta1 CronTab is deprecated"'
    answer = plane.open("GET", f"/apis/cron.example.com/v1/namespaces/{namespace}/crontabs")
    assert answer.headers["Warning"] is None
    own = copy.deepcopy(CRONTABS)
    own["spec"]["versions"][1]["deprecationWarning"] = "take v1, please"
    apply(plane, own)
    answer = plane.open("GET", f"/apis/cron.example.com/v1beta1/namespaces/{namespace}/crontabs/a")
    assert answer.headers["Warning"] == '299 - "take v1, please"'

    plane.kubectl("scale", "ct/a", "--replicas=5")
    assert plane.get("ct", "a")["spec"]["replicas"] == 5
    plane.kubectl("scale", "ct/a", "--current-replicas=4", "--replicas=6", ok=False)
    refused = plane.kubectl("scale", "ct/a", "--replicas=11", ok=False)
    assert "spec.replicas in body should be less than or equal to 10" in refused
    patch(plane, "ct/a", {"status": {"replicas": 3, "selector": "app=a"}}, True, "--subresource=status")
    scale = json.loads(plane.kubectl("get", "ct/a", "--subresource=scale", "-o", "json"))
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 5} and scale["status"] == {"replicas": 3, "selector": "app=a"}
    assert "(NotFound)" in plane.kubectl("get", "crontabs.v1beta1.cron.example.com/a", "--subresource=scale", ok=False)
    plane.kubectl("delete", "crd", name)


def test_defaults_that_come_later(plane, namespace):
    """What was stored without a default has it once the definition has, also after a restart, and others are not touched."""
    def laters(**properties):
        spec = {"type": "object", "properties": {"a": STRING, **properties}}
        return definition("later.example.com", "laters", "Later", [version("v1", {"spec": spec})])

    name = define(plane, laters())
    for item in "one", "two":
        create(plane, {"apiVersion": "later.example.com/v1", "kind": "Later", "metadata": {"name": item},
                       "spec": {"a": item}})
    create(plane, {"apiVersion": "later.example.com/v1", "kind": "Later", "metadata": {"name": "bare"}})
    bare = plane.get("later", "bare")
    apply(plane, laters(b={"type": "integer", "default": 5}))
    plane.wait_until(lambda: plane.get("later", "two")["spec"] == {"a": "two", "b": 5})
    assert plane.get("later", "one")["spec"] == {"a": "one", "b": 5}
    assert plane.get("later", "bare") == bare
    version_of = plane.get("later", "one")["metadata"]["resourceVersion"]
    plane.stop()
    plane.start()
    assert plane.get("later", "one")["metadata"]["resourceVersion"] == version_of
    # What no longer fits is left as it is.
    patch(plane, "later/two", {"spec": {"b": None, "a": "x"}})
    rule = [{"rule": "!has(self.c)", "message": "no c, please"}]
    spec = {"type": "object", "properties": {"a": STRING, "b": {"type": "integer", "default": 5},
                                             "c": {"type": "string", "default": "c"}}, "x-kubernetes-validations": rule}
    apply(plane, definition("later.example.com", "laters", "Later", [version("v1", {"spec": spec})]))
    plane.wait_until(lambda: "does not get the defaults" in (plane.dir / "log").read_text())
    assert "c" not in plane.get("later", "two")["spec"]
    plane.kubectl("delete", "crd", name)


# With rules, as Gateway API and Cluster API have them.
RULES = definition("rules.example.com", "pools", "Pool", [version("v1", {
    "spec": {
        "type": "object", "required": ["min", "max"],
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "messageExpression": "'min %d is above max %d'.format([self.min, self.max])",
             "fieldPath": ".min"},
            {"rule": "has(self.zone) || !has(oldSelf.zone)", "message": "zone may not be taken away"},
        ],
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"},
            "zone": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "zone is immutable", "reason": "FieldValueForbidden"}]},
            "size": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": True,
                 "message": "size may only grow"}]},
            "members": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"], "items": {
                            "type": "object", "required": ["name"], "properties": {
                                "name": STRING, "weight": {"type": "integer", "default": 1}},
                            "x-kubernetes-validations": [
                                {"rule": "self.weight >= oldSelf.weight", "message": "weights may not shrink"}]},
                        "x-kubernetes-validations": [
                            {"rule": "self.all(m, m.weight > 0) && self.map(m, m.weight).sum() <= 100"}]},
        }}},
    root={"x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('pool-')", "message": "names start with pool-"}]})])


def test_rules_and_transitions(plane, namespace):
    def pool(name="pool-a", **spec):
        return {"apiVersion": "rules.example.com/v1", "kind": "Pool", "metadata": {"name": name},
                "spec": {"min": 1, "max": 3, **spec}}

    def refused(change, text):
        answer = patch(plane, "pool/pool-a", {"spec": change}, False)
        assert text in answer, answer

    name = define(plane, RULES)
    assert '<nil>: Invalid value: "object": names start with pool-' in create(plane, pool("a"), ok=False)
    assert 'spec.min: Invalid value: "object": min 5 is above max 3' in create(plane, pool(min=5), ok=False)
    members = [{"name": "a", "weight": 10}, {"name": "b"}]
    create(plane, pool(zone="z1", size=2, members=members))
    refused({"zone": "z2"}, "spec.zone: Forbidden: zone is immutable")
    refused({"zone": None}, 'spec: Invalid value: "object": zone may not be taken away')
    refused({"size": 1}, 'spec.size: Invalid value: "integer": size may only grow')
    refused({"members": [{"name": "b"}, {"name": "a", "weight": 9}]},
            'spec.members[1]: Invalid value: "object": weights may not shrink')
    refused({"members": [{"name": "a", "weight": 99}, {"name": "c", "weight": 2}]},
            'spec.members: Invalid value: "array": failed rule: self.all(m, m.weight > 0) && '
            'self.map(m, m.weight).sum() <= 100')
    refused({"max": "x"}, "some validation rules were not checked because the object was invalid")
    patch(plane, "pool/pool-a", {"spec": {"size": 3, "members": [{"name": "b", "weight": 2}]}})
    plane.kubectl("delete", "crd", name)


# --- definitions that are refused, or not accepted ---


def small(plural="things", kind="Thing", group="small.example.com", properties=None, scope="Namespaced", root=None,
          names=None, **more):
    return definition(group, plural, kind, [version("v1", properties or {}, root=root, **more)], scope, **(names or {}))


AT = "spec.versions[0].schema.openAPIV3Schema"


@pytest.mark.parametrize("crd,text", [
    (small(properties={"a": {}}), f"{AT}.properties[a].type: Required value: must not be empty for specified object fields"),
    (small(properties={"a": {"type": "array"}}), f"{AT}.properties[a].items: Required value: must be specified"),
    (small(properties={"a": {"type": "object", "properties": {"b": STRING}, "additionalProperties": STRING}}),
     f"{AT}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
    (small(properties={"a": {"type": "strin"}}), f'{AT}.properties[a].type: Unsupported value: "strin"'),
    (small(properties={"a": {"type": "integer", "default": "x"}}), f"{AT}.properties[a].default"),
    (small(properties={"a": {"type": "string", "pattern": "("}}), f"{AT}.properties[a].pattern: Invalid value"),
    (small(properties={"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self >"}]}}),
     f"{AT}.properties[a].x-kubernetes-validations[0].rule: Invalid value"),
    (small(root={"type": "string"}), f'{AT}.type: Invalid value: "string": must be object at the root'),
    (small(properties={"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
     f"{AT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName"),
    (small(group="nodot"), "spec.group"),
    (small(kind="Bad_kind"), 'spec.names.kind: Invalid value: "Bad_kind": may have mixed case'),
    (small(plural="1things"), 'spec.names.plural: Invalid value: "1things"'),
    (small(names={"shortNames": ["t", "T!"]}), "spec.names.shortNames[1]: Invalid value"),
    (small(names={"categories": ["all", "A b"]}), "spec.names.categories[1]: Invalid value"),
    (small(names={"listKind": "Thing"}), "spec.names.listKind: Invalid value: \"Thing\": kind and listKind may not be the same"),
    (definition("small.example.com", "things", "Thing", [version("v1", {}), version("v1", {}, storage=False)]),
     'spec.versions[1].name: Duplicate value: "v1"'),
    (definition("small.example.com", "things", "Thing", [version("V1", {})]), "spec.versions[0].name: Invalid value"),
    (definition("small.example.com", "things", "Thing", [version("v1", {}), version("v2", {})]),
     "must have exactly one version marked as storage version"),
    (small(additionalPrinterColumns=[{"name": "A", "type": "strange", "jsonPath": ".spec"}]),
     "spec.versions[0].additionalPrinterColumns[0].type: Unsupported value"),
    (small(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec"}]),
     "spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: \"spec\": must be a simple json path starting with ."),
    (small(subresources={"scale": {"specReplicasPath": ".replicas", "statusReplicasPath": ".status.replicas"}}),
     'spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".replicas": should be a json path under .spec'),
    (small(selectableFields=[{"jsonPath": ".spec.none"}]),
     'spec.versions[0].selectableFields[0].jsonPath: Invalid value: ".spec.none": is an invalid path: does not exist in the schema'),
    (small(properties={"spec": {"type": "object"}}, selectableFields=[{"jsonPath": ".spec"}]),
     'spec.versions[0].selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer'),
    (small(selectableFields=[{"jsonPath": ".metadata.name"}]), "spec.versions[0].selectableFields[0].jsonPath: Invalid value"),
    (small(deprecationWarning="old"), "spec.versions[0].deprecationWarning: Invalid value"),
], ids=lambda v: "" if isinstance(v, str) else "definition")
def test_definitions_refused(plane, crd, text):
    refused = create(plane, crd, ok=False)
    assert text in refused, refused


def test_webhook_conversion_is_refused_clearly(plane):
    crd = small()
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://localhost/"}}}
    refused = create(plane, crd, ok=False)
    assert 'spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None"' in refused, refused


def test_names_are_accepted_once(plane):
    """Names are taken by the first; the other one waits, and gets them when the first is gone."""
    first = define(plane, small("firsts", "First", names={"shortNames": ["fs"], "singular": "first"}))
    for other, reason, text in (
            (small("seconds", "First", names={"singular": "s", "listKind": "Seconds"}), "KindConflict", '"First" is already in use'),
            (small("seconds", "Second", names={"shortNames": ["fs"]}), "ShortNamesConflict", '"fs" is already in use'),
            (small("seconds", "Second", names={"singular": "first"}), "SingularConflict", '"first" is already in use'),
            (small("seconds", "Second", names={"listKind": "FirstList"}), "ListKindConflict",
             '"FirstList" is already in use')):
        create(plane, other)
        found = conditions(plane, "seconds.small.example.com")
        assert found["NamesAccepted"]["status"] == "False" and found["NamesAccepted"]["reason"] == reason
        assert text in found["NamesAccepted"]["message"]
        assert found["Established"]["status"] == "False" and found["Established"]["reason"] == "NotAccepted"
        assert plane.open("GET", "/apis/small.example.com/v1/seconds").status == 404
        plane.kubectl("delete", "crd", "seconds.small.example.com")
    create(plane, small("seconds", "First"))
    plane.kubectl("delete", "crd", first)
    plane.kubectl("wait", "--for=condition=Established", "crd/seconds.small.example.com", "--timeout=5s")
    found = conditions(plane, "seconds.small.example.com")
    assert found["NamesAccepted"]["reason"] == "NoConflicts"
    assert plane.open("GET", "/apis/small.example.com/v1/seconds").status == 200
    plane.kubectl("delete", "crd", "seconds.small.example.com")


def test_deletion_waits_for_instances(plane, namespace):
    name = define(plane, small("holds", "Hold"))
    body = {"apiVersion": "small.example.com/v1", "kind": "Hold", "metadata": {"name": "h", "finalizers": ["a.b/c"]}}
    create(plane, body)
    create(plane, {**body, "metadata": {"name": "free"}})
    plane.kubectl("delete", "crd", name, "--wait=false")
    plane.wait_until(lambda: len(plane.get("hold")["items"]) == 1)
    found = conditions(plane, name)["Terminating"]
    assert (found["status"], found["reason"]) == ("True", "InstanceDeletionInProgress"), found
    refused = create(plane, {**body, "metadata": {"name": "late"}}, ok=False)
    assert "create not allowed while custom resource definition is terminating" in refused, refused
    patch(plane, "hold/h", {"metadata": {"finalizers": None}})
    plane.kubectl("wait", "--for=delete", f"crd/{name}", "--timeout=10s")
    define(plane, small("holds", "Hold"))
    assert plane.get("hold")["items"] == []  # nothing of the old ones
    plane.kubectl("delete", "crd", name)


def test_cluster_scope(plane):
    name = define(plane, small("wides", "Wide", scope="Cluster"))
    create(plane, {"apiVersion": "small.example.com/v1", "kind": "Wide", "metadata": {"name": "w"}})
    assert plane.kubectl("get", "wides").split()[:2] == ["NAME", "AGE"]
    changed = small("wides", "Wide", scope="Namespaced")
    assert 'spec.scope: Invalid value: "Namespaced": field is immutable' in apply(plane, changed, ok=False)
    plane.kubectl("delete", "crd", name)
