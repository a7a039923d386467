"""The metadata of a standalone node: proposed, shown at once, committed in order."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.catalog import Catalog
from goqueue.broker.journal import JOURNAL_SETTINGS, Journal, JournalLimits
from goqueue.broker.journal_changes import TopicChange, TopicDeleted, TopicStated
from goqueue.broker.journals import Journals
from goqueue.broker.metadata import LocalMetadata, MetadataStore
from goqueue.broker.outbox import Later, MetadataCommitted, Outbox
from goqueue.log import Log, LogState
from goqueue.model import Answer, Instant, LogId, Now, Offset, RequestId, Synced, Timestamp
from goqueue.model.requests import Done, TopicConfig
from goqueue.schemas import SchemaRegistry
from goqueue.security import SecurityRegistry

NOW = Now(Instant(0), Timestamp(1))
DECODER = msgspec.json.Decoder(list[TopicChange])
ANSWER = Answer(request=RequestId(7), reply=Done())


class Rig:
    """A store over a journal whose disk the test plays."""

    def __init__(self) -> None:
        outbox = Outbox()
        journals = Journals(outbox)
        self.log = Log(LogId("__topics", 0), JOURNAL_SETTINGS, LogState())
        self.journal: Journal[TopicChange] = Journal(self.log, DECODER, outbox, JournalLimits())
        journals.open_topics(self.journal)
        self.catalog = Catalog()
        self.store = LocalMetadata(journals, self.catalog, SecurityRegistry(), SchemaRegistry())

    def write(self) -> list[Later]:
        """End the turn: what need not wait."""
        return self.journal.flush(NOW)

    def commit(self, upto: Offset | None = None) -> list[Later]:
        """The disk has the records below an offset: what is released, and the store told."""
        synced = Synced(log=self.log.id, upto=self.log.end if upto is None else upto)
        released = self.journal.handle(synced, NOW)
        for later in released:
            if isinstance(later, MetadataCommitted):
                self.store.committed(later)
        return released


def topic(number: int, partitions: int = 1) -> TopicStated:
    return TopicStated(
        name=f"t{number}",
        number=number,
        partitions=partitions,
        config=TopicConfig(),
        created_at=0,
    )


def test_a_standalone_node_is_the_controller_as_soon_as_its_run_begins() -> None:
    rig = Rig()
    assert rig.store.epoch is None
    rig.store.elect(4)
    elected: MetadataStore = rig.store
    assert (elected.epoch, elected.version) == (4, 0)


def test_a_proposal_shows_at_once_and_what_depends_on_it_leaves_when_it_is_committed() -> None:
    rig = Rig()
    rig.store.elect(1)
    rig.store.propose([topic(1)], [ANSWER])
    assert rig.catalog.get("t1") is not None
    assert rig.write() == []
    assert rig.store.version == 0
    assert rig.commit() == [MetadataCommitted((topic(1),)), ANSWER]
    assert rig.store.version == 1


def test_an_answer_waits_for_what_it_may_show_and_for_nothing_else() -> None:
    rig = Rig()
    rig.store.elect(1)
    rig.store.answer(ANSWER.request, Done())
    assert rig.write() == [ANSWER]
    rig.store.propose([topic(1)])
    rig.write()
    rig.store.answer(ANSWER.request, Done())
    assert rig.write() == []
    assert rig.commit()[-1] == ANSWER


def test_a_proposal_without_a_change_only_waits() -> None:
    rig = Rig()
    rig.store.elect(1)
    rig.store.propose([], [ANSWER])
    assert rig.write() == [ANSWER]
    assert rig.log.end == 0


@given(st.lists(st.lists(st.integers(1, 4), max_size=3), max_size=8), st.data())
def test_changes_are_committed_once_in_the_order_of_their_proposals_and_versions_rise(
    turns: list[list[int]], data: st.DataObject
) -> None:
    rig = Rig()
    rig.store.elect(1)
    proposed: list[TopicChange] = []
    committed: list[TopicChange] = []
    versions = [int(rig.store.version)]

    def let_disk_go_on() -> None:
        upto = data.draw(st.integers(int(rig.log.high_watermark), int(rig.log.end)))
        for later in rig.commit(Offset(upto)):
            assert isinstance(later, MetadataCommitted)
            committed.extend(later.changes)
        versions.append(int(rig.store.version))
        assert committed == proposed[: len(committed)]

    for numbers in turns:
        for number in numbers:
            is_there = rig.catalog.numbered(number) is not None
            change = TopicDeleted(name=f"t{number}", number=number) if is_there else topic(number)
            rig.store.propose([change])
            proposed.append(change)
        rig.write()
        let_disk_go_on()
    committed += [
        change
        for later in rig.commit()
        if isinstance(later, MetadataCommitted)
        for change in later.changes
    ]
    assert committed == proposed
    assert versions == sorted(versions)
    assert rig.store.version == rig.log.end
