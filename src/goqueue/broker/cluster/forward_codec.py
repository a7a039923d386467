"""Commands and replies on their way between brokers: their numbers, and their bytes.

A command or a reply is an object with the names of its fields, in JSON or MessagePack: a broker of
the next version may add fields with defaults, and this one ignores them. Numbers are never used
again.

What is too large for a frame goes ahead of its message in pieces; `ChunkBuffer` puts them together.
Invariant: what one peer keeps here is bounded, however many pieces it sends and never ends.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.model import (
    Code,
    Compatibility,
    DeleteSchema,
    DeleteSubject,
    Facts,
    ForwardChunk,
    Refused,
    RegisterSchema,
    ResetCompatibility,
    SchemaDescription,
    SetCompatibility,
    VersionList,
)
from goqueue.model.requests import (
    Ack,
    Acked,
    AclDeleted,
    AclDescription,
    AddOffsets,
    AddParticipants,
    AddPartition,
    AlterQuotas,
    AlterSchedule,
    AlterTenant,
    AlterTopic,
    AppendCopies,
    AppendMarker,
    Beat,
    BeginTransaction,
    CancelDelayed,
    CancelReassignment,
    ClusterJoined,
    Command,
    CommitGroup,
    CommitOffsets,
    CooperativeBeat,
    CooperativeHeartbeat,
    CreateAcl,
    CreateKey,
    CreateSchedule,
    CreateTenant,
    CreateTopic,
    DelayedDescription,
    DelayedList,
    DelayStatistics,
    DeleteAcl,
    DeleteGroup,
    DeleteRecords,
    DeleteSchedule,
    DeleteTopic,
    DescribeAssignment,
    DescribeDelays,
    DescribeGroup,
    DescribeLag,
    DescribeOffsets,
    DescribePartitions,
    DescribePriorities,
    DescribeRebalances,
    DescribeReliability,
    DescribeSchedule,
    DescribeTenantStatistics,
    DescribeTransaction,
    DescribeTransactions,
    DescribeUsage,
    Done,
    Drain,
    ElectLeader,
    EndCopies,
    EndTransaction,
    Extend,
    Extended,
    FindDelayed,
    FindTrace,
    ForgetBroker,
    GroupCommitted,
    GroupDescription,
    GroupList,
    Heartbeat,
    HeartbeatProducer,
    InitProducer,
    Join,
    Joined,
    KeyDescription,
    Lag,
    LeaderElected,
    Leased,
    Leave,
    LeaveCluster,
    ListDelayed,
    ListGroups,
    ListSchedules,
    ListTenantGroups,
    ListTransactions,
    MemberAssignment,
    Nack,
    Offsets,
    PartitionList,
    PauseSchedule,
    Poll,
    PositionsReset,
    PrepareTransaction,
    PriorityStatistics,
    ProducerGranted,
    Published,
    Quotas,
    Read,
    ReassignmentDescription,
    Rebalances,
    Receive,
    Records,
    RecordsDeleted,
    Redrive,
    Redriven,
    Reject,
    Release,
    Released,
    Reliability,
    Reply,
    ReplySent,
    ReportTransactions,
    ResetOffsets,
    ResetUsage,
    ResumeSchedule,
    Returned,
    RevocationConfirmed,
    RevokeKey,
    RevokePartitions,
    RotateKey,
    RunSchedule,
    ScheduleDescription,
    ScheduleList,
    ScheduleRan,
    SearchTraces,
    SendReply,
    SetTenantStatus,
    StartReassignment,
    TenantDescription,
    TenantNames,
    TenantStatistics,
    TenantUsage,
    TopicDescription,
    TraceDetail,
    TraceList,
    TransactionAdmitted,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
    TransactionList,
    TransactionPrepared,
    TransactionStatistics,
    TransferLeader,
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
T = TypeVar("T")

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
    20: Join,
    21: Heartbeat,
    22: CooperativeHeartbeat,
    23: RevokePartitions,
    24: DescribeAssignment,
    25: DescribeRebalances,
    26: Drain,
    27: Leave,
    28: ListGroups,
    29: DescribeGroup,
    30: DeleteGroup,
    31: CommitOffsets,
    32: DescribeOffsets,
    33: ResetOffsets,
    34: DescribeLag,
    35: Poll,
    36: Receive,
    37: Ack,
    38: Nack,
    39: Reject,
    40: Release,
    41: Extend,
    42: AppendCopies,
    43: EndCopies,
    44: Redrive,
    45: DescribeReliability,
    46: ListTenantGroups,
    60: AppendMarker,
    61: AddParticipants,
    62: ReportTransactions,
    63: InitProducer,
    64: HeartbeatProducer,
    65: BeginTransaction,
    66: AddPartition,
    67: AddOffsets,
    68: PrepareTransaction,
    69: CommitGroup,
    70: EndTransaction,
    71: ListTransactions,
    72: DescribeTransaction,
    73: DescribeTransactions,
    80: CreateSchedule,
    81: AlterSchedule,
    82: DeleteSchedule,
    83: DescribeSchedule,
    84: ListSchedules,
    85: PauseSchedule,
    86: ResumeSchedule,
    87: RunSchedule,
    100: SendReply,
    101: FindTrace,
    102: SearchTraces,
    103: DescribePriorities,
    120: CreateKey,
    121: RevokeKey,
    122: RotateKey,
    123: CreateAcl,
    124: DeleteAcl,
    125: CreateTenant,
    126: AlterTenant,
    127: SetTenantStatus,
    128: AlterQuotas,
    129: DescribeUsage,
    130: DescribeTenantStatistics,
    131: ResetUsage,
    140: RegisterSchema,
    141: DeleteSubject,
    142: DeleteSchema,
    143: SetCompatibility,
    144: ResetCompatibility,
    11: ListDelayed,
    12: FindDelayed,
    13: CancelDelayed,
    14: DescribeDelays,
    15: StartReassignment,
    16: CancelReassignment,
    17: TransferLeader,
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
    20: Joined,
    21: Beat,
    22: CooperativeBeat,
    23: RevocationConfirmed,
    24: MemberAssignment,
    25: Rebalances,
    26: GroupList,
    27: GroupDescription,
    28: Offsets,
    29: PositionsReset,
    30: Lag,
    31: Leased,
    32: Acked,
    33: Returned,
    34: Released,
    35: Extended,
    36: Redriven,
    37: Reliability,
    38: TenantNames,
    60: TransactionAdmitted,
    61: ProducerGranted,
    62: TransactionBegan,
    63: TransactionPrepared,
    64: GroupCommitted,
    65: TransactionEnded,
    66: TransactionList,
    67: TransactionDescription,
    68: TransactionStatistics,
    80: ScheduleDescription,
    81: ScheduleList,
    82: ScheduleRan,
    100: ReplySent,
    101: TraceDetail,
    102: TraceList,
    103: PriorityStatistics,
    120: KeyDescription,
    121: AclDescription,
    122: AclDeleted,
    123: TenantDescription,
    124: Quotas,
    125: TenantUsage,
    126: TenantStatistics,
    140: SchemaDescription,
    141: VersionList,
    142: Compatibility,
    10: DelayedList,
    11: DelayedDescription,
    12: DelayStatistics,
    13: ReassignmentDescription,
}
# Keys of their maps are partitions, which JSON cannot write. The others hold numbers of traces,
# which are too large for MessagePack.
_IN_MSGPACK: Final[frozenset[type]] = frozenset({AddOffsets, CommitOffsets, Offsets})
_COMMAND_NUMBERS = {kind: number for number, kind in COMMAND_KINDS.items()}
_REPLY_NUMBERS = {kind: number for number, kind in REPLY_KINDS.items()}
_Encoder = msgspec.json.Encoder | msgspec.msgpack.Encoder
_encoders: tuple[_Encoder, _Encoder] = (msgspec.json.Encoder(), msgspec.msgpack.Encoder())


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T] | msgspec.msgpack.Decoder[T]:
    return msgspec.msgpack.Decoder(kind) if kind in _IN_MSGPACK else msgspec.json.Decoder(kind)


def _encode(message: Command | Reply) -> bytes:
    return _encoders[type(message) in _IN_MSGPACK].encode(message)


_SIZES = msgspec.msgpack.Encoder()
# How long the records of each partition are, and the records.
_LEASED_ATTACHMENTS = 2
_COMMANDS = {number: _decoder(kind) for number, kind in COMMAND_KINDS.items()}
_REPLIES = {number: _decoder(kind) for number, kind in REPLY_KINDS.items()}

# Attachments above this go ahead of their message, in pieces of at most this size.
_CHUNK_BYTES = 4 * 1024 * 1024
_CHUNKED_BYTES_MAX = 48 * 1024 * 1024
_CHUNKED_REQUESTS_MAX = 64
_ATTACHMENTS_MAX = 256


def encode_command(command: Command) -> tuple[int, tuple[Buffer, ...]]:
    """The number of a command's kind, and what is attached: the command, then its records."""
    number = _COMMAND_NUMBERS[type(command)]
    if isinstance(command, AppendCopies):
        bare = msgspec.structs.replace(command, batch=b"")
        return number, (_encode(bare), command.batch)
    return number, (_encode(command),)


def decode_command(kind: int, data: Sequence[Buffer]) -> Command:
    """The command that a peer sent; raises Refused."""
    decoder = _COMMANDS.get(kind)
    if decoder is None or not data:
        raise Refused(Code.BROKER_UNAVAILABLE, reason="the nodes run different versions")
    try:
        command = decoder.decode(data[0])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(Code.REQUEST_INVALID, reason=f"a node sent no command: {error}") from error
    if isinstance(command, AppendCopies):
        return msgspec.structs.replace(command, batch=b"".join(data[1:]))
    return command


def encode_reply(reply: Reply) -> tuple[int, tuple[Buffer, ...]]:
    """The number of a reply's kind, and what is attached: the reply, then its records."""
    kind = _REPLY_NUMBERS[type(reply)]
    if isinstance(reply, Records):
        bare = msgspec.structs.replace(reply, data=())
        return kind, (_encode(bare), *reply.data)
    if isinstance(reply, Leased):
        return kind, _encode_leased(reply)
    return kind, (_encode(reply),)


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
    if isinstance(reply, Leased):
        return _with_records(reply, data[1:])
    return reply


def _encode_leased(leased: Leased) -> tuple[Buffer, ...]:
    """Leases without their records, and the records of all partitions one after the other."""
    sizes = [sum(map(len, each.data)) for each in leased.partitions]
    bare = [
        msgspec.structs.replace(
            each,
            data=(),
            leases=tuple(
                msgspec.structs.replace(run, offsets=list(run.offsets)) for run in each.leases
            ),
        )
        for each in leased.partitions
    ]
    body = _encode(msgspec.structs.replace(leased, partitions=tuple(bare)))
    records = b"".join(piece for each in leased.partitions for piece in each.data)
    return body, _SIZES.encode(sizes), records


def _with_records(leased: Leased, data: Sequence[Buffer]) -> Leased:
    """Leases with their records; raises Refused if a peer sent others than it said."""
    refusal = Refused(Code.REPLICATION_FAILED, reason="a node sent no leases")
    if len(data) != _LEASED_ATTACHMENTS:
        raise refusal
    try:
        sizes = msgspec.msgpack.decode(data[0], type=list[int])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refusal from error
    records = memoryview(data[1])
    is_whole = len(sizes) == len(leased.partitions) and sum(sizes) == len(records)
    if not is_whole or min(sizes, default=0) < 0:
        raise refusal
    partitions = []
    start = 0
    for each, size in zip(leased.partitions, sizes, strict=True):
        piece = records[start : start + size]
        partitions.append(msgspec.structs.replace(each, data=(piece,)))
        start += size
    return msgspec.structs.replace(leased, partitions=tuple(partitions))


_CODES = {code.value: code for code in Code}


def refusal_of(code: str, facts: Mapping[str, object]) -> Refused:
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
