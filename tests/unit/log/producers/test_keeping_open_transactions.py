"""What a log keeps for transactions that are open, and what it forgets with its beginning."""

import msgspec

from goqueue.log import BatchMark, Log, LogState, Marker
from goqueue.model import HOUR, Drop, Effect, Message, Offset, Reshape, Synced
from goqueue.records import build
from tests.unit.log.producers.plain_fold import LOG, SETTINGS, now_at, spelled

SMALL = msgspec.structs.replace(SETTINGS, segment_bytes=300, retention_ns=HOUR)


class Kept:
    """A log of small segments, each of which is outlived after an hour."""

    def __init__(self) -> None:
        self.log = Log(LOG, SMALL, LogState())

    def write(self, transaction: int = 0, producer: int = 1) -> Offset:
        mark = BatchMark(
            producer=producer, epoch=0, sequence=-1, count=1, transaction=transaction, at=0
        )
        batch = build([Message(value=bytes(66))])
        appended = self.log.append(batch, now_at(0), mark if transaction else None)
        self.log.handle(Synced(log=LOG, upto=appended.next), now_at(0))
        return appended.first

    def end(self, *, is_commit: bool) -> None:
        marker = Marker(producer=1, epoch=0, transaction=1, is_commit=is_commit)
        appended = self.log.end_transaction(marker, now_at(0))
        assert appended is not None
        self.log.handle(Synced(log=LOG, upto=appended.next), now_at(0))

    def maintain(self) -> list[Effect]:
        return self.log.maintain(now_at(5 * HOUR))


def drops(effects: list[Effect]) -> list[int]:
    changes = [effect.change for effect in effects if isinstance(effect, Reshape)]
    return [int(change.start) for change in changes if isinstance(change, Drop)]


def test_retention_takes_nothing_from_the_first_open_transaction_on() -> None:
    kept = Kept()
    for _ in range(7):
        kept.write()
    first = kept.write(transaction=1)
    for _ in range(9):
        kept.write()

    effects = kept.maintain()

    assert drops(effects)
    assert kept.log.start <= first
    assert kept.maintain() == []
    assert kept.log.watermarks.stable == first


def test_retention_takes_aborted_records_and_what_is_known_of_them() -> None:
    kept = Kept()
    kept.write(transaction=1)
    for _ in range(9):
        kept.write()
    kept.end(is_commit=False)
    assert spelled(kept.log.producers.aborted) == {0}
    assert spelled(kept.log.producers.hidden) == {0, 10}
    for _ in range(5):
        kept.write()

    assert drops(kept.maintain())

    assert kept.log.start > 10
    assert spelled(kept.log.producers.aborted) == spelled(kept.log.producers.hidden) == set()


def test_a_transaction_may_end_after_everything_before_it_was_taken() -> None:
    kept = Kept()
    for _ in range(7):
        kept.write()
    first = kept.write(transaction=1)
    kept.maintain()
    kept.end(is_commit=False)

    assert spelled(kept.log.producers.aborted) == {int(first)}
    assert kept.log.watermarks.stable == kept.log.end
