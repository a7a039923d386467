"""Which journal holds what, and replies that wait for several journals."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.journal import JOURNAL_SETTINGS, Journal, JournalLimits
from goqueue.broker.journal_changes import Change, Numbered, TopicChange
from goqueue.broker.journals import Journals
from goqueue.broker.outbox import JournalReached, Later, Outbox
from goqueue.log import Log, LogState
from goqueue.model import Answer, Instant, LogId, Now, Offset, RequestId, Synced, Timestamp
from goqueue.model.requests import Done

NOW = Now(Instant(0), Timestamp(1))
CHANGES = msgspec.json.Decoder(list[Change])
TOPIC_CHANGES = msgspec.json.Decoder(list[TopicChange])
CHANGE = Numbered(groups_upto=1, moves_upto=1)
REQUEST = RequestId(7)
ANSWER = Answer(request=REQUEST, reply=Done())


def journal_of(name: str, outbox: Outbox) -> Journal[Change]:
    log = Log(LogId(name, 0), JOURNAL_SETTINGS, LogState())
    return Journal(log, CHANGES, outbox, JournalLimits())


def commit(journal: Journal[Change]) -> list[Later]:
    """Write what was noted, and let the disk have it: what is released."""
    released = journal.flush(NOW)
    return [*released, *journal.handle(Synced(log=journal.id, upto=journal.log.end), NOW)]


def follow(journals: Journals, released: list[Later]) -> list[Later]:
    """What leaves, once the steps of several journals were taken."""
    left: list[Later] = []
    for later in released:
        is_step = isinstance(later, JournalReached)
        left += journals.reached(later.wait) if isinstance(later, JournalReached) else []
        left += [] if is_step else [later]
    return left


def standalone() -> tuple[Journals, Journal[Change]]:
    outbox = Outbox()
    journals = Journals(outbox)
    topics = Log(LogId("__topics", 0), JOURNAL_SETTINGS, LogState())
    journals.open_topics(Journal(topics, TOPIC_CHANGES, outbox, JournalLimits()))
    groups = journal_of("__groups", outbox)
    journals.open_groups(groups)
    return journals, groups


def test_a_standalone_node_keeps_all_but_topics_in_one_journal() -> None:
    journals, groups = standalone()
    chosen = [
        journals.of_group("shop"),
        journals.of_partition(LogId("orders", 3)),
        journals.of_producer(9),
        journals.of_producers,
    ]
    assert all(journal is groups for journal in chosen)
    assert journals.of_topics.id.topic == "__topics"
    assert [journal.id.topic for journal in journals.all] == ["__topics", "__groups"]
    assert journals.get(groups.id) is groups
    assert journals.get(LogId("orders", 0)) is None


def test_before_its_journals_are_open_a_node_has_none_that_is_not_quiet() -> None:
    journals = Journals(Outbox())
    assert not journals.are_open
    assert journals.are_quiet
    assert journals.all == ()


def test_a_reply_behind_one_journal_named_twice_is_an_ordinary_note_of_it() -> None:
    journals, groups = standalone()
    groups.note([CHANGE])
    journals.answer(REQUEST, Done(), [groups, groups])
    assert not journals.are_quiet
    assert commit(groups) == [ANSWER]
    assert journals.are_quiet


def test_a_reply_that_no_journal_has_to_do_with_leaves_at_once() -> None:
    outbox = Outbox()
    Journals(outbox).answer(REQUEST, Done())
    assert outbox.drain() == [ANSWER]


@given(st.integers(2, 5), st.data())
def test_a_reply_behind_several_journals_leaves_once_with_the_last_of_them(
    count: int, data: st.DataObject
) -> None:
    outbox = Outbox()
    journals = Journals(outbox)
    each = [journal_of(f"__j{number}", outbox) for number in range(count)]
    has_change = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    for journal, changes in zip(each, has_change, strict=True):
        journal.note([CHANGE] if changes else [])
    journals.answer(REQUEST, Done(), each)
    left: list[Later] = []
    order = data.draw(st.permutations(each))
    for index, journal in enumerate(order):
        assert left == [], f"left before {count - index} of {count} journals were committed"
        left += follow(journals, commit(journal))
    assert left == [ANSWER]


def test_two_replies_behind_the_same_journals_are_told_apart() -> None:
    outbox = Outbox()
    journals = Journals(outbox)
    first, second = journal_of("__a", outbox), journal_of("__b", outbox)
    first.note([CHANGE])
    journals.answer(REQUEST, Done(), [first, second])
    assert follow(journals, commit(second)) == []
    second.note([CHANGE])
    other = Answer(request=RequestId(8), reply=Done())
    journals.answer(other.request, Done(), [first, second])
    assert follow(journals, commit(first)) == [ANSWER]
    assert follow(journals, commit(second)) == [other]
    assert Offset(1) == first.log.end
