"""CRC-32C against its definition, over every length at which the fast ways differ."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.records import crc32c
from tests.unit.records.examples import castagnoli


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_published_values_are_met(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@given(st.binary(max_size=2_000))
def test_any_bytes_sum_as_the_definition_says(data: bytes) -> None:
    assert crc32c(data) == castagnoli(data)


@pytest.mark.parametrize("size", [7, 8, 255, 256, 767, 768, 769, 1535, 1536, 5_003])
def test_lanes_and_their_rests_join_without_a_seam(size: int) -> None:
    data = random.Random(size).randbytes(size)

    assert crc32c(data) == castagnoli(data)


def test_a_slice_at_an_odd_address_has_the_same_sum() -> None:
    data = random.Random(1).randbytes(3_000)

    assert crc32c(memoryview(data)[1:2_001]) == castagnoli(data[1:2_001])
    assert crc32c(bytearray(data)) == castagnoli(data)
