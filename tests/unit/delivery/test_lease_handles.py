"""Lease handles: what they say, and that nobody else can make or change one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery import LeaseHandles, LeaseName
from goqueue.model import Code, LogId, Refused
from goqueue.model.requests import LeaseOffsets, lease_of, receipt_of

HANDLES = LeaseHandles(b"k" * 32, epoch=3)
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True)
NUMBERS = st.integers(0, 2**62)
HANDLE = HANDLES.write(LogId("orders.eu-1", 2), 77, 3, 1234)


@given(NAMES, st.integers(0, 9_999), NUMBERS, NUMBERS, st.integers(1, 10**6), NUMBERS)
def test_a_handle_says_what_was_leased_and_a_receipt_says_which_message(
    topic: str, partition: int, group: int, offset: int, attempt: int, serial: int
) -> None:
    log = LogId(topic, partition)
    handle = HANDLES.write(log, group, attempt, serial)
    receipt = receipt_of(handle, offset)

    assert HANDLES.read(handle) == LeaseName(log, attempt, group, 3, serial)
    assert receipt.startswith(f"{topic}:{partition}:{offset}:{attempt}:")
    assert lease_of(receipt) == LeaseOffsets(handle, ((offset, offset + 1),))


@given(st.text(max_size=600))
def test_any_text_is_a_receipt_that_can_be_read_or_that_names_nothing(text: str) -> None:
    named = lease_of(text)

    assert named == LeaseOffsets("", ()) or receipt_of(named.handle, named.offsets[0][0]) == text


@given(st.integers(0, len(HANDLE) - 1), st.characters())
def test_a_handle_with_any_character_changed_is_refused(index: int, character: str) -> None:
    changed = HANDLE[:index] + character + HANDLE[index + 1 :]
    if changed == HANDLE:
        assert HANDLES.read(changed).serial == 1234
        return

    with pytest.raises(Refused) as refused:
        HANDLES.read(changed)
    assert refused.value.code is Code.RECEIPT_INVALID


@given(st.text(max_size=600))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        HANDLES.read(text)
    assert refused.value.code is Code.RECEIPT_INVALID


@pytest.mark.parametrize("cut", [1, 5, len(HANDLE) - 1])
def test_a_handle_that_was_cut_or_lengthened_is_refused(cut: int) -> None:
    for text in (HANDLE[:-cut], HANDLE[cut:], HANDLE + "0" * cut):
        with pytest.raises(Refused) as refused:
            HANDLES.read(text)
        assert refused.value.code is Code.RECEIPT_INVALID


def test_a_handle_of_another_secret_is_refused_and_of_another_life_is_not() -> None:
    with pytest.raises(Refused):
        LeaseHandles(b"x" * 32, epoch=3).read(HANDLE)
    later = LeaseHandles(b"k" * 32, epoch=4)

    assert later.read(HANDLE).epoch == 3
    assert later.epoch == 4


def test_the_longest_names_and_numbers_fit() -> None:
    log = LogId("x" * 249, 9_999)
    handle = HANDLES.write(log, 2**62, 1_000_000, 2**62)

    assert HANDLES.read(handle).log == log
