"""`goqueue dev --nodes 3`: three nodes in one terminal, with one end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.free_ports import free_ports

_WAIT_S_MAX = 60.0
_DEV = (sys.executable, "-m", "goqueue.cli", "dev", "--nodes", "3")


class DevCommand:
    """The command with all that it printed."""

    def __init__(self, folder: Path) -> None:
        self._output = folder / "output"
        port = free_ports(1)[0]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*_DEV, "--port", str(port), "--data-dir", str(folder / "data")],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + _WAIT_S_MAX
        while time.monotonic() < deadline:
            found = re.search(pattern, self.said)
            if found is not None:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{pattern} was not printed: {self.said}")


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevCommand]:
    command = DevCommand(tmp_path)
    yield command
    command.process.kill()
    command.process.wait()
    assert "Traceback" not in command.said, command.said


def nodes_of(folder: Path) -> dict[str, int]:
    """The process ids of the nodes that run on this folder, by their settings files."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        for argument in arguments:
            if argument.startswith(bytes(folder)) and argument.endswith(b".toml"):
                found[Path(os.fsdecode(argument)).stem] = int(entry.name)
    return found


def wait_until_none_runs(folder: Path) -> None:
    deadline = time.monotonic() + _WAIT_S_MAX
    while nodes := nodes_of(folder):
        assert time.monotonic() < deadline, f"{nodes} still run"
        time.sleep(0.05)


def ask(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "goqueue.cli", "-s", url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_ctrl_c_ends_every_node_and_the_command_succeeds(dev: DevCommand, tmp_path: Path) -> None:
    dev.wait_for("GoQueue runs a cluster of 3 nodes")
    assert set(nodes_of(tmp_path)) == {"node-1", "node-2", "node-3"}
    settings = [each.read_text() for each in (tmp_path / "data").glob("node-*.toml")]
    assert ["quorum = 3\n" in each for each in settings] == [True] * 3, "all of them form it"

    dev.process.send_signal(signal.SIGINT)

    assert dev.process.wait(_WAIT_S_MAX) == 0
    assert nodes_of(tmp_path) == {}


def test_a_node_that_is_killed_is_named_with_the_command_that_starts_it_again(
    dev: DevCommand, tmp_path: Path
) -> None:
    url = dev.wait_for(r"node-1 +(http://\S+)")[1]
    dev.wait_for("stop     Ctrl-C")
    wait_until_healthy(url)

    os.kill(nodes_of(tmp_path)["node-3"], signal.SIGKILL)

    dev.wait_for("node-3 was ended by SIGKILL")
    settings = dev.wait_for(r"goqueue serve --config (\S+)")[1]
    assert Path(settings).name == "node-3.toml"


def wait_until_healthy(url: str) -> None:
    deadline = time.monotonic() + _WAIT_S_MAX
    while ask(url, "cluster", "health").returncode != 0:
        assert time.monotonic() < deadline, ask(url, "cluster", "health")


def test_the_command_line_shows_a_lost_node_and_forgets_it(dev: DevCommand, tmp_path: Path) -> None:
    url = dev.wait_for(r"node-1 +(http://\S+)")[1]
    dev.wait_for("stop     Ctrl-C")
    wait_until_healthy(url)
    alive = ask(url, "cluster", "forget", "node-3", "--force")
    assert (alive.returncode, alive.stdout) == (1, "")
    assert "The node `node-3` is alive" in alive.stderr
    info = ask(url, "cluster", "info").stdout
    assert re.search(r"nodes +3, 3 alive", info), info
    assert re.search(r"voters +node-1, node-2, node-3", info), info

    os.kill(nodes_of(tmp_path)["node-3"], signal.SIGKILL)
    dev.wait_for("node-3 was ended by SIGKILL")
    deadline = time.monotonic() + _WAIT_S_MAX
    while not re.search(r"node-3 +dead +voter", ask(url, "cluster", "nodes").stdout):
        assert time.monotonic() < deadline, ask(url, "cluster", "nodes").stdout

    health = ask(url, "cluster", "health")
    assert health.returncode == 1
    assert "degraded: 2 of 3 nodes are healthy" in health.stdout
    unsaid = ask(url, "cluster", "forget", "node-3")
    assert unsaid.returncode == 2
    assert "add --yes" in unsaid.stderr
    forgotten = ask(url, "cluster", "forget", "node-3", "--force")
    assert (forgotten.returncode, forgotten.stdout) == (0, "forgot node-3\n")
    again = ask(url, "cluster", "forget", "node-3", "--force", "-o", "json")
    assert again.returncode == 1
    assert "node-3" in again.stderr
    state = json.loads(ask(url, "cluster", "info", "-o", "json").stdout)
    assert [node["id"] for node in state["nodes"]] == ["node-1", "node-2"]
    wait_until_healthy(url)


def test_a_second_cluster_on_the_same_data_changes_nothing_of_the_first(
    dev: DevCommand, tmp_path: Path
) -> None:
    dev.wait_for("GoQueue runs a cluster of 3 nodes")
    files = {each: each.read_text() for each in (tmp_path / "data").glob("node-*.toml")}

    second = subprocess.run(
        [*_DEV, "--port", "0", "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=False,
        timeout=_WAIT_S_MAX,
    )

    assert second.returncode == 1
    assert "node-1 is in use by another process" in second.stderr
    assert second.stderr.count("\n") == 1
    assert {each: each.read_text() for each in files} == files
    assert set(nodes_of(tmp_path)) == {"node-1", "node-2", "node-3"}


def test_the_nodes_end_with_a_command_that_was_killed(dev: DevCommand, tmp_path: Path) -> None:
    dev.wait_for("GoQueue runs a cluster of 3 nodes")

    dev.process.kill()

    wait_until_none_runs(tmp_path)
