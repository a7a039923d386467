"""Producers, consumers and readers, each a process of its own that outlives the node's deaths.

A worker notes before it asks and after it was answered. A connection that breaks makes the outcome
unknown; it is noted as such and never guessed.
"""

import contextlib
import datetime as dt
import http.client
import random
from collections.abc import Callable
from multiprocessing.synchronize import Event as Signal
from pathlib import Path

import msgspec

from soak.journal import Delivered, Journal, Published, Seen, Sent, Settled
from tests.integration.http_api import Api, Json, Member

__all__ = ["TOPIC", "Signals", "Work", "consume", "produce", "read"]

TOPIC = "soak"
KEYS = 200
VISIBILITY_S = 3
PAUSE_S = 0.05
BROKEN = (OSError, http.client.HTTPException)


class Work(msgspec.Struct, frozen=True):
    """What one worker needs to know."""

    url: str
    directory: str
    name: str
    seed: int
    group: str = ""
    mode: str = ""
    partitions: tuple[int, ...] = ()


class Signals(msgspec.Struct, frozen=True):
    """What the workers are told: publish no more, settle all that is left, end."""

    is_quiet: Signal
    is_draining: Signal
    is_over: Signal


def _survive(work: Work, signals: Signals, live: Callable[[Api, Journal], None]) -> None:
    """Begin again with a new connection whenever the node went away."""
    journal = Journal(Path(work.directory), work.name)
    with contextlib.closing(journal), contextlib.closing(Api(work.url)) as api:
        while not signals.is_over.is_set():
            try:
                live(api, journal)
                return
            except (*BROKEN, Unanswered):
                signals.is_over.wait(PAUSE_S)


class Unanswered(Exception):
    """The node could not say: it starts or stops."""


def _do(api: Api, method: str, path: str, body: Json | None = None, **query: object) -> Json | None:
    """The answer, or None for a refusal; raises when the node is not there to answer."""
    answer = api.ask(method, path, body, **query)
    if answer.status >= 500:
        raise Unanswered(answer.code)
    return answer.body if answer.status < 300 else None


# ---- producing -----------------------------------------------------------------------------


def produce(work: Work, signals: Signals, per_second: int) -> None:
    chance = random.Random(work.seed)
    numbers = iter(range(10**9))

    def live(api: Api, journal: Journal) -> None:
        # Nothing is noted as sent while there is nobody to send it to.
        _do(api, "GET", "/topics")
        while not (signals.is_quiet.is_set() or signals.is_over.is_set()):
            messages: list[Json] = []
            for _ in range(chance.randint(1, 10)):
                key = f"k{chance.randrange(KEYS)}" if chance.random() < 0.8 else ""
                messages.append({"value": f"{work.name}-{next(numbers)}", "key": key})
                journal.note(Sent(messages[-1]["value"], key))
            answer = _do(api, "POST", f"/topics/{TOPIC}/messages", {"messages": messages})
            assert answer is not None, "a publish was refused"
            for message, result in zip(messages, answer["results"], strict=True):
                if "code" not in result:
                    journal.note(Published(message["value"], result["partition"], result["offset"]))
            signals.is_quiet.wait(len(messages) / per_second)

    _survive(work, signals, live)


# ---- consuming -----------------------------------------------------------------------------


def consume(work: Work, signals: Signals) -> None:
    chance = random.Random(work.seed)

    def live(api: Api, journal: Journal) -> None:
        fields = {"client_id": work.name, "topics": [TOPIC], "mode": work.mode}
        joined = _do(api, "POST", f"/groups/{work.group}/join", fields)
        assert joined is not None, "a join was refused"
        member = Member(api, work.group, joined)
        while not signals.is_over.is_set():
            polled = _do(
                api,
                "GET",
                f"/groups/{work.group}/poll",
                None,
                member_id=member.id,
                timeout="500ms",
                max_messages=20,
                visibility_timeout=f"{VISIBILITY_S}s",
            )
            if polled is None:
                return live(api, journal)
            messages = polled["messages"]
            for message in messages:
                journal.note(_delivered(work.group, message))
            is_draining = signals.is_draining.is_set()
            verbs = ["ack" if is_draining else _verb(chance) for _ in messages]
            _settle_all(work.group, api, journal, messages, verbs)
        return None

    _survive(work, signals, live)


def _delivered(group: str, message: Json) -> Delivered:
    deadline = nanoseconds(message["deadline"])
    return Delivered(
        group=group,
        partition=message["partition"],
        offset=message["offset"],
        value=message["value"],
        key=message.get("key", ""),
        count=message["delivery_count"],
        leased_at=deadline - VISIBILITY_S * 10**9,
        deadline=deadline,
    )


def nanoseconds(time: str) -> int:
    """A time of the API, exactly."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    whole = dt.datetime.fromisoformat(seconds + "+00:00")
    return int(whole.timestamp()) * 10**9 + int(fraction.ljust(9, "0") or 0)


def _verb(chance: random.Random) -> str:
    """Ack most, nack and reject some, forget a few."""
    choice = chance.random()
    if choice < 0.88:
        return "ack"
    if choice < 0.94:
        return "nack"
    return "reject" if choice < 0.97 else ""


def _settle_all(
    group: str, api: Api, journal: Journal, messages: list[Json], verbs: list[str]
) -> None:
    acked: list[Json] = []
    for message, verb in zip(messages, verbs, strict=True):
        if verb == "ack":
            acked.append(message)
        elif verb:
            _settle(group, api, journal, verb, [message])
    if acked:
        _settle(group, api, journal, "ack", acked)


def _settle(group: str, api: Api, journal: Journal, verb: str, messages: list[Json]) -> None:
    handles = [message["receipt_handle"] for message in messages]
    sent_at = Journal.now()
    outcomes = ["unknown"] * len(messages)
    try:
        if verb == "ack":
            answer = _do(api, "POST", "/messages/ack/batch", {"receipt_handles": handles})
            assert answer is not None, "a batch of acks was refused"
            outcomes = ["done" if each["success"] else "refused" for each in answer["results"]]
        else:
            body: Json = {"receipt_handle": handles[0]}
            body |= {"delay": "100ms"} if verb == "nack" else {}
            answer = _do(api, "POST", f"/messages/{verb}", body)
            outcomes = ["refused" if answer is None else "done"]
    finally:
        answered_at = Journal.now()
        for message, outcome in zip(messages, outcomes, strict=True):
            journal.note(
                Settled(
                    group=group,
                    partition=message["partition"],
                    offset=message["offset"],
                    count=message["delivery_count"],
                    verb=verb,
                    outcome=outcome,
                    sent_at=sent_at,
                    answered_at=answered_at,
                )
            )


# ---- reading -------------------------------------------------------------------------------


def read(work: Work, signals: Signals) -> None:
    """Follow every partition of the topic from its beginning."""
    places = dict.fromkeys(work.partitions, 0)

    def live(api: Api, journal: Journal) -> None:
        while not signals.is_over.is_set():
            for partition, offset in places.items():
                path = f"/topics/{TOPIC}/partitions/{partition}/messages"
                answer = _do(api, "GET", path, None, offset=offset, wait="100ms", limit=1000)
                assert answer is not None, "a read was refused"
                for message in answer["messages"]:
                    journal.note(Seen(partition, message["offset"], message["value"]))
                places[partition] = answer["next_offset"]

    _survive(work, signals, live)
