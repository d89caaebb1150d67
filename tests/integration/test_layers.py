"""Dependencies between the folders of src/ point one way only."""
import pathlib
import re

SRC = pathlib.Path(__file__).resolve().parents[2] / "src"
# A layer may include itself and those before it. The guest is a program of its own beside them.
ORDER = ["base", "wire", "kube", "apiserver", "sandbox", "controllers", "guest", "node", "gateway", "egress", "cli"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z0-9]+)/', re.M)


def upward(path, layer, text):
    return [
        f"{path} includes {target}/"
        for target in INCLUDE.findall(text)
        if target in ORDER and ORDER.index(target) > ORDER.index(layer)
    ]


def test_every_folder_is_a_layer():
    assert {p.name for p in SRC.iterdir() if p.is_dir()} == set(ORDER)


def test_includes_point_downwards():
    wrong = []
    for path in SRC.rglob("*.[ch]"):
        wrong += upward(path, path.relative_to(SRC).parts[0], path.read_text())
    assert not wrong, "\n".join(wrong)


def test_the_rule_notices_an_upward_include():
    assert upward("x.c", "base", '#include "cli/cli.h"\n#include <stdio.h>\n')
    assert not upward("x.c", "cli", '#include "base/error.h"\n')
