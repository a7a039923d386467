"""Messages between brokers: their numbers and their encoding."""

import msgspec
import pytest

from goqueue.model import PEER_MESSAGES, USES_MAX, Heartbeat, Timestamp

# Append only: a number that was released is never used for another message.
RELEASED = {
    16: "Heartbeat",
    32: "VoteRequest",
    33: "VoteReply",
    34: "LeadershipOffer",
    48: "RegisterBroker",
    49: "RegistrationRefused",
    50: "RequestIsrs",
    51: "ResignLeaderships",
    52: "AllocateProducerIds",
    53: "ReportLostReplicas",
    54: "ReportLogEnds",
    55: "RequestTopic",
    64: "ReplicaSubscribe",
    65: "ReplicaAppend",
    66: "ReplicaDiverged",
    67: "ReplicaReset",
    68: "ReplicaAck",
    69: "WatermarkAdvanced",
    70: "LogsSubscribed",
    71: "LogsAcknowledged",
    72: "LogsAdvanced",
    73: "ReplicaRepair",
    96: "ForwardCommand",
    97: "PublishPart",
    98: "ForwardReply",
    99: "ForwardRefusal",
    100: "ForwardCancel",
    101: "ForwardChunk",
}


def test_the_number_of_a_message_never_changes() -> None:
    numbers = {each.__struct_config__.tag: each.__name__ for each in PEER_MESSAGES}

    assert numbers == RELEASED


def test_every_message_survives_its_encoding() -> None:
    sent = Heartbeat(broker_epoch=7, metadata_version=9, loop_lag_ms=3, sent_at=Timestamp(5))

    encoded = msgspec.msgpack.encode(sent)

    assert msgspec.msgpack.decode(encoded, type=Heartbeat) == sent
    assert msgspec.msgpack.decode(encoded)[0] == 16


def test_a_message_of_the_next_version_with_more_fields_is_understood() -> None:
    fields = (*msgspec.structs.astuple(Heartbeat(is_leaving=True)), "a field of the next version")
    longer = msgspec.msgpack.encode([16, *fields])

    assert msgspec.msgpack.decode(longer, type=Heartbeat) == Heartbeat(is_leaving=True)


def test_a_heartbeat_of_the_version_before_tells_of_no_uses() -> None:
    shorter = msgspec.msgpack.encode([16, 7, 9, 3, 5, True, False])

    assert msgspec.msgpack.decode(shorter, type=Heartbeat).uses == ()


@pytest.mark.parametrize(
    "uses",
    [
        [["acme", -1]],
        [["a" * 65, 1]],
        [["acme", 1 << 54]],
        [["acme", "many"]],
        [["acme", 1]] * (USES_MAX + 1),
    ],
)
def test_uses_that_cannot_be_are_refused(uses: list[list[object]]) -> None:
    message = msgspec.msgpack.encode([16, 7, 9, 3, 5, True, False, uses])

    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(message, type=Heartbeat)
