"""Consumers for threads: `for message in consumer`.

Messages of streams cross from the loop many at a time. Each consumer is for one thread at a time.
"""

import contextlib
from collections import deque

from goqueue.client.errors import Closed
from goqueue.client.message import Message
from goqueue.client.queue_consumer import QueueConsumer
from goqueue.client.replay import Replay
from goqueue.client.stream_consumer import OffsetSource, Progress, StreamConsumer
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.sync.message import SyncMessage
from goqueue.model import LogId

__all__ = ["SyncQueueConsumer", "SyncReplay", "SyncStreamConsumer"]


class SyncQueueConsumer:
    """Leased messages, each to be settled; see `QueueConsumer`.

    Leases are renewed on the thread of the loop, whatever the thread of the consumer does.
    """

    def __enter__(self) -> "SyncQueueConsumer":
        return self

    def __next__(self) -> SyncMessage:
        consumer = self._queue_consumer
        while True:
            # Straight from what the loop has polled: what is not begun stays there.
            message = consumer.pop()
            if message is not None:
                if consumer.is_low:
                    self._loop.post(consumer.refill)
                return SyncMessage(self._loop, message)
            if not self._loop.call(consumer.wait_for_more()):
                raise StopIteration

    def stop(self) -> None:
        """Hand out nothing more, and give back at once what was not begun; for signal handlers."""
        with contextlib.suppress(Closed):
            self._loop.post(self._queue_consumer.stop)

    # Generated from QueueConsumer by `make sync-client`.

    def __init__(self, loop: LoopThread, queue_consumer: QueueConsumer) -> None:
        self._loop = loop
        self._queue_consumer = queue_consumer

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "SyncQueueConsumer":
        return self

    @property
    def is_stopped(self) -> bool:
        """Whether it hands out nothing more."""
        return self._queue_consumer.is_stopped

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._queue_consumer.is_closed

    def flush(self) -> None:
        """Wait until all acks so far are durable; raise the first failure that was not waited
        for."""
        self._loop.call(self._queue_consumer.flush())

    def close(self) -> None:
        """Give back what was not begun, wait for the acknowledgements under way, leave the group.

        What is in hand and not settled goes to other members at once, and counts as delivered.
        """
        self._loop.call(self._queue_consumer.close())

    def give_up(self) -> None:
        """Close without a word to the broker, where leases and session end in their time."""
        self._loop.apply(self._queue_consumer.give_up)


class SyncStreamConsumer:
    """Partitions in offset order, positions committed; see `StreamConsumer`."""

    def __init__(self, loop: LoopThread, stream_consumer: StreamConsumer) -> None:
        self._loop = loop
        self._stream_consumer = stream_consumer
        self._taken: deque[Message] = deque()

    def __enter__(self) -> "SyncStreamConsumer":
        return self

    def __next__(self) -> Message:
        if not self._taken:
            self._taken.extend(self._loop.call(self._stream_consumer.take()))
        if not self._taken:
            raise StopIteration
        return self._taken.popleft()

    def commit(self) -> None:
        """Commit everything handed out so far, the message in hand included."""
        self._loop.call(self._stream_consumer.commit(except_last=len(self._taken)))

    def reading(self) -> OffsetSource:
        """This consumer as a part of transactions."""
        return _BufferedProgress(self._stream_consumer, self._taken)

    def close(self) -> None:
        """Commit what is finished if commits are automatic, and leave the group."""
        # The one in hand is not finished: the next was not asked for.
        waiting = len(self._taken)
        self._taken.clear()
        self._loop.call(self._stream_consumer.close(except_last=waiting + 1))

    # Generated from StreamConsumer by `make sync-client`.

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "SyncStreamConsumer":
        return self

    @property
    def assigned(self) -> tuple[LogId, ...]:
        """The partitions that are ours now."""
        return self._stream_consumer.assigned

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._stream_consumer.is_closed


class _BufferedProgress:
    """What was taken from the consumer and is not handed out yet is no progress.

    Called on the loop, while the thread of the consumer waits for the transaction.
    """

    def __init__(self, consumer: StreamConsumer, taken: deque[Message]) -> None:
        self._consumer = consumer
        self._taken = taken

    def check(self) -> None:
        self._consumer.check()

    def progress(self) -> Progress:
        return self._consumer.progress(except_last=len(self._taken))

    def note_committed(self, progress: Progress) -> None:
        self._consumer.note_committed(progress)

    def rewind(self) -> None:
        self._taken.clear()
        self._consumer.rewind()


class SyncReplay:
    """Partitions from a place on, without a group; see `Replay`."""

    def __init__(self, loop: LoopThread, replay: Replay) -> None:
        self._loop = loop
        self._replay = replay
        self._taken: deque[Message] = deque()

    def __next__(self) -> Message:
        if not self._taken:
            self._taken.extend(self._loop.call(self._replay.take()))
        if not self._taken:
            raise StopIteration
        return self._taken.popleft()

    def close(self) -> None:
        """Stop reading."""
        self._taken.clear()
        self._loop.call(self._replay.close())

    # Generated from Replay by `make sync-client`.

    def __enter__(self) -> "SyncReplay":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "SyncReplay":
        return self

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._replay.is_closed
