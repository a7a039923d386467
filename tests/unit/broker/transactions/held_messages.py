"""A queue whose messages a transaction holds: what the tests of it share."""

from goqueue.model import SECOND, Code
from goqueue.model.requests import AddOffsets, Mode, Owner
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import begin, init, refused_code
from tests.unit.broker.users import Delivery, create, join, poll, publish, values

MINUTE = 60 * SECOND

LONG = 600 * SECOND

MEMBER = "c1-c100"


def shop(*wanted: str, mode: Mode | None = Mode.SHARED) -> tuple[DrivenNode, Owner]:
    """A queue with orders, two members, and a producer with an open transaction."""
    node = DrivenNode()
    create(node)
    publish(node, *wanted)
    join(node, session_ns=LONG, mode=mode)
    join(node, client="c2", session_ns=LONG, mode=mode)
    owner = init(node, timeout_ns=LONG)
    begin(node, owner)
    return node, owner


def by_value(found: list[Delivery]) -> dict[str, Delivery]:
    return dict(zip(values(found), found, strict=True))


def stay(node: DrivenNode, owner: Owner, nanoseconds: int) -> None:
    """Time passes for everybody but the transaction and the members."""
    until = node.now_ns + nanoseconds
    while node.now_ns < until:
        node.advance(min(20 * SECOND, until - node.now_ns))
        code = refused_code(node, AddOffsets(owner=owner, group="shop"))
        assert code is Code.REQUEST_INVALID


def everything(node: DrivenNode) -> list[str]:
    """What anybody is handed, once all leases are over."""
    node.advance(MINUTE)
    found: list[str] = []
    for client in ("c1", "c2"):
        join(node, client=client, session_ns=LONG)
    while batch := poll(node, client="c2"):
        found += values(batch)
    return found


def everything_of(node: DrivenNode) -> list[str]:
    node.advance(MINUTE)
    for client in ("c1", "c2"):
        join(node, client=client, session_ns=LONG)
    return values(poll(node)) + values(poll(node, client="c2"))
