"""Which server leads which partition, as far as a client of a cluster knows.

A hint, never a promise: every node serves every request, and passes on what it does not lead. So a
request is never held up by a question about leaders. It goes to the leader that is known, else to
any node, and what is missing or wrong is asked for beside it, at most once in `_REFRESH_S` for each
topic.

Invariant: a leader that could not be reached is not used until it was asked for again.
Cost: one dictionary look-up per request; two small requests for each topic and change.
"""

import msgspec

from goqueue.client.address import Address
from goqueue.client.http_connection import Response
from goqueue.client.http_request import Request, get
from goqueue.model import LogId

__all__ = ["Leaders", "leader_requests", "with_scheme"]

_REFRESH_S = 0.25
_QUIET_S = 30.0
_TOPICS_MAX = 10_000


class _Node(msgspec.Struct, frozen=True):
    id: str
    client_address: str = ""


class _State(msgspec.Struct, frozen=True):
    nodes: tuple[_Node, ...] = ()


class _Partition(msgspec.Struct, frozen=True):
    partition: int
    leader: str = ""


class _Partitions(msgspec.Struct, frozen=True):
    partitions: tuple[_Partition, ...] = ()


_STATES = msgspec.json.Decoder(_State)
_PARTITIONS = msgspec.json.Decoder(_Partitions)


def leader_requests(topic: str) -> tuple[Request, Request]:
    """What to ask any node about the leaders of a topic."""
    return get("topics", topic, "partitions"), get("cluster", "state")


class Leaders:
    """The leaders that are known, and which topics are to be asked for."""

    def __init__(self) -> None:
        self._leaders: dict[LogId, str] = {}
        self._asked_at: dict[str, float] = {}
        # Until then it is not worth asking: the servers are one node.
        self._quiet_until = 0.0

    def find(self, log: LogId) -> str | None:
        """The `host:port` of the leader of a partition, if it is known."""
        return self._leaders.get(log)

    def is_wanted(self, topic: str, now: float) -> bool:
        """Whether to ask for the leaders of a topic now; it counts as asked then."""
        asked_at = self._asked_at.get(topic)
        is_recent = asked_at is not None and now - asked_at < _REFRESH_S
        if is_recent or now < self._quiet_until:
            return False
        if len(self._asked_at) >= _TOPICS_MAX:
            self._asked_at.clear()
            self._leaders.clear()
        self._asked_at[topic] = now
        return True

    def learn(self, topic: str, partitions: Response, state: Response, now: float) -> None:
        """Take what a node said about the leaders of a topic; raises msgspec.MsgspecError."""
        addresses = {node.id: node.client_address for node in _STATES.decode(state.body).nodes}
        if len(addresses) < 2:
            # One node serves everything anyway.
            self._quiet_until = now + _QUIET_S
            return
        for each in _PARTITIONS.decode(partitions.body).partitions:
            log = LogId(topic, each.partition)
            address = addresses.get(each.leader, "")
            if address:
                self._leaders[log] = address
            else:
                self._leaders.pop(log, None)

    def refer(self, log: LogId, address: str) -> None:
        """A node said who leads a partition."""
        self._leaders[log] = address

    def forget(self, log: LogId) -> None:
        """The leader of a partition is another one by now, or there is none."""
        self._leaders.pop(log, None)

    def forget_server(self, address: str) -> None:
        """A server cannot be reached: whoever led there may lead elsewhere."""
        gone = [log for log, leader in self._leaders.items() if leader == address]
        for log in gone:
            del self._leaders[log]


def with_scheme(address: str, like: Address) -> Address:
    """The address of a node, reached in the same way as another one."""
    scheme = "https" if like.is_tls else "http"
    return Address.parse(f"{scheme}://{address}")
