"""Our reading of HTTP/1.1 requests against that of another parser, h11.

Two servers that understand the same bytes differently are how requests are smuggled. So whatever
we accept, h11 accepts too, and finds in it the same method, target, headers and body, and the same
next request behind it. The other way round we may be stricter: what is doubtful is refused.

A head that was parsed before is not parsed again, and means the same.
"""

import h11
import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goqueue.gateways import ByteBudget, Peer
from goqueue.gateways.http.server.application import HttpLimits
from goqueue.gateways.http.server.reader import KnownHeads, RequestReader
from tests.examples import examples
from tests.unit.gateways.loopback import EchoTarget

MANY = 1 << 20
CLIENT = Peer(address="192.0.2.1")


class Seen(msgspec.Struct, frozen=True):
    """One request as a parser understood it."""

    method: str
    target: bytes
    headers: dict[bytes, bytes]
    body: bytes


class Verdict(msgspec.Struct, frozen=True):
    """The requests that were understood, and whether the rest was refused."""

    requests: list[Seen]
    is_refused: bool


def ours(data: bytes) -> Verdict:
    limits = EchoTarget(body_bytes_max=MANY)
    reader = RequestReader(CLIENT, HttpLimits(), lambda _, __: limits, ByteBudget(MANY))
    while data:
        taken = reader.feed(data)
        if taken >= len(data):
            break
        data = data[taken:]
    seen: list[Seen] = []
    for each in reader.requests:
        target = each.path + (b"?" + each.query if each.query else b"")
        seen.append(Seen(each.method, target, _with_lower_coding(each.headers), bytes(each.body)))
        if each.version == "1.0":
            # h11 closes after it, also where the client asks to keep the connection.
            break
    return Verdict(seen, reader.refusal is not None)


def _with_lower_coding(headers: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The headers as h11 shows them: it writes the transfer coding in lower case."""
    name = b"transfer-encoding"
    return headers | {name: headers[name].lower()} if name in headers else headers


def theirs(data: bytes) -> Verdict:
    peer = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 16)
    peer.receive_data(data)
    seen: list[Seen] = []
    head: h11.Request | None = None
    body = bytearray()
    try:
        while True:
            event = peer.next_event()
            if isinstance(event, h11.Request):
                head, body = event, bytearray()
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                seen.append(Seen(head.method.decode(), *_parts(head), bytes(body)))
                if peer.their_state is not h11.DONE:
                    # The client says that this is its last request.
                    return Verdict(seen, is_refused=False)
                peer.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                peer.send(h11.EndOfMessage())
                if peer.our_state is not h11.DONE:
                    return Verdict(seen, is_refused=False)
                peer.start_next_cycle()
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                return Verdict(seen, is_refused=False)
    except h11.RemoteProtocolError:
        return Verdict(seen, is_refused=True)


def _parts(head: h11.Request) -> tuple[bytes, dict[bytes, bytes]]:
    """Target and headers as we give them to the application: repeated fields are one."""
    headers: dict[bytes, bytes] = {}
    for name, value in head.headers:
        headers[name] = headers[name] + b", " + value if name in headers else value
    # A query that is empty and one that is missing are the same to us.
    return head.target.removesuffix(b"?"), headers


def mostly(sound: tuple[bytes, ...], odd: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """A sound part nine times out of ten: one odd part is enough to spoil a request."""
    return st.integers(0, 9).flatmap(lambda roll: st.sampled_from(sound if roll else odd))


METHODS = mostly((b"GET", b"POST", b"DELETE", b"HEAD", b"OPTIONS"), (b"get", b"G@T", b""))
TARGETS = mostly(
    (b"/", b"/topics/a?x=1&y=%20", b"/a?", b"/a//b"), (b"*", b"/\x80", b"/a b", b"", b"a")
)
VERSIONS = mostly(
    (b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"), (b"HTTP/2.0", b"HTTP/1.2", b"HTTP/1", b"http/1.1")
)
LINES = mostly(
    (
        b"Connection: close",
        b"Connection: keep-alive",
        b"X-Custom: a b\tc",
        b"X-Custom:",
        b"x-custom:  d  ",
        b"X-Custom: \xff",
        b"Expect: 100-continue",
        b"Accept: a",
        b"Accept: b",
    ),
    (
        b"Host : a",
        b"host: b",
        b"Content-Length: 3, 3",
        b"Content-Length: +3",
        b"Content-Length: 0x3",
        b"Content-Length: -1",
        b"Content-Length: 3",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding: chunked",
        b"X-Custom: a\x00b",
        b"X-Custom: a\rb",
        b" folded",
        b"X\x01: a",
        b"no colon",
        b": no name",
    ),
)
# Framing lines and the body that follows.
BODIES = mostly(
    (
        b"\r\n",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 3\r\n\r\nabc",
        b"content-length:  3 \r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"Transfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: a\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n003\r\nabc\r\n00\r\n\r\n",
    ),
    (
        b"Content-Length: 3\r\n\r\nab",
        b"Content-Length: 3\r\n\r\nabcd",
        b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
        b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3\rabc\r\n0\r\n\r\n",
    ),
)
ENDINGS = mostly((b"\r\n",), (b"\n", b"\r"))


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request, more or less."""
    ending = draw(ENDINGS)
    first = b" ".join((draw(METHODS), draw(TARGETS), draw(VERSIONS)))
    lines = draw(st.lists(LINES, max_size=3))
    hosts = [b"Host: a"] * draw(st.sampled_from((1, 1, 1, 1, 1, 1, 0, 2)))
    return ending.join((first, *hosts, *lines, b"")) + draw(BODIES)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Requests behind each other, with a few bytes changed."""
    data = bytearray(b"".join(draw(st.lists(requests(), min_size=1, max_size=3))))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        position = draw(st.integers(0, len(data) - 1))
        data[position] = draw(st.integers(0, 255))
    return bytes(data)


@settings(max_examples=examples(600))
@given(streams())
@example(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
@example(
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
)
def test_what_we_accept_another_parser_understands_in_the_same_way(data: bytes) -> None:
    accepted = ours(data).requests
    assert accepted == theirs(data).requests[: len(accepted)]


def read_pieces(pieces: list[bytes], heads: KnownHeads | None) -> Verdict:
    """What one connection understands of pieces that arrive one after the other."""
    target = EchoTarget(body_bytes_max=MANY)
    reader = RequestReader(
        CLIENT, HttpLimits(), lambda _, __: target, ByteBudget(MANY), heads=heads
    )
    for piece in pieces:
        rest = piece
        while rest:
            rest = rest[reader.feed(rest) :]
    seen = [
        Seen(each.method, each.path, each.headers, bytes(each.body)) for each in reader.requests
    ]
    return Verdict(seen, reader.refusal is not None)


POST = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"


@settings(max_examples=examples(300))
@given(st.lists(st.one_of(requests(), streams()), min_size=1, max_size=4))
@example([POST + b"abc", POST + b"xyz"])
@example([b"\r\n\r\n" + POST + b"abc", b"\r\n\r\n" + POST + b"xyz"])
@example([POST, b"abc", POST + b"abc" + POST + b"abc"])
def test_a_known_head_means_what_it_meant_when_it_was_parsed(pieces: list[bytes]) -> None:
    heads = KnownHeads()
    parsed = read_pieces(pieces, None)

    assert read_pieces(pieces, heads) == parsed
    # All that can be known is known by now.
    assert read_pieces(pieces, heads) == parsed


def test_a_head_is_remembered_once_and_shared_by_connections() -> None:
    heads = KnownHeads()
    for body in (b"abc", b"xyz"):
        (seen,) = read_pieces([POST + body], heads).requests
        assert seen.body == body

    assert len(heads) == 1


def test_heads_with_credentials_are_not_remembered() -> None:
    heads = KnownHeads()
    for line in (b"Authorization: Bearer a", b"X-API-Key: a", b"Cookie: a"):
        read_pieces([b"GET /a HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n"], heads)

    assert not len(heads)


def test_what_stands_before_a_request_is_never_taken_for_a_head() -> None:
    heads = KnownHeads()
    read_pieces([b"\r\n\r\n" + POST + b"abc"], heads)
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
    padding = b"x" * (len(POST) + 3 - len(hidden))

    assert not len(heads)
    assert read_pieces([b"\r\n\r\n" + hidden + padding], heads).requests[0].target == b"/hidden"


def test_heads_that_differ_without_end_are_forgotten_in_time() -> None:
    heads = KnownHeads()
    pieces = [b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(3000)]
    for piece in pieces:
        read_pieces([piece], heads)

    assert 0 < len(heads) <= 1024


def test_a_body_that_is_too_large_by_now_is_refused_also_behind_a_known_head() -> None:
    heads = KnownHeads()
    read_pieces([POST + b"abc"], heads)
    target = EchoTarget(body_bytes_max=2)
    reader = RequestReader(
        CLIENT, HttpLimits(), lambda _, __: target, ByteBudget(MANY), heads=heads
    )
    reader.feed(POST + b"abc")

    assert not reader.requests
    assert reader.refusal is not None
    assert reader.refusal.status == 413
