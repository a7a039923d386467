"""Which records outlive a compaction, against a dictionary; and which segments go together."""

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import KeptRange, NewestOffsets, placeholder, plan_compaction
from goqueue.model import HOUR, Compact, LogSettings, Message, Offset, SegmentFacts, Timestamp
from goqueue.records import Columns, build, decode, stamp, walk

WALL = 1_700_000_000_000_000_000
ROOM = 1 << 20
SETTINGS = LogSettings(segment_bytes=300)

keys = st.sampled_from([b"", b"a", b"b", b"c"])
messages = st.builds(Message, key=keys, value=st.none() | st.binary(max_size=9)) | st.sampled_from(
    [
        Message(key=b"gq.test", value=b"", is_control=True),
        Message(key=b"a", value=b"", headers=(("gq.deliver-at", b"9"),), is_delayed=True),
    ]
)


def stamped(batch: list[Message], first: int = 0, wall: int = WALL) -> tuple[bytes, Columns]:
    data = build(batch)
    stamp(data, first, wall)
    return bytes(data), walk(data)


def kept_offsets(newest: NewestOffsets, data: bytes, columns: Columns, before: int) -> list[int]:
    pieces = newest.kept(data, columns, len(data), Timestamp(before))
    ranges = [each for each in pieces if isinstance(each, KeptRange)]
    for earlier, later in pairwise(ranges):
        assert earlier.end < later.start, "neighbours are merged"
    return [o for part in ranges for o in walk(data[part.start : part.end]).offsets]


def noted(*batches: tuple[bytes, Columns]) -> NewestOffsets:
    newest = NewestOffsets(ROOM, Offset(0))
    for data, columns in batches:
        assert newest.note(data, columns)
    return newest


@given(st.lists(messages, min_size=1, max_size=30), st.integers(0, 30))
def test_what_survives_is_what_a_dictionary_keeps(batch: list[Message], cut: int) -> None:
    cut = min(cut, len(batch) - 1)
    chunks = [stamped(batch[:cut]), stamped(batch[cut:], cut)]
    newest = noted(*chunks)
    by_key = {
        message.key: offset
        for offset, message in enumerate(batch)
        if message.key and not message.is_control and not message.is_delayed
    }
    expected = [
        offset
        for offset, message in enumerate(batch)
        if not message.key
        or message.is_control
        or (not message.is_delayed and by_key[message.key] == offset)
    ]
    survived = [o for chunk in chunks for o in kept_offsets(newest, *chunk, before=0)]
    assert survived == expected


def test_a_tombstone_outlives_its_key_for_a_day_and_not_longer() -> None:
    chunk = stamped([Message(key=b"k", value=b"old"), Message(key=b"k", value=None)])
    newest = noted(chunk)
    assert kept_offsets(newest, *chunk, before=WALL) == [1]
    assert kept_offsets(newest, *chunk, before=WALL + 1) == []


def test_an_expired_tombstone_that_was_not_looked_at_yet_stays() -> None:
    first = stamped([Message(key=b"k", value=b"old")])
    beyond = stamped([Message(key=b"k", value=None)], 5)
    newest = noted(first)
    assert kept_offsets(newest, *beyond, before=WALL + 1) == [5]


def test_a_tombstone_without_a_key_is_a_record_like_any_other() -> None:
    chunk = stamped([Message(value=None), Message(value=None)])
    assert kept_offsets(noted(chunk), *chunk, before=WALL + 1) == [0, 1]


def test_an_old_placeholder_goes_because_a_new_one_is_written() -> None:
    data = placeholder(7, WALL)
    assert kept_offsets(noted((data, walk(data))), data, walk(data), before=0) == []
    assert decode(data).offset == 7
    assert decode(data).timestamp == WALL


def test_when_memory_for_keys_runs_out_what_lies_beyond_is_kept() -> None:
    batch = [Message(key=b"%03d" % (number % 20), value=b"") for number in range(40)]
    data, columns = stamped(batch)
    newest = NewestOffsets(5 * 200, Offset(0))
    assert not newest.note(data, columns)
    assert 0 < newest.upto < 20
    survived = kept_offsets(newest, data, columns, before=0)
    assert survived == list(range(40))


def segment(base: int, end: int, size: int = 100) -> SegmentFacts:
    return SegmentFacts(
        base=Offset(base), end=Offset(end), size=size, max_timestamp=Timestamp(WALL)
    )


def plan(sealed: list[SegmentFacts], cleaned: int = 0, floor: int = 1_000) -> Compact | None:
    return plan_compaction(sealed, Offset(cleaned), Offset(floor), SETTINGS, Timestamp(WALL))


def test_small_neighbours_go_together_up_to_the_size_of_a_segment() -> None:
    planned = plan([segment(0, 10), segment(10, 20), segment(20, 30), segment(30, 40)])
    assert planned is not None
    assert planned.groups == ((0, 10, 20), (30,))
    assert planned.tombstones_before == WALL - 24 * HOUR


def test_segments_with_a_hole_between_them_are_not_joined() -> None:
    planned = plan([segment(0, 10), segment(20, 30)])
    assert planned is not None
    assert planned.groups == ((0,), (20,))


def test_nothing_above_the_floor_is_planned() -> None:
    planned = plan([segment(0, 10), segment(10, 20)], floor=19)
    assert planned is not None
    assert planned.groups == ((0,),)
    assert plan([segment(0, 10)], floor=9) is None
    assert plan([]) is None


def test_a_log_that_changed_little_is_left_for_later() -> None:
    sealed = [segment(0, 10), segment(10, 20), segment(20, 30)]
    assert plan(sealed, cleaned=20) is None
    assert plan(sealed, cleaned=30) is None
    assert plan(sealed, cleaned=10) is not None
    eager = msgspec.structs.replace(SETTINGS, dirty_percent_min=10)
    found = plan_compaction(sealed, Offset(20), Offset(99), eager, Timestamp(WALL))
    assert found is not None
    assert found.dirty_from == 20


def test_a_pass_goes_on_where_the_one_before_ran_out_of_memory() -> None:
    batch = [Message(key=b"%03d" % number, value=b"") for number in range(40)]
    data, columns = stamped(batch)
    upto = Offset(0)
    for _ in range(40):
        newest = NewestOffsets(5 * 200, upto)
        is_done = newest.note(data, columns)
        assert newest.upto > upto, "no progress"
        upto = newest.upto
        if is_done:
            break
    assert upto == 40
