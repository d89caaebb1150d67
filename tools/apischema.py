"""Reads api/ and resolves x-holt-ref; what pack_api.py, expand_crds.py and check_api.py share. See api/README.md."""

import pathlib

import yaml

REF = "#/components/schemas/"
UNDEFAULTED = "io.holt.undefaulted."
# Meaningful for built-in kinds only; a cluster refuses a CustomResourceDefinition that has them.
BUILTIN_ONLY = ("x-holt-duplicates", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-group-version-kind")


class Api:
    """files: documents by file name; definitions: built-in schemas by name; crds: CustomResourceDefinitions by file."""

    def __init__(self, root):
        root = pathlib.Path(root)
        self.files, self.definitions, self.crds = {}, {}, {}
        for path in sorted(root.rglob("*.yaml")):
            name = path.relative_to(root).as_posix()
            with path.open(encoding="utf-8") as f:
                documents = list(yaml.load_all(f, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
            self.files[name] = documents
            for document in documents:
                if document["kind"] == "Definitions":
                    for schema in document["schemas"]:
                        if schema in self.definitions:
                            raise ValueError(f"{name}: {schema} is defined twice")
                    self.definitions.update(document["schemas"])
                elif document["kind"] == "CustomResourceDefinition":
                    self.crds[name] = document


def subschemas(schema):
    """The schemas directly below one: (parent key, key or index, schema)."""
    for key in ("properties",):
        for name, value in schema.get(key, {}).items():
            yield key, name, value
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            yield key, None, schema[key]
    for key in ("allOf", "anyOf", "oneOf"):
        for index, value in enumerate(schema.get(key, [])):
            yield key, index, value


def map_subschemas(schema, function):
    """A copy of the schema with function(subschema, is_list_key) in place of each direct subschema."""
    result = dict(schema)
    for key, name, value in subschemas(schema):
        if name is None:
            result[key] = function(value)
        else:
            if result[key] is schema[key]:
                result[key] = schema[key].copy()
            result[key][name] = function(value)
    return result


def walk(schema):
    """The schema and all below it, in place; references are not followed."""
    yield schema
    for _, _, value in subschemas(schema):
        yield from walk(value)


def references(schema):
    """Names that the schema refers to with $ref or x-holt-ref."""
    for node in walk(schema):
        if "$ref" in node:
            yield node["$ref"].removeprefix(REF)
        if "x-holt-ref" in node:
            yield node["x-holt-ref"]


def list_keys(definitions):
    """(definition, property) pairs that tell items of a list of type map apart: they keep their defaults."""
    return {
        (node["items"]["$ref"].removeprefix(REF), key)
        for schema in definitions.values()
        for node in walk(schema)
        if node.get("x-kubernetes-list-type") == "map" and "$ref" in node.get("items", {})
        for key in node["x-kubernetes-list-map-keys"]
    }


def without_defaults(name, schema, keys):
    """A definition as a CustomResourceDefinition may use it: defaults only where list keys need them."""

    def strip(node):
        return map_subschemas({k: v for k, v in node.items() if k not in ("default", "x-holt-duplicates")}, strip)

    result = strip(schema)
    for key in result.get("properties", {}):
        if (name, key) in keys and "default" in schema["properties"][key]:
            result["properties"][key]["default"] = schema["properties"][key]["default"]
    return result


def undefaulted_name(name):
    return UNDEFAULTED + name.removeprefix("io.k8s.").removeprefix("api.")


def undefaulted(api):
    """Definitions without defaults, for x-holt-ref, by the name under which the API server looks for them. Definitions
    that have no default in reach are used as they are and not listed."""
    keys = list_keys(api.definitions)
    plain = {name: without_defaults(name, schema, keys) for name, schema in api.definitions.items()}
    changed = {name for name in plain if plain[name] != api.definitions[name]}
    while True:
        more = {n for n in plain.keys() - changed if changed.intersection(references(plain[n]))}
        if not more:
            break
        changed |= more

    def rename(node):
        node = map_subschemas(node, rename)
        name = node.get("$ref", "").removeprefix(REF)
        if name in changed:
            node["$ref"] = REF + undefaulted_name(name)
        return node

    return {undefaulted_name(name): rename(plain[name]) for name in sorted(changed)}


def expand(api, schema, keys=None):
    """The schema of a CustomResourceDefinition with every x-holt-ref replaced by what it stands for."""
    keys = keys if keys is not None else list_keys(api.definitions)

    def resolve(name, beside):
        node = without_defaults(name, api.definitions[name], keys)
        return {**inline(node), **beside}

    def inline(node):
        """A built-in definition, complete and in the form clusters accept."""
        node = {k: v for k, v in node.items() if k not in BUILTIN_ONLY and k != "description"}
        if "$ref" in node:
            name = node.pop("$ref").removeprefix(REF)
            return resolve(name, node)
        return map_subschemas(node, inline)

    def visit(node):
        if "x-holt-ref" in node:
            beside = {k: v for k, v in node.items() if k != "x-holt-ref"}
            return resolve(node["x-holt-ref"], beside)
        return map_subschemas(node, visit)

    return visit(schema)
