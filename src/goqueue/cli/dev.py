"""`goqueue dev`: a node, or with `--nodes` a cluster, for trying things on this machine.

Owns what makes a cluster of processes one command: a settings file and a log for each node, free
ports, a shared secret, and one end for all. A node that ends by itself is reported and left ended,
so that a crash can be tried; its settings file starts it again.

Invariant: no node outlives the command. Each is told to stop when the command is, and the kernel
ends it when the command was killed (Linux).
"""

import asyncio
import ctypes
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
import uvloop

from goqueue.cli.config import exit_with
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Whole
from goqueue.cli.serve import run_node
from goqueue.cli.signals import Stop, stopped_by_signals
from goqueue.runtime import DataDirectory, DataDirectoryUnusable
from goqueue.runtime.settings import SettingsInvalid, load_settings

__all__ = ["dev"]

_HOST = "127.0.0.1"
_PORTS_TRIED = 20
_PEER_PORT = 7000
_PORT_MAX = 65_535
_DATA_DIR = "./data"
_NODES_MAX = 9
_SHARED_FILE = "cluster-secret"
_NAME = "node-{}"
# A node stops within 10 s; what has not by then is killed.
_STOP_S = 20.0
_LAST_LINES = 5
_PR_SET_PDEATHSIG = 1


@click.command("dev", short_help="Run a node for local development; needs no flags.")
@click.option("--data-dir", default=_DATA_DIR, show_default=True, help="Data directory.")
@click.option(
    "--port",
    type=Whole(0, _PORT_MAX),
    default=8080,
    show_default=True,
    help="Port to listen on; if it is taken, the next free one.",
)
@click.option(
    "--nodes",
    "count",
    type=Whole(1, _NODES_MAX),
    default=1,
    show_default=True,
    help="Run a cluster of this many nodes, each a process with a log file of its own.",
)
def dev(data_dir: str, port: int, count: int) -> int:
    """Run a node, or a cluster, that only this machine can reach, until Ctrl-C.

    If a port is taken, the next free one is used.
    """
    if count > 1:
        return uvloop.run(_run_cluster(Path(data_dir), port, count))
    flags = {
        "broker.datadir": data_dir,
        "listeners.http": f"{_HOST}:{port}",
        "log.level": "warning",
    }
    try:
        settings = load_settings(flags, {})
    except SettingsInvalid as invalid:
        exit_with(invalid)
    return run_node(settings, say=_greet, ports_tried=_PORTS_TRIED)


def _greet(url: str, data_dir: str) -> None:
    lines = [
        f"GoQueue is listening on {url}",
        f"  data     {data_dir}",
        f"  API      {url}/docs",
        f"  try      goqueue -s {url} topic create orders",
        f"           goqueue -s {url} produce orders -m 'hello'",
        f"           goqueue -s {url} consume orders",
        "  stop     Ctrl-C",
    ]
    print("\n".join(lines), flush=True)


# A cluster


class _DevNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the cluster: where it listens, and its files."""

    name: str
    http: str
    peer: str
    data_dir: Path
    settings_file: Path
    log_file: Path


async def _run_cluster(folder: Path, port: int, count: int) -> int:
    try:
        nodes = _prepare(folder, port, count)
    except OSError as error:
        raise click.ClickException(f"cannot prepare {folder}: {error.strerror or error}") from error
    with stopped_by_signals() as stop:
        processes = [_NodeProcess(node) for node in nodes]
        try:
            async with asyncio.TaskGroup() as tasks:
                supervised = [tasks.create_task(each.run(stop)) for each in processes]
                tasks.create_task(_announce(processes, folder, stop))
                await asyncio.wait([*supervised])
                # The last one has ended: there is nothing left to wait for.
                stop.ask()
        finally:
            for each in processes:
                each.kill()
    return ExitCode.DONE if all(each.was_stopped for each in processes) else ExitCode.FAILED


def _prepare(folder: Path, port: int, count: int) -> list[_DevNode]:
    """Write the files that the nodes start with, unless other nodes run on them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, count + 1):
        _check_unused(folder / _NAME.format(number))
    secret_file = folder / _SHARED_FILE
    if not secret_file.exists():
        descriptor = os.open(secret_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    ports = _free_ports(port, count)
    peer_ports = _free_ports(_PEER_PORT, count, ports)
    nodes = [
        _DevNode(
            name=_NAME.format(number),
            http=f"{_HOST}:{http}",
            peer=f"{_HOST}:{peer}",
            data_dir=folder / _NAME.format(number),
            settings_file=folder / f"{_NAME.format(number)}.toml",
            log_file=folder / f"{_NAME.format(number)}.log",
        )
        for number, (http, peer) in enumerate(zip(ports, peer_ports, strict=True), 1)
    ]
    for node in nodes:
        node.settings_file.write_text(_settings_text(node, nodes, secret_file))
    return nodes


def _check_unused(data_dir: Path) -> None:
    """Other nodes go on with the settings and the ports that they have."""
    if not data_dir.exists():
        return
    try:
        DataDirectory(str(data_dir)).close()
    except DataDirectoryUnusable as unusable:
        raise click.ClickException(str(unusable)) from unusable


def _settings_text(node: _DevNode, nodes: Sequence[_DevNode], secret_file: Path) -> str:
    # Strings of JSON are strings of TOML.
    def text(value: object) -> str:
        return msgspec.json.encode(str(value)).decode()

    others = ", ".join(text(each.peer) for each in nodes if each is not node)
    return "\n".join(
        (
            "[broker]",
            f"datadir = {text(node.data_dir.absolute())}",
            f"nodeid = {text(node.name)}",
            "[listeners]",
            f"http = {text(node.http)}",
            f"internal = {text(node.peer)}",
            "[cluster]",
            "enabled = true",
            f"peers = [{others}]",
            # Only with all of them present is it sure that no other cluster exists.
            f"quorum = {len(nodes)}",
            f"secret_file = {text(secret_file.absolute())}",
            "",
        )
    )


def _free_ports(first: int, count: int, taken: Sequence[int] = ()) -> list[int]:
    """Ports that nobody uses now, from the first one on; any for 0."""
    found: list[int] = []
    candidates = [0] * count if not first else range(first, min(first + 50 * count, _PORT_MAX + 1))
    for candidate in candidates:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, candidate))
            except OSError:
                continue
            port: int = probe.getsockname()[1]
        if port not in taken and port not in found:
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(None, f"no {count} free ports from {first} on")


class _NodeProcess:
    """A node as a child process, from its start to its end."""

    def __init__(self, node: _DevNode) -> None:
        self.node = node
        self.was_stopped = False
        self._process: asyncio.subprocess.Process | None = None
        self._ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def wait_until_listening(self) -> bool:
        """Whether the node listens; False if it has ended instead."""
        return await asyncio.shield(self._ready)

    async def run(self, stop: Stop) -> None:
        """Start the node, and see it to its end, which `stop` asks for."""
        command = (sys.executable, "-m", "goqueue.cli", "serve", "--config")
        with self.node.log_file.open("ab") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *command,
                str(self.node.settings_file),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={key: value for key, value in os.environ.items() if "GOQUEUE_" not in key},
                # Ctrl-C is for this program, which then stops the nodes.
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        stop.tell(self._terminate)
        if stop.is_asked:
            self._terminate()
        assert process.stdout is not None
        if await process.stdout.readline():
            self._ready.set_result(True)
        code = await process.wait()
        self.was_stopped = stop.is_asked and code == 0
        if not self._ready.done():
            self._ready.set_result(False)
        if not self.was_stopped:
            self._report_end(code)

    def _terminate(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            asyncio.get_running_loop().call_later(_STOP_S, self.kill)

    def kill(self) -> None:
        """End the node at once, if it still runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _report_end(self, code: int) -> None:
        how = (
            f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )
        print(f"goqueue: {self.node.name} {how}", file=sys.stderr)
        if code > 0:
            for line in self.node.log_file.read_text(errors="replace").splitlines()[-_LAST_LINES:]:
                print(f"    {line}", file=sys.stderr)
        print(
            f"    start it again with: goqueue serve --config {self.node.settings_file}",
            file=sys.stderr,
            flush=True,
        )


def _end_with_parent() -> None:
    """Ask the kernel to end this process when its parent is gone; runs in the child."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _announce(processes: Sequence[_NodeProcess], folder: Path, stop: Stop) -> None:
    are_listening = [await each.wait_until_listening() for each in processes]
    if stop.is_asked or not all(are_listening):
        return
    first = f"http://{processes[0].node.http}"
    lines = [
        f"GoQueue runs a cluster of {len(processes)} nodes",
        *(
            f"  {each.node.name}   http://{each.node.http}   log {each.node.log_file}"
            for each in processes
        ),
        f"  data     {folder}",
        f"  API      {first}/docs",
        f"  try      goqueue -s {first} cluster info",
        f"           goqueue -s {first} cluster nodes",
        "           kill a node, and look again",
        "  stop     Ctrl-C",
    ]
    print("\n".join(lines), flush=True)
