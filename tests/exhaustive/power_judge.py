"""Judges a node that starts on a disk whose power went: everything that was told before must hold.

The node starts over what is left, with the code of recovery and of starting that a real one uses;
then each user continues where it was: it reads, retries what was not answered, and asks for work.
"""

from goqueue.model import Code, LogId, Message, Refused
from goqueue.model.requests import (
    InitProducer,
    Mode,
    Owner,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
)
from goqueue.records import build
from tests.exhaustive.power_workload import LIMITS, TOPICS, Sent, Told
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import join, poll, publish, read
from tests.unit.storage.memory_files import MemoryFiles


class Judge:
    """One start after one cut at a place of the record."""

    def __init__(self, told: Told, place: int, content: dict[str, bytes], wall_ns: int) -> None:
        self._told = told
        self._place = place
        self._node = DrivenNode(MemoryFiles(content), LIMITS, wall_shift_ns=wall_ns - EPOCH_NS)

    def check(self) -> None:
        """Everything; an AssertionError says what does not hold."""
        assert not self._node.halts, self._node.halts
        assert self._node.node.is_serving, "the node starts"
        self._check_kept("plain")
        self._check_kept("short")
        self._check_kept("flushed")
        self._check_keys()
        self._check_numbered()
        self._check_deals()
        self._check_jobs()
        for topic in TOPICS:
            placed = publish(self._node, "key=one more", topic=topic).placed
            assert placed[0].refused is None, placed

    def _values(self, topic: str) -> dict[int, bytes]:
        """All that a reader is shown; damage would be refused."""
        log = LogId(topic, 0)
        try:
            records = read(self._node, log)
        except Refused as refused:
            assert refused.code is Code.OFFSET_OUT_OF_RANGE, f"{topic}: {refused}"
            earliest = refused.facts["earliest"]
            assert isinstance(earliest, int)
            records = read(self._node, log, earliest)
        return {record.offset: record.value or b"" for record in records}

    def _sent(self, topic: str) -> list[Sent]:
        return [each for each in self._told.sent[topic] if each.sent <= self._place]

    def _check_kept(self, topic: str) -> None:
        """What was acknowledged is where it was said to be, unless retention took it."""
        found = self._values(topic)
        start = min(found, default=0)
        if topic == "plain":
            assert start == 0
        assert sorted(found) == list(range(start, start + len(found))), f"{topic} has holes"
        known = {value for each in self._sent(topic) for value in each.values}
        assert set(found.values()) <= known, f"{topic} holds what nobody sent"
        for each in self._sent(topic):
            for offset, value in enumerate(each.values, each.first):
                is_durable = each.acked <= self._place and topic != "flushed"
                if each.first >= 0 and (is_durable or offset in found) and offset >= start:
                    assert found.get(offset) == value, f"{topic}: {offset} is not as acknowledged"

    def _check_keys(self) -> None:
        """A key has the value that was acknowledged last, or one that was sent later."""
        records = read(self._node, LogId("keyed", 0))
        newest = {record.key: record.value for record in records}
        allowed: dict[bytes, list[bytes]] = {}
        for each in self._sent("keyed"):
            is_acked = each.acked <= self._place
            assert not is_acked or set(each.keys) <= newest.keys(), "a key is gone"
            for key, value in zip(each.keys, each.values, strict=True):
                allowed[key] = [value] if is_acked else [*allowed.get(key, []), value]
        for known, found in newest.items():
            assert found in allowed[known], f"{known!r} has an old value, or a strange one"

    def _retry(self, topic: str, owner: Owner, sent: Sent) -> bool:
        """Send a batch again; whether it was there."""
        assert sent.sequence is not None
        stamp = ProducerStamp(
            producer_id=owner.producer_id, epoch=owner.epoch, sequence=sent.sequence
        )
        command = Publish(
            topic=topic,
            batch=build([Message(value=value) for value in sent.values]),
            targets=[0] * len(sent.values),
            producer=stamp,
        )
        [placed] = self._node.ask(command, Published).placed
        assert placed.refused is None, placed
        return placed.is_duplicate

    def _check_numbered(self) -> None:
        """Each batch is there as a whole and once, also when its producer tries again."""
        owner = self._told.producer
        assert owner is not None
        sent = self._sent("numbered")
        acked = [each for each in sent if each.acked <= self._place]
        values = list(self._values("numbered").values())
        whole = [[v for each in sent[:n] for v in each.values] for n in range(len(sent) + 1)]
        assert values in whole, "a batch is there in part"
        if acked:
            assert self._retry("numbered", owner, acked[-1]), "it was acknowledged, and is new"
        for each in sent[len(acked) :]:
            self._retry("numbered", owner, each)
        assert list(self._values("numbered").values()) == whole[-1]

    def _check_deals(self) -> None:
        """Of a transaction all is seen or nothing: all if it was said to be committed."""
        owner = self._told.dealer
        assert owner is not None
        if self._place >= self._told.ready:
            # Whatever is open ends by this.
            self._node.ask(InitProducer(transactional_id=owner.transactional_id), ProducerGranted)
        found = list(self._values("txn").values())
        expected: list[bytes] = []
        for deal in self._told.deals:
            values = [value for each in deal.batches for value in each.values]
            is_asked = deal.is_commit and deal.ending <= self._place
            is_seen = found[len(expected) : len(expected) + len(values)] == values
            if is_asked and (deal.ended <= self._place or is_seen):
                expected += values
        assert found == expected, "a transaction is seen in part, or is not what was said"

    def _check_jobs(self) -> None:
        """What was acknowledged does not come again; everything else does."""
        self._check_kept("jobs")
        answered = {v for a in self._told.acks if a.answered <= self._place for v in a.values}
        asked = {v for a in self._told.acks if a.asked <= self._place for v in a.values}
        join(self._node, group="workers", client="c2", topics=("jobs",), mode=Mode.SHARED)
        got: list[bytes] = []
        while leased := poll(self._node, group="workers", client="c2"):
            got += [each.value or b"" for each in leased]
        assert len(got) == len(set(got)), "a job was handed out twice at a time"
        assert not answered & set(got), "an acknowledged job came again"
        kept = set(self._values("jobs").values())
        assert kept - asked <= set(got), "a job is lost"
