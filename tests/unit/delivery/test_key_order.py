"""Messages that wait for earlier ones of their key."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery.key_order import KeyOrder
from goqueue.records import MessageSummary


def known(offset: int, key: bytes) -> MessageSummary:
    return MessageSummary(offset, 10, 2, key, b"")


@given(st.lists(st.sampled_from([b"", b"a", b"b", b"c"])), st.data())
def test_each_key_comes_in_order_one_at_a_time_and_nothing_is_lost(
    keys: list[bytes], data: st.DataObject
) -> None:
    order = KeyOrder()
    out = [message for message in map(known, range(len(keys)), keys) if order.admit(message)]
    settled: list[MessageSummary] = []
    while out:
        outside = [message.key for message in out if message.key]
        assert len(outside) == len(set(outside)), "two of one key at a time"
        message = out.pop(data.draw(st.integers(0, len(out) - 1)))
        settled.append(message)
        following = order.release(message)
        if following is not None:
            assert following.key == message.key
            out.append(following)

    assert sorted(message.offset for message in settled) == list(range(len(keys)))
    for key in (b"a", b"b", b"c"):
        offsets = [message.offset for message in settled if message.key == key]
        assert offsets == sorted(offsets)
    assert len(order) == 0


def test_messages_without_a_key_never_wait() -> None:
    order = KeyOrder()

    assert all(order.admit(known(offset, b"")) for offset in range(3))
    assert order.release(known(0, b"")) is None
    assert len(order) == 0
