"""Messages of every size that is accepted can die, be put back, and die again."""

import pytest

from goqueue.log import Log
from goqueue.model import (
    GIVEN_HEADERS_BYTES_MAX,
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    SECOND,
    VALUE_BYTES_MAX,
    Code,
    Header,
    LogId,
    LogSettings,
    Message,
    Record,
    Refused,
)
from goqueue.model.requests import Publish, Published, Redrive, Redriven, TopicConfig
from goqueue.records import Codec, Unroutable, build, compress, encode_headers
from goqueue.storage import Storage
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import LETTERS, ORDERS, create, join, poll, read, reject

LONG_REASON = "\U0001f4a5" * 1024

LONG_NAME = "o" * 240

TRACE = (("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"),)


def headers_of(size: int, count: int = 16) -> tuple[Header, ...]:
    """So many headers that take this much of a record."""
    names = [f"h{number:02}" for number in range(count)]
    share = (size - 2) // count - 7
    headers = [(name, b"v" * share) for name in names]
    rest = size - len(encode_headers(headers))
    headers[-1] = (names[-1], b"v" * (share + rest))
    assert len(encode_headers(headers)) == size
    return tuple(headers)


def counter(name: str = "orders", group: str = "shop") -> DrivenNode:
    node = DrivenNode()
    create(node, name, config=TopicConfig(max_message_bytes=VALUE_BYTES_MAX))
    join(node, group=group, topics=(name,), session_ns=600 * SECOND)
    return node


def publish(node: DrivenNode, message: Message, topic: str = "orders") -> int:
    command = Publish(topic=topic, batch=build([message]), dues=[0], trace=TRACE)
    return node.ask(command, Published).targets[0]


def stored(message: Message) -> DrivenNode:
    """A node over data in which such a message was accepted once."""
    node = counter()
    twin = node.twin()
    storage = Storage(twin.files)
    log = Log(ORDERS, LogSettings(), storage.open(ORDERS, LogSettings()).state)
    storage.carry_out(list(log.append(build([message]), node.now).effects))
    node = DrivenNode(twin.files)
    join(node, session_ns=600 * SECOND)
    return node


def dies(node: DrivenNode) -> Record:
    """The letter of the only message, which is rejected with a long reason."""
    (delivery,) = poll(node)
    reject(node, delivery, LONG_REASON)
    return read(node, LETTERS)[-1]


def own_of(record: Record) -> tuple[Header, ...]:
    return tuple(each for each in record.headers if not each[0].startswith(("goqueue.", "trace")))


@pytest.mark.parametrize("count", [1, 16, 64])
def test_the_largest_headers_that_are_accepted_survive_every_death(count: int) -> None:
    node = counter()
    headers = headers_of(GIVEN_HEADERS_BYTES_MAX, count)
    assert publish(node, Message(value=b"v", headers=headers)) == 0

    for hops in range(1, 4):
        letter = dies(node)
        facts = dict(letter.headers)
        assert own_of(letter) == headers
        assert facts["goqueue.dlq.hops"] == b"%d" % hops
        said = facts["goqueue.dlq.reason"].decode()
        assert LONG_REASON.startswith(said)
        assert len(said) > 200
        assert "goqueue.dlq.headers-dropped" not in facts
        assert node.ask(Redrive(topic="orders"), Redriven).moved == 1


def test_headers_above_what_is_accepted_are_refused_at_every_entrance() -> None:
    node = counter()
    message = Message(value=b"v", headers=headers_of(GIVEN_HEADERS_BYTES_MAX + 1))
    assert publish(node, message) == Unroutable.HEADERS
    with pytest.raises(Refused) as refused:
        node.ask(Publish(topic="orders", batch=build([message]), is_whole=True), Published)

    assert refused.value.code is Code.MESSAGE_INVALID
    assert refused.value.facts["limit"] == GIVEN_HEADERS_BYTES_MAX
    assert read(node) == []


def test_the_time_of_a_delayed_message_does_not_count() -> None:
    node = counter()
    headers = (
        *headers_of(GIVEN_HEADERS_BYTES_MAX),
        ("gq.deliver-at", b"%d" % (node.now.wall + SECOND)),
    )
    message = Message(value=b"v", headers=headers, is_delayed=True)
    assert publish(node, message) == 0
    node.advance(2 * SECOND)

    assert own_of(dies(node))[:16] == headers[:16]


@pytest.mark.parametrize(
    "size",
    [
        GIVEN_HEADERS_BYTES_MAX + 1,
        64_000,
        65_000,
        *range(HEADERS_BYTES_MAX - 560, HEADERS_BYTES_MAX, 40),
        HEADERS_BYTES_MAX,
    ],
)
def test_messages_of_older_data_die_whatever_room_their_headers_leave(size: int) -> None:
    headers = headers_of(size)
    node = stored(Message(value=b"v", key=b"k", headers=headers))
    for hops in range(1, 3):
        letter = dies(node)
        facts = dict(letter.headers)
        dropped = int(facts.get("goqueue.dlq.headers-dropped", b"0"))
        own = own_of(letter)
        assert own == headers[: len(own)]
        assert (len(own) == len(headers)) == (dropped == 0)
        assert facts["goqueue.dlq.hops"] == b"%d" % hops
        assert node.ask(Redrive(topic="orders"), Redriven).moved == 1


def test_long_names_leave_room_as_well() -> None:
    node = counter(LONG_NAME, LONG_NAME)
    headers = headers_of(GIVEN_HEADERS_BYTES_MAX)
    assert publish(node, Message(value=b"v", headers=headers), LONG_NAME) == 0
    (delivery,) = poll(node, group=LONG_NAME)
    reject(node, delivery, LONG_REASON)
    (letter,) = read(node, LogId(f"{LONG_NAME}.dlq", 0))

    assert own_of(letter) == headers
    assert dict(letter.headers)["goqueue.dlq.group"].decode() == LONG_NAME
    assert node.ask(Redrive(topic=LONG_NAME), Redriven).moved == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY_BYTES_MAX, 10),
        (1, VALUE_BYTES_MAX - 1 - GIVEN_HEADERS_BYTES_MAX + 2 + 4),
        (KEY_BYTES_MAX, 1024 * 1024),
    ],
)
def test_the_largest_keys_and_values_die_and_come_back(key: int, value: int) -> None:
    node = counter()
    headers = headers_of(GIVEN_HEADERS_BYTES_MAX, 1)
    message = Message(key=b"k" * key, value=b"v" * value, headers=headers)
    assert publish(node, message) == 0
    for _ in range(2):
        letter = dies(node)
        assert (letter.key, letter.value, own_of(letter)) == (message.key, message.value, headers)
        assert node.ask(Redrive(topic="orders"), Redriven).moved == 1


def test_a_compressed_value_of_older_data_keeps_its_codec() -> None:
    message = Message(value=b"v" * 1000, headers=headers_of(HEADERS_BYTES_MAX - 20))
    node = stored(compress(message, Codec.ZSTD))
    letter = dies(node)

    assert letter.value == message.value
    assert own_of(letter) == message.headers[:-1]
