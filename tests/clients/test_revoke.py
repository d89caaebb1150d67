"""A right that is taken away ends what was begun with it, through unmodified kubectl."""

import pytest

from instance import sandbox, wait_until

SAY = ["sh", "-c", "echo here; exec sleep infinity"]


@pytest.fixture
def alice(up):
    """Options that make kubectl act as her; she may edit."""
    up.ready_sandbox(sandbox("s", "sh", "-c", "echo here; exec sleep infinity"))
    up.kubectl("create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice")
    yield ["--as=alice"]
    up.kubectl("delete", "rolebinding", "--all")
    up.kubectl("delete", "clusterrole", "unused", "--ignore-not-found")


@pytest.mark.parametrize("protocol", ["websocket", "spdy"])
def test_streams_end_with_the_right(up, alice, protocol):
    websocket = "true" if protocol == "websocket" else "false"

    def start(*args):
        """kubectl, once it runs: it prints a line then."""
        environment = [f"KUBECTL_REMOTE_COMMAND_WEBSOCKETS={websocket}", f"KUBECTL_PORT_FORWARD_WEBSOCKETS={websocket}"]
        process = up.popen("env", *environment, "kubectl", *args)
        assert process.stdout.readline(), args
        return process

    def running(processes):
        return {name for name, process in processes.items() if process.poll() is None}

    forward = ["port-forward", "pod/s", ":8080"]
    follow = ["logs", "-f", "s"]
    watch = ["get", "pods", "-w"]
    commands = {"exec": ["exec", "s", "--", *SAY], "forward": forward, "logs": follow, "watch": watch}
    own = {name: start(*alice, *args) for name, args in commands.items()}
    others = {name: start(*args) for name, args in commands.items()}
    # What changes nothing for her ends nothing.
    up.kubectl("create", "rolebinding", "more", "--clusterrole=view", "--user=alice")
    up.kubectl("delete", "rolebinding", "more")
    up.kubectl("create", "clusterrole", "unused", "--verb=get", "--resource=pods")
    assert running(own) == set(commands)
    up.kubectl("delete", "rolebinding", "alice")
    wait_until(lambda: not running(own), what="the end of all streams")
    assert running(others) == set(commands)
    assert "forbidden" in up.kubectl("exec", "s", "--as=alice", "--", "true", code=1)
    assert "forbidden" in up.kubectl("get", "pods", "-w", "--as=alice", code=1)
    for process in others.values():
        process.terminate()


def test_a_smaller_role_ends_what_it_lacks(up, alice):
    """Who may only view keeps the watch and loses the shell."""
    shell, watch = (up.popen("kubectl", *alice, *args) for args in (["exec", "s", "--", *SAY], ["get", "pods", "-w"]))
    assert shell.stdout.readline() and watch.stdout.readline()
    up.kubectl("create", "rolebinding", "less", "--clusterrole=view", "--user=alice")
    up.kubectl("delete", "rolebinding", "alice")
    wait_until(lambda: shell.poll() is not None, what="the end of the shell")
    up.kubectl("label", "pod", "s", "seen=yes")
    assert watch.stdout.readline() and watch.poll() is None
    watch.terminate()


def test_streams_end_with_the_service_account(up, alice):
    up.kubectl("create", "serviceaccount", "robot")
    up.kubectl("create", "rolebinding", "robot", "--clusterrole=edit", "--serviceaccount=default:robot")
    token = up.kubectl("create", "token", "robot").strip()
    up.kubectl("config", "set-credentials", "robot", f"--token={token}")
    up.kubectl("config", "set-context", "robot", "--cluster=holt", "--user=robot")
    processes = [up.popen("kubectl", "--context=robot", *args)
                 for args in (["exec", "s", "--", *SAY], ["get", "pods", "-w"])]  # fmt: skip
    for process in processes:
        assert process.stdout.readline()
    up.kubectl("delete", "serviceaccount", "robot")
    for process in processes:
        wait_until(lambda p=process: p.poll() is not None, what="the end of the streams")
