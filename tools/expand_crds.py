#!/usr/bin/env python3
"""Writes the CustomResourceDefinitions of api/ as clusters accept them: expand_crds.py API_DIR OUT_DIR [--check]."""

import pathlib
import sys

import yaml

import apischema

HEADER = "# Made by tools/expand_crds.py from api/{name}; do not edit.\n"


class Dumper(yaml.SafeDumper):
    """No anchors, and lists indented as in hand-written manifests."""

    def ignore_aliases(self, data):
        return True

    def increase_indent(self, flow=False, indentless=False):
        return super().increase_indent(flow, False)


def cluster_crd(api, crd):
    versions = [
        {**version, "schema": {"openAPIV3Schema": apischema.expand(api, version["schema"]["openAPIV3Schema"])}}
        for version in crd["spec"]["versions"]
    ]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    api, out = apischema.Api(arguments[0]), pathlib.Path(arguments[1])
    wanted = {
        name: HEADER.format(name=name)
        + yaml.dump(cluster_crd(api, crd), Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True)
        for name, crd in api.crds.items()
    }
    if "--check" in sys.argv[1:]:
        found = {p.name: p.read_text(encoding="utf-8") for p in out.glob("*.yaml")}
        stale = sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))
        if stale:
            sys.exit(f"{out}: out of date, run tools/expand_crds.py: {', '.join(stale)}")
        return
    out.mkdir(parents=True, exist_ok=True)
    for path in out.glob("*.yaml"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
