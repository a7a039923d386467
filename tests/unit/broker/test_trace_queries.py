"""Questions about all traces that are kept: several turns of bounded work, others in between."""

import pytest

from goqueue.broker.turns import TURN_UNITS
from goqueue.model.requests import (
    Command,
    CreateTopic,
    DescribeTracing,
    Publish,
    Published,
    SearchTraces,
    TopicDescription,
    TraceList,
    TracingStatistics,
)
from goqueue.records import Draft
from goqueue.tracing import SPANS_MAX
from tests.unit.broker.driven_node import DrivenNode

# A turn may end within one share of work behind its budget.
UNITS_MAX = 2 * TURN_UNITS


def full() -> DrivenNode:
    """A node whose ring is full of traces."""
    node = DrivenNode()
    node.ask(CreateTopic(name="t", partitions=1), TopicDescription)
    draft = Draft()
    for number in range(SPANS_MAX):
        draft.add(b"", b"%d" % number)
    node.ask(Publish(topic="t", batch=draft.take()), Published)
    return node


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (SearchTraces(topic="t", limit=10), TraceList),
        (SearchTraces(topic="other", limit=10), TraceList),
        (DescribeTracing(), TracingStatistics),
    ],
)
def test_a_search_over_a_full_ring_takes_several_bounded_turns(
    command: Command, expected: type[TraceList | TracingStatistics]
) -> None:
    node = full()
    node.turn_units_max = node.turn_units_sum = 0

    answer = node.ask(command, expected)

    assert node.turn_units_sum > SPANS_MAX
    assert node.turn_units_max <= UNITS_MAX
    if isinstance(answer, TracingStatistics):
        assert answer.pending == SPANS_MAX
    else:
        wanted = SPANS_MAX if command == SearchTraces(topic="t", limit=10) else 0
        assert (answer.total, len(answer.traces)) == (wanted, min(wanted, 10))
