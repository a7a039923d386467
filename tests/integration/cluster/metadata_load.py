"""Clients that create and delete topics at every node, and what must be true of it in the end.

Each name is used once, so the history of a topic is simple: it is not there, it is there, it is
gone. A change that was confirmed is there for ever; one that was refused, or whose answer was lost,
may be there or not; nothing is there that nobody asked for.
"""

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import httpx
import msgspec

from tests.integration.cluster.cluster_processes import ClusterProcesses

__all__ = ["MetadataLoad", "Topics", "violations_of"]

_CLIENTS = 3
_PAUSE_S = 0.02
_LOOK_PAUSE_S = 0.1


class MetadataLoad:
    """Runs while the block runs: changes topics, and looks at what every node says meanwhile.

    `created` and `deleted` have what was confirmed, `asked` and `deleting` what was wanted.
    """

    def __init__(self, cluster: ClusterProcesses, seed: int) -> None:
        self._cluster = cluster
        self._seed = seed
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(_CLIENTS + 1)
        # Held by who looks, and by who lets a node forget what it said: a look has one life.
        self.looking = threading.Lock()
        self.asked: dict[str, None] = {}
        self.created: dict[str, None] = {}
        self.deleting: dict[str, None] = {}
        self.deleted: dict[str, None] = {}

    def __enter__(self) -> "MetadataLoad":
        self._running = [self._pool.submit(self._change, number) for number in range(_CLIENTS)]
        self._running.append(self._pool.submit(self._watch))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._pool.shutdown()
        if kind is None:
            for each in self._running:
                each.result()

    def told(self) -> "Topics":
        """What clients asked for and heard, once the block is over."""
        parts = (self.asked, self.created, self.deleting, self.deleted)
        return Topics(*map(frozenset, parts))

    def _watch(self) -> None:
        """Each look is judged: one controller of an epoch, versions that never fall."""
        while not self._is_over.is_set():
            for name in self._cluster.names:
                with self.looking:
                    self._cluster.look(name)
            self._is_over.wait(_LOOK_PAUSE_S)

    def _change(self, client: int) -> None:
        chance = random.Random(self._seed + client)
        number = 0
        with httpx.Client(timeout=15) as http:
            while not self._is_over.is_set():
                url = self._cluster[chance.choice(self._cluster.names)].url
                known = [name for name in list(self.created) if name not in self.deleting]
                if known and chance.random() < 0.3:
                    self._delete(http, url, chance.choice(known))
                else:
                    number += 1
                    self._create(http, url, f"topic-{client}-{number}")
                self._is_over.wait(_PAUSE_S)

    def _create(self, http: httpx.Client, url: str, name: str) -> None:
        self.asked[name] = None
        body = {"name": name, "num_partitions": 1, "replication_factor": 1}
        if _succeeds(http, "POST", f"{url}/topics", body):
            self.created[name] = None

    def _delete(self, http: httpx.Client, url: str, name: str) -> None:
        self.deleting[name] = None
        if _succeeds(http, "DELETE", f"{url}/topics/{name}", None):
            self.deleted[name] = None


def _succeeds(http: httpx.Client, method: str, url: str, body: object) -> bool:
    try:
        return http.request(method, url, json=body).is_success
    except httpx.HTTPError:
        return False


class Topics(msgspec.Struct, frozen=True):
    """The names of topics that clients asked for and heard of."""

    asked: frozenset[str]
    created: frozenset[str]
    deleting: frozenset[str]
    deleted: frozenset[str]


def violations_of(told: Topics, listed: Sequence[frozenset[str]]) -> list[str]:
    """What must not be, given the topics that each node lists in the end."""
    first = listed[0]
    found = [f"nodes differ by {sorted(first ^ other)}" for other in listed if other != first]
    lost = told.created - told.deleting - first
    found += [f"{name} was confirmed, and is gone" for name in sorted(lost)]
    found += [f"{name} was deleted, and is there" for name in sorted(told.deleted & first)]
    found += [f"nobody asked for {name}" for name in sorted(first - told.asked)]
    return found
