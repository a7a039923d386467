"""Pages of delayed messages: the same as sorting them all, in steps that are bounded."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delayed.delay_pages import WaitingMessage, find_page
from goqueue.broker.turns import TURN_UNITS
from goqueue.delivery import Delays
from goqueue.model import SECOND, LogId, Offset, Timestamp
from goqueue.model.requests import DelayedList, ListDelayed
from tests.unit.broker.delayed.users import delay
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create

Logs = list[tuple[LogId, Delays]]

DUES = st.one_of(st.integers(1, 5), st.integers(1, 10**6), st.integers(10**18, 10**18 + 10**9))


def made(dues: list[list[int]]) -> Logs:
    """Partitions whose delayed messages are due at these times."""
    logs = []
    for number, of_log in enumerate(dues):
        delays = Delays(Timestamp(0))
        for offset, due in enumerate(of_log):
            delays.add(offset, due, 2)
        logs.append((LogId("orders", number), delays))
    return logs


def run(
    logs: list[tuple[LogId, Delays]], skip: int, limit: int
) -> tuple[list[WaitingMessage], int]:
    """The page, and the most work of a step."""
    most, steps = 0, find_page(logs, skip, limit)
    while True:
        try:
            most = max(most, next(steps))
        except StopIteration as ended:
            page: list[WaitingMessage] = ended.value
            return page, most


@given(
    st.lists(st.lists(DUES, max_size=30), min_size=1, max_size=3),
    st.integers(0, 40),
    st.integers(1, 20),
    st.sets(st.integers(0, 29)),
)
def test_a_page_is_what_sorting_everything_would_give(
    dues: list[list[int]], skip: int, limit: int, delivered: set[int]
) -> None:
    logs = made(dues)
    for offset in delivered:
        logs[0][1].deliver(offset, 1000 + offset)
    waiting = sorted(
        (due, log, Offset(offset))
        for (log, _), of_log in zip(logs, dues, strict=True)
        for offset, due in enumerate(of_log)
        if log.partition or offset not in delivered
    )

    assert run(logs, skip, limit)[0] == waiting[skip : skip + limit]


def test_a_page_deep_in_very_many_is_found_in_small_steps() -> None:
    dues = [[(offset * 7919) % 100_003 * 10**6 + 1 for offset in range(20_000)] for _ in range(3)]
    logs = made(dues)
    waiting = sorted((due, n) for n, of_log in enumerate(dues) for due in of_log)

    page, most = run(logs, 50_000, 100)

    assert [(due, log.partition) for due, log, _ in page] == waiting[50_000:50_100]
    assert most <= TURN_UNITS // 10


def test_a_page_of_very_many_that_are_due_together_is_by_offset() -> None:
    logs = made([[5] * 9000, [5] * 4000 + [6] * 9000])

    page, most = run(logs, 8_990, 30)

    places = [(log.partition, offset) for _, log, offset in page]
    assert places == [(0, offset) for offset in range(8990, 9000)] + [(1, n) for n in range(20)]
    last, _ = run(logs, 12_990, 30)
    assert [due for due, _, _ in last] == [5] * 10 + [6] * 20
    assert most <= TURN_UNITS // 10


def test_a_whole_page_counts_what_it_shows_though_more_came_while_it_was_found() -> None:
    node = DrivenNode(budget_units=20)
    create(node, partitions=30)
    for number in range(30):
        delay(node, (f"{number}", 3600 * SECOND), targets=[number])
    node.runs_later_turns = False
    request = node.begin(ListDelayed(topic="orders", limit=1000))
    assert not node.is_answered(request)
    delay(node, ("late", 3600 * SECOND), targets=[29])
    while not node.is_answered(request):
        node.run_later_turn()

    listed = node.reply(request, DelayedList)
    assert listed.total == len(listed.messages) == 31
