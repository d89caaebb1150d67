"""`holt cp` out of a sandbox whose tar is the attacker's: nothing but what was asked for, and nothing outside of it."""

import io
import os
import tarfile

import pytest

from instance import sandbox


def archive(*members):
    """members: (name, content) for files, (name, None) for directories, (name, "-> target") for links, or a TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for m in members:
            if isinstance(m, tarfile.TarInfo):
                tar.addfile(m)
                continue
            info, content = tarfile.TarInfo(m[0]), m[1]
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            elif content.startswith("-> "):
                info.type, info.linkname = tarfile.SYMTYPE, content[3:]
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o4755
                tar.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


@pytest.fixture
def hostile(whole, holt, tmp_path):
    """hostile(archive) → the answer of `holt cp s:/tmp/q DIR` when the sandbox sends that."""
    whole.create(sandbox("s"))
    whole.wait_for("sandbox/s", "condition=Ready")
    (tmp_path / "dst").mkdir()

    def call(data, what="s:/tmp/q", to="dst/"):
        (tmp_path / "evil.tar").write_bytes(data)
        done = whole.call(holt, "cp", str(tmp_path / "evil.tar"), "s:/tmp/evil.tar")
        assert done.code == 0, done
        script = "cp -n /usr/bin/tar /tmp/tar.real; printf '#!/bin/sh\\ncat /tmp/evil.tar\\n' > /tmp/tar; chmod 755 /tmp/tar; mv /tmp/tar /usr/bin/tar"
        assert whole.call(holt, "exec", "s", "--", "sh", "-c", script).code == 0
        try:
            return whole.call(holt, "cp", what, f"{tmp_path}/{to}")
        finally:
            assert whole.call(holt, "exec", "s", "--", "sh", "-c", "cp /tmp/tar.real /usr/bin/tar").code == 0

    yield call
    whole.kubectl("delete", "sandbox", "s")


def tree(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def test_honest(whole, hostile, holt, tmp_path):
    whole.exec("s", "sh", "-c", "mkdir -p /tmp/q/d; echo one > /tmp/q/f; echo two > /tmp/q/d/g; chmod 750 /tmp/q/f; ln -s f /tmp/q/l; mkfifo /tmp/q/p; ln /tmp/q/f /tmp/q/h")
    done = whole.call(holt, "cp", "s:/tmp/q", f"{tmp_path}/dst/")
    assert done.code == 0, done
    assert tree(tmp_path / "dst") == ["q", "q/d", "q/d/g", "q/f", "q/h"]
    assert "left out" in done.err and "q/l" in done.err and "q/p" in done.err
    assert (tmp_path / "dst/q/f").read_text() == "one\n" and (tmp_path / "dst/q/f").stat().st_mode & 0o7777 == 0o750
    # Again, over what is there: filled and replaced.
    whole.exec("s", "sh", "-c", "echo three > /tmp/q/f; rm /tmp/q/d/g; echo new > /tmp/q/d/n")
    assert whole.call(holt, "cp", "s:/tmp/q", f"{tmp_path}/dst/").code == 0
    assert tree(tmp_path / "dst") == ["q", "q/d", "q/d/g", "q/d/n", "q/f", "q/h"]
    assert (tmp_path / "dst/q/f").read_text() == "three\n"
    assert whole.call(holt, "cp", "s:/tmp/q/.", f"{tmp_path}/all").code == 0
    assert tree(tmp_path / "all") == ["d", "d/n", "f", "h"]
    assert whole.call(holt, "cp", "s:/tmp/q/f", f"{tmp_path}/renamed").code == 0
    assert (tmp_path / "renamed").read_text() == "three\n"
    done = whole.call(holt, "cp", "s:/tmp/nosuch", f"{tmp_path}/dst/")
    assert done.code == 1 and "nosuch: Cannot stat" in done.err
    assert tree(tmp_path / "dst") == ["q", "q/d", "q/d/g", "q/d/n", "q/f", "q/h"]


@pytest.mark.parametrize(
    "members",
    [
        [("q", None), ("existing", "evil")],
        [("existing", "evil")],
        [("../existing", "evil")],
        [("q", None), ("q/../existing", "evil")],
        [("/tmp/holt-absolute", "evil")],
    ],
)
def test_only_what_was_asked_for(hostile, tmp_path, members):
    (tmp_path / "dst/existing").write_text("good")
    done = hostile(archive(*members))
    assert done.code == 1 and "No such file" not in done.err, done
    assert tree(tmp_path / "dst") == ["existing"] and (tmp_path / "dst/existing").read_text() == "good"


def test_links_lead_nowhere(hostile, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    # A link in the archive, then a file through it.
    hostile(archive(("q", None), ("q/l", f"-> {victim}"), ("q/l/PWNED", "evil")))
    # One that lies in the destination already, as an earlier copy by other means might have left it.
    (tmp_path / "dst/q").mkdir(exist_ok=True)
    if not (tmp_path / "dst/q/l").exists():
        (tmp_path / "dst/q/l").symlink_to(victim)
    done = hostile(archive(("q", None), ("q/l", None), ("q/l/PWNED", "evil")))
    assert done.code == 1 or not (tmp_path / "dst/q/l").is_symlink()
    assert not list(victim.iterdir())
    # A file takes the place of a link, and does not go through it.
    (tmp_path / "dst/q/f").symlink_to(victim / "f")
    assert hostile(archive(("q", None), ("q/f", "text"))).code == 0
    assert not (tmp_path / "dst/q/f").is_symlink() and not list(victim.iterdir())


def test_what_is_no_file(hostile, tmp_path):
    device, fifo, hard = tarfile.TarInfo("q/dev"), tarfile.TarInfo("q/fifo"), tarfile.TarInfo("q/hard")
    device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 3
    fifo.type = tarfile.FIFOTYPE
    done = hostile(archive(("q", None), device, fifo, ("q/set-id", "x")))
    assert done.code == 0 and tree(tmp_path / "dst") == ["q", "q/set-id"]
    assert not (tmp_path / "dst/q/set-id").stat().st_mode & 0o6000
    hard.type, hard.linkname = tarfile.LNKTYPE, "/etc/passwd"
    assert hostile(archive(("q", None), hard)).code == 1


def test_garbage_and_bombs(hostile, tmp_path):
    for data in (b"", b"x" * 100000, archive(("q", "a"))[:600], os.urandom(3000000)):
        assert hostile(data).code == 1
        assert tree(tmp_path / "dst") == []
