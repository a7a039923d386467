"""The scene of a cluster: three nodes, and the leader is killed while orders are published."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import goqueue
from demo.node import NodeProcess
from demo.show import Show

if TYPE_CHECKING:
    from goqueue.client.sync import SyncConnection

__all__ = ["lose_a_leader"]

_NODES = 3
_TOPIC = "orders"
_BEFORE, _AFTER = 200, 200
_FORM_S_MAX = 60.0


def lose_a_leader(folder: Path, show: Show) -> None:
    show.step("Start three nodes, and kill the leader while orders are published")
    with _cluster(folder) as nodes:
        servers = [node.url for node in nodes.values()]
        with goqueue.connect_sync(servers) as q:
            _wait_until_formed(q)
            q.topics.create(_TOPIC, partitions=1, replication_factor=3, min_insync_replicas=2)
            _publish_and_kill(q, nodes, show)


def _publish_and_kill(q: "SyncConnection", nodes: dict[str, NodeProcess], show: Show) -> None:
    (partition,) = q.topics.partitions(_TOPIC)
    show.say(f"The leader is {partition.leader}, and {', '.join(partition.isr)} are in sync.")
    places: list[int] = []
    longest_s = 0.0
    killer = threading.Thread(target=nodes[partition.leader].kill)
    # The client warns that it tries again, which is what this scene is about.
    logging.getLogger("goqueue.client").setLevel(logging.ERROR)
    for number in range(_BEFORE + _AFTER):
        if number == _BEFORE:
            killer.start()
        began = time.monotonic()
        places.append(q.publish(_TOPIC, f"order {number}").offset)
        longest_s = max(longest_s, time.monotonic() - began)
    killer.join()
    (now,) = q.topics.partitions(_TOPIC)
    show.say(f"Now {now.leader} leads; the longest publish took {longest_s:.1f} s.")
    stored = _values(q, now.high_watermark)
    orders = [stored[offset] for offset in places]
    count = _BEFORE + _AFTER
    show.prove("another node took over", holds=now.leader not in {"", partition.leader})
    show.prove(
        f"all {count} acknowledged orders are there, each once and in order",
        holds=orders == [f"order {number}" for number in range(count)] and len(stored) == count,
    )


def _values(q: "SyncConnection", end: int) -> dict[int, str]:
    stored: dict[int, str] = {}
    offset = 0
    while offset < end:
        page = q.page(_TOPIC, 0, offset=offset, limit=1000)
        for each in page.messages:
            stored[each.message.offset] = each.message.text
        if page.next_offset <= offset:
            break
        offset = page.next_offset
    return stored


def _wait_until_formed(q: "SyncConnection") -> None:
    deadline = time.monotonic() + _FORM_S_MAX
    while time.monotonic() < deadline:
        state = q.cluster.state()
        alive = [node for node in state.nodes if node.status == "alive"]
        if state.controller_id and len(alive) == _NODES:
            return
        time.sleep(0.05)
    raise AssertionError("the nodes formed no cluster")


@contextmanager
def _cluster(folder: Path) -> Iterator[dict[str, NodeProcess]]:
    """Nodes by their ids, while they run."""
    secret = folder / "cluster-secret"
    secret.write_text("demonstration" * 3)
    secret.chmod(0o600)
    ports = _free_ports(_NODES)
    with ExitStack() as stack:
        nodes = {}
        for number, port in enumerate(ports, start=1):
            name = f"node-{number}"
            others = ", ".join(f'"127.0.0.1:{each}"' for each in ports if each != port)
            settings = folder / f"{name}.toml"
            settings.write_text(
                f'[broker]\nnodeid = "{name}"\n[listeners]\ninternal = "127.0.0.1:{port}"\n'
                f"[cluster]\nenabled = true\npeers = [{others}]\nquorum = {_NODES}\n"
                f'secret_file = "{secret}"\n'
            )
            node = NodeProcess(str(folder / name), "--config", str(settings))
            node.start()
            stack.callback(node.kill)
            nodes[name] = node
        yield nodes


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
