"""A transactional producer over HTTP, as thin as the client that it uses, and its records."""

from goqueue.model import Message
from goqueue.records import build
from tests.integration.http_api import Answer, Api, Json

__all__ = ["Producer", "send_records"]


class Producer:
    """One producer id and epoch; `p` is what says whose transaction is meant."""

    def __init__(self, api: Api, transactional_id: str, **fields: object) -> None:
        self.api = api
        granted = api.post("/producers/init", {"transactional_id": transactional_id, **fields})
        self.id: int = granted["producer_id"]
        self.epoch: int = granted["epoch"]
        self.p: Json = {**granted, "transactional_id": transactional_id}

    def begin(self) -> str:
        """Open a transaction; its id."""
        begun: str = self.api.post("/transactions/begin", self.p)["transaction_id"]
        return begun

    def publish(self, topic: str, value: str, **fields: object) -> Json:
        return self.api.post("/transactions/publish", self.message(topic, value, **fields))

    def message(self, topic: str, value: str, **fields: object) -> Json:
        """The body that publishes a message."""
        identity = {"producer_id": self.id, "epoch": self.epoch}
        return {**identity, "topic": topic, "value": value, **fields}

    def add(self, group: str, **fields: object) -> None:
        """Add progress of a group."""
        body = {**self.p, "group": group, **fields}
        assert self.api.post("/transactions/offsets", body) == {"status": "added"}

    def prepare(self) -> str:
        answer = self.api.post("/transactions/prepare", self.p)
        assert answer["status"] == "prepared"
        prepared: str = answer["transaction_id"]
        return prepared

    def commit(self) -> None:
        assert self.api.post("/transactions/commit", self.p) == {"status": "committed"}

    def abort(self) -> None:
        assert self.api.post("/transactions/abort", self.p) == {"status": "aborted"}

    def refusal(self, step: str, **fields: object) -> tuple[int, str]:
        """Status and code of a step that is refused."""
        return self.api.refusal("POST", f"/transactions/{step}", {**self.p, **fields})


def send_records(api: Api, topic: str, *values: str, **query: object) -> Answer:
    """Publish values as records, with this query."""
    body = bytes(build([Message(value=value.encode()) for value in values]))
    flags = "&".join(f"{name}={value}" for name, value in query.items())
    return api.send("POST", f"/topics/{topic}/records?{flags}", body)
