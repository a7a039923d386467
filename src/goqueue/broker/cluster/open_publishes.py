"""Publishes of transactional ids that this broker received and has not answered.

A commit takes what was published before it. So one that comes through the same broker waits until
those publishes are answered, and what is published behind it is refused. Brokers do not wait for
each other: a client that publishes through one and commits through another waits for its answers.

Bound: 1,000 commits wait, more are refused at once.
Cost: two dictionary operations for each publish of a transactional id.
"""

from collections import deque
from collections.abc import Callable

from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.model import Asked, Code, Instant, Now, Refused, RequestId

__all__ = ["OpenPublishes"]

_WAITING_MAX = 1_000


class OpenPublishes:
    """Lets the end of a transaction wait for its publishes."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._producers: dict[RequestId, int] = {}
        self._open: dict[int, dict[RequestId, None]] = {}
        # Producers that end their transaction, by the request that does so.
        self._closing: dict[RequestId, int] = {}
        self._ending: dict[int, RequestId] = {}
        # Those that wait, and those that need not any longer.
        self._waiting: dict[int, Asked] = {}
        self._to_ask: deque[Asked] = deque()

    def begin(self, request: RequestId, producer: int) -> None:
        """A publish came; raises Refused if its transaction takes no more."""
        if producer in self._ending:
            raise Refused(Code.TRANSACTION_STATE_INVALID, state="ongoing", reason="it is ending")
        self._producers[request] = producer
        self._open.setdefault(producer, {})[request] = None

    def close(self, asked: Asked, producer: int) -> bool:
        """A transaction is to end, or to be prepared; whether that waits."""
        is_waiting = producer in self._open
        if is_waiting and (len(self._waiting) >= _WAITING_MAX or producer in self._waiting):
            raise Refused(Code.BROKER_UNAVAILABLE, reason="too many commits wait for publishes")
        self._closing[asked.request] = producer
        self._ending[producer] = asked.request
        if not is_waiting:
            return False
        self._waiting[producer] = asked
        self._state.access.note_principal()
        return True

    def answered(self, request: RequestId) -> None:
        """A request of a client has its answer, or nobody waits for one."""
        producer = self._producers.pop(request, None)
        if producer is not None:
            of_producer = self._open[producer]
            del of_producer[request]
            if not of_producer:
                del self._open[producer]
                asked = self._waiting.pop(producer, None)
                if asked is not None:
                    self._to_ask.append(asked)
                    self._state.alarms.bring_forward(Errand.FORWARDING, Instant(0))
            return
        closing = self._closing.pop(request, None)
        if closing is not None and self._ending.get(closing) == request:
            del self._ending[closing]

    @property
    def can_ask(self) -> bool:
        """Whether something has waited long enough, and the turn may do more."""
        return bool(self._to_ask) and not self._state.budget.is_spent

    @property
    def is_idle(self) -> bool:
        return not (self._producers or self._closing)

    def ask_again(self, ask: Callable[[Asked, Now], None], now: Now) -> bool:
        """Carry out what has waited long enough; whether there was any."""
        budget = self._state.budget
        had_some = bool(self._to_ask)
        while self._to_ask:
            if budget.is_spent:
                self._state.alarms.bring_forward(Errand.FORWARDING, now.instant)
                break
            budget.spend()
            ask(self._to_ask.popleft(), now)
        return had_some

    def cancel(self, request: RequestId) -> bool:
        """The caller is gone; False if its request does not wait here."""
        producer = self._closing.get(request)
        waiting = None if producer is None else self._waiting.get(producer)
        self.answered(request)
        if producer is not None and waiting is not None and waiting.request == request:
            del self._waiting[producer]
            return True
        count = len(self._to_ask)
        self._to_ask = deque(each for each in self._to_ask if each.request != request)
        return len(self._to_ask) < count

    def end_all(self) -> None:
        """The node stops: what waits was not carried out."""
        for asked in (*self._waiting.values(), *self._to_ask):
            refusal = Refused(Code.BROKER_UNAVAILABLE, reason="the node stops")
            self._state.outbox.answer(asked.request, refusal)
        self._waiting.clear()
        self._to_ask.clear()
