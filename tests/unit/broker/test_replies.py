"""Replies: who gets them, and what becomes of those that nobody waits for."""

import pytest

from goqueue.model import LOCAL, SECOND, Caller, Code, Refused, RequestId
from goqueue.model.requests import (
    AwaitReply,
    CreateTenant,
    KeyDescription,
    ReplyReceived,
    ReplySent,
    Role,
    SendReply,
    TenantDescription,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.security.secrets import key_id, new_key

_LIMIT = "goqueue.broker.replies._WAITING_MAX"


def _wait(node: DrivenNode, reply_to: str = "a", wait_ns: int = 10 * SECOND) -> RequestId:
    return node.begin(AwaitReply(reply_to=reply_to, wait_ns=wait_ns))


def _send(node: DrivenNode, reply_to: str = "a", value: bytes = b"yes") -> bool:
    sent = node.ask(SendReply(reply_to=reply_to, value=value, headers=(("h", b"1"),)), ReplySent)
    return sent.is_delivered


def _counts(node: DrivenNode) -> dict[str, object]:
    found: dict[str, object] = {}
    for family in node.node.metrics():
        if "_replies_" in family.name or "_requests_unanswered" in family.name:
            for sample in family.samples:
                assert sample is not None
                found["".join(sample[0])] = sample[1]
    return found


def test_a_reply_goes_to_the_request_that_waits_for_it() -> None:
    node = DrivenNode()
    first, second = _wait(node, "a"), _wait(node, "b")

    assert _send(node, "b", b"for b")
    assert node.reply(second, ReplyReceived) == ReplyReceived(
        value=b"for b", headers=(("h", b"1"),)
    )
    assert not node.is_answered(first)


def test_only_the_first_reply_is_delivered_and_the_others_are_counted() -> None:
    node = DrivenNode()
    request = _wait(node)

    assert _send(node, value=b"first")
    assert not _send(node, value=b"second")
    assert not _send(node, "unknown")
    assert node.reply(request, ReplyReceived).value == b"first"
    assert _counts(node) == {"delivered": 1, "dropped": 2, "": 0}


def test_a_request_without_a_reply_ends_with_its_time_and_a_late_reply_is_dropped() -> None:
    node = DrivenNode()
    request = _wait(node, wait_ns=2 * SECOND)
    node.advance(2 * SECOND - 1)
    assert not node.is_answered(request)
    node.advance(1)

    with pytest.raises(Refused, match=Code.NO_REPLY):
        node.reply(request, ReplyReceived)
    assert not _send(node)
    assert _counts(node) == {"delivered": 0, "dropped": 1, "": 1}


def test_a_requester_that_left_gets_nothing_and_its_id_is_free() -> None:
    node = DrivenNode()
    node.leave(_wait(node))

    assert not _send(node)
    assert _send(node) is False
    request = _wait(node)
    assert _send(node)
    assert node.reply(request, ReplyReceived).value == b"yes"


def test_an_id_is_waited_for_once() -> None:
    node = DrivenNode()
    _wait(node)

    with pytest.raises(Refused, match=Code.REQUEST_INVALID):
        node.reply(_wait(node), ReplyReceived)


def test_no_more_requests_wait_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_LIMIT, 2)
    node = DrivenNode()
    _wait(node, "a")
    _wait(node, "b")

    with pytest.raises(Refused, match=Code.QUOTA_EXCEEDED):
        node.reply(_wait(node, "c"), ReplyReceived)
    assert _send(node, "a")
    assert not node.is_answered(_wait(node, "c"))


def test_a_node_that_stops_lets_nobody_wait() -> None:
    node = DrivenNode()
    request = _wait(node)
    node.stop()

    with pytest.raises(Refused, match=Code.NO_REPLY):
        node.reply(request, ReplyReceived)


def test_nothing_of_a_request_survives_a_crash() -> None:
    node = DrivenNode()
    _wait(node)
    node.restart()

    assert not _send(node)


def _shared() -> tuple[DrivenNode, Caller, Caller]:
    """A node with two tenants, and a producer of each."""
    node = DrivenNode()
    for number, tenant in enumerate(("acme", "globex")):
        node.ask(CreateTenant(id=tenant, name=tenant), TenantDescription)
        node.ask(new_key(number, tenant=tenant, role=Role.PRODUCER), KeyDescription)
    return node, Caller(key_id(0)), Caller(key_id(1))


def test_a_reply_of_another_tenant_is_dropped_also_if_it_knows_the_id() -> None:
    node, acme, globex = _shared()
    request = node.begin(AwaitReply(reply_to="a", wait_ns=10 * SECOND), acme)

    assert not node.ask(SendReply(reply_to="a", value=b"false"), ReplySent, globex).is_delivered
    assert node.ask(SendReply(reply_to="a", value=b"true"), ReplySent, acme).is_delivered
    assert node.reply(request, ReplyReceived).value == b"true"
    assert _counts(node) == {"delivered": 1, "dropped": 1, "": 0}


def test_an_admin_of_default_asks_and_answers_in_every_tenant() -> None:
    node, acme, _ = _shared()
    asked = node.begin(AwaitReply(reply_to="a", wait_ns=10 * SECOND), LOCAL)
    assert node.ask(SendReply(reply_to="a", value=b"1"), ReplySent, acme).is_delivered
    node.reply(asked, ReplyReceived)
    asked = node.begin(AwaitReply(reply_to="a", wait_ns=10 * SECOND), acme)
    assert node.ask(SendReply(reply_to="a", value=b"2"), ReplySent, LOCAL).is_delivered
    node.reply(asked, ReplyReceived)


def test_a_tenant_leaves_three_quarters_of_the_waiting_requests_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_LIMIT, 8)
    node, acme, globex = _shared()
    first = node.begin(AwaitReply(reply_to="0", wait_ns=SECOND), acme)
    node.begin(AwaitReply(reply_to="1", wait_ns=10 * SECOND), acme)
    with pytest.raises(Refused) as refused:
        node.ask(AwaitReply(reply_to="2", wait_ns=SECOND), ReplyReceived, acme)
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert refused.value.facts["limit"] == 2
    others = [node.begin(AwaitReply(reply_to="3", wait_ns=10 * SECOND), globex)]
    others += [_wait(node, f"default {each}") for each in range(5)]
    assert not any(map(node.is_answered, others))
    node.advance(SECOND)
    assert node.is_answered(first)
    node.begin(AwaitReply(reply_to="2", wait_ns=10 * SECOND), acme)
