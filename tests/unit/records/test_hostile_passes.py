"""Passes over bytes that nobody verified: never a crash, never memory they only announce."""

import contextlib
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import Code, Message, Refused
from goqueue.records import (
    Buffer,
    Corrupt,
    JsonMessages,
    RecordFinder,
    build,
    examine,
    find_trace_contexts,
    last_offset,
    pick,
    rehead,
    route,
    scan_messages,
    scan_sampled,
    scan_traces,
    visible,
    walk,
)
from tests.examples import examples
from tests.unit.records.examples import FIRST_VECTOR, SECOND_VECTOR, Forged, batches

MIB = 1024 * 1024
FAR = 1 << 62


def show(data: Buffer) -> None:
    JsonMessages(b"[", FAR).add_visible(data, 0, FAR)


def lease(data: Buffer) -> None:
    with contextlib.suppress(KeyError):
        JsonMessages(b"[", FAR).add_found(RecordFinder((data,)), range(20))


def gather(data: Buffer) -> None:
    RecordFinder((data,)).gather([7, 3, 9, 0, 1], len(data))


PASSES: dict[str, Callable[[Buffer], object]] = {
    "route": lambda data: route(data, 3, 0, None, body_bytes_max=99, needs_key=False),
    "examine": examine,
    "scan_messages": lambda data: scan_messages(data, 0, with_keys=True),
    "last_offset": last_offset,
    "pick": lambda data: pick(data, range(20)),
    "visible": lambda data: visible(data, 0, FAR),
    "scan_traces": scan_traces,
    "scan_sampled": lambda data: scan_sampled(data, (1, 2), 0, 1 << 63),
    "find_trace_contexts": find_trace_contexts,
    "show": show,
    "lease": lease,
    "gather": gather,
    "rehead": lambda data: rehead(data, 0, (("name", b"value"),)),
}

each_pass = pytest.mark.parametrize("name", PASSES)


def reason_of(name: str, data: Buffer) -> str:
    """What a pass has against these bytes; empty if nothing. Other errors are not caught."""
    try:
        PASSES[name](data)
    except Corrupt as corrupt:
        assert corrupt.reason
        return corrupt.reason
    except Refused as refused:
        assert (name, refused.code) == ("rehead", Code.MESSAGE_INVALID)
    return ""


@each_pass
@given(st.binary(max_size=120))
def test_bytes_of_no_kind_are_corrupt(name: str, data: bytes) -> None:
    has_nothing = not data and name != "rehead"
    assert (reason_of(name, data) == "") is has_nothing
    assert reason_of(name, FIRST_VECTOR[:3] + data)


@each_pass
@settings(max_examples=examples(15))
@given(batches.filter(bool), st.data())
def test_a_cut_batch_is_corrupt_where_it_was_cut(
    name: str, batch: list[Message], data: st.DataObject
) -> None:
    built = build(batch[:1])
    cut = data.draw(st.integers(1, len(built) - 1))

    assert reason_of(name, memoryview(built)[:cut]) == "truncated"


@each_pass
@settings(max_examples=examples(15))
@given(batches.filter(bool), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255))))
def test_changed_bytes_are_read_as_they_are_or_corrupt(
    name: str, batch: list[Message], changes: list[tuple[int, int]]
) -> None:
    built = build(batch)
    for place, bits in changes:
        built[place % len(built)] ^= bits
    before = bytes(built)

    reason_of(name, built)

    assert built == before
    # Whatever was found, nobody holds the bytes any longer.
    built.clear()


@each_pass
def test_a_length_that_is_only_announced_takes_no_memory(name: str) -> None:
    liar = (
        FIRST_VECTOR
        + Forged(
            offset=1, flags=2, key_length=65_535, value_length=16 * MIB, headers_length=65_535
        ).encode()
    )
    reason_of(name, liar)
    tracemalloc.start()
    try:
        found = reason_of(name, liar)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found == ("" if name == "rehead" else "truncated")
    assert peak < MIB


@each_pass
def test_any_buffer_is_read(name: str) -> None:
    whole = FIRST_VECTOR + SECOND_VECTOR
    padded = memoryview(bytearray(b"__" + whole + b"__"))[2:-2]
    numbers = memoryview(bytearray(whole)).cast("b")

    assert [reason_of(name, data) for data in (whole, bytearray(whole), padded, numbers)] == [
        ""
    ] * 4
    assert len(walk(numbers)) == 2
