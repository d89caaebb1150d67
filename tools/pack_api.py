#!/usr/bin/env python3
"""Packs api/ into a C file as JSON, one text a file: pack_api.py API_DIR OUT.c [DEPFILE]. See src/apiserver/api_files.h.

JSON, because reading it at start-up costs a tenth of what YAML costs."""

import json
import pathlib
import sys

import apischema


def c_string(text):
    """Lines of string literals; the text is ASCII, as json.dumps makes it."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
    lines, start = [], 0
    while start < len(quoted):
        end = min(start + 110, len(quoted))
        while end < len(quoted) and quoted[end - 1] == "\\":
            end += 1  # never cut an escape sequence in two
        lines.append(f'    "{quoted[start:end]}"')
        start = end
    return "\n".join(lines)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    api = apischema.Api(sys.argv[1])
    files = {name.removesuffix(".yaml"): documents for name, documents in api.files.items()}
    files["undefaulted"] = [{"kind": "Definitions", "schemas": apischema.undefaulted(api)}]
    out = ['#include "apiserver/api_files.h"\n', "const struct api_file api_files[] = {"]
    for name, documents in files.items():
        text = json.dumps(documents, separators=(",", ":"))
        out.append(f'{{"{name}",\n{c_string(text)},\n {len(text)}}},')
    out += ["};", f"const size_t api_file_count = {len(files)};", ""]
    pathlib.Path(sys.argv[2]).write_text("\n".join(out), encoding="ascii")
    if len(sys.argv) == 4:
        root = pathlib.Path(sys.argv[1])
        # With the directories, so that a new file counts as a change.
        sources = " ".join(str(p) for p in [root, *sorted(root.rglob("*"))] if p.is_dir() or p.suffix == ".yaml")
        pathlib.Path(sys.argv[3]).write_text(f"{sys.argv[2]}: {sources}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
