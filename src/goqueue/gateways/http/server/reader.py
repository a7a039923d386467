"""Parses HTTP/1.1 requests from bytes, within limits, without a socket and without a clock.

Owns the parser, the request that is being received and those that wait for an answer. The parser
refuses what breaks the grammar; here is refused what is grammatical and still ambiguous,
unsupported or too large. Never writes and never waits.

Clients send the same head over and over: one that was parsed is not parsed again, see `KnownHeads`.

Invariants: a head that is accepted says in exactly one way where its body ends. Once something was
refused, or the last request has come, no further byte is looked at, so a request hidden behind a
doubtful one is never seen.
"""

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType

import httptools
import msgspec

from goqueue.gateways.connection_limits import ByteBudget, HeldBytes
from goqueue.gateways.http.server.application import (
    Guard,
    HttpLimits,
    HttpRequest,
    Target,
)
from goqueue.gateways.http.server.responses import (
    BODIES_FULL,
    HEAD_TOO_LARGE,
    STOPPING,
    UNSUPPORTED_CODING,
    UNSUPPORTED_VERSION,
    Refusal,
    body_too_large,
    malformed,
)
from goqueue.gateways.http.server.states import PHASES, Phase
from goqueue.gateways.peer import Peer
from goqueue.model import ProvenKey

__all__ = ["Head", "HeadLines", "KnownHeads", "RequestReader", "Unacceptable"]

# Two of these, and two readers may each believe a different one.
_PLAIN = b"identity"
_SINGLE = frozenset(
    {
        b"content-length",
        b"content-type",
        b"host",
        b"origin",
        b"transfer-encoding",
        b"x-request-id",
    }
)
_SCHEMES = (b"http://", b"https://")
_HEAD_END = b"\r\n\r\n"
# Of heads that are remembered: how many, how long, and what none of them has.
_HEADS_KEPT = 1024
_HEAD_BYTES_KEPT = 1024
_SECRETS = frozenset({b"authorization", b"cookie", b"proxy-authorization", b"x-api-key"})


class Unacceptable(Exception):
    """Stops the parser: this request, and with it the connection, is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.sentence)
        self.refusal = refusal


class Head(msgspec.Struct, frozen=True):
    """A head that was found acceptable."""

    method: str
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    version: str
    # None: chunked, the body ends where its last chunk says.
    length: int | None
    expects_continue: bool


class HeadLines:
    """The target and the header lines of one head, as they came.

    The caller bounds what it feeds to the parser; the exact limits are checked in `check`, once per
    head and not once per line.
    """

    __slots__ = ("_headers", "_limits", "lines", "target")

    def __init__(self, limits: HttpLimits) -> None:
        self.target = b""
        self.lines: list[tuple[bytes, bytes]] = []
        self._headers: dict[bytes, bytes] = {}
        self._limits = limits

    def check(self, method: str, version: str, *, is_upgrade: bool) -> Head:
        """The head, if its meaning is beyond doubt; raises Unacceptable."""
        if version not in ("1.1", "1.0"):
            raise Unacceptable(UNSUPPORTED_VERSION)
        if method == "CONNECT":
            raise Unacceptable(malformed("CONNECT is not supported"))
        if is_upgrade:
            raise Unacceptable(malformed("upgrades are not supported"))
        self._gather_headers()
        headers = self._headers
        path, query = self._split_target(method)
        if b"host" not in headers and version == "1.1":
            raise Unacceptable(malformed("the Host header is missing"))
        if headers.get(b"content-encoding", _PLAIN).lower() != _PLAIN:
            # Inflating it could take a thousand times the memory that its sender needed.
            raise Unacceptable(malformed("a body with a Content-Encoding is not supported"))
        return Head(
            method,
            path,
            query,
            headers,
            version,
            self._length(version),
            version == "1.1" and headers.get(b"expect", b"").lower() == b"100-continue",
        )

    def _gather_headers(self) -> None:
        headers = self._headers
        room = self._limits.head_bytes_max - len(self.target)
        for name, value in self.lines:
            room -= len(name) + len(value) + 4
            name = name.lower()
            value = value.rstrip(b" \t")
            if name not in headers:
                headers[name] = value
            elif name in _SINGLE:
                raise Unacceptable(malformed(f"more than one {name.decode()} header"))
            else:
                headers[name] += b", " + value
        if room < 0 or len(self.lines) > self._limits.headers_max:
            raise Unacceptable(HEAD_TOO_LARGE)

    def _length(self, version: str) -> int | None:
        coding = self._headers.get(b"transfer-encoding")
        if coding is None:
            # The parser takes nothing but digits.
            return int(self._headers.get(b"content-length", b"0"))
        if version == "1.0" or b"content-length" in self._headers:
            raise Unacceptable(malformed("Transfer-Encoding is not allowed here"))
        if coding.lower() != b"chunked":
            raise Unacceptable(UNSUPPORTED_CODING)
        return None

    def _split_target(self, method: str) -> tuple[bytes, bytes]:
        target = self.target
        if b"#" in target:
            raise Unacceptable(malformed("the target has a fragment"))
        if not target.startswith(b"/") and not (target == b"*" and method == "OPTIONS"):
            target = self._strip_authority(target)
        path, _, query = target.partition(b"?")
        return path, query

    def _strip_authority(self, target: bytes) -> bytes:
        """Of a target in absolute form, the path; its authority outranks the Host header."""
        for scheme in _SCHEMES:
            if target[: len(scheme)].lower() == scheme:
                rest = target[len(scheme) :]
                break
        else:
            raise Unacceptable(malformed("the target is neither a path nor an http URL"))
        cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
        authority = rest[:cut]
        if not authority or b"@" in authority:
            raise Unacceptable(malformed("the target names no host"))
        if b"host" in self._headers:
            self._headers[b"host"] = authority
        path = rest[cut:]
        return path if path.startswith(b"/") else b"/" + path


class KnownHeads:
    """Heads that the parser has accepted, by their bytes; shared by the connections of a listener.

    What bytes mean to a parser that is between two requests depends on nothing else, so a head is
    known by being equal, from its first byte to the empty line. Heads with credentials are not
    kept. Bounded: when there are too many, all are forgotten.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, head: bytes) -> Head | None:
        return self._heads.get(head)

    def add(self, data: bytes, head: Head) -> None:
        """Keep the head of a request that these bytes are, if they are no more and no less."""
        end = data.find(_HEAD_END) + len(_HEAD_END)
        # The parser found a body of that length: then the first empty line ends the head.
        if end > _HEAD_BYTES_KEPT or head.length != len(data) - end or head.expects_continue:
            return
        if not _SECRETS.isdisjoint(head.headers):
            return
        if len(self._heads) >= _HEADS_KEPT:
            self._heads.clear()
        self._heads[data[:end]] = head


# The parser cannot be stopped between two requests. Fed in pieces of this size it finds no more
# than a hundred or so at once, however many a read brings.
_PIECE_BYTES = 4096
# Bound here for the path of every request, see `states.py`.
_BETWEEN, _HEAD, _BODY, _ENDED = Phase.BETWEEN, Phase.HEAD, Phase.BODY, Phase.ENDED
_NO_HEADERS: Mapping[bytes, bytes] = MappingProxyType({})
# In place of the parser of a connection that is gone: a parser refers to its reader.
_SPENT = httptools.HttpRequestParser(object())


def _admit_any(target: Target, _: ProvenKey | None) -> Target:
    return target


class RequestReader:
    """Takes what a connection receives; `requests` holds what is whole."""

    def __init__(
        self,
        peer: Peer,
        limits: HttpLimits,
        resolve: Callable[[str, bytes], Target],
        budget: ByteBudget | HeldBytes,
        guard: Guard | None = None,
        *,
        admit: Callable[[Target, ProvenKey | None], Target] = _admit_any,
        heads: KnownHeads | None = None,
    ) -> None:
        self.requests: deque[HttpRequest] = deque()
        self.refusal: Refusal | None = None
        # Whether a head was acceptable, and whether one has proved a key.
        self.has_accepted = False
        self.has_proven = False
        self.phase = _BETWEEN
        # A phase has begun since this was last cleared; its deadline is counted from there.
        self.has_new_phase = True
        self._peer = peer
        self._limits = limits
        self._resolve = resolve
        self._guard = guard
        self._admit = admit
        self._budget = budget
        # With authentication a head has to prove a key each time.
        self._heads = None if guard is not None else heads
        # Of the request being read, once its head was found acceptable.
        self.headers: Mapping[bytes, bytes] = _NO_HEADERS
        self._held = 0
        self._parser = httptools.HttpRequestParser(self)
        self._lines = HeadLines(limits)
        self._head: Head | None = None
        # Of the last whole request.
        self._last_head: Head | None = None
        self._target: Target | None = None
        self._key: ProvenKey | None = None
        self._body = bytearray()
        # Bytes of a body that is not kept.
        self._forgotten = 0
        self._body_max = 0
        self._overhead = 0
        self._is_last = False
        self._continue_is_owed = False

    # ---- what the connection calls ---------------------------------------------------------

    def feed(self, data: bytes | memoryview) -> int:
        """Take bytes, as many as are returned; stops early only when a request is whole."""
        size = len(data)
        if size <= _PIECE_BYTES and self._head is None:
            if self._heads is None or self.phase is not _BETWEEN or not isinstance(data, bytes):
                self._parse(data)
            elif not self._take_known(data, self._heads):
                self._parse_whole(data, self._heads)
            return size
        view = memoryview(data)
        position = 0
        ready = len(self.requests)
        while position < size:
            if self._head is not None and self._head.length is not None:
                position += self._gather(view[position:], self._head.length)
            else:
                self._parse(view[position : position + _PIECE_BYTES])
                position += _PIECE_BYTES
            if self.phase is _ENDED:
                break
            if len(self.requests) > ready:
                return min(position, size)
        return size

    def refuse(self, refusal: Refusal) -> None:
        """Turn down what is being read, and all that would follow."""
        if self.phase is not _ENDED:
            self.refusal = refusal
            self._end()

    def finish(self) -> None:
        """Take no further request; one whose body is on its way may still come."""
        if self.phase is _BODY:
            self._is_last = True
        elif self.phase is _HEAD:
            self.refuse(STOPPING)
        elif self.phase is _BETWEEN:
            self._end()

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be answered that no more should be read."""
        waiting, limits = len(self.requests), self._limits
        return waiting >= limits.pipelined_max or (
            waiting > 1 and self._held > limits.pipelined_bytes_max
        )

    def owes_continue(self) -> bool:
        """Whether the client holds back a body until it is told to send it; asked once."""
        is_owed = self._continue_is_owed and not self._received
        self._continue_is_owed = False
        return is_owed

    def release(self, size: int) -> None:
        """Give back the room of a body that was answered."""
        self._held -= size
        self._budget.give_back(size)

    def release_all(self) -> None:
        """The connection is gone: hold nothing, and be no part of a reference cycle."""
        self._end()
        self._parser = _SPENT
        self.requests.clear()
        self.release(self._held)

    # ---- what the parser calls -------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.phase is _ENDED:
            # The last request has just come: not even a parser in full swing looks further.
            raise Unacceptable(STOPPING)
        self._enter(_HEAD)
        self.headers = _NO_HEADERS
        self._lines = HeadLines(self._limits)

    def on_url(self, part: bytes) -> None:
        self._lines.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come here too, and are forgotten: they may not change what the head has said.
        self._lines.lines.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        head = self._lines.check(
            parser.get_method().decode("ascii"),
            parser.get_http_version(),
            is_upgrade=parser.should_upgrade(),
        )
        self.headers = head.headers
        self._target = target = self._resolve(head.method, head.path)
        self._body_max = target.body_bytes_max
        if self._guard is not None:
            proven = self._guard.authenticate(head.method, target, head.headers, self._peer)
            if isinstance(proven, Refusal):
                raise Unacceptable(proven)
            self._key = proven
            self.has_accepted = True
            if proven is None:
                # Of a caller without a key nothing is kept.
                self._body_max = 0
            else:
                self.has_proven = True
        if self._guard is None or self._key is not None:
            self._target = target = self._admit(target, self._key)
        if head.length is not None and head.length > self._body_max:
            raise Unacceptable(body_too_large(self._body_max))
        self._is_last = target.is_last or not parser.should_keep_alive()
        self._continue_is_owed = head.expects_continue and head.length != 0
        self._head = head
        self._overhead = 0
        self._enter(_BODY)

    def on_body(self, part: bytes) -> None:
        self._overhead = 0
        self._keep(part)

    def on_message_complete(self) -> None:
        head, target = self._head, self._target
        assert head is not None
        assert target is not None
        self.requests.append(
            HttpRequest(
                head.method,
                head.path,
                head.query,
                head.headers,
                self._body,
                self._peer.address,
                target,
                head.version,
                self._peer,
                self._key,
            )
        )
        self._last_head, self._head = head, None
        self.headers = _NO_HEADERS
        self._body = bytearray()
        self._forgotten = 0
        self._overhead = 0
        self._continue_is_owed = False
        self._enter(_BETWEEN)
        if self._is_last:
            self._end()

    # ---- inside ----------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        assert phase in PHASES[self.phase], f"{phase.name} after {self.phase.name}"
        self.phase = phase
        self.has_new_phase = True

    def _parse(self, piece: bytes | memoryview) -> None:
        if self.phase is _ENDED:
            return
        began = self.phase
        self._overhead += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if not isinstance(cause, Unacceptable):
                raise
            self.refuse(cause.refusal)
            # Its frames refer to the parser, which refers to it.
            cause.__traceback__ = None
        except httptools.HttpParserError as error:
            self.refuse(_refusal_of(error))
        except httptools.HttpParserUpgrade:
            self.refuse(malformed("upgrades are not supported"))
        else:
            self._limit_overhead(began)

    def _take_known(self, data: bytes, heads: KnownHeads) -> bool:
        """Take one whole request whose head is known; False if these bytes are anything else."""
        end = data.find(_HEAD_END) + len(_HEAD_END)
        head = heads.find(data[:end])
        if head is None or head.length != len(data) - end:
            return False
        target = self._resolve(head.method, head.path)
        if head.length > target.body_bytes_max:
            return False
        self.headers = head.headers
        self._target = target = self._admit(target, None)
        self._body_max = target.body_bytes_max
        self._is_last = target.is_last
        self._head = head
        # Its head and its body are here: the phases in between take no time.
        self.phase = _BODY
        try:
            self._keep(data[end:])
        except Unacceptable as error:
            self.refuse(error.refusal)
        else:
            self.on_message_complete()
        return True

    def _parse_whole(self, data: bytes, heads: KnownHeads) -> None:
        """Parse what may be one whole request, and then remember its head."""
        ready = len(self.requests)
        self._parse(data)
        if self.phase is _BETWEEN and len(self.requests) == ready + 1:
            assert self._last_head is not None
            heads.add(data, self._last_head)

    def _limit_overhead(self, began: Phase) -> None:
        """Limit the bytes that bring neither a whole head nor a body: header lines, or framing."""
        if began is _BETWEEN:
            # Some of these bytes belong to requests that are whole; a piece is small enough.
            self._overhead = 0
        elif self._overhead > self._limits.head_bytes_max:
            is_head = self.phase is _HEAD
            self.refuse(HEAD_TOO_LARGE if is_head else malformed("too much framing"))

    def _gather(self, view: memoryview, length: int) -> int:
        """Take body bytes past the parser: with a known length there is nothing to parse."""
        part = view[: length - self._received]
        try:
            self._keep(part)
        except Unacceptable as error:
            self.refuse(error.refusal)
            return len(view)
        if self._received == length:
            # The old parser still waits for this body.
            self._parser = httptools.HttpRequestParser(self)
            self.on_message_complete()
        return len(part)

    @property
    def _received(self) -> int:
        """How much of the body has come."""
        return len(self._body) + self._forgotten

    def _keep(self, part: bytes | memoryview) -> None:
        size = len(part)
        if self._received + size > self._body_max:
            raise Unacceptable(body_too_large(self._body_max))
        assert self._target is not None
        if not self._target.keeps_body:
            self._forgotten += size
            return
        if not self._budget.take(size):
            raise Unacceptable(BODIES_FULL)
        self._held += size
        self._body += part

    def _end(self) -> None:
        self._enter(_ENDED)
        # What was gathered of an unfinished body is of no use to anybody.
        if self._body:
            self.release(len(self._body))
            self._body = bytearray()
        self._head = None
        self._continue_is_owed = False


def _refusal_of(error: httptools.HttpParserError) -> Refusal:
    reason = str(error)
    if reason == "Invalid HTTP version":
        return UNSUPPORTED_VERSION
    return malformed(reason[:1].lower() + reason[1:])
