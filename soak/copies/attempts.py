"""One transactional producer over plain HTTP: its attempts to copy a handful of messages.

What may be repeated is repeated until somebody answers, also over the death of the broker: batches
carry sequences, and an end is answered alike each time. What may not be repeated begins anew.
"""

import http.client
import random
import time
from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec

from goqueue.model import Message
from goqueue.records import build, murmur3
from soak.copies.notes import note
from tests.integration.http_api import Api, Json

__all__ = ["ATTEMPT", "Asking", "Broken", "Declined", "Producer"]

ATTEMPT = "attempt"
PAUSE_S = 0.05
HESITATION_S = 0.4
PATIENCE_S = 60
# So many messages of an attempt take the road for one at a time.
SINGLES = 3
TRANSACTION_MS = 5_000
# Refusals after which the same may be asked again, or may have been done.
UNSURE = {
    *("broker_unavailable", "request_timeout", "leader_unavailable", "not_leader"),
    *("replication_failed", "not_enough_replicas", "not_controller"),
}


class Broken(Exception):
    """Nobody answered: what was asked may have been done or not."""


class Declined(Exception):
    """The broker said no."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Asking:
    """Requests that tell a refusal from silence, and take their time."""

    def __init__(self, url: str, chance: random.Random, pause_s: float) -> None:
        self._urls = url.split(",")
        self._api = Api(chance.choice(self._urls), timeout_s=PATIENCE_S)
        self._pause_s = pause_s
        self.chance = chance

    def once(self, method: str, path: str, body: bytes | Json | None = None) -> Json:
        """The answer; raises Declined or Broken."""
        # Between any two steps there is time to die.
        time.sleep(self.chance.random() * self._pause_s)
        content = msgspec.json.encode(body) if isinstance(body, dict) else body
        try:
            answer = self._api.send(method, path, content)
        except (OSError, http.client.HTTPException) as broken:
            if len(self._urls) > 1:
                self._api = Api(self.chance.choice(self._urls), timeout_s=PATIENCE_S)
            raise Broken(str(broken)) from broken
        if answer.status < 300:
            return answer.body
        if answer.code in UNSURE:
            raise Broken(answer.code)
        assert answer.status < 500, answer
        raise Declined(answer.code)

    def until_answered(self, method: str, path: str, body: bytes | Json | None = None) -> Json:
        """The answer, however often it must be asked for; only for what may be repeated."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.once(method, path, body)
            except Broken:
                assert time.monotonic() < deadline, f"nobody answered {path}"
                time.sleep(PAUSE_S)


class Producer:
    """An epoch of a transactional id, and its transaction at hand."""

    def __init__(self, asking: Asking, name: str, topic: str, partitions: int) -> None:
        body = {"transactional_id": name, "transaction_timeout_ms": TRANSACTION_MS}
        granted = asking.until_answered("POST", "/producers/init", body)
        self._asking = asking
        self._topic = topic
        self._partitions = partitions
        self._identity = {"producer_id": granted["producer_id"], "epoch": granted["epoch"]}
        self._owner = {**self._identity, "transactional_id": name}
        self._sequences = dict.fromkeys(range(partitions), 0)
        self.attempt = ""

    def begin(self) -> None:
        """Open a transaction. Asked twice it would be refused, so silence begins anew."""
        begun = self._asking.once("POST", "/transactions/begin", self._owner)
        self.attempt = begun["transaction_id"]

    def copy(self, messages: Sequence[Json]) -> None:
        """Publish the same messages, in the same order for each key."""
        for message in messages[:SINGLES]:
            self._copy_one(message)
        parts: dict[int, list[Message]] = {}
        for message in messages[SINGLES:]:
            parts.setdefault(self._place(message), []).append(
                Message(
                    key=message["key"].encode(),
                    value=message["value"].encode(),
                    headers=((ATTEMPT, self.attempt.encode()),),
                )
            )
        for partition, part in parts.items():
            sequence = self._sequences[partition]
            query = {**self._identity, "partition": partition, "sequence": sequence}
            path = f"/topics/{self._topic}/records?{urlencode(query)}"
            answer = self._asking.until_answered("POST", path, bytes(build(part)))
            self._taken(partition, len(part), is_repeat=answer["results"][0].get("duplicate"))

    def _copy_one(self, message: Json) -> None:
        partition = self._place(message)
        body = {
            **self._identity,
            "topic": self._topic,
            "key": message["key"],
            "value": message["value"],
            "headers": {ATTEMPT: self.attempt},
            "partition": partition,
            "sequence": self._sequences[partition],
        }
        answer = self._asking.until_answered("POST", "/transactions/publish", body)
        self._taken(partition, 1, is_repeat=answer["duplicate"])

    def _taken(self, partition: int, count: int, *, is_repeat: bool | None) -> None:
        self._sequences[partition] += count
        if is_repeat:
            note("repeat known", self.attempt, count)

    def _place(self, message: Json) -> int:
        return murmur3(message["key"].encode()) % self._partitions

    def add(self, group: str, progress: Json) -> None:
        body = {**self._owner, "group": group, **progress}
        self._asking.until_answered("POST", "/transactions/offsets", body)

    def end(self, count: int) -> bool:
        """Commit, or now and then abort, what holds so many messages; whether it is committed."""
        note("filled", self.attempt, count)
        # Here all is said but the last word: the moment in which a death leaves most undone.
        time.sleep(self._asking.chance.random() * HESITATION_S)
        wish = "abort" if self._asking.chance.random() < 0.1 else "commit"
        try:
            answer = self._asking.until_answered("POST", f"/transactions/{wish}", self._owner)
        except Declined as declined:
            # Any other refusal may come after a commit whose answer was lost.
            if declined.code == "transaction_timeout":
                note("aborted", self.attempt)
            raise
        note(answer["status"], self.attempt)
        return wish == "commit"

    def abort(self) -> None:
        """Give up; raises Declined if it is no longer ours to give up."""
        self._asking.until_answered("POST", "/transactions/abort", self._owner)
        note("aborted", self.attempt)
