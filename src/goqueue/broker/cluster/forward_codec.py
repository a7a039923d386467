"""Commands and replies on their way between brokers: their numbers, and their bytes.

A command or a reply is a JSON object with the names of its fields: a broker of the next
version may add fields with defaults, and this one ignores them. Numbers are never used again.

What is too large for a frame goes ahead of its message in pieces; `ChunkBuffer` puts them together.
Invariant: what one peer keeps here is bounded, however many pieces it sends and never ends.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.model import Code, Facts, ForwardChunk, Refused
from goqueue.model.requests import (
    AlterTopic,
    ClusterJoined,
    Command,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    DescribePartitions,
    Done,
    ElectLeader,
    ForgetBroker,
    LeaderElected,
    LeaveCluster,
    PartitionList,
    Published,
    Read,
    Records,
    RecordsDeleted,
    Reply,
    TopicDescription,
    Watch,
    Watched,
)

__all__ = [
    "COMMAND_KINDS",
    "REPLY_KINDS",
    "ChunkBuffer",
    "decode_command",
    "decode_reply",
    "encode_command",
    "encode_reply",
    "refusal_of",
    "split_attachments",
]

Buffer = bytes | bytearray | memoryview

COMMAND_KINDS: Final[dict[int, type[Command]]] = {
    1: CreateTopic,
    2: AlterTopic,
    3: DeleteTopic,
    4: DescribePartitions,
    5: DeleteRecords,
    6: Read,
    7: Watch,
    8: LeaveCluster,
    9: ForgetBroker,
    10: ElectLeader,
}
REPLY_KINDS: Final[dict[int, type[Reply]]] = {
    1: Done,
    2: TopicDescription,
    3: PartitionList,
    4: RecordsDeleted,
    5: Records,
    6: Watched,
    7: Published,
    8: ClusterJoined,
    9: LeaderElected,
}
_COMMAND_NUMBERS = {kind: number for number, kind in COMMAND_KINDS.items()}
_REPLY_NUMBERS = {kind: number for number, kind in REPLY_KINDS.items()}
_COMMANDS = {number: msgspec.json.Decoder(kind) for number, kind in COMMAND_KINDS.items()}
_REPLIES = {number: msgspec.json.Decoder(kind) for number, kind in REPLY_KINDS.items()}
_encoder = msgspec.json.Encoder()

# Attachments above this go ahead of their message, in pieces of at most this size.
_CHUNK_BYTES = 4 * 1024 * 1024
_CHUNKED_BYTES_MAX = 48 * 1024 * 1024
_CHUNKED_REQUESTS_MAX = 64
_ATTACHMENTS_MAX = 256


def encode_command(command: Command) -> tuple[int, bytes]:
    """The number of a command's kind, and its bytes."""
    return _COMMAND_NUMBERS[type(command)], _encoder.encode(command)


def decode_command(kind: int, data: Sequence[Buffer]) -> Command:
    """The command that a peer sent; raises Refused."""
    decoder = _COMMANDS.get(kind)
    if decoder is None or not data:
        raise Refused(Code.BROKER_UNAVAILABLE, reason="the nodes run different versions")
    try:
        return decoder.decode(data[0])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(Code.REQUEST_INVALID, reason=f"a node sent no command: {error}") from error


def encode_reply(reply: Reply) -> tuple[int, tuple[Buffer, ...]]:
    """The number of a reply's kind, and what is attached: the reply, then its records."""
    kind = _REPLY_NUMBERS[type(reply)]
    if isinstance(reply, Records):
        bare = msgspec.structs.replace(reply, data=())
        return kind, (_encoder.encode(bare), *reply.data)
    return kind, (_encoder.encode(reply),)


def decode_reply(kind: int, data: Sequence[Buffer]) -> Reply:
    """The reply of a peer; raises Refused: then it is not known what was done."""
    decoder = _REPLIES.get(kind)
    if decoder is None or not data:
        raise Refused(Code.REPLICATION_FAILED, reason="the nodes run different versions")
    try:
        reply = decoder.decode(data[0])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(Code.REPLICATION_FAILED, reason=f"a node sent no reply: {error}") from error
    if isinstance(reply, Records):
        return msgspec.structs.replace(reply, data=tuple(map(memoryview, data[1:])))
    return reply


_CODES = {code.value: code for code in Code}


def refusal_of(code: str, facts: dict[str, int | str | None]) -> Refused:
    """The refusal that a peer sent, with those of its facts that this version knows."""
    known: Facts = {}
    for name, value in facts.items():
        if name in Facts.__annotations__:
            known[name] = value  # type: ignore[literal-required]  # looked up in its own names
    return Refused(_CODES.get(code, Code.BROKER_UNAVAILABLE), **known)


def split_attachments(
    number: int, data: Sequence[Buffer], *, is_reply: bool
) -> tuple[list[tuple[ForwardChunk, memoryview]], tuple[Buffer, ...]]:
    """The pieces to send ahead, and what is attached to the message itself."""
    if sum(map(len, data)) <= _CHUNK_BYTES:
        return [], tuple(data)
    chunks = []
    for index, each in enumerate(data):
        view = memoryview(each)
        for start in range(0, len(view), _CHUNK_BYTES):
            chunk = ForwardChunk(number=number, index=index, is_reply=is_reply)
            chunks.append((chunk, view[start : start + _CHUNK_BYTES]))
    return chunks, ()


class ChunkBuffer:
    """Pieces of attachments of one link, until their message comes."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, bool], list[bytearray]] = {}
        self._bytes = 0

    @property
    def size(self) -> int:
        return self._bytes

    def add(self, chunk: ForwardChunk, data: Sequence[Buffer]) -> bool:
        """Keep a piece; False if the peer sends more than it may: all of its request is dropped."""
        key = (chunk.number, chunk.is_reply)
        found = self._pieces.get(key)
        size = sum(map(len, data))
        is_full = self._bytes + size > _CHUNKED_BYTES_MAX or (
            found is None and len(self._pieces) >= _CHUNKED_REQUESTS_MAX
        )
        if is_full or not 0 <= chunk.index < _ATTACHMENTS_MAX:
            self.drop(chunk.number, is_reply=chunk.is_reply)
            return False
        if found is None:
            found = self._pieces[key] = []
        while len(found) <= chunk.index:
            found.append(bytearray())
        for each in data:
            found[chunk.index] += each
        self._bytes += size
        return True

    def drop(self, number: int, *, is_reply: bool) -> None:
        gone = self._pieces.pop((number, is_reply), ())
        self._bytes -= sum(map(len, gone))

    def take(self, number: int, data: Sequence[Buffer], *, is_reply: bool) -> Sequence[Buffer]:
        """What is attached to a message: with it, or ahead of it."""
        pieces = self._pieces.pop((number, is_reply), None)
        if pieces is None:
            return data
        self._bytes -= sum(map(len, pieces))
        return data or pieces
