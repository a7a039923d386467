"""Lease handles: what they say, and that nobody else can make or change one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery import LeaseHandles, LeaseName
from goqueue.model import Code, LogId, Refused
from goqueue.model.requests import LeaseOffsets, lease_of, receipt_of

HANDLES = LeaseHandles(b"k" * 32)
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True)
NUMBERS = st.integers(0, 2**62)
HANDLE = HANDLES.write(LeaseName(LogId("orders.eu-1", 2), 3, 77, 3, 1234))


LEASES = st.builds(
    LeaseName,
    st.builds(LogId, NAMES, st.integers(0, 9_999)),
    st.integers(1, 10**6),
    NUMBERS,
    NUMBERS,
    NUMBERS,
)


@given(LEASES, NUMBERS)
def test_a_handle_says_what_was_leased_and_a_receipt_says_which_message(
    name: LeaseName, offset: int
) -> None:
    handle = HANDLES.write(name)
    receipt = receipt_of(handle, offset)

    assert HANDLES.read(handle) == name
    assert receipt.startswith(f"{name.log.topic}:{name.log.partition}:{offset}:{name.attempt}:")
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
        LeaseHandles(b"x" * 32).read(HANDLE)

    assert LeaseHandles(b"k" * 32).read(HANDLE).epoch == 3


@given(LEASES, NUMBERS)
def test_handles_of_two_epochs_of_a_partition_are_never_the_same(
    name: LeaseName, epoch: int
) -> None:
    other = msgspec.structs.replace(name, epoch=epoch)
    assert (HANDLES.write(name) == HANDLES.write(other)) == (name.epoch == epoch)


def test_the_text_of_a_handle_is_that_of_every_release_before() -> None:
    name = LeaseName(LogId("orders", 0), 1, 10, 2, 255)
    assert HANDLES.write(name) == "orders:0:1:a.2.ff.cddb5c420d8a8e83"


def test_the_longest_names_and_numbers_fit() -> None:
    log = LogId("x" * 249, 9_999)
    handle = HANDLES.write(LeaseName(log, 1_000_000, 2**62, 2**62, 2**62))

    assert HANDLES.read(handle).log == log
