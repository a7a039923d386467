"""The trace of a message in the client: what it carries, what follows from it, what is added."""

import pytest

from goqueue.client.errors import GoQueueError
from goqueue.client.fetcher import decode_chunk
from goqueue.client.message import Message
from goqueue.client.stored_records import read_seed
from goqueue.client.tracing import SendTrace, parent_of, start_sending
from goqueue.model import LogId
from goqueue.model import Message as Draft
from goqueue.model.requests import TraceSeed
from goqueue.records import HEADER_SIZE, build, derive_contexts, encode_headers, rehead, stamp
from tests.integration.telemetry import recording

GIVEN = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = "0af7651916cd43dd8448eb211c80319c"
ALL = 1 << 64
SEED = TraceSeed(3, 4, ALL)
LOG = LogId("orders", 0)


def made(offset: int, seed: TraceSeed = SEED) -> str:
    context = derive_contexts(seed.high, seed.low, (offset,))
    return f"00-{context[:16].hex()}-{context[16:].hex()}-01"


def message(*headers: tuple[str, bytes], origin: TraceSeed | str | None = None) -> Message:
    return Message("orders", 0, 7, 1, 2, b"", b"v", encode_headers(headers), None, origin)


def test_a_context_that_a_message_carries_comes_before_all_else() -> None:
    carried = message(("a", b"b"), ("traceparent", GIVEN), origin=TRACE)
    assert carried.traceparent == GIVEN.decode()
    assert carried.trace_id == GIVEN[3:35].decode()


def test_a_version_to_come_is_handed_on_as_one_that_is_known() -> None:
    later = b"01" + GIVEN[2:] + b"-and-more"
    assert message(("traceparent", later)).traceparent == GIVEN.decode()


@pytest.mark.parametrize("broken", [b"", b"nonsense", GIVEN.upper(), GIVEN + b"-"])
def test_a_broken_context_is_none(broken: bytes) -> None:
    assert message(("traceparent", broken), origin=TRACE).trace_id == TRACE
    assert message(("traceparent", broken)).traceparent == ""


def test_of_a_polled_message_the_last_digits_stand_for_the_span() -> None:
    polled = message(origin=TRACE)
    assert (polled.trace_id, polled.traceparent) == (TRACE, f"00-{TRACE}-{TRACE[16:]}-01")


def test_of_a_read_message_the_context_follows_from_the_seed() -> None:
    assert message(origin=SEED).traceparent == made(7)
    assert message(("gq.delayed-from", b"5"), origin=SEED).traceparent == made(5)
    assert message(("gq.delayed-from", b"5" * 20), origin=SEED).traceparent == made(7)


def test_what_nobody_follows_has_no_trace() -> None:
    assert message().trace_id == ""
    assert message(origin=TraceSeed(3, 4, 0)).trace_id == ""
    assert parent_of((), 0, "short") == ""


def test_the_seed_of_an_answer_goes_with_its_messages() -> None:
    batch = build((Draft(value=b"a"), Draft(value=None), Draft(value=b"c")))
    stamp(batch, 10, 1)
    fired = rehead(build((Draft(value=b"d"),)), 0, (("gq.delayed-from", b"9"),))
    stamp(fired, 13, 1)
    chunk = decode_chunk(LOG, bytes(batch + fired), 10, (), SEED)
    assert [each.traceparent for each in chunk] == [made(10), made(11), made(12), made(9)]
    picked = decode_chunk(LOG, bytes(batch), 12, (), SEED)
    assert [each.traceparent for each in picked] == [made(12)]


def test_a_seed_is_three_numbers_or_none() -> None:
    assert read_seed(b"") is None
    assert read_seed(b"%016x-%016x-%x" % (3, 4, ALL)) == SEED


@pytest.mark.parametrize("text", [b"x", b"1-2-3", b"0" * 16 + b"-" + b"0" * 16, b"-" * 40])
def test_an_answer_with_another_seed_is_refused(text: bytes) -> None:
    with pytest.raises(GoQueueError) as refused:
        read_seed(text)
    assert refused.value.code == "response_invalid"


# What is added to a message


def begun(draft: Draft) -> SendTrace:
    with recording():
        sending = start_sending("orders", draft)
    assert sending is not None
    return sending


def test_a_context_is_added_if_there_is_room_for_it() -> None:
    draft = Draft(value=b"v" * 100, headers=(("a", b"b"), ("tracestate", b"of nobody")))
    size = HEADER_SIZE + 100 + 2 + 19
    loaded, larger = begun(draft).load(draft, size, 1000)
    assert [name for name, _ in loaded.headers] == ["a", "traceparent"]
    assert larger == size + 66
    assert begun(draft).load(draft, size, 121 + 66)[0] != draft
    assert begun(draft).load(draft, size, 121 + 65) == (draft, size)


def test_a_message_whose_headers_are_full_goes_as_it_is() -> None:
    draft = Draft(value=b"", headers=(("a", b"x" * 65_500),))
    assert begun(draft).load(draft, HEADER_SIZE + 65_501, 1 << 20) == (
        draft,
        HEADER_SIZE + 65_501,
    )


def test_nothing_is_begun_where_nobody_traces_or_a_context_is_there() -> None:
    plain = Draft(value=b"v")
    assert start_sending("orders", plain) is None
    with recording() as recorder:
        assert start_sending("orders", Draft(value=b"v", headers=(("traceparent", b""),))) is None
        sending = start_sending("orders", plain)
        assert sending is not None
        sending.fail(GoQueueError("storage_full", "no room"))
        (span,) = recorder.spans
    assert span.attributes is not None
    assert (span.name, span.attributes["error.type"]) == ("send orders", "storage_full")
