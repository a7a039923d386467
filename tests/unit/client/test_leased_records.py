"""What a poll in stored bytes becomes."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies as st

from goqueue import records
from goqueue.client.ack_sender import AckSender
from goqueue.client.errors import GoQueueError
from goqueue.client.http import Settings, Transport
from goqueue.client.leased_records import LeaseTerms, read_leased
from goqueue.client.message import Message
from goqueue.model import Message as Draft
from tests.unit.client.lease_answers import HANDLE, Share, leased

TERMS = LeaseTerms(
    AckSender(Transport(Settings(server="http://127.0.0.1:1")), "billing"), lambda _: 30.0, 5.0
)


def stored(offset: int, draft: Draft) -> bytes:
    batch = records.build([draft])
    records.stamp(batch, offset, 1_700_000_000_000_000_000)
    return bytes(batch)


def read(body: bytes) -> list[Message]:
    return read_leased(body, TERMS)


def test_leased_records_become_messages_with_their_leases() -> None:
    draft = Draft(value=b"v", key=b"k", headers=(("a", b"1"),), priority=1)
    share = Share(leases=[(HANDLE, [(7, 8)])], data=stored(7, draft), delivery_count=2)
    (message,) = read(share.encode())
    assert (message.topic, message.partition, message.offset) == ("orders", 0, 7)
    assert (message.key, message.value, message.headers) == (b"k", b"v", {"a": b"1"})
    assert (message.lane.name, message.timestamp) == ("HIGH", 1_700_000_000_000_000_000)
    assert (message.group, message.delivery_count) == ("billing", 2)
    assert message.deadline == 1_893_456_031_000_000_000
    assert message.receipt_handle == "orders:0:7:1:3.1.2a.c2f1"


def test_nothing_leased_is_no_message() -> None:
    assert read(b"") == []


def test_what_is_stored_in_an_unusual_way_is_unpacked() -> None:
    packed = records.compress(Draft(value=b"x" * 500), records.Codec.ZSTD)
    data = stored(1, packed) + stored(2, Draft(value=None, key=b"k")) + stored(3, Draft(value=b""))
    found = read(Share(leases=[(HANDLE, [(1, 4)])], data=data).encode())
    assert [message.value for message in found] == [b"x" * 500, None, b""]
    assert [message.receipt_handle.split(":")[2] for message in found] == ["1", "2", "3"]


def test_traces_follow_from_the_seed_of_the_share() -> None:
    seed = f"{1:016x}-{2:016x}-{2**64:x}"
    share = Share(leases=[(HANDLE, [(1, 2)])], data=stored(1, Draft(value=b"")), trace_seed=seed)
    (message,) = read(share.encode())
    assert len(message.trace_id) == 32


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Offsets that are stored, and of which leases, in the order of delivery."""
    there = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=25)))
    chosen = draw(st.permutations(draw(st.lists(st.sampled_from(there), min_size=1, unique=True))))
    cuts = sorted(draw(st.sets(st.integers(1, len(chosen)), max_size=3)) | {0, len(chosen)})
    return there, [chosen[a:b] for a, b in itertools.pairwise(cuts)]


@hypothesis.given(st.lists(deliveries(), min_size=1, max_size=3))
def test_messages_come_in_the_order_of_delivery_and_nothing_between_them(
    shares: list[tuple[list[int], list[list[int]]]],
) -> None:
    body, expected = b"", []
    for partition, (there, leases) in enumerate(shares):
        data = b"".join(stored(offset, Draft(value=b"%d" % offset)) for offset in there)
        named: list[tuple[str, list[tuple[int, int]] | int]] = []
        for number, offsets in enumerate(leases):
            handle = f"orders:{partition}:1:{number}"
            named.append((handle, [(offset, offset + 1) for offset in offsets]))
            expected += [
                (f"orders:{partition}:{each}:1:{number}", b"%d" % each) for each in offsets
            ]
        body += Share(partition=partition, leases=named, data=data).encode()
    assert [(message.receipt_handle, message.value) for message in read(body)] == expected


@hypothesis.given(st.lists(deliveries(), min_size=1, max_size=3))
def test_records_without_any_between_them_come_in_the_order_in_which_they_stand(
    shares: list[tuple[list[int], list[list[int]]]],
) -> None:
    body, expected = b"", []
    for partition, (_, leases) in enumerate(shares):
        counted: list[tuple[str, list[tuple[int, int]] | int]] = []
        data = b""
        for number, offsets in enumerate(leases):
            counted.append((f"orders:{partition}:1:{number}", len(offsets)))
            data += b"".join(stored(offset, Draft(value=b"%d" % offset)) for offset in offsets)
            expected += [
                (f"orders:{partition}:{each}:1:{number}", b"%d" % each) for each in offsets
            ]
        body += Share(partition=partition, leases=counted, data=data).encode()
    assert [(message.receipt_handle, message.value) for message in read(body)] == expected


@pytest.mark.parametrize(
    "body",
    [
        b"\0\0",
        leased(1)[:-1],
        leased(1) + b"\0",
        b"\0\0\0\2\0\0\0\0{}",
        Share(leases=[(HANDLE, [(1, 3)])], data=stored(1, Draft(value=b""))).encode(),
        Share(leases=[(HANDLE, [(2, 1)])], data=stored(1, Draft(value=b""))).encode(),
        Share(leases=[(HANDLE, [(0, 2**60)])], data=b"").encode(),
        Share(leases=[(HANDLE, [(1, 2), (1, 2)])], data=stored(1, Draft(value=b""))).encode(),
        Share(leases=[(HANDLE, 2)], data=stored(1, Draft(value=b""))).encode(),
        Share(leases=[(HANDLE, 1)], data=b"").encode(),
        Share(leases=[(HANDLE, 1)], data=2 * stored(1, Draft(value=b""))).encode(),
        Share(leases=[(HANDLE, 2)], data=2 * stored(1, Draft(value=b""))).encode(),
        Share(leases=[(HANDLE, 2), (HANDLE, -1)], data=stored(1, Draft(value=b""))).encode(),
        Share(leases=[(HANDLE, 1), (HANDLE, [(2, 3)])], data=stored(1, Draft(value=b""))).encode(),
    ],
)
def test_an_answer_that_breaks_the_contract_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(GoQueueError) as refused:
        read(body)
    assert refused.value.code == "response_invalid"


def test_damaged_records_are_refused() -> None:
    data = bytearray(stored(1, Draft(value=b"x" * 10)))
    data[-1] ^= 1
    with pytest.raises(GoQueueError) as refused:
        read(Share(leases=[(HANDLE, [(1, 2)])], data=bytes(data)).encode())
    assert refused.value.code == "records_damaged"
