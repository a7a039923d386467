"""Callers that speak for a node over HTTP: who waits for a vote, or for a term to be durable.

They take the same way through the quorum as messages over a link; only the answer goes elsewhere.
"""

from collections import deque

from goqueue.broker.outbox import Outbox
from goqueue.cluster import Voter
from goqueue.model import Answer, RequestId, VoteReply, VoteRequest
from goqueue.model.requests import VoteGiven

__all__ = ["PeerCallers"]


class PeerCallers:
    """Requests whose answers tell of a ballot; bounded by the requests that a node serves."""

    def __init__(self, outbox: Outbox, me: str) -> None:
        self._outbox = outbox
        self._me = me
        self._votes: dict[tuple[Voter, int, bool], deque[RequestId]] = {}
        self._told: list[Answer] = []

    def await_vote(self, candidate: Voter, asked: VoteRequest, caller: RequestId) -> None:
        """The next reply to this candidate about this term belongs to a caller.

        Each question has a reply of its own, so several callers get theirs in order.
        """
        self._votes.setdefault((candidate, asked.term, asked.is_pre_vote), deque()).append(caller)

    def answer_vote(self, to: Voter, reply: VoteReply, cluster_id: str) -> bool:
        """Give a reply to the caller that waits for it; False if none does."""
        key = (to, reply.asked, reply.is_pre_vote)
        callers = self._votes.get(key)
        if callers is None:
            return False
        caller = callers.popleft()
        if not callers:
            del self._votes[key]
        given = VoteGiven(
            voter_id=self._me,
            is_granted=reply.is_granted,
            epoch=reply.term,
            cluster_id=cluster_id,
        )
        self._outbox.answer(caller, given)
        return True

    def await_term(self, answer: Answer) -> None:
        """An answer tells of the present term."""
        self._told.append(answer)

    def release(self, *, is_durable: bool) -> None:
        """Let answers go, if the term is durable."""
        if is_durable:
            self._outbox.extend(self._told)
            self._told = []
