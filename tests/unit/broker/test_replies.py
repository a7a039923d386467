"""Replies: who gets them, and what becomes of those that nobody waits for."""

import pytest

from goqueue.model import SECOND, Code, Refused, RequestId
from goqueue.model.requests import AwaitReply, ReplyReceived, ReplySent, SendReply
from tests.unit.broker.driven_node import DrivenNode

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
