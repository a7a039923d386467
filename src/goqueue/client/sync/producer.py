"""A producer for threads."""

from goqueue.client.batch import Receipt, Sent
from goqueue.client.producer import Producer
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.values import (
    NORMAL_PRIORITY,
    Delay,
    DeliverAt,
    Due,
    Headers,
    PriorityName,
    Value,
)

__all__ = ["SyncProducer", "SyncReceipt"]


class SyncReceipt:
    """A sent message: `wait()` returns its partition and offset, or raises the error."""

    __slots__ = ("_loop", "_receipt")

    def wait(self) -> Sent:
        return self._loop.call(_wait(self._receipt))

    # Generated from Receipt by `make sync-client`.

    def __init__(self, loop: LoopThread, receipt: Receipt) -> None:
        self._loop = loop
        self._receipt = receipt

    @property
    def is_settled(self) -> bool:
        """Whether the answer is known."""
        return self._receipt.is_settled

    @property
    def partition(self) -> int:
        """The partition that the message is for, known before it is sent."""
        return self._receipt.partition


class SyncProducer:
    """Gathers messages into batches; see `Producer`.

    `receipt = producer.send(...)` waits only while the buffer is full; `receipt.wait()` tells where
    the message went. To publish many: send them all, then `producer.flush()`.
    """

    # Generated from Producer by `make sync-client`.

    def __init__(self, loop: LoopThread, producer: Producer) -> None:
        self._loop = loop
        self._producer = producer

    def __enter__(self) -> "SyncProducer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | PriorityName = NORMAL_PRIORITY,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
        due: Due | None = None,
    ) -> SyncReceipt:
        """Take a message in. What can be seen to be wrong with it is raised here.

        With a `delay`, or `deliver_at` a time, it is delivered later, and named by the place that
        its receipt tells until then. `due` is the former name of both.
        """
        return SyncReceipt(
            self._loop,
            self._loop.call(
                self._producer.send(
                    topic,
                    value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    priority=priority,
                    delay=delay,
                    deliver_at=deliver_at,
                    due=due,
                )
            ),
        )

    def flush(self) -> None:
        """Send what waits, wait until all is answered, and raise the first failure nobody saw."""
        self._loop.call(self._producer.flush())

    def close(self) -> None:
        """Take no more, then flush."""
        self._loop.call(self._producer.close())


async def _wait(receipt: Receipt) -> Sent:
    return await receipt
