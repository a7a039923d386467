"""Requests over real sockets: answers, refusals, broken lines, time limits, retries."""

import asyncio

import msgspec
import pytest

from goqueue.client.address import Address
from goqueue.client.credentials import Credentials
from goqueue.client.errors import (
    GoQueueError,
    NotAllowed,
    NotFound,
    RateLimited,
    ServerUnreachable,
    TopicNotFound,
)
from goqueue.client.http import Request, Settings, Transport, get, post
from goqueue.client.retries import Retries
from goqueue.model import Secret
from tests.unit.client.peer import (
    HANG_UP,
    Answer,
    Answering,
    Asked,
    Script,
    json_answer,
    peer,
    refusal_answer,
)

SWIFT = Retries(attempts_max=8, first_wait_s=0.001, wait_s_max=0.001)

ANYTHING = msgspec.json.Decoder(dict[str, object])


def ask(answering: Answering, *requests: Request, **settings: object) -> list[dict[str, object]]:
    """Send requests one after the other to a server that answers so."""

    async def talk() -> list[dict[str, object]]:
        async with peer(answering) as server:
            given = {"server": server, "retries": SWIFT, **settings}
            transport = Transport(msgspec.convert(given, Settings))
            try:
                return [await transport.read(request, ANYTHING) for request in requests]
            finally:
                transport.close()

    return asyncio.run(talk())


def test_one_connection_serves_request_after_request() -> None:
    script = Script(json_answer({"n": 1}))
    assert ask(script, get("topics"), get("groups")) == [{"n": 1}, {"n": 1}]
    assert [asked.connection for asked in script.asked] == [0, 0]


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    script = Script(Answer(headers={"Connection": "close"}))
    ask(script, get("topics"), get("topics"))
    assert [asked.connection for asked in script.asked] == [0, 1]


def test_names_are_percent_encoded_and_fields_without_value_left_out() -> None:
    script = Script(Answer())
    ask(script, get("topics", "a/b c", limit=3, skip=None), post("x", fields={"a": 1, "b": None}))
    assert script.asked[0].target == "/topics/a%2Fb%20c?limit=3"
    assert script.asked[1].body == b'{"a":1}'


def test_the_key_travels_in_its_header() -> None:
    script = Script(Answer())
    ask(script, get("topics"), credentials=Credentials(key=Secret("secret"), source="a test"))
    assert script.asked[0].headers["x-api-key"] == "secret"


@pytest.mark.parametrize("key", ["", "a b", "a\r\nX: y", "é"])
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(GoQueueError) as refused:
        Credentials.given(key, None)
    assert refused.value.code == "unauthenticated"
    assert key == "" or key not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "topic_not_found", TopicNotFound),
        (404, "group_not_found", NotFound),
        (401, "unauthenticated", NotAllowed),
        (403, "permission_denied", NotAllowed),
        (400, "request_invalid", GoQueueError),
    ],
)
def test_a_refusal_is_an_exception_with_its_code_and_facts(
    status: int, code: str, kind: type[GoQueueError]
) -> None:
    with pytest.raises(kind) as refused:
        ask(Script(refusal_answer(status, code, field="name")), get("topics"))
    error = refused.value
    assert (error.code, error.status, error.details) == (code, status, {"field": "name"})
    assert error.sentence == f"a sentence about {code}"


def test_a_redirect_is_not_followed() -> None:
    script = Script(Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}, body=b""))
    with pytest.raises(GoQueueError) as refused:
        ask(script, get("topics"))
    assert refused.value.status == 302
    assert len(script.asked) == 1


def test_an_answer_of_another_shape_is_told_so() -> None:
    with pytest.raises(GoQueueError) as refused:
        ask(Script(Answer(body=b"[1]")), get("topics"))
    assert refused.value.code == "response_invalid"


def test_an_answer_over_its_limit_is_refused() -> None:
    with pytest.raises(GoQueueError) as refused:
        ask(Script(Answer(body=b" " * 1001)), get("topics"), response_bytes_max=1000)
    assert refused.value.code == "response_too_large"


def test_what_is_not_http_is_no_answer() -> None:
    async def talk() -> None:
        async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-something\r\n")
            writer.close()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            settings = Settings(server=f"http://127.0.0.1:{port}", retries=SWIFT)
            await Transport(settings).ask(get("topics"))

    with pytest.raises(ServerUnreachable):
        asyncio.run(talk())


def test_what_the_server_asks_to_repeat_is_repeated() -> None:
    script = Script(refusal_answer(503, "broker_unavailable"), json_answer({"n": 1}))
    assert ask(script, post("topics", fields={})) == [{"n": 1}]
    assert len(script.asked) == 2


def test_attempts_are_bounded() -> None:
    script = Script(refusal_answer(429, "rate_limited"))
    with pytest.raises(RateLimited):
        ask(script, get("topics"), retries=Retries(attempts_max=3, first_wait_s=0.001))
    assert len(script.asked) == 3


def test_a_read_whose_connection_broke_is_sent_again() -> None:
    script = Script(HANG_UP, json_answer({"n": 1}))
    assert ask(script, get("topics")) == [{"n": 1}]


def test_a_write_whose_connection_broke_is_not_sent_again_unless_it_may() -> None:
    script = Script(HANG_UP, json_answer({"n": 1}))
    with pytest.raises(ServerUnreachable) as broken:
        ask(script, post("topics", fields={}))
    assert broken.value.was_sent
    assert len(script.asked) == 1

    script = Script(HANG_UP, json_answer({"n": 1}))
    assert ask(script, post("topics", fields={}, is_repeatable=True)) == [{"n": 1}]


def test_what_an_earlier_attempt_left_open_the_last_one_does_not_close() -> None:
    script = Script(HANG_UP, refusal_answer(404, "producer_not_found"))
    with pytest.raises(GoQueueError) as refused:
        ask(script, post("topics", fields={}, is_repeatable=True))
    assert refused.value.code == "producer_not_found"
    assert refused.value.is_outcome_unknown

    script = Script(refusal_answer(503, "broker_unavailable"), refusal_answer(404, "x"))
    with pytest.raises(GoQueueError) as refused:
        ask(script, post("topics", fields={}))
    assert not refused.value.is_outcome_unknown


@pytest.mark.parametrize("status", [502, 504])
def test_a_proxy_that_got_no_answer_does_not_know_the_outcome(status: int) -> None:
    script = Script(Answer(status=status, body=b"<html>"), json_answer({"n": 1}))
    with pytest.raises(GoQueueError) as refused:
        ask(script, post("topics", fields={}))
    assert refused.value.is_outcome_unknown
    assert len(script.asked) == 1

    script = Script(Answer(status=status, body=b"<html>"), json_answer({"n": 1}))
    assert ask(script, post("topics", fields={}, is_repeatable=True)) == [{"n": 1}]


def test_an_answer_that_cannot_be_read_leaves_the_outcome_open() -> None:
    script = Script(Answer(body=b"{"))
    with pytest.raises(GoQueueError) as unread:
        ask(script, post("topics", fields={}))
    assert unread.value.is_outcome_unknown


def test_a_server_that_is_not_there_is_unreachable() -> None:
    async def talk() -> None:
        async with peer(Script(Answer())) as server:
            pass
        await Transport(Settings(server=server, retries=SWIFT)).ask(post("topics", fields={}))

    with pytest.raises(ServerUnreachable) as unreachable:
        asyncio.run(talk())
    assert not unreachable.value.was_sent


def test_an_answer_that_does_not_come_in_time_is_none() -> None:
    async def never(_: Asked) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    with pytest.raises(ServerUnreachable) as unreachable:
        ask(never, post("topics", fields={}), timeout_s=0.02)
    assert unreachable.value.was_sent


def test_an_answer_that_comes_too_late_is_given_to_nobody_else() -> None:
    release, arrived = asyncio.Event(), asyncio.Event()

    async def slow(asked: Asked) -> Answer:
        if asked.target == "/slow":
            arrived.set()
            await release.wait()
        return json_answer({"target": asked.target})

    async def talk() -> dict[str, object]:
        async with peer(slow) as server:
            transport = Transport(Settings(server=server, retries=SWIFT))
            late = asyncio.ensure_future(transport.ask(get("slow")))
            await arrived.wait()
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)
            release.set()
            answer = await transport.read(get("fast"), ANYTHING)
            transport.close()
            return answer

    assert asyncio.run(talk()) == {"target": "/fast"}


def test_no_more_connections_are_open_than_allowed() -> None:
    script = Script(Answer())

    async def talk() -> None:
        async with peer(script) as server:
            transport = Transport(Settings(server=server, connections_max=2))
            await asyncio.gather(*(transport.ask(get("topics")) for _ in range(20)))
            transport.close()

    asyncio.run(talk())
    assert len(script.asked) == 20
    assert {asked.connection for asked in script.asked} <= {0, 1}


@pytest.mark.parametrize(
    "server",
    [
        "",
        "127.0.0.1:x",
        "ftp://host",
        "http://",
        "http://user@host",
        "http://h?k=1",
        "http://h:x",
        "http://é",
    ],
)
def test_what_is_no_server_is_refused_at_once(server: str) -> None:
    with pytest.raises(GoQueueError) as refused:
        Transport(Settings(server=server))
    assert refused.value.code == "request_invalid"


def test_a_server_without_a_scheme_is_http_as_on_the_command_line() -> None:
    address = Address.parse("localhost:8080")
    assert (address.host, address.port, address.is_tls) == ("localhost", 8080, False)
    assert Address.parse("[::1]:8080/prefix").prefix == "/prefix"


def test_a_name_that_is_empty_or_none_reaches_no_server() -> None:
    with pytest.raises(ValueError, match="is empty"):
        get("topics", "")
    with pytest.raises(TypeError, match="a name is str, not None"):
        get("topics", None)  # type: ignore[arg-type]  # what a program gets wrong


def test_a_second_answer_to_one_request_changes_nothing_and_ends_the_connection() -> None:
    class Twice(msgspec.Struct):
        """Puts an answer that nobody asked for right behind each answer."""

        asked: list[Asked]

        async def __call__(self, asked: Asked) -> Answer:
            self.asked.append(asked)
            stray = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nA: stray\r\n\r\n{"n":2}'
            # Longer than its length says: what is over is the stray answer.
            return Answer(body=b'{"n":1}' + stray, headers={"Content-Length": "7"})

    script = Twice([])
    assert ask(script, get("topics"), get("topics")) == [{"n": 1}, {"n": 1}]
    assert [asked.connection for asked in script.asked] == [0, 1]
