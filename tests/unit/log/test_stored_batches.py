"""What a follower finds in the records of its leader, against a look at every record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log.batch_mark import headed_count
from goqueue.log.batches import check_stored
from goqueue.log.control import controls_in
from goqueue.model import BATCH_HEADER, DELIVER_HEADER, EPOCH_KEY, Offset, Record
from goqueue.records import Flag, encode, walk

MARK = (BATCH_HEADER, b"1,0,0,1,0,5")


def record(
    offset: int,
    timestamp: int,
    *,
    is_control: bool,
    has_headers: bool,
    headers: tuple[tuple[str, bytes], ...] = (("name", b"x" * 300),),
) -> Record:
    return Record(
        offset=offset,
        timestamp=timestamp,
        priority=0,
        flags=int(Flag.CONTROL) if is_control else 0,
        key=EPOCH_KEY.encode() if is_control else b"",
        value=b'{"epoch":7}' if is_control else b"value",
        headers=headers if has_headers else (),
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.booleans(), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_a_batch_is_judged_as_its_records_one_by_one(kinds: list[tuple[int, bool, bool]]) -> None:
    records = [
        record(offset, timestamp, is_control=is_control, has_headers=has_headers)
        for offset, (timestamp, is_control, has_headers) in enumerate(kinds)
    ]
    data = b"".join(map(encode, records))
    columns = walk(data)

    controls = [index for index, (_, is_control, _) in enumerate(kinds) if is_control]
    headed = [index + 1 for index, (_, _, has_headers) in enumerate(kinds) if has_headers]
    assert list(controls_in(columns)) == controls
    assert headed_count(columns) == max(headed, default=0)
    stored = check_stored(data, Offset(0), Offset(len(kinds)))
    assert stored.max_timestamp == max(timestamp for timestamp, _, _ in kinds)
    stating = max([*headed, *(index + 1 for index in controls)], default=0)
    assert stored.stating_bytes == len(b"".join(map(encode, records[:stating])))
    assert [offset for _, offset in stored.epochs] == controls


@pytest.mark.parametrize("header", [MARK, (DELIVER_HEADER, b"5")])
def test_one_record_with_a_mark_of_a_producer_or_a_delay_says_something(
    header: tuple[str, bytes],
) -> None:
    """A follower keeps all up to that record, and learns producers and delays from it."""
    records = [
        record(offset, 5, is_control=False, has_headers=offset == 1, headers=(header,))
        for offset in range(3)
    ]

    whole = b"".join(map(encode, records))
    stored = check_stored(memoryview(whole), Offset(0), Offset(3))
    assert stored.stating_bytes == len(whole) - len(encode(records[2]))
    assert not check_stored(encode(records[2]), Offset(2), Offset(3)).stating_bytes
