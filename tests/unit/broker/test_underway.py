"""What is on its way to a log: committed from the front, taken back from the end, whole."""

from goqueue.broker.delayed.due_batches import Cancelled, Fired, PendingDelayAppends, Published
from goqueue.model import LogId, Message, Offset
from goqueue.records import build, find_delayed

LOG, OTHER = LogId("orders", 0), LogId("orders", 1)
LATER = Message(value=b"", headers=(("gq.deliver-at", b"9"),), is_delayed=True)
PUBLISHED = Published(Offset(3), find_delayed(build([LATER] * 3), 0))
FIRED = Fired(Offset(5), (Offset(0), Offset(1)), {})
CANCELLED = Cancelled(Offset(6), Offset(2))


def filled() -> PendingDelayAppends:
    underway = PendingDelayAppends()
    for entry in (PUBLISHED, FIRED, CANCELLED):
        underway.add(LOG, entry)
    return underway


def test_what_is_below_an_offset_is_committed_in_order_and_only_once() -> None:
    underway = filled()
    assert list(underway.committed(LOG, Offset(4))) == [PUBLISHED]
    assert list(underway.committed(LOG, Offset(6))) == [FIRED, CANCELLED]
    assert list(underway.committed(LOG, Offset(9))) == []
    assert LOG not in underway


def test_what_is_not_below_an_offset_is_taken_back_last_things_first() -> None:
    underway = filled()
    assert list(underway.taken_back(LOG, Offset(3))) == [CANCELLED, FIRED]
    assert LOG in underway
    assert list(underway.committed(LOG, Offset(3))) == [PUBLISHED]


def test_partitions_are_apart_and_one_that_is_gone_has_nothing_on_its_way() -> None:
    underway = filled()
    underway.add(OTHER, FIRED)
    underway.forget_logs([LOG])
    assert LOG not in underway
    assert list(underway.committed(OTHER, Offset(5))) == [FIRED]
