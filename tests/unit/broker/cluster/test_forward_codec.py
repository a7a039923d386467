"""Commands and replies between brokers survive their encoding, in one frame or in pieces."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.cluster.forward_codec import (
    COMMAND_KINDS,
    REPLY_KINDS,
    ChunkBuffer,
    decode_command,
    decode_reply,
    encode_command,
    encode_reply,
    refusal_of,
    split_attachments,
)
from goqueue.model import (
    LOCAL,
    Caller,
    Code,
    ForwardChunk,
    ForwardCommand,
    ForwardRefusal,
    KeyId,
    LogId,
    Offset,
    PublishPart,
    Refused,
    Timestamp,
)
from goqueue.model.requests import (
    Acks,
    AlterTopic,
    CreateTopic,
    DeleteRecords,
    Isolation,
    Placed,
    ProducerStamp,
    Published,
    Read,
    Records,
    TopicChanges,
    TraceSeed,
    Watch,
)

MIB = 1024 * 1024

# Append only: a number that was released is never used for another kind.
COMMANDS = {
    1: "CreateTopic",
    2: "AlterTopic",
    3: "DeleteTopic",
    4: "DescribePartitions",
    5: "DeleteRecords",
    6: "Read",
    7: "Watch",
    8: "LeaveCluster",
    9: "ForgetBroker",
    10: "ElectLeader",
    11: "ListDelayed",
    12: "FindDelayed",
    13: "CancelDelayed",
    14: "DescribeDelays",
    15: "StartReassignment",
    16: "CancelReassignment",
    17: "TransferLeader",
    20: "Join",
    21: "Heartbeat",
    22: "CooperativeHeartbeat",
    23: "RevokePartitions",
    24: "DescribeAssignment",
    25: "DescribeRebalances",
    26: "Drain",
    27: "Leave",
    28: "ListGroups",
    29: "DescribeGroup",
    30: "DeleteGroup",
    31: "CommitOffsets",
    32: "DescribeOffsets",
    33: "ResetOffsets",
    34: "DescribeLag",
    35: "Poll",
    36: "Receive",
    37: "Ack",
    38: "Nack",
    39: "Reject",
    40: "Release",
    41: "Extend",
    42: "AppendCopies",
    43: "EndCopies",
    44: "Redrive",
    45: "DescribeReliability",
    46: "ListTenantGroups",
    60: "AppendMarker",
    61: "AddParticipants",
    62: "ReportTransactions",
    63: "InitProducer",
    64: "HeartbeatProducer",
    65: "BeginTransaction",
    66: "AddPartition",
    67: "AddOffsets",
    68: "PrepareTransaction",
    69: "CommitGroup",
    70: "EndTransaction",
    71: "ListTransactions",
    72: "DescribeTransaction",
    73: "DescribeTransactions",
    80: "CreateSchedule",
    81: "AlterSchedule",
    82: "DeleteSchedule",
    83: "DescribeSchedule",
    84: "ListSchedules",
    85: "PauseSchedule",
    86: "ResumeSchedule",
    87: "RunSchedule",
    100: "SendReply",
    101: "FindTrace",
    102: "SearchTraces",
    103: "DescribePriorities",
    120: "CreateKey",
    121: "RevokeKey",
    122: "RotateKey",
    123: "CreateAcl",
    124: "DeleteAcl",
    125: "CreateTenant",
    126: "AlterTenant",
    127: "SetTenantStatus",
    128: "AlterQuotas",
    129: "DescribeUsage",
    130: "DescribeTenantStatistics",
    131: "ResetUsage",
    140: "RegisterSchema",
    141: "DeleteSubject",
    142: "DeleteSchema",
    143: "SetCompatibility",
    144: "ResetCompatibility",
}
REPLIES = {
    1: "Done",
    2: "TopicDescription",
    3: "PartitionList",
    4: "RecordsDeleted",
    5: "Records",
    6: "Watched",
    7: "Published",
    8: "ClusterJoined",
    9: "LeaderElected",
    10: "DelayedList",
    11: "DelayedDescription",
    12: "DelayStatistics",
    13: "ReassignmentDescription",
    20: "Joined",
    21: "Beat",
    22: "CooperativeBeat",
    23: "RevocationConfirmed",
    24: "MemberAssignment",
    25: "Rebalances",
    26: "GroupList",
    27: "GroupDescription",
    28: "Offsets",
    29: "PositionsReset",
    30: "Lag",
    31: "Leased",
    32: "Acked",
    33: "Returned",
    34: "Released",
    35: "Extended",
    36: "Redriven",
    37: "Reliability",
    38: "TenantNames",
    60: "TransactionAdmitted",
    61: "ProducerGranted",
    62: "TransactionBegan",
    63: "TransactionPrepared",
    64: "GroupCommitted",
    65: "TransactionEnded",
    66: "TransactionList",
    67: "TransactionDescription",
    68: "TransactionStatistics",
    80: "ScheduleDescription",
    81: "ScheduleList",
    82: "ScheduleRan",
    100: "ReplySent",
    101: "TraceDetail",
    102: "TraceList",
    103: "PriorityStatistics",
    120: "KeyDescription",
    121: "AclDescription",
    122: "AclDeleted",
    123: "TenantDescription",
    124: "Quotas",
    125: "TenantUsage",
    126: "TenantStatistics",
    140: "SchemaDescription",
    141: "VersionList",
    142: "Compatibility",
}


def test_the_numbers_of_commands_and_replies_never_change() -> None:
    assert {number: kind.__name__ for number, kind in COMMAND_KINDS.items()} == COMMANDS
    assert {number: kind.__name__ for number, kind in REPLY_KINDS.items()} == REPLIES


commands = st.one_of(
    st.builds(CreateTopic, name=st.text(max_size=9), partitions=st.integers(1, 99)),
    st.builds(
        AlterTopic,
        name=st.text(max_size=9),
        changes=st.builds(
            TopicChanges,
            st.dictionaries(st.text(max_size=9), st.one_of(st.integers(0, 2**40), st.text())),
        ),
    ),
    st.builds(
        DeleteRecords,
        topic=st.text(max_size=9),
        before=st.none()
        | st.dictionaries(st.integers(0, 99), st.none() | st.integers(0, 2**60).map(Offset)),
    ),
    st.builds(
        Read,
        topic=st.text(max_size=9),
        partition=st.integers(0, 99),
        offset=st.integers(-1, 2**60).map(Offset),
        timestamp=st.none() | st.integers(0, 2**60).map(Timestamp),
        isolation=st.sampled_from(Isolation),
    ),
    st.builds(
        Watch,
        topic=st.text(max_size=9),
        offsets=st.dictionaries(st.integers(0, 99), st.integers(0, 2**60).map(Offset)),
        wait_ns=st.integers(0, 2**40),
    ),
)


@given(commands)
def test_a_command_survives_its_encoding(command: Read) -> None:
    kind, attached = encode_command(command)

    assert decode_command(kind, attached) == command


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=4))
def test_a_reply_with_records_survives_its_encoding(pieces: list[bytes]) -> None:
    reply = Records(
        log=LogId("orders", 3),
        offset=Offset(5),
        high_watermark=Offset(9),
        stable=Offset(9),
        start=Offset(0),
        upto=Offset(9),
        aborted=((1, 2),),
        data=tuple(map(memoryview, pieces)),
        seed=TraceSeed(high=(1 << 64) - 1, low=3, threshold=1 << 64),
    )

    kind, attached = encode_reply(reply)
    decoded = decode_reply(kind, [bytes(each) for each in attached])

    assert decoded == reply


def test_what_a_leader_placed_survives_its_encoding() -> None:
    placed = Placed(partition=2, first=Offset(7), count=3, refused=Code.NOT_LEADER)
    reply = Published(targets=[2, 2, 2, -3], placed=(placed,), timestamp=Timestamp(11))

    kind, attached = encode_reply(reply)

    assert decode_reply(kind, attached) == reply


def test_a_part_of_a_publish_survives_its_encoding() -> None:
    sent = PublishPart(
        number=4,
        topic="orders",
        topic_number=17,
        parts=((0, 5), (3, 1)),
        layout=2,
        acks=Acks.LEADER,
        dues=(0, 0, 9, 0, 0, 1),
        producer=ProducerStamp(producer_id=2**50, epoch=3, sequence=8),
        trace=(("traceparent", b"00-1-2-01"),),
        version=9,
        caller=Caller(KeyId("key_1")),
        is_validated=True,
    )

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=PublishPart) == sent


@pytest.mark.parametrize(
    "sent",
    [
        ForwardCommand(number=1, kind=2, version=3, caller=LOCAL),
        PublishPart(number=4, topic="orders", topic_number=17, parts=((0, 5),), caller=LOCAL),
    ],
    ids=["command", "part"],
)
def test_a_message_without_its_caller_is_not_read(sent: ForwardCommand | PublishPart) -> None:
    """It would run as the node itself, who may do anything."""
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(sent))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=type(sent)) == sent
    # What comes behind the caller is of later versions, and has a default.
    for count in range(1, 2 + type(sent).__struct_fields__.index("caller")):
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode(fields[:count]), type=type(sent))


@given(st.integers(0, 16), st.lists(st.binary(max_size=99), max_size=3))
def test_bytes_that_are_no_command_are_refused(kind: int, data: list[bytes]) -> None:
    try:
        decoded = decode_command(kind, data)
    except Refused as refused:
        assert refused.code in {Code.REQUEST_INVALID, Code.BROKER_UNAVAILABLE}
    else:
        assert type(decoded) is COMMAND_KINDS[kind]


@given(st.integers(0, 16), st.lists(st.binary(max_size=99), max_size=3))
def test_of_bytes_that_are_no_reply_the_outcome_is_unknown(kind: int, data: list[bytes]) -> None:
    try:
        decoded = decode_reply(kind, data)
    except Refused as refused:
        assert refused.code is Code.REPLICATION_FAILED
    else:
        assert type(decoded) is REPLY_KINDS[kind]


def test_what_keeps_a_schema_from_being_registered_arrives_with_its_refusal() -> None:
    sent = ForwardRefusal(number=1, code="schema_incompatible", facts={"messages": ("a", "b")})
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=ForwardRefusal)

    assert refusal_of(read.code, read.facts).facts == {"messages": ("a", "b")}


def test_a_refusal_of_a_later_version_keeps_what_this_one_knows() -> None:
    refused = refusal_of("code_of_the_next_version", {"partition": 3, "colour": "red"})

    assert refused.code is Code.BROKER_UNAVAILABLE
    assert refused.facts == {"partition": 3}


@pytest.mark.parametrize("sizes", [(1, 2), (5 * MIB,), (10, 17 * MIB, 0, 3), (9 * MIB, 9 * MIB)])
def test_attachments_of_any_size_arrive_whole(sizes: tuple[int, ...]) -> None:
    sent = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    buffer = ChunkBuffer()

    chunks, data = split_attachments(7, sent, is_reply=True)
    for chunk, piece in chunks:
        assert len(piece) <= 4 * MIB
        assert buffer.add(chunk, (piece,))
    received = buffer.take(7, data, is_reply=True)

    assert [bytes(each) for each in received] == sent
    assert buffer.size == 0


def test_a_peer_that_never_ends_a_request_fills_no_memory() -> None:
    buffer = ChunkBuffer()
    piece = bytes(4 * MIB)

    accepted = [buffer.add(ForwardChunk(number=1, index=0), (piece,)) for _ in range(40)]

    assert not all(accepted)
    assert buffer.size <= 48 * MIB
    many = [buffer.add(ForwardChunk(number=each, index=0), (b"x",)) for each in range(2, 200)]
    assert not all(many)
    assert not buffer.add(ForwardChunk(number=1, index=10**6), (b"x",))
