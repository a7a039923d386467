"""One round of questions: how many, what a failing answer means, and what is left out."""

import asyncio
from collections.abc import Callable

import pytest

from goqueue.cli.top.model import Sample, Wants
from goqueue.cli.top.source import Source, reason_of
from goqueue.client import GoQueueError, ServerUnreachable, connect
from goqueue.client.retries import Retries
from tests.unit.cli.top.samples import lag_of, lanes, sample
from tests.unit.client.peer import HANG_UP, Answer, Asked, json_answer, peer, refusal_answer

TOLD = sample(message="it is starting", status="fail")
BODIES: dict[str, object] = {
    "/readyz?verbose=true": TOLD.readiness,
    "/version": TOLD.version,
    "/stats": TOLD.stats,
    "/reliability/stats": TOLD.reliability,
    "/delay/stats": TOLD.delays,
    "/transactions/stats": TOLD.transactions,
    "/groups": {"groups": [], "group_details": []},
    "/groups/a/lag": lag_of("a", lag=3),
    "/topics/t/delayed?limit=1&skip=0": {"messages": []},
    "/priority/stats": lanes(),
    "/transactions?limit=100&skip=0": {"transactions": [], "count": 0},
}


def take(wants: Wants, answer: Callable[[Asked], Answer]) -> tuple[Sample, list[str]]:
    """The sample of one round, and what was asked."""
    asked: list[str] = []

    async def answering(request: Asked) -> Answer:
        asked.append(request.target)
        return answer(request)

    async def scene() -> Sample:
        async with (
            peer(answering) as url,
            connect(url, retries=Retries(attempts_max=1)) as connection,
        ):
            return await Source(connection).take(wants)

    return asyncio.run(scene()), asked


def told(request: Asked) -> Answer:
    if request.target.startswith("/readyz"):
        return json_answer(BODIES[request.target], 503)
    if request.target not in BODIES:
        return refusal_answer(404, "group_not_found")
    return json_answer(BODIES[request.target])


def test_a_round_asks_the_totals_and_what_is_wanted_once_each() -> None:
    _, asked = take(Wants(), told)
    assert sorted(asked) == sorted(list(BODIES)[:7])
    _, asked = take(
        Wants(lags=("a", "b"), dues=("t",), has_lanes=True, has_transactions=True), told
    )
    assert sorted(asked) == sorted([*BODIES, "/groups/b/lag"])


def test_a_node_that_is_not_ready_is_described_all_the_same() -> None:
    found, _ = take(Wants(), told)
    assert (found.readiness.status, found.readiness.message) == ("fail", "it is starting")
    assert found.readiness.checks["storage"].status == "pass"


def test_what_is_gone_when_it_is_asked_for_is_left_out() -> None:
    found, _ = take(Wants(lags=("a", "gone"), dues=("t", "gone")), told)
    assert list(found.lags) == ["a"]
    assert found.dues == {}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (HANG_UP, "not reached"),
        (refusal_answer(503, "broker_unavailable"), "not ready"),
        (refusal_answer(401, "unauthenticated"), "refused (unauthenticated)"),
    ],
)
def test_a_round_that_fails_fails_as_one(answer: Answer, reason: str) -> None:
    with pytest.raises(GoQueueError) as failed:
        take(Wants(), lambda asked: answer if asked.target == "/stats" else told(asked))
    assert reason_of(failed.value) == reason


def test_an_answer_that_is_no_probe_is_not_taken_for_one() -> None:
    with pytest.raises(GoQueueError) as failed:
        take(Wants(), lambda _: Answer(503, b"<html>"))
    assert failed.value.code == "response_invalid"
    assert not isinstance(failed.value, ServerUnreachable)
