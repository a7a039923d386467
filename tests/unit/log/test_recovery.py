"""What a log is after a stop, judged from what was found: a table of cases, and the invariant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import Assembly, Checked, RecoveryPoint, assemble, tail_to_scan
from goqueue.model import Offset, SegmentFacts, Timestamp


def held(base: int, end: int) -> Checked:
    facts = SegmentFacts(
        base=Offset(base), end=Offset(end), size=10 * (end - base), max_timestamp=Timestamp(end)
    )
    return Checked(base=Offset(base), facts=facts)


def broken(base: int) -> Checked:
    return Checked(base=Offset(base), reason="crc")


def set_aside(base: int) -> Checked:
    return Checked(base=Offset(base), reason="quarantined", is_set_aside=True)


def point(offset: int, start: int = 0, segment: int = 0, position: int = 0) -> RecoveryPoint:
    return RecoveryPoint(
        sequence=1,
        segment=Offset(segment),
        position=position,
        offset=Offset(offset),
        start=Offset(start),
    )


def segments_of(assembly: Assembly) -> list[tuple[int, int]]:
    return [(segment.base, segment.end) for segment in assembly.state.segments]


def damaged_of(assembly: Assembly) -> list[tuple[int, int]]:
    return [(gap.first, gap.below) for gap in assembly.state.damaged]


THREE = [held(0, 10), held(10, 20), held(20, 30)]

# Found, promised; then segments, damaged, superseded, set aside.
CASES = {
    "nothing at all": ([], None, [(0, 0)], [], [], []),
    "a whole log": (THREE, point(30), [(0, 10), (10, 20), (20, 30)], [], [], []),
    "no point": (THREE, None, [(0, 10), (10, 20), (20, 30)], [], [], []),
    "more than promised": (THREE, point(25), [(0, 10), (10, 20), (20, 30)], [], [], []),
    "a gap": ([held(0, 10), held(20, 30)], point(30), [(0, 10), (20, 30)], [(10, 20)], [], []),
    "a short neighbour": (
        [held(0, 7), held(10, 20)],
        point(20),
        [(0, 7), (10, 20)],
        [(7, 10)],
        [],
        [],
    ),
    "left over from a merge": (
        [held(0, 30), held(10, 20), held(20, 30), held(30, 40)],
        point(40),
        [(0, 30), (30, 40)],
        [],
        [10, 20],
        [],
    ),
    "left over from a deletion": (
        THREE,
        point(30, start=20),
        [(20, 30)],
        [],
        [0, 10],
        [],
    ),
    "the start within a merged segment": (
        [held(0, 20), held(20, 30)],
        point(30, start=10),
        [(0, 20), (20, 30)],
        [],
        [],
        [],
    ),
    "the first is missing": (THREE[1:], point(30), [(10, 20), (20, 30)], [(0, 10)], [], []),
    "the first is missing, no point": (THREE[1:], None, [(10, 20), (20, 30)], [], [], []),
    "the last is missing": (
        THREE[:2],
        point(30),
        [(0, 10), (10, 20), (30, 30)],
        [(20, 30)],
        [],
        [],
    ),
    "all are missing": ([], point(30), [(30, 30)], [(0, 30)], [], []),
    "a broken one in the middle": (
        [held(0, 10), broken(10), held(20, 30)],
        point(30),
        [(0, 10), (20, 30)],
        [(10, 20)],
        [],
        [10],
    ),
    "a broken last one": (
        [held(0, 10), broken(10)],
        point(17),
        [(0, 10), (17, 17)],
        [(10, 17)],
        [],
        [10],
    ),
    "one set aside before": (
        [held(0, 10), set_aside(10), held(20, 30)],
        point(30),
        [(0, 10), (20, 30)],
        [(10, 20)],
        [],
        [],
    ),
    "one set aside and begun again": (
        [held(0, 10), set_aside(10), held(10, 30)],
        point(30),
        [(0, 10), (10, 30)],
        [],
        [],
        [],
    ),
    "one set aside above a truncation": (
        [held(0, 8), set_aside(10)],
        point(8),
        [(0, 8)],
        [],
        [],
        [],
    ),
    "an empty last one": (
        [held(0, 10), held(10, 10)],
        point(10, segment=10),
        [(0, 10), (10, 10)],
        [],
        [],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_found_makes_this_log(name: str) -> None:
    found, promised, segments, damaged, superseded, aside = CASES[name]
    assembly = assemble(found, promised)
    assert segments_of(assembly) == segments
    assert damaged_of(assembly) == damaged
    assert list(assembly.superseded) == superseded
    assert list(assembly.to_set_aside) == aside


def test_a_new_active_segment_is_asked_for_only_where_none_can_go_on() -> None:
    assert not assemble(THREE, point(30)).is_active_new
    assert assemble(THREE, point(31)).is_active_new
    assert assemble([], None).is_active_new


@st.composite
def finds(draw: st.DrawFn) -> tuple[list[Checked], RecoveryPoint | None]:
    found = []
    for base in sorted(draw(st.sets(st.integers(0, 40), max_size=6))):
        kind = draw(st.sampled_from(["held", "held", "held", "broken", "aside"]))
        if kind == "held":
            found.append(held(base, base + draw(st.integers(0, 25))))
        else:
            found.append(broken(base) if kind == "broken" else set_aside(base))
    promised = draw(st.none() | st.integers(0, 60))
    if promised is None:
        return found, None
    return found, point(promised, start=draw(st.integers(0, promised)))


@given(finds())
def test_every_offset_is_in_one_segment_or_in_one_damaged_range(
    case: tuple[list[Checked], RecoveryPoint | None],
) -> None:
    found, promised = case
    assembly = assemble(found, promised)
    state = assembly.state
    for offset in range(state.start, state.end):
        holders = [s for s in state.segments if s.base <= offset < s.end]
        gaps = [gap for gap in state.damaged if gap.first <= offset < gap.below]
        assert len(holders) + len(gaps) == 1, offset
    if promised is not None:
        assert state.end >= promised.offset
        assert state.start == promised.start
    bases = [segment.base for segment in state.segments]
    assert bases == sorted(bases)
    touched = [*assembly.superseded, *assembly.to_set_aside]
    assert len(touched) == len(set(touched))
    kept = [base for base in touched if base in bases[: len(bases) - assembly.is_active_new]]
    assert not kept, "a segment is both served and removed"


def test_the_scan_starts_where_the_promise_ends() -> None:
    promised = point(17, segment=10, position=70)
    tail = tail_to_scan(Offset(10), 100, promised)
    assert tail is not None
    assert (tail.position, tail.expected) == (70, 17)
    for other in (None, point(10, segment=0, position=100)):
        tail = tail_to_scan(Offset(10), 100, other)
        assert tail is not None
        assert tail.position == 0
    assert tail_to_scan(Offset(10), 69, promised) is None
    assert tail_to_scan(Offset(10), 70, promised) is not None


def test_a_damaged_last_segment_reaches_as_far_as_was_promised_past_old_names() -> None:
    found = [held(0, 10), broken(10), set_aside(12), set_aside(40)]

    assembly = assemble(found, point(15, segment=10, position=99))

    assert damaged_of(assembly) == [(10, 15)]
    assert segments_of(assembly) == [(0, 10), (15, 15)]


def test_a_promise_that_lags_does_not_shorten_the_log() -> None:
    found = [held(0, 10), broken(10), held(20, 30)]

    assembly = assemble(found, point(15, segment=10, position=99))

    assert damaged_of(assembly) == [(10, 20)]
    assert assembly.state.end == 30


def test_an_empty_file_beyond_the_end_is_what_a_truncation_left_over() -> None:
    empty = Checked(
        base=Offset(46),
        facts=SegmentFacts(base=Offset(46), end=Offset(46), size=0, max_timestamp=Timestamp(0)),
    )

    assembly = assemble([held(0, 42), held(42, 44), empty], point(42, segment=42))

    assert assembly.superseded == (46,)
    assert damaged_of(assembly) == []
    assert assembly.state.end == 44
