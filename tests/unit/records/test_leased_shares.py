"""Leased records on the wire: what is written is read back, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.records import Corrupt, LeaseEntry, ShareHeader, read_shares, write_share

OFFSETS = st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), max_size=5)
LEASES = st.builds(
    LeaseEntry,
    st.text(max_size=30),
    st.integers(1, 10**6),
    st.just(()) | OFFSETS.filter(bool),
    st.integers(0, 1000),
)
HEADERS = st.builds(
    ShareHeader,
    st.text(max_size=30),
    st.integers(0, 9_999),
    st.text(max_size=30),
    st.lists(LEASES, max_size=4),
    st.text(max_size=30),
)
PIECES = st.lists(st.binary(max_size=200), max_size=4)


def written(*shares: tuple[ShareHeader, list[bytes]]) -> bytes:
    return b"".join(bytes(each) for share in shares for each in write_share(*share))


@given(st.lists(st.tuples(HEADERS, PIECES), max_size=4))
def test_shares_are_read_as_they_were_written(
    shares: list[tuple[ShareHeader, list[bytes]]],
) -> None:
    found = read_shares(written(*shares))

    assert [(each.header, bytes(each.data)) for each in found] == [
        (header, b"".join(pieces)) for header, pieces in shares
    ]


SHARE = written((ShareHeader("t", 0, "now", [LeaseEntry("h", 1, [(0, 2)])]), [b"records"]))


@pytest.mark.parametrize("end", range(1, len(SHARE)))
def test_a_share_that_is_cut_anywhere_is_refused(end: int) -> None:
    with pytest.raises(Corrupt):
        read_shares(SHARE[:end])


@given(st.binary(min_size=1, max_size=300))
def test_other_bytes_are_refused_or_are_shares(data: bytes) -> None:
    try:
        found = read_shares(data)
    except Corrupt:
        return
    assert sum(len(each.data) for each in found) < len(data)


def test_a_lease_gives_its_offsets_in_the_order_of_delivery() -> None:
    assert list(LeaseEntry("h", 1, [(5, 7), (0, 2)])) == [5, 6, 0, 1]
