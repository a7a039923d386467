"""Trace contexts: those that headers give, those that follow from offsets, those taken over."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.model import Header, Message
from goqueue.records import (
    CONTEXT_BYTES,
    GIVEN_CONTEXT_BYTES,
    Corrupt,
    attach_traceparent,
    build,
    decode,
    derive_contexts,
    find_trace_contexts,
    key_fingerprint,
    mix_seed,
    parse_traceparent,
    rehead,
    sampled_indexes,
    scan_sampled,
    scan_traces,
    stamp,
    walk,
)
from tests.unit.records.examples import Forged, batches

# Trace id, span id and flags of the example in the W3C's own text.
EXAMPLE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
EXAMPLE_BYTES = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b701")
OTHER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
# What the W3C says of version 00, and of versions to come, which may be longer.
RULE = re.compile(
    rb"(?!ff)(?:00|[0-9a-f]{2}(?=.{53}(?:-|$)))-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}",
    re.DOTALL,
)

numbers = st.integers(0, (1 << 64) - 1)
offsets = st.integers(0, (1 << 63) - 1)


def message(*headers: Header, key: bytes = b"") -> Message:
    return Message(value=b"v", key=key, headers=headers)


def obeys(text: bytes) -> bool:
    """The slow and obvious reading of the rules."""
    found = RULE.match(text)
    if found is None:
        return False
    rest = text[found.end() :]
    return not rest if text.startswith(b"00") else not rest or rest.startswith(b"-")


# Contexts that are given


def test_the_example_of_the_standard_is_read() -> None:
    assert parse_traceparent(EXAMPLE) == EXAMPLE_BYTES
    assert len(EXAMPLE_BYTES) == GIVEN_CONTEXT_BYTES


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"00",
        EXAMPLE[:-1],
        EXAMPLE + b"0",
        EXAMPLE + b"-",
        EXAMPLE + b"-what-comes-later",
        EXAMPLE.upper(),
        b"ff" + EXAMPLE[2:],
        b"0g" + EXAMPLE[2:],
        b"01" + EXAMPLE[2:] + b"x",
        EXAMPLE.replace(b"-", b"_"),
        b" " + EXAMPLE,
        EXAMPLE + b" ",
        EXAMPLE[:3] + b"0" * 32 + EXAMPLE[35:],
        EXAMPLE[:36] + b"0" * 16 + EXAMPLE[52:],
        EXAMPLE[:3] + b"\xff" * 32 + EXAMPLE[35:],
        EXAMPLE[:10] + b"\x00" + EXAMPLE[11:],
        b"-" * 55,
        EXAMPLE * 1200,
    ],
)
def test_what_breaks_the_rules_gives_no_context(text: bytes) -> None:
    assert parse_traceparent(text) == b""


def test_a_version_to_come_is_read_as_far_as_it_is_known() -> None:
    assert parse_traceparent(b"01" + EXAMPLE[2:]) == EXAMPLE_BYTES
    assert parse_traceparent(b"fe" + EXAMPLE[2:] + b"-more") == EXAMPLE_BYTES


@given(
    st.binary(max_size=70)
    | st.text("0123456789abcdefg-", min_size=50, max_size=60).map(str.encode)
    | st.tuples(st.integers(0, 54), st.binary(min_size=1, max_size=1)).map(
        lambda change: EXAMPLE[: change[0]] + change[1] + EXAMPLE[change[0] + 1 :]
    )
)
@example(b"00-" + b"0" * 31 + b"1-" + b"0" * 15 + b"1-00")
def test_exactly_what_obeys_the_rules_is_a_context(text: bytes) -> None:
    assert bool(parse_traceparent(text)) is obeys(text)


def test_the_first_header_that_is_right_counts() -> None:
    batch = build(
        (
            message(("traceparent", b"nonsense"), ("traceparent", EXAMPLE), ("traceparent", OTHER)),
            message(("a", b"b")),
            message(("Traceparent", EXAMPLE)),
            message(("tracestate", EXAMPLE), ("x", EXAMPLE), ("traceparent", b"")),
        )
    )
    assert scan_traces(batch).contexts == {0: EXAMPLE_BYTES}


def test_where_a_message_was_delayed_from_is_told_unless_it_carries_a_context() -> None:
    plain = build((message(("gq.deliver-at", b"9")), message(("traceparent", EXAMPLE))))
    stamp(plain, 40, 1)
    second = walk(plain).positions[1]
    fired = rehead(plain, 0, (("gq.delayed-from", b"40"),), without=("gq.deliver-at",))
    carried = rehead(plain, second, (("gq.delayed-from", b"41"),))
    stamp(fired, 50, 1)
    stamp(carried, 51, 1)
    assert find_trace_contexts(fired + carried) == {50: (40).to_bytes(8), 51: EXAMPLE_BYTES}


@pytest.mark.parametrize("digits", [b"", b"-1", b"1x", b"1" * 20, b"\xb2", b" 1"])
def test_a_place_that_is_no_number_is_no_place(digits: bytes) -> None:
    fired = rehead(build((message(),)), 0, (("gq.delayed-from", digits),))
    assert scan_traces(fired).contexts == {}


@given(batches, st.data())
def test_looking_finds_what_is_there_at_its_place(
    batch: list[Message], data: st.DataObject
) -> None:
    carrying = [data.draw(st.sampled_from((b"", b"00-x", EXAMPLE, OTHER))) for _ in batch]
    mixed = [
        Message(
            value=each.value,
            key=each.key,
            headers=(*each.headers, ("traceparent", text)) if text else each.headers,
            is_control=each.is_control,
            is_compressed=each.is_compressed,
        )
        for each, text in zip(batch, carrying, strict=True)
    ]
    built = build(mixed)
    told = scan_traces(built)
    right = {
        index: parse_traceparent(text)
        for index, text in enumerate(carrying)
        if text in (EXAMPLE, OTHER)
    }
    assert told.contexts == right
    keys = [0 if not each.key else key_fingerprint(each.key) for each in mixed]
    assert (list(told.keys) if told.keys is not None else [0] * len(mixed)) == keys
    stamp(built, 7, 1)
    controls = {index for index, each in enumerate(mixed) if each.is_control}
    expected = {index + 7: each for index, each in right.items() if index not in controls}
    assert find_trace_contexts(built) == expected


def test_keys_are_told_apart_and_no_key_is_none() -> None:
    told = scan_traces(build((message(key=b"a"), message(), message(key=b"b"), message(key=b"a"))))
    assert told.keys is not None
    first, none, second, again = told.keys
    assert (none, first) == (0, again)
    assert first != second
    assert scan_traces(build((message(), message()))).keys is None
    assert scan_traces(b"").keys is None


def test_damaged_records_are_not_looked_through() -> None:
    with pytest.raises(Corrupt):
        scan_traces(b"GQ")
    with pytest.raises(Corrupt):
        find_trace_contexts(build((message(),))[:-1])


# Contexts that are made


@given(numbers, numbers, st.lists(offsets, max_size=20))
def test_contexts_are_made_alike_one_by_one_and_together(
    high: int, low: int, places: list[int]
) -> None:
    together = derive_contexts(high, low, places)
    assert together == b"".join(derive_contexts(high, low, (place,)) for place in places)
    for start in range(0, len(together), CONTEXT_BYTES):
        context = together[start : start + CONTEXT_BYTES]
        written = f"00-{context[:16].hex()}-{context[16:].hex()}-01".encode()
        assert parse_traceparent(written) == context + b"\x01"


@given(numbers, numbers, st.integers(0, (1 << 63) - 5000))
def test_no_two_offsets_of_a_log_have_the_same_trace(high: int, low: int, start: int) -> None:
    made = derive_contexts(high, low, range(start, start + 500))
    traces = {made[at : at + 16] for at in range(0, len(made), CONTEXT_BYTES)}
    assert len(traces) == 500


def test_another_seed_makes_other_traces() -> None:
    made = {derive_contexts(high, low, (5,)) for high in range(30) for low in range(30)}
    assert len(made) == 900


@given(numbers, numbers)
def test_a_mixed_number_is_of_64_bits_and_never_nothing(one: int, other: int) -> None:
    assert 0 < mix_seed(one, other) < 1 << 64
    assert mix_seed(one, other) == mix_seed(one, other)


@given(numbers, numbers, st.integers(0, (1 << 64) - 1))
def test_those_are_chosen_whose_half_is_below(high: int, low: int, threshold: int) -> None:
    made = derive_contexts(high, low, range(50))
    halves = [int.from_bytes(made[at + 8 : at + 16]) for at in range(0, len(made), CONTEXT_BYTES)]
    assert sampled_indexes(made, threshold) == [
        index for index, half in enumerate(halves) if half < threshold
    ]


def test_a_share_of_all_is_chosen() -> None:
    made = derive_contexts(1, 2, range(20_000))
    chosen = sampled_indexes(made, (1 << 64) // 10)
    assert 1_800 < len(chosen) < 2_200


# Contexts that are taken over


def headers_in(batch: bytearray) -> list[tuple[Header, ...]]:
    return [decode(batch, position).headers for position in walk(batch).positions]


def test_only_records_without_a_context_take_over_that_of_the_request() -> None:
    given_headers: tuple[Header, ...] = (("traceparent", EXAMPLE), ("tracestate", b"a=1"))
    batch = build(
        (
            message(("b", b"c"), key=b"k"),
            message(("traceparent", OTHER)),
            message(("traceparent", b"broken"), ("tracestate", b"old=1"), ("d", b"e")),
        )
    )
    assert headers_in(attach_traceparent(batch, given_headers)) == [
        (("b", b"c"), *given_headers),
        (("traceparent", OTHER),),
        (("d", b"e"), *given_headers),
    ]


@given(batches)
def test_taking_over_changes_nothing_else(batch: list[Message]) -> None:
    built = build(batch)
    adopted = attach_traceparent(built, (("traceparent", EXAMPLE),))
    before = [decode(built, position) for position in walk(built).positions]
    after = [decode(adopted, position) for position in walk(adopted).positions]
    assert [(each.key, each.value, each.flags & ~2, each.priority) for each in before] == [
        (each.key, each.value, each.flags & ~2, each.priority) for each in after
    ]
    assert scan_traces(adopted).contexts == dict.fromkeys(range(len(batch)), EXAMPLE_BYTES)


def test_a_record_without_room_stays_as_it_is() -> None:
    full = message(("name", b"x" * 65_500))
    batch = build((full,))
    assert (
        attach_traceparent(batch, (("traceparent", EXAMPLE), ("tracestate", b"y" * 4096))) == batch
    )


@pytest.mark.parametrize("block", [b"\x00", b"\x00\x01\x00", b"\x00\x01\x00\x0btraceparent\x00"])
def test_a_block_of_headers_that_ends_too_early_gives_nothing(block: bytes) -> None:
    forged = Forged(body=block, flags=2, headers_length=len(block)).encode()
    assert find_trace_contexts(forged) == {}
    assert scan_traces(forged + build((message(),))).contexts == {}


@given(
    st.lists(
        st.tuples(st.sampled_from([b"", b"k"]), st.sampled_from([b"", EXAMPLE, OTHER, b"no"]))
    ),
    st.integers(0, 1 << 40),
    st.integers(1, (1 << 64) - 1),
)
def test_following_finds_what_looking_and_choosing_find(
    records: list[tuple[bytes, bytes]], first: int, threshold: int
) -> None:
    batch = build(
        [
            Message(
                value=b"v",
                key=key,
                headers=(("traceparent", parent),) if parent else (),
            )
            for key, parent in records
        ]
    )
    told = scan_traces(batch)
    made = derive_contexts(7, 9, range(first, first + len(records)))
    wanted = []
    for index in range(len(records)):
        context = told.contexts.get(index, made[24 * index : 24 * index + 24] + b"\x01")
        if context[24] & 1 and int.from_bytes(context[8:16]) < threshold:
            wanted.append(index)

    found = scan_sampled(batch, (7, 9), first, threshold)

    assert (found.indexes if found is not None else []) == wanted
    if found is not None:
        keys = [told.keys[index] if told.keys is not None else 0 for index in wanted]
        assert (list(found.keys) if found.keys is not None else [0] * len(wanted)) == keys
        assert found.contexts == {
            place: told.contexts[index]
            for place, index in enumerate(wanted)
            if index in told.contexts
        }
