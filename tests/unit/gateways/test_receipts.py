"""Receipts of a request: gathered by their leases, and answered one by one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.gateways.http.acks import AckBatchOut, AckResult, encode_successes
from goqueue.gateways.receipts import NamedReceipts
from goqueue.model import Code
from goqueue.model.requests import Acked, RefusedOffsets, Settlement, lease_of, receipt_of
from tests.unit.gateways.http.answering_broker import AnsweringBroker, send

handles = st.sampled_from(
    [
        f"{topic}:{partition}:{attempt}:1.1.a.c2f1"
        for topic in "ab"
        for partition in (0, 1)
        for attempt in (1, 2)
    ]
)
receipts_of_leases = st.builds(receipt_of, handles, st.integers(0, 12) | st.integers(0, 10**19 - 1))
odd_receipts = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "a:0:1",
        "a:0::1:1.1.a.c2f1",
        "a:0:01:1:1.1.a.c2f1",
        "a:0:00:1:1.1.a.c2f1",
        "a:0:+1:1:1.1.a.c2f1",
        "a:0:1_0:1:1.1.a.c2f1",
        "a:0: 1:1:1.1.a.c2f1",
        "a:0:٣:1:1.1.a.c2f1",
        "a:0:5:1:1:1.1.a.c2f1",
        "a:0:99999999999999999999:1:1.1.a.c2f1",
        "a:0:1:1.1.a.c2f1",
    ]
)


def gathered(receipts: list[str]) -> dict[str, set[int]]:
    """What receipts name, read one by one."""
    named: dict[str, set[int]] = {}
    for receipt in receipts:
        lease = lease_of(receipt)
        named.setdefault(lease.handle, set()).update(first for first, _ in lease.offsets)
    return named


@given(st.lists(receipts_of_leases | odd_receipts, max_size=20))
def test_receipts_name_together_what_each_names_alone(receipts: list[str]) -> None:
    named = NamedReceipts(receipts)

    found = {lease.handle: set(lease.folded.unfold()) for lease in named.leases}
    assert found == gathered(receipts)
    assert list(found) == list(gathered(receipts))


@given(st.lists(receipts_of_leases | odd_receipts, min_size=1, max_size=20), st.data())
def test_each_receipt_has_the_outcome_of_its_message(
    receipts: list[str], data: st.DataObject
) -> None:
    named = NamedReceipts(receipts)
    refused = []
    for lease in named.leases:
        chosen = [each for each in lease.offsets if data.draw(st.booleans())] or [(0, 0)]
        refused.append(
            tuple(RefusedOffsets(first, after, Code.RECEIPT_STALE) for first, after in chosen)
        )
    codes = named.codes([Settlement(refused=each) for each in refused])

    for receipt, code in zip(receipts, codes, strict=True):
        lease = lease_of(receipt)
        place = [each.handle for each in named.leases].index(lease.handle)
        ranges = [(each.first, each.following) for each in refused[place]]
        is_refused = not lease.offsets or any(
            first <= lease.offsets[0][0] < after for first, after in ranges
        )
        assert (code is not None) is is_refused


@given(st.lists(receipts_of_leases | st.text(max_size=9), max_size=9))
def test_successes_are_written_as_from_structs(receipts: list[str]) -> None:
    results = [AckResult(receipt_handle=receipt, success=True) for receipt in receipts]

    written = encode_successes(receipts)

    assert written in (None, msgspec.json.encode(AckBatchOut(results=results)))


@given(st.lists(receipts_of_leases, min_size=1, max_size=9))
def test_successes_of_our_own_receipts_are_always_written(receipts: list[str]) -> None:
    assert encode_successes(receipts) is not None


@pytest.mark.parametrize("odd", ['",', "\\", "é", "\n", '"'])
def test_a_receipt_that_must_be_escaped_is_not_written_as_it_is(odd: str) -> None:
    assert encode_successes(["a:0:1:1:c2f1", odd]) is None


def test_the_answer_to_a_batch_says_of_each_receipt_whether_it_was_settled() -> None:
    receipts = ["a:0:1:1:c2f1", "a:0:2:1:c2f1", "nonsense"]
    stale = RefusedOffsets(2, 3, Code.RECEIPT_STALE)
    unknown = RefusedOffsets(0, 0, Code.RECEIPT_INVALID)
    for refused, others in (((), ()), ((stale,), (unknown,))):
        settlements = (Settlement(count=1, refused=refused), Settlement(refused=others))
        broker = AnsweringBroker(Acked(settlements=settlements))
        body = {"receipt_handles": receipts}
        response = send(broker, "POST", "/messages/ack/batch", body)
        assert isinstance(response.body, bytes)
        results = msgspec.json.decode(response.body, type=AckBatchOut).results
        assert [each.receipt_handle for each in results] == receipts
        assert [each.success for each in results] == [True, not refused, not others]
