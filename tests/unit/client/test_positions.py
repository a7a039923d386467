"""How far a consumer came: what is finished, what is committed, what is in hand."""

import asyncio

import pytest

from goqueue.client.errors import GoQueueError
from goqueue.client.fetcher import Chunk, Feed, OffsetSource, Reader
from goqueue.client.http import Settings, Transport
from goqueue.client.message import Message
from goqueue.client.stream_consumer import Positions
from goqueue.model import LogId

LOG = LogId("orders", 0)
OTHER = LogId("orders", 1)


def test_only_what_was_finished_since_the_last_commit_is_to_be_committed() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=True)
    positions.adopt(OTHER, 0, is_committed=True)
    assert positions.uncommitted() == {}
    positions.finish(LOG, 9)
    assert positions.uncommitted() == {LOG: 9}
    positions.note_committed({LOG: 9})
    assert positions.uncommitted() == {}


def test_where_a_group_begins_is_committed_with_its_first_commit() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=False)
    assert positions.uncommitted() == {LOG: 5}
    positions.note_committed({LOG: 5})
    assert positions.uncommitted() == {}


def test_a_position_never_moves_back() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=True)
    positions.finish(LOG, 9)
    positions.finish(LOG, 7)
    assert positions.uncommitted() == {LOG: 9}


def test_what_went_to_another_member_is_not_committed() -> None:
    positions = Positions()
    positions.adopt(LOG, 0, is_committed=True)
    positions.finish(LOG, 3)
    positions.forget(LOG)
    positions.finish(LOG, 4)
    positions.note_committed({LOG: 4})
    assert positions.uncommitted() == {}


def test_what_was_worked_on_and_not_committed_is_known_with_the_place_before_it() -> None:
    positions = Positions()
    positions.adopt(LOG, 5, is_committed=True)
    positions.adopt(OTHER, 2, is_committed=False)
    assert positions.unsettled() == {}
    positions.finish(LOG, 9)
    positions.finish(OTHER, 3)
    assert positions.unsettled() == {LOG: 5, OTHER: 2}
    positions.note_committed({LOG: 9})
    positions.finish(LOG, 10)
    assert positions.unsettled() == {LOG: 9, OTHER: 2}


class Scene:
    """A feed, and a reader that a test brings chunks for."""

    def __init__(self) -> None:
        self.finished: list[tuple[LogId, int]] = []
        self.feed = Feed(self._begin, lambda log, offset: self.finished.append((log, offset)))
        self.reader = Reader(
            Transport(Settings(server="http://127.0.0.1:1")),
            LOG,
            0,
            chunk_bytes=1,
            wait_s=0.0,
            on_reading=self.feed.put,
        )

    async def _begin(self) -> None:
        """There is nothing to begin."""

    def bring(self, *offsets: int, next_offset: int) -> None:
        messages = [Message("orders", 0, offset, 0, 2, b"", b"") for offset in offsets]
        self.feed.put(self.reader, Chunk(LOG, messages, next_offset))

    def fail(self, reading: OffsetSource) -> None:
        self.feed.put(self.reader, reading)


def test_a_message_is_finished_when_the_next_one_is_asked_for() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(3, 5, next_offset=8)
        stage.bring(9, next_offset=10)
        assert (await stage.feed.next()).offset == 3
        assert stage.feed.position(is_done=False) == (LOG, 3)
        assert (await stage.feed.next()).offset == 5
        assert stage.feed.position(is_done=False) == (LOG, 5)
        assert stage.finished == []
        assert (await stage.feed.next()).offset == 9
        assert stage.finished == [(LOG, 8)]

    asyncio.run(scene())


def test_who_commits_by_hand_has_finished_the_message_in_hand() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(3, 5, next_offset=8)
        await stage.feed.next()
        assert stage.feed.position(is_done=True) == (LOG, 5)
        await stage.feed.next()
        assert stage.feed.position(is_done=True) == (LOG, 8)

    asyncio.run(scene())


def test_several_taken_at_once_are_in_hand_together() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(0, 1, 2, 3, next_offset=4)
        assert [message.offset for message in await stage.feed.take(3)] == [0, 1, 2]
        assert stage.feed.position(is_done=False) == (LOG, 0)
        assert stage.feed.position(is_done=True, except_last=2) == (LOG, 1)
        assert stage.feed.position(is_done=True) == (LOG, 3)

    asyncio.run(scene())


def test_a_chunk_without_messages_leads_further() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(next_offset=5)
        stage.bring(6, next_offset=7)
        assert (await stage.feed.next()).offset == 6
        assert stage.finished == [(LOG, 5)]

    asyncio.run(scene())


def test_nothing_of_a_partition_that_went_away_is_handed_out() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(0, 1, next_offset=2)
        stage.bring(2, next_offset=3)
        await stage.feed.next()
        stage.feed.drop(stage.reader)
        stage.bring(3, next_offset=4)
        assert stage.feed.position(is_done=True) is None
        stage.feed.end()
        with pytest.raises(StopAsyncIteration):
            await stage.feed.next()
        assert stage.finished == []

    asyncio.run(scene())


def test_a_failure_is_raised_in_its_turn() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.bring(0, next_offset=1)
        stage.fail(GoQueueError("topic_not_found", "gone"))
        assert (await stage.feed.next()).offset == 0
        with pytest.raises(GoQueueError) as failed:
            await stage.feed.next()
        assert failed.value.code == "topic_not_found"

    asyncio.run(scene())


def test_who_waits_is_woken_by_a_chunk_and_by_the_end() -> None:
    async def scene() -> None:
        stage = Scene()
        waiting = asyncio.ensure_future(stage.feed.next())
        await asyncio.sleep(0)
        stage.bring(0, next_offset=1)
        assert (await waiting).offset == 0
        taking = asyncio.ensure_future(stage.feed.take(9))
        await asyncio.sleep(0)
        stage.feed.end()
        with pytest.raises(StopAsyncIteration):
            await taking

    asyncio.run(scene())
