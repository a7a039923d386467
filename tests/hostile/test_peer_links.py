"""Port 7000 under attack: with and without the secret, before and after the handshake.

Each attack ends with a closed connection or a refusal, the node keeps its memory, and its links to
the other node of its cluster stay as they were.
"""

import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from crc32c import crc32c

from goqueue.broker.cluster.forward_codec import encode_command
from goqueue.cluster import Confirm, Hello, Ping, Refuse, Versions, Welcome
from goqueue.model import (
    LOCAL,
    PEER_MESSAGES,
    ForwardCommand,
    ForwardRefusal,
    Heartbeat,
    PeerIdentity,
    PeerLane,
    PeerMessage,
    Timestamp,
)
from goqueue.model.requests import CreateTopic, TopicConfig
from goqueue.runtime.peers.frames import FRAME_BYTES_MAX, encode_frame, encode_message
from tests.hostile.random_messages import random_message
from tests.integration.cluster_nodes import (
    HEAD,
    SECRET,
    ClusterNode,
    RawLink,
    cluster_of,
    identity,
    wait_until,
)

GROWTH_MAX = 32 * 1024 * 1024


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterNode]]:
    with cluster_of(tmp_path_factory.mktemp("peers"), ["attacked", "other"]) as running:
        wait_until(lambda: running[0].links == 3, "both nodes are connected")
        yield running


@pytest.fixture
def node(nodes: list[ClusterNode]) -> Iterator[ClusterNode]:
    """The node under attack, which must come out of it alive, small and connected."""
    attacked, other = nodes
    ends = attacked.said.count(
        "peer_disconnected: another broker is no longer connected broker=other"
    )
    before = attacked.resident_bytes
    yield attacked
    wait_until(lambda: attacked.links == 3, "nobody else is connected")
    assert other.links == 3
    assert attacked.resident_bytes - before < GROWTH_MAX
    assert ends == attacked.said.count("no longer connected broker=other"), "a link was lost"
    assert "Traceback" not in attacked.said


def frame(rest: bytes, length: int | None = None, crc: int | None = None) -> bytes:
    """A forged frame: `rest` is what its checksum covers."""
    length = 4 + len(rest) if length is None else length
    return struct.pack(">II", length, crc32c(rest) if crc is None else crc) + rest


# Without the secret


UNPROVED = {
    "none": "",
    "wrong": "Authorization: Bearer wrong\r\n",
    "longer": f"Authorization: Bearer {SECRET}x\r\n",
    "shorter": f"Authorization: Bearer {SECRET[:-1]}\r\n",
    "scheme": f"Authorization: Basic {SECRET}\r\n",
    "bare": f"Authorization: {SECRET}\r\n",
    "client key": "Authorization: Bearer gq_0123456789abcdef_0123456789abcdef0123456789\r\n",
    "header of keys": f"X-API-Key: {SECRET}\r\n",
    "cookie": f"Cookie: secret={SECRET}\r\n",
    "giant": "Authorization: Bearer " + "x" * 7000 + "\r\n",
}


def test_without_the_secret_every_route_says_only_that_it_is_needed(node: ClusterNode) -> None:
    """All at once: an answer to a failed attempt is held back for up to five seconds."""
    with ExitStack() as stack:
        asked = []
        for header in UNPROVED.values():
            for path in ("/cluster/link", "/cluster/state", "/nothing"):
                link = stack.enter_context(RawLink(node.port))
                link.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
                asked.append(link)
        answers = {link.ask(b"") for link in asked}
        assert len(answers) == 1
        (answer,) = answers
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"WWW-Authenticate: Bearer" in answer


def test_failed_attempts_are_answered_later_each_time_and_do_not_delay_the_right_secret(
    node: ClusterNode,
) -> None:
    began = time.monotonic()
    with RawLink(node.port) as link:
        link.ask(HEAD.format("wrong").encode())
    assert time.monotonic() - began >= 0.1
    began = time.monotonic()
    with RawLink(node.port) as link:
        link.upgrade()
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /cluster/link HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"GET /cluster/link HTTP/1.1\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        b"GET /cluster/link HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"GET /cluster/link HTTP/1.1\nHost: x\r\n\r\n",
        b"GET /" + b"a" * 9000,
        b"GET /cluster/link HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
    ],
)
def test_a_head_that_is_no_http_is_refused_and_the_connection_closed(
    node: ClusterNode, head: bytes
) -> None:
    with RawLink(node.port) as link:
        assert link.ask(head).startswith((b"HTTP/1.1 400 ", b""))
        link.is_closed_within(10)


@pytest.mark.parametrize(
    ("request_line", "extra", "status"),
    [
        ("GET /cluster/link", "", b"426"),
        ("GET /cluster/link", "Connection: Upgrade\r\nUpgrade: websocket\r\n", b"426"),
        (
            "GET /cluster/link",
            "Connection: Upgrade\r\nUpgrade: goqueue-peer/1\r\nContent-Length: 5\r\n",
            b"426",
        ),
        ("POST /cluster/link", "", b"404"),
        ("GET /topics", "", b"404"),
        ("POST /cluster/state", "", b"404"),
        ("GET /cluster/state", "", b"200"),
        ("GET /cluster/health", "", b"200"),
        ("GET /cluster/metadata?since=3", "", b"200"),
        ("GET /cluster/metadata?since=x", "", b"400"),
        ("GET /cluster/vote", "", b"404"),
        ("POST /cluster/vote", "", b"400"),
        ("POST /cluster/vote", "Content-Length: 65537\r\n", b"400"),
        ("POST /cluster/vote", "Content-Length: +5\r\n", b"400"),
        ("POST /cluster/vote", "Transfer-Encoding: chunked\r\n", b"400"),
        ("GET /cluster/link/../link", "", b"404"),
    ],
)
def test_with_the_secret_only_a_proper_upgrade_becomes_a_link_and_reports_are_served(
    node: ClusterNode, request_line: str, extra: str, status: bytes
) -> None:
    head = f"{request_line} HTTP/1.1\r\nAuthorization: Bearer {SECRET}\r\n{extra}\r\n"
    with RawLink(node.port) as link:
        assert link.ask(head.encode()).split(b" ")[1] == status


def test_a_report_is_the_last_request_of_its_connection(node: ClusterNode) -> None:
    proof = f"Authorization: Bearer {SECRET}\r\n"
    head = f"GET /cluster/state HTTP/1.1\r\nHost: x\r\n{proof}\r\n"
    with RawLink(node.port) as link:
        answer = link.ask(head.encode())
        assert b"connection: close" in answer.lower()
        link.is_closed_within(10)
    with RawLink(node.port) as link:
        # Nothing may hide behind it that the secret was not checked for.
        assert b" 200 " not in link.ask((head + "GET /topics HTTP/1.1\r\n\r\n").encode())
        link.is_closed_within(10)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("heartbeat", b'{"node_id":"nobody","cluster_version":1}', b"409"),
        ("heartbeat", b'{"node_id":"nobody","epoch":1000}', b"404"),
        ("heartbeat", b'{"node_id":"nobody","epoch":1000,"cluster_id":"another"}', b"400"),
        ("heartbeat", b'{"node_id":7}', b"400"),
        ("heartbeat", b'{"node_id":"nobody","epoch":9007199254740992}', b"400"),
        ("join", b'{"node_id":"nobody","epoch":-1}', b"400"),
        ("join", b'{"node_id":"nobody","epoch":9007199254740992}', b"400"),
        ("join", b'{"node_id":"nobody","node":{"id":"somebody"}}', b"400"),
        ("leave", b"[" * 60_000, b"400"),
        ("vote", b'{"candidate_id":"a","epoch":99999999999999999999}', b"400"),
        (
            "vote",
            b'{"candidate_id":"x","epoch":1000,"last_log_epoch":1,"last_log_index":1}',
            b"404",
        ),
    ],
)
def test_calls_of_nodes_are_checked_like_every_request(
    node: ClusterNode, path: str, body: bytes, status: bytes
) -> None:
    head = f"POST /cluster/{path} HTTP/1.1\r\nAuthorization: Bearer {SECRET}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with RawLink(node.port) as link:
        answer = link.ask(head.encode() + body)
        assert answer.split(b" ")[1] == status, answer
        link.is_closed_within(10)


def test_bytes_behind_the_head_are_not_taken_for_frames(node: ClusterNode) -> None:
    hello = b"".join(map(bytes, encode_message(Ping())[0]))
    with RawLink(node.port) as link:
        assert b" 101 " not in link.ask(HEAD.format(SECRET).encode() + hello)
        link.is_closed_within(10)


# With the secret, before the handshake is over


@pytest.mark.parametrize(
    "forged",
    [
        struct.pack(">I", 0),
        struct.pack(">I", 9),
        struct.pack(">I", 2**31 - 1),
        struct.pack(">I", 2**32 - 1),
        struct.pack(">I", 64 * 1024 + 1),
        frame(struct.pack(">HI", 1, 0), crc=1),
        frame(struct.pack(">HI", 1, 2**32 - 1)),
        frame(struct.pack(">HI", 999, 0)),
        frame(struct.pack(">HI", 1, 1) + b"\xc1"),
        frame(struct.pack(">HI", 1, 5) + b"\xdd\x7f\xff\xff\xff"),
        frame(struct.pack(">HI", 1, 60_000) + b"\x91" * 60_000),
        frame(struct.pack(">HI", 16, 2) + b"\x91\x10"),
        frame(struct.pack(">HI", 3, 2) + b"\x91\x03"),
        frame(struct.pack(">HI", 1, 0) + struct.pack(">I", 2**32 - 1)),
        frame(struct.pack(">HI", 4, 6) + b"\x92\x04\xa3\xff\xfe\x00"),
        b"GET / HTTP/1.1\r\n\r\n" + bytes(100),
    ],
    ids=[
        "empty",
        "short",
        "2 GiB",
        "4 GiB",
        "one too long",
        "checksum",
        "header bomb",
        "unknown kind",
        "no message",
        "array bomb",
        "nested bomb",
        "heartbeat first",
        "confirm first",
        "attachment bomb",
        "no text",
        "http again",
    ],
)
def test_a_forged_frame_ends_the_connection_at_once(node: ClusterNode, forged: bytes) -> None:
    with RawLink(node.port).upgrade() as link:
        link.socket.sendall(forged)
        assert link.is_closed_within(10) < 4


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (identity("attacked"), "broker_id_taken"),
        (identity("other"), "broker_id_taken"),
        (identity("evil", cluster_id="another-cluster"), "cluster"),
        (identity("evil", incarnation=0), "identity_invalid"),
        (identity("evil", incarnation=2**62), "identity_invalid"),
        (identity("../evil"), "identity_invalid"),
        (identity("evil\x1b[31m"), "identity_invalid"),
        (identity("evil", directory="x"), "identity_invalid"),
        (identity("evil", address="evil"), "identity_invalid"),
        (identity("evil", address="a:1\r\nHost: b"), "identity_invalid"),
        (identity("evil", peers=("a:1",) * 100), "identity_invalid"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.broker[:8].strip("\x1b"),
)
def test_an_identity_that_is_taken_foreign_or_impossible_is_refused(
    node: ClusterNode, who: PeerIdentity, reason: str
) -> None:
    if reason == "cluster":
        # Known only once the two nodes have formed theirs.
        wait_until(lambda: _cluster_is_formed(node), "the cluster is formed")
    with RawLink(node.port).upgrade() as link:
        answer = link.hello(who)
        assert isinstance(answer, Refuse)
        assert answer.reason == reason
        link.is_closed_within(10)


ATTACHMENTS = ((), (b"",), (b"garbage",), (bytes(1000),), (b"a", b"b"))


def members_of(node: ClusterNode) -> dict[str, object]:
    """The cluster and its nodes, as the node sees them."""
    state = httpx.get(f"{node.url}/cluster/state", timeout=10).json()
    nodes = [(each["id"], each["peer_address"], each["is_voter"]) for each in state["nodes"]]
    return {"cluster": state["cluster_id"], "nodes": nodes}


def _cluster_is_formed(node: ClusterNode) -> bool:
    with RawLink(node.port).upgrade() as link:
        answer = link.hello(identity("asks"))
        return isinstance(answer, Welcome) and bool(answer.identity.cluster_id)


def test_versions_without_a_common_one_are_refused(node: ClusterNode) -> None:
    for versions in (Versions(2, 9), Versions(0, 0), Versions(9, 2)):
        with RawLink(node.port).upgrade() as link:
            answer = link.hello(identity("evil"), versions=versions)
            assert isinstance(answer, Refuse)
            assert answer.reason == "version"


def test_a_recorded_handshake_opens_no_second_link_and_an_older_run_none_at_all(
    node: ClusterNode,
) -> None:
    who = identity("recorded", incarnation=5)
    with RawLink(node.port).open(who, number=3) as link:
        link.send(Heartbeat())
        with RawLink(node.port).upgrade() as again:
            answer = again.hello(who, number=3)
            assert isinstance(answer, Refuse)
            assert answer.reason == "replayed"
    with RawLink(node.port).upgrade() as again:
        answer = again.hello(who, number=3)
        assert isinstance(answer, Refuse)
        assert answer.reason == "replayed"
    with RawLink(node.port).upgrade() as older:
        answer = older.hello(identity("recorded", incarnation=4), number=99)
        assert isinstance(answer, Refuse)
        assert answer.reason == "incarnation_stale"


@pytest.mark.parametrize("until", ["connect", "head", "upgrade", "frame", "welcome"])
def test_a_slow_handshake_ends_after_five_seconds(node: ClusterNode, until: str) -> None:
    hello = Hello(
        versions=Versions(1, 1),
        lane=PeerLane.CONTROL,
        number=1,
        identity=identity("slow"),
        wall=Timestamp(0),
    )
    with RawLink(node.port) as link:
        if until == "head":
            link.socket.sendall(b"GET /cluster/li")
        elif until != "connect":
            link.upgrade()
        if until == "frame":
            link.socket.sendall(b"".join(map(bytes, encode_message(hello)[0]))[:-1])
        elif until == "welcome":
            assert isinstance(link.hello(identity("slow")), Welcome)
        assert 2 < link.is_closed_within(20) < 15


# On an open link


@pytest.mark.parametrize(
    "forged",
    [
        struct.pack(">I", FRAME_BYTES_MAX + 1),
        frame(struct.pack(">HI", 16, 2) + b"\x91\x10", crc=7),
        frame(struct.pack(">HI", 15, 2) + b"\x91\x0f"),
        frame(struct.pack(">HI", 16, 2) + b"\x91\x11"),
        frame(struct.pack(">HI", 16, 2) + b"\x91\x10" + b"\0\0"),
        frame(struct.pack(">HI", 16, 2) + b"\x91\x10" + struct.pack(">I", 0) * 2000),
        b"".join(map(bytes, encode_message(Confirm())[0])),
        b"".join(map(bytes, encode_frame(16, b"\x94\x10" + b"\xc0" * 3)[0])),
    ],
    ids=[
        "too long",
        "checksum",
        "unknown kind",
        "other number",
        "half a size",
        "too many attachments",
        "handshake again",
        "wrong types",
    ],
)
def test_a_forged_frame_of_a_known_broker_ends_its_link(node: ClusterNode, forged: bytes) -> None:
    with RawLink(node.port).open(identity("known"), number=time.monotonic_ns()) as link:
        link.socket.sendall(forged)
        assert link.is_closed_within(10) < 4


def test_a_half_open_link_ends_after_seconds_of_silence(node: ClusterNode) -> None:
    with RawLink(node.port).open(identity("silent")) as link:
        assert 2 < link.is_closed_within(30) < 20


def test_a_link_that_is_broken_in_the_middle_of_a_frame_leaves_nothing(node: ClusterNode) -> None:
    for number in range(1, 20):
        link = RawLink(node.port).open(identity("breaks"), number=number)
        link.socket.sendall(struct.pack(">I", FRAME_BYTES_MAX) + bytes(100_000))
        link.reset()


def test_many_large_frames_do_not_grow_the_node(node: ClusterNode) -> None:
    attachment = bytes(15 * 1024 * 1024)
    with RawLink(node.port).open(identity("large")) as link:
        for _ in range(10):
            link.send(Heartbeat(), (attachment,))


def test_a_flood_of_small_messages_leaves_the_other_links_alone(node: ClusterNode) -> None:
    burst = b"".join(map(bytes, encode_message(Heartbeat())[0])) * 1000
    with RawLink(node.port).open(identity("flood")) as link:
        for _ in range(50):
            link.socket.sendall(burst)


def test_random_bytes_on_many_links_end_each_of_them(node: ClusterNode) -> None:
    chance = random.Random(7)
    for number in range(60):
        is_open = number % 2
        with RawLink(node.port) as link:
            if is_open:
                link.open(identity("random"), number=time.monotonic_ns())
            else:
                link.upgrade()
            with suppress(ConnectionError):
                for _ in range(20):
                    link.socket.sendall(chance.randbytes(chance.randrange(1, 5000)))
            assert link.is_closed_within(20) < 15


def test_frames_with_some_bits_flipped_never_reach_the_node_as_messages(node: ClusterNode) -> None:
    chance = random.Random(8)
    valid = b"".join(map(bytes, encode_message(Heartbeat(broker_epoch=7), (b"data",))[0]))
    for _ in range(40):
        flipped = bytearray(valid)
        # Not in the length, which would only let it wait.
        flipped[chance.randrange(4, len(flipped))] ^= 1 << chance.randrange(8)
        with RawLink(node.port).open(identity("flips"), number=time.monotonic_ns()) as link:
            link.socket.sendall(flipped)
            assert link.is_closed_within(10) < 4


@pytest.mark.parametrize("kind", PEER_MESSAGES, ids=lambda each: each.__name__)
def test_messages_with_random_fields_of_a_broker_that_is_no_member_change_nothing(
    node: ClusterNode, kind: type[PeerMessage]
) -> None:
    wait_until(lambda: str(members_of(node)).count("True") == 2, "both nodes vote")
    before = members_of(node)
    chance = random.Random(kind.__name__)
    number = time.monotonic_ns()
    for lane in PeerLane:
        with RawLink(node.port).upgrade() as link:
            assert isinstance(link.hello(identity("fuzz"), number, lane=lane), Welcome)
            link.send(Confirm())
            with suppress(ConnectionError):
                for _ in range(40):
                    message = random_message(kind, chance)
                    if message is not None:
                        link.send(message, tuple(chance.choice(ATTACHMENTS)))
    assert members_of(node) == before


def test_a_command_of_a_broker_that_is_no_member_is_refused_although_it_has_the_secret(
    node: ClusterNode,
) -> None:
    """Even as the node itself, which may do everything."""
    wait_until(lambda: _cluster_is_formed(node), "the cluster is formed")
    command = CreateTopic(name="forged", partitions=1, config=TopicConfig())
    kind, attached = encode_command(command)
    message = ForwardCommand(number=1, kind=kind, version=0, caller=LOCAL)
    with RawLink(node.port).upgrade() as link:
        who = identity("forger")
        assert isinstance(link.hello(who, lane=PeerLane.FORWARDING), Welcome)
        link.send(Confirm())
        link.send(message, tuple(map(bytes, attached)))
        answer = link.receive()
        while isinstance(answer, Ping):
            answer = link.receive()
        assert isinstance(answer, ForwardRefusal), answer
    listed = httpx.get(f"{node.url}/topics", timeout=10).json()
    assert "forged" not in listed["topics"]


@pytest.mark.parametrize("is_open", [False, True])
def test_an_end_that_says_no_more_is_closed(node: ClusterNode, is_open: bool) -> None:
    with RawLink(node.port) as link:
        if is_open:
            link.open(identity("half"), number=time.monotonic_ns())
        link.socket.shutdown(socket.SHUT_WR)
        assert link.is_closed_within(15) < 12


def test_a_thousand_connections_keep_no_broker_out(node: ClusterNode) -> None:
    with ExitStack() as stack:
        for _ in range(1000):
            idle = stack.enter_context(socket.socket())
            idle.settimeout(5)
            idle.connect(("127.0.0.1", node.port))
        with RawLink(node.port).open(identity("comes"), number=1) as link:
            link.send(Heartbeat())
            assert link.receive() is not None


# The client port


@pytest.mark.parametrize("message", PEER_MESSAGES, ids=lambda each: each.__name__)
def test_a_message_of_brokers_on_the_client_port_is_refused(
    node: ClusterNode, message: type[Heartbeat]
) -> None:
    port = int(node.url.rpartition(":")[2])
    number = message.__struct_config__.tag
    assert isinstance(number, int)
    buffers, _ = encode_frame(number, bytes([0x91, number]))
    with RawLink(port) as link:
        answer = link.ask(b"".join(map(bytes, buffers)))
        assert b" 101 " not in answer
        assert answer.startswith((b"HTTP/1.1 4", b"")) or not answer


@pytest.mark.parametrize(
    "route", ["/cluster/vote", "/cluster/heartbeat", "/cluster/join", "/cluster/leave"]
)
def test_the_client_port_has_no_route_for_brokers_and_no_links(
    node: ClusterNode, route: str
) -> None:
    port = int(node.url.rpartition(":")[2])
    with RawLink(port) as link:
        assert b" 101 " not in link.ask(HEAD.format(SECRET).encode())
    with RawLink(port) as link:
        head = f"POST {route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n"
        answer = link.ask(f"{head}Authorization: Bearer {SECRET}\r\n\r\n".encode())
        assert answer.split(b" ")[1] in {b"401", b"403", b"404", b"405"}
