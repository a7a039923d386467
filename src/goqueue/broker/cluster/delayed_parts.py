"""Questions about delayed messages that the leaders of several partitions answer together.

A list is merged from the first messages of each leader, by due time; so a page that begins far back
costs all that is before it, and `MERGED_MAX` bounds that. One leader alone answers any page.
"""

from heapq import merge

import msgspec

from goqueue.broker.cluster.forward_parts import Gather, OneReply, Outcome, Part
from goqueue.broker.cluster.routes import Routes
from goqueue.model import Code, LogId, Offset, Refused
from goqueue.model.requests import (
    CancelDelayed,
    Command,
    DelayedDescription,
    DelayedList,
    DelayStatistics,
    DescribeDelays,
    FindDelayed,
    ListDelayed,
)

__all__ = ["MERGED_MAX", "DelayCommand", "Split", "split_by_leaders"]

# A page of a topic with several leaders reaches no further than this.
MERGED_MAX = 10_000

DelayCommand = ListDelayed | FindDelayed | CancelDelayed | DescribeDelays


class Split(msgspec.Struct, frozen=True):
    """What is asked of whom: for each leader one of its partitions and a command."""

    gather: Gather
    parts: dict[LogId, Command]


def split_by_leaders(command: DelayCommand, routes: Routes) -> Split:
    """Ask the leader of one partition, those of a topic, or all; without parts there is none.

    Every part may be repeated: a message that is cancelled already may be cancelled again.
    """
    match command:
        case DescribeDelays():
            return Split(DelayStatisticsGather(), dict.fromkeys(routes.leaders(), command))
        case (
            CancelDelayed(topic=topic, partition=partition)
            | FindDelayed(topic=topic, partition=int(partition))
        ):
            log = LogId(topic, partition)
            return Split(OneReply(), {} if routes.partition(log) is None else {log: command})
        case ListDelayed() | FindDelayed():
            return _split_topic(command, routes)


def _split_topic(command: ListDelayed | FindDelayed, routes: Routes) -> Split:
    topic = routes.topic(command.topic)
    by_leader = {} if topic is None else routes.by_leader(topic.name, range(topic.partitions)) or {}
    asked = command
    gather: Gather = OneReply()
    if isinstance(command, FindDelayed):
        gather = FoundGather(command.offset)
    elif len(by_leader) > 1:
        asked, gather = _first_pages(command), DelayedListGather(command)
    parts: dict[LogId, Command] = {
        LogId(command.topic, theirs[0]): msgspec.structs.replace(asked, only=tuple(theirs))
        for theirs in by_leader.values()
    }
    return Split(gather, parts)


def _first_pages(command: ListDelayed) -> ListDelayed:
    """What each of several leaders is asked for one page; raises Refused if that is too much."""
    reach = command.skip + command.limit
    if reach > MERGED_MAX:
        reason = f"a topic with several leaders lists its first {MERGED_MAX:,} delayed messages"
        raise Refused(Code.REQUEST_INVALID, field="skip", reason=reason)
    return msgspec.structs.replace(command, skip=0, limit=reach)


class DelayedListGather:
    """The page that the first messages of all leaders give."""

    def __init__(self, command: ListDelayed) -> None:
        self._command = command
        self._lists: list[DelayedList] = []

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Refused):
            return outcome
        assert isinstance(outcome, DelayedList)
        self._lists.append(outcome)
        if part.request.parts:
            return None
        found = list(merge(*(each.messages for each in self._lists), key=_place_of))
        first = self._command.skip
        return DelayedList(
            topic=self._command.topic,
            messages=tuple(found[first : first + self._command.limit]),
            total=sum(each.total for each in self._lists),
        )


class FoundGather:
    """The message of the first partition that has one at an offset."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset
        self._found: DelayedDescription | None = None

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Refused):
            if outcome.code is not Code.MESSAGE_NOT_FOUND:
                return outcome
        else:
            assert isinstance(outcome, DelayedDescription)
            if self._found is None or outcome.log < self._found.log:
                self._found = outcome
        if part.request.parts:
            return None
        return self._found or Refused(Code.MESSAGE_NOT_FOUND, offset=self._offset)


class DelayStatisticsGather:
    """The sums over all leaders; one that answered twice, because it took over, counts once."""

    def __init__(self) -> None:
        self._by_node: dict[str, DelayStatistics] = {}

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Refused):
            return outcome
        assert isinstance(outcome, DelayStatistics)
        self._by_node[outcome.node] = outcome
        if part.request.parts:
            return None
        return _sum_of(list(self._by_node.values()))


def _place_of(message: DelayedDescription) -> tuple[int, tuple[LogId, Offset]]:
    return message.due, (message.log, message.offset)


def _sum_of(answers: list[DelayStatistics]) -> DelayStatistics:
    by_topic: dict[str, int] = {}
    for each in answers:
        for topic, count in each.by_topic.items():
            by_topic[topic] = by_topic.get(topic, 0) + count
    averaged = sum(each.averaged for each in answers)
    delay_ns_sum = sum(each.average_delay_ns * each.averaged for each in answers)
    dues = [each.next_due for each in answers if each.next_due is not None]
    return DelayStatistics(
        pending=sum(each.pending for each in answers),
        delivered=sum(each.delivered for each in answers),
        cancelled=sum(each.cancelled for each in answers),
        average_delay_ns=delay_ns_sum // max(1, averaged),
        by_topic=by_topic,
        next_due=min(dues, default=None),
        averaged=averaged,
    )
