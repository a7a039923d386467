"""Commands about topics that the image of this broker lacks: the controller is asked first.

A client may create a topic through one broker and use it through another whose image is a moment
behind. Only the controller can say that a topic does not exist; the command is kept meanwhile and
asked again once the image here is as new as the controller's was.

Invariant: a command is looked up once. It is then served, or refused by what this broker knows.
Bound: 1,000 commands with 32 MiB of records; beyond them nothing is looked up.
Cost: one question to the controller for each command about a topic that is not known here.
"""

from collections import deque
from collections.abc import Callable

from goqueue.broker.cluster.forward_parts import OneReply, Part, Request, RequestNumbers
from goqueue.broker.cluster.forwarder import Forwarder
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.model import Asked, Code, Now, Refused, RequestId, is_internal
from goqueue.model.requests import (
    CancelDelayed,
    Command,
    DeleteRecords,
    DescribePartitions,
    DescribeTopic,
    FindDelayed,
    ListDelayed,
    Publish,
    Read,
    Reply,
    Watch,
)

__all__ = ["TopicLookUps"]

_COMMANDS_MAX = 1_000
_BYTES_MAX = 32 * 1024 * 1024

_OfTopic = (
    *(Read, Watch, Publish, DeleteRecords, DescribePartitions, DescribeTopic),
    *(ListDelayed, FindDelayed, CancelDelayed),
)


class TopicLookUps:
    """Keeps commands while the controller is asked about their topics."""

    def __init__(
        self,
        forwarder: Forwarder,
        routes: Routes,
        numbers: RequestNumbers,
        state: NodeState,
    ) -> None:
        self._forwarder = forwarder
        self._routes = routes
        self._numbers = numbers
        self._state = state
        # By the question that is asked for a command, and the questions by the requests of clients.
        self._kept: dict[RequestId, Asked] = {}
        self._questions: dict[RequestId, RequestId] = {}
        self._bytes = 0
        self._to_ask: deque[Asked] = deque()
        # The command that is being asked again: it is not looked up twice.
        self._asked_again: RequestId | None = None

    def begin(self, asked: Asked, now: Now) -> bool:
        """Look up the topic of a command; False if there is no need, or no room."""
        topic = _topic_of(asked.command)
        if asked.request == self._asked_again or topic is None or is_internal(topic):
            return False
        if self._routes.topic(topic) is not None:
            if self._state.catalog.get(topic) is not None:
                return False
            # Committed by an event of this turn: the node takes it over when the turn ends.
            self._to_ask.append(asked)
            return True
        if self._routes.controller == self._routes.me:
            return False
        size = _size(asked.command)
        if len(self._kept) >= _COMMANDS_MAX or self._bytes + size > _BYTES_MAX:
            return False
        question = DescribePartitions(topic=topic, only=())
        number = self._numbers.take_here()
        whole = Request(number, question, asked.caller, OneReply(), now.instant)
        self._forwarder.begin(whole, [Part(whole, question, None, is_repeatable=True)], now)
        self._kept[number] = asked
        self._questions[asked.request] = number
        self._bytes += size
        return True

    def take_answer(self, question: RequestId, reply: Reply | Refused, now: Now) -> bool:
        """The controller answered; False if the question is not one of these."""
        asked = self._forget(question)
        if asked is None:
            return False
        if isinstance(reply, Refused) and reply.code is not Code.TOPIC_NOT_FOUND:
            # Nobody can say whether there is such a topic.
            self._state.outbox.answer(asked.request, reply)
        else:
            self._to_ask.append(asked)
            self._state.alarms.bring_forward(Errand.FORWARDING, now.instant)
        return True

    def ask_again(self, ask: Callable[[Asked, Now], None], now: Now) -> None:
        """Let the commands be served whose topics were looked up, as many as a turn may."""
        budget = self._state.budget
        while self._to_ask:
            if budget.is_spent:
                self._state.alarms.bring_forward(Errand.FORWARDING, now.instant)
                return
            budget.spend()
            asked = self._to_ask.popleft()
            self._asked_again = asked.request
            ask(asked, now)
            self._asked_again = None

    def cancel(self, request: RequestId) -> bool:
        """The caller is gone; False if its command is not kept here."""
        question = self._questions.get(request)
        if question is not None:
            self._forget(question)
            self._forwarder.cancel(question, is_gone=True)
            return True
        count = len(self._to_ask)
        self._to_ask = deque(each for each in self._to_ask if each.request != request)
        return len(self._to_ask) < count

    def end_all(self) -> None:
        """The node stops: nobody is kept waiting."""
        kept = [*self._kept.values(), *self._to_ask]
        self._to_ask.clear()
        for question in list(self._kept):
            self._forget(question)
            self._forwarder.cancel(question, is_gone=True)
        for asked in kept:
            refusal = Refused(Code.BROKER_UNAVAILABLE, reason="the node stops")
            self._state.outbox.answer(asked.request, refusal)

    def _forget(self, question: RequestId) -> Asked | None:
        asked = self._kept.pop(question, None)
        if asked is not None:
            del self._questions[asked.request]
            self._bytes -= _size(asked.command)
        return asked


def _topic_of(command: Command) -> str | None:
    if not isinstance(command, _OfTopic):
        return None
    return command.name if isinstance(command, DescribeTopic) else command.topic


def _size(command: Command) -> int:
    return len(command.batch) if isinstance(command, Publish) else 0
