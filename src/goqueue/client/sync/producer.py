"""A producer for threads."""

from goqueue.client.batch import Receipt, Sent
from goqueue.client.producer import Due, Producer
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.values import Headers, Value
from goqueue.model import Priority

__all__ = ["SyncProducer", "SyncReceipt"]

_NORMAL = int(Priority.NORMAL)


class SyncReceipt:
    """What `send` hands out: `wait()` tells where the message went."""

    __slots__ = ("_loop", "_receipt")

    def __init__(self, loop: LoopThread, receipt: Receipt) -> None:
        self._loop = loop
        self._receipt = receipt

    @property
    def is_settled(self) -> bool:
        return self._receipt.is_settled

    def wait(self) -> Sent:
        return self._loop.call(_wait(self._receipt))


class SyncProducer:
    """Gathers messages into batches; see `Producer`."""

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
        priority: int | str = _NORMAL,
        due: Due | None = None,
    ) -> SyncReceipt:
        """Take a message in; waits only while the buffer is full."""
        sending = self._producer.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            priority=priority,
            due=due,
        )
        return SyncReceipt(self._loop, self._loop.call(sending))

    def flush(self) -> None:
        """Wait until all is answered; raises the first failure nobody saw."""
        self._loop.call(self._producer.flush())

    def close(self) -> None:
        """Take no more, then flush."""
        self._loop.call(self._producer.close())


async def _wait(receipt: Receipt) -> Sent:
    return await receipt
