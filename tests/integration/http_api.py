"""One client of the HTTP API, as thin as can be: targets and bodies go out as they are given.

Owns one connection, so it belongs to one thread. Never retries: a connection that breaks raises,
and the next request opens another.
"""

import http.client
import select
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

import msgspec

__all__ = ["Answer", "Api", "Json", "Member", "values_of"]

Json = dict[str, Any]
ANSWER_S_MAX = 70


class Answer(msgspec.Struct, frozen=True):
    """One answer of the server."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Json:
        decoded: Json = msgspec.json.decode(self.content)
        return decoded

    @property
    def code(self) -> str:
        """The code of a refusal, whose form is checked on the way."""
        body = self.body
        # Where none of several messages was stored, each has its result besides.
        assert set(body) <= {"error", "code", "status", "details", "results"}, body
        assert body["status"] == self.status, body
        assert body["error"], body
        return str(body["code"])


class Api:
    """Requests to one server, over one connection.

    A node closes connections that idle, and beside other work a test may pause for long: as other
    clients do, this one then connects again before it sends.
    """

    def __init__(self, url: str, *, timeout_s: float = ANSWER_S_MAX) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"))
        self._connection.timeout = timeout_s

    def close(self) -> None:
        self._connection.close()

    def send(
        self,
        method: str,
        target: str,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request, byte for byte."""
        self.begin(method, target, content, headers)
        return self.finish()

    def begin(
        self,
        method: str,
        target: str,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a request whose answer is fetched later."""
        if self._has_been_closed():
            self.close()
        try:
            self._connection.request(method, target, content, headers or {})
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def _has_been_closed(self) -> bool:
        """Whether the node has ended the connection: nothing else comes between two requests."""
        socket = self._connection.sock
        if socket is None:
            return False
        end = select.poll()
        end.register(socket, select.POLLIN)
        return bool(end.poll(0))

    def finish(self) -> Answer:
        """The answer to the request that was begun."""
        try:
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, content)

    def ask(self, method: str, path: str, body: Json | None = None, **query: object) -> Answer:
        """One request with a JSON body and a query."""
        target = f"{path}?{urlencode(query)}" if query else path
        return self.send(method, target, None if body is None else msgspec.json.encode(body))

    def do(self, method: str, path: str, body: Json | None = None, **query: object) -> Json:
        """A request that succeeds."""
        answer = self.ask(method, path, body, **query)
        assert 200 <= answer.status < 300, answer
        return answer.body

    def get(self, path: str, **query: object) -> Json:
        return self.do("GET", path, None, **query)

    def post(self, path: str, body: Json) -> Json:
        return self.do("POST", path, body)

    def refusal(
        self, method: str, path: str, body: Json | None = None, **query: object
    ) -> tuple[int, str]:
        """Status and code of a request that is refused."""
        answer = self.ask(method, path, body, **query)
        return answer.status, answer.code

    # What most tests do

    def create(self, topic: str, partitions: int = 1, **config: object) -> str:
        """Make a topic; its name."""
        self.post("/topics", {"name": topic, "num_partitions": partitions, **config})
        return topic

    def publish(self, topic: str, *messages: Json | str) -> list[Json]:
        """Publish messages, or values; every one is taken."""
        listed = [
            {"value": message} if isinstance(message, str) else message for message in messages
        ]
        results: list[Json] = self.post(f"/topics/{topic}/messages", {"messages": listed})[
            "results"
        ]
        assert not [result for result in results if "code" in result], results
        return results

    def read(self, topic: str, partition: int = 0, offset: int = 0) -> list[Json]:
        """Every message of a partition from an offset on."""
        found: list[Json] = []
        while True:
            path = f"/topics/{topic}/partitions/{partition}/messages"
            answer = self.get(path, offset=offset, limit=1000)
            found += answer["messages"]
            if answer["next_offset"] == offset:
                return found
            offset = answer["next_offset"]

    def join(self, group: str, *topics: str, **fields: object) -> "Member":
        body = {"client_id": "tester", "topics": list(topics), **fields}
        joined = self.post(f"/groups/{group}/join", body)
        return Member(self, group, joined)

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """The committed offset, if there is one."""
        offsets = self.get(f"/groups/{group}/offsets")["offsets"]
        found: int | None = offsets.get(topic, {}).get(str(partition))
        return found

    def ack(self, message: Json) -> Json:
        return self.post("/messages/ack", {"receipt_handle": message["receipt_handle"]})

    def ack_all(self, messages: Iterable[Json]) -> None:
        handles = [message["receipt_handle"] for message in messages]
        results = self.post("/messages/ack/batch", {"receipt_handles": handles})["results"]
        assert all(result["success"] for result in results), results

    def nack(self, message: Json, **fields: object) -> Json:
        body = {"receipt_handle": message["receipt_handle"], **fields}
        return self.post("/messages/nack", body)


class Member:
    """A member of a group that polls over its own client's connection."""

    def __init__(self, api: Api, group: str, joined: Json) -> None:
        self.api = api
        self.group = group
        self.joined = joined
        self.id: str = joined["member_id"]
        self.generation: int = joined["generation"]

    def poll(self, **query: object) -> list[Json]:
        query = {"member_id": self.id, "timeout": "20s", **query}
        messages: list[Json] = self.api.get(f"/groups/{self.group}/poll", **query)["messages"]
        return messages

    def take(self, count: int, **query: object) -> list[Json]:
        """Poll until so many messages came; a poll that stays empty is a failure."""
        taken: list[Json] = []
        while len(taken) < count:
            messages = self.poll(max_messages=count - len(taken), **query)
            assert messages, f"{len(taken)} of {count} messages came"
            taken += messages
        return taken

    def leave(self) -> None:
        self.api.post(f"/groups/{self.group}/leave", {"member_id": self.id})


def values_of(messages: Iterable[Json]) -> list[str]:
    return [message["value"] for message in messages]
