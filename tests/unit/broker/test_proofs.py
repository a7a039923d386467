"""What proves a key ends before the key does: a secret by rotation, a certificate by its date."""

import pytest

from goqueue.model import SECOND, Caller, Code, Offset, Refused, RequestId
from goqueue.model.requests import (
    KeyDescription,
    ListTopics,
    Read,
    Records,
    Role,
    TopicList,
    secret_proof,
)
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import create, publish
from tests.unit.security.secrets import key_id, new_key, new_secret, verifiers_of


def _node(certificate: str = "") -> DrivenNode:
    node = DrivenNode()
    create(node)
    node.ask(new_key(1, role=Role.CONSUMER, certificate=certificate), KeyDescription)
    return node


def _caller(secret: str, until: int | None = None) -> Caller:
    proof = secret_proof(verifiers_of(secret).digest)
    return Caller(key_id(1), gateway="http", address="10.0.0.1", proof=proof, until=until)


def _wait(node: DrivenNode, caller: Caller) -> RequestId:
    read = Read(topic="orders", partition=0, offset=Offset(0), wait_ns=60 * SECOND)
    waiting = node.begin(read, caller)
    assert not node.is_answered(waiting)
    return waiting


def _assert_refused(node: DrivenNode, waiting: RequestId, caller: Caller) -> None:
    """A request that waited is refused, and so is the next of the same stream."""
    with pytest.raises(Refused) as refused:
        node.reply(waiting, Records)
    assert refused.value.code is Code.UNAUTHENTICATED
    with pytest.raises(Refused) as refused:
        node.ask(ListTopics(), TopicList, caller)
    assert refused.value.code is Code.UNAUTHENTICATED


def test_a_stream_ends_in_the_turn_in_which_its_secret_is_replaced() -> None:
    node = _node()
    old, new = _caller("secret 1"), _caller("new")
    waiting = _wait(node, old)
    node.ask(new_secret(1, "new"), KeyDescription)
    _assert_refused(node, waiting, old)
    assert not node.is_answered(_wait(node, new))


def test_a_stream_of_the_secret_before_ends_with_its_grace() -> None:
    node = _node()
    old, new = _caller("secret 1"), _caller("new")
    node.ask(new_secret(1, "new", grace_ns=10 * SECOND), KeyDescription)
    waiting, others = _wait(node, old), _wait(node, new)
    node.advance(10 * SECOND - 1)
    assert not node.is_answered(waiting)
    node.advance(1)
    _assert_refused(node, waiting, old)
    publish(node, "x")
    assert node.reply(others, Records).data


def test_a_stream_ends_with_the_certificate_that_its_key_needs() -> None:
    node = _node(certificate="dns:app.internal")
    caller = _caller("secret 1", until=EPOCH_NS + 5 * SECOND)
    waiting = _wait(node, caller)
    node.advance(5 * SECOND)
    _assert_refused(node, waiting, caller)


def test_a_certificate_that_a_key_does_not_need_ends_nothing() -> None:
    node = _node()
    waiting = _wait(node, _caller("secret 1", until=EPOCH_NS + 5 * SECOND))
    node.advance(10 * SECOND)
    assert not node.is_answered(waiting)
