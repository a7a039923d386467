"""Transactions are listed in pages, the oldest first, and no page is more than a turn's work."""

from goqueue.broker import TURN_UNITS
from goqueue.model import SECOND
from goqueue.model.requests import ListTransactions, TransactionList
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import begin, init


def page(node: DrivenNode, limit: int = 100, skip: int = 0) -> TransactionList:
    return node.ask(ListTransactions(limit=limit, skip=skip), TransactionList)


def test_pages_follow_each_other_and_tell_how_many_there_are() -> None:
    node = DrivenNode()
    begun = [begin(node, init(node, f"p{number}", 600 * SECOND)) for number in range(5)]

    pages = [page(node, limit=2, skip=skip) for skip in (0, 2, 4, 6)]
    shown = [[each.transaction_id for each in found.transactions] for found in pages]
    assert shown == [begun[:2], begun[2:4], begun[4:], []]
    assert {found.total for found in pages} == {5}


def test_a_page_behind_thousands_is_listed_in_bounded_turns() -> None:
    node = DrivenNode()
    for number in range(3000):
        begin(node, init(node, f"p{number}", 600 * SECOND))
    node.turn_units_max = 0

    assert len(page(node, limit=1000, skip=2000).transactions) == 1000
    assert node.turn_units_max <= 2 * TURN_UNITS
