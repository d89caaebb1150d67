#!/usr/bin/env python3
"""Checks the schemas of api/: check_api.py API_DIR. Prints what is wrong, one line each, and fails if anything is."""

import sys

import apischema

TYPES = {"array", "boolean", "integer", "number", "object", "string"}
SIBLINGS_OF_REF = {"$ref", "description", "default", "nullable", "x-kubernetes-map-type", "x-kubernetes-patch-strategy"}


def structural(where, node, in_crd):
    """Rules for one node and all below it, after apiextensions: each value has a type, maps are not structs, ..."""
    if "$ref" in node:
        if in_crd:
            yield where, "$ref in a CustomResourceDefinition"
        for key in node.keys() - SIBLINGS_OF_REF:
            yield where, f"{key} beside $ref"
        return
    anything = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
    if "type" not in node and not anything:
        yield where, "no type"
    if "type" in node and node["type"] not in TYPES:
        yield where, f"type {node['type']}"
    if node.get("type") == "array" and "items" not in node:
        yield where, "an array without items"
    if "properties" in node and "additionalProperties" in node:
        yield where, "both properties and additionalProperties"
    if ("properties" in node or "additionalProperties" in node) and node.get("type") != "object":
        yield where, "members, but not an object"
    for key in set(node.get("required", [])) - node.get("properties", {}).keys():
        yield where, f"required {key} is not a property"
    if node.get("x-kubernetes-list-type") == "map" and not node.get("x-kubernetes-list-map-keys"):
        yield where, "a list of type map without keys"
    if "enum" in node and "default" in node and node["default"] not in node["enum"]:
        yield where, "default is not among the values"
    for forbidden in ("definitions", "dependencies", "patternProperties", "uniqueItems", "id", "additionalItems"):
        if forbidden in node:
            yield where, forbidden
    if in_crd:
        for key in apischema.BUILTIN_ONLY:
            if key in node:
                yield where, f"{key} in a CustomResourceDefinition"
        if node.get("x-kubernetes-list-type") == "map":
            items = node["items"]
            for key in node["x-kubernetes-list-map-keys"]:
                if key not in items.get("required", []) and "default" not in items.get("properties", {}).get(key, {}):
                    yield where, f"list key {key} is neither required nor has a default"
    for key, name, value in apischema.subschemas(node):
        yield from structural(f"{where}.{key}" + ("" if name is None else f".{name}"), value, in_crd)


def described(where, node):
    """Every property says what it is for. A custom kind's metadata cannot: clusters accept its type alone."""
    for name, value in node.get("properties", {}).items():
        is_metadata = where.endswith(":") and name == "metadata"
        if not value.get("description") and not is_metadata:
            yield f"{where}.{name}", "no description"
    for _, name, value in apischema.subschemas(node):
        yield from described(where if name is None else f"{where}.{name}", value)


def check_builtin(api):
    for name, schema in api.definitions.items():
        if not schema.get("description"):
            yield name, "no description"
        yield from structural(name, schema, in_crd=False)
        yield from described(name, schema)
        for reference in apischema.references(schema):
            if reference not in api.definitions:
                yield name, f"refers to {reference}, which is not defined"
    resources = [d for documents in api.files.values() for d in documents if d["kind"] == "BuiltinResource"]
    order = next(d for documents in api.files.values() for d in documents if d["kind"] == "GroupOrder")["groups"]
    for resource in resources:
        gvk = {"group": resource["group"], "kind": resource["names"]["kind"], "version": resource["version"]}
        if gvk not in api.definitions[resource["schema"]].get("x-kubernetes-group-version-kind", []):
            yield resource["schema"], f"x-kubernetes-group-version-kind lacks {gvk}"
        if resource["group"] not in order:
            yield resource["group"], "not in GroupOrder"


def check_crds(api):
    for name, crd in api.crds.items():
        spec = crd["spec"]
        if crd["metadata"]["name"] != f"{spec['names']['plural']}.{spec['group']}":
            yield name, "metadata.name is not PLURAL.GROUP"
        if name != f"{spec['group']}_{spec['names']['plural']}.yaml":
            yield name, "the file is not called GROUP_PLURAL.yaml"
        for version in spec["versions"]:
            where = f"{name} {version['name']}:"
            schema = version["schema"]["openAPIV3Schema"]
            unknown = [r for r in apischema.references(schema) if r not in api.definitions]
            for reference in unknown:
                yield where, f"refers to {reference}, which is not defined"
            yield from described(where, schema)
            if not unknown:
                yield from structural(where, apischema.expand(api, schema), in_crd=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    api = apischema.Api(sys.argv[1])
    findings = [*check_builtin(api), *check_crds(api)]
    for where, what in findings:
        print(f"{where}: {what}")
    print(f"{len(api.definitions)} definitions, {len(api.crds)} custom kinds, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
