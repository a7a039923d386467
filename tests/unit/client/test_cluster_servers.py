"""Several servers: which one is asked, what follows the leader, what happens when one is gone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

import goqueue
from goqueue.client.address import parse_servers
from goqueue.client.connection_settings import Settings
from goqueue.client.http import Request, Transport, get
from goqueue.client.retries import Retries
from goqueue.model import LogId
from tests.unit.client.peer import HANG_UP, Answer, Asked, json_answer, peer, refusal_answer

SWIFT = Retries(attempts_max=50, first_wait_s=0.001, wait_s_max=0.002)
LOG = LogId("orders", 1)


class FakeNodes:
    """Nodes that know their addresses and leaders, and count what they are asked."""

    def __init__(self, count: int) -> None:
        self.urls: list[str] = []
        self.leader = 0
        self.count = count
        self.asked: list[list[str]] = [[] for _ in range(count)]
        # What a node answers instead, for requests about messages.
        self.answers: dict[int, Answer] = {}

    def answer(self, node: int, asked: Asked) -> Answer:
        if asked.target == "/cluster/state":
            nodes = [
                {"id": f"n{number}", "client_address": url.removeprefix("http://")}
                for number, url in enumerate(self.urls)
            ]
            return json_answer({"nodes": nodes})
        if asked.target.endswith("/partitions"):
            return json_answer(
                {"partitions": [{"partition": LOG.partition, "leader": f"n{self.leader}"}]}
            )
        self.asked[node].append(asked.target)
        return self.answers.get(node, json_answer({"node": node}))

    @contextlib.asynccontextmanager
    async def run(self, **settings: object) -> AsyncIterator[Transport]:
        async with contextlib.AsyncExitStack() as stack:
            for number in range(self.count):

                async def answering(asked: Asked, number: int = number) -> Answer:
                    return self.answer(number, asked)

                self.urls.append(await stack.enter_async_context(peer(answering)))
            given = {"server": ",".join(self.urls), "retries": SWIFT, **settings}
            transport = Transport(msgspec.convert(given, Settings))
            stack.callback(transport.close)
            yield transport

    def total(self) -> list[int]:
        return [len(each) for each in self.asked]


def about_log(number: int = 0, *, is_repeatable: bool = True) -> Request:
    return Request(
        method="POST",
        target=f"/topics/orders/records?n={number}",
        body=b"x",
        log=LOG,
        is_repeatable=is_repeatable,
    )


async def until_led_by(nodes: FakeNodes, transport: Transport, node: int) -> None:
    """Ask until requests arrive at this node."""
    for number in range(500):
        before = len(nodes.asked[node])
        await transport.ask(about_log(number))
        if len(nodes.asked[node]) > before:
            return
        await asyncio.sleep(0.01)
    pytest.fail("the leader was never asked")


def test_requests_about_a_partition_go_to_its_leader_once_that_is_known() -> None:
    async def talk() -> FakeNodes:
        nodes = FakeNodes(3)
        nodes.leader = 2
        async with nodes.run() as transport:
            await until_led_by(nodes, transport, 2)
            known = nodes.total()
            for number in range(20):
                await transport.ask(about_log(number))
            await transport.ask(get("topics"))
            assert nodes.total()[2] == known[2] + 20
            assert nodes.asked[0][-1] == "/topics"
        return nodes

    asyncio.run(talk())


def test_a_request_is_never_held_up_by_the_question_who_leads() -> None:
    async def talk() -> None:
        nodes = FakeNodes(2)
        nodes.leader = 1
        async with nodes.run() as transport:
            await transport.ask(about_log())
            assert nodes.total() == [1, 0]

    asyncio.run(talk())


def test_not_leader_with_an_address_is_followed_at_once() -> None:
    async def talk() -> None:
        nodes = FakeNodes(3)
        async with nodes.run() as transport:
            address = nodes.urls[2].removeprefix("http://")
            nodes.answers[0] = refusal_answer(503, "not_leader", leader_address=address)
            nodes.leader = 2
            await transport.ask(about_log(is_repeatable=False))
            assert nodes.total() == [1, 0, 1]

    asyncio.run(talk())


@pytest.mark.parametrize("answer", [HANG_UP, refusal_answer(503, "broker_unavailable")])
def test_the_next_server_is_asked_when_one_is_gone(answer: Answer) -> None:
    async def talk() -> None:
        nodes = FakeNodes(3)
        async with nodes.run() as transport:
            nodes.answers[0] = answer
            await transport.ask(get("topics"))
            await transport.ask(get("topics"))
            assert nodes.total() == [1, 2, 0]

    asyncio.run(talk())


def test_a_leader_that_is_gone_is_left_and_the_next_one_found() -> None:
    async def talk() -> None:
        nodes = FakeNodes(3)
        nodes.leader = 2
        async with nodes.run() as transport:
            await until_led_by(nodes, transport, 2)
            nodes.answers[2] = HANG_UP
            nodes.leader = 1
            await transport.ask(about_log())
            await until_led_by(nodes, transport, 1)

    asyncio.run(talk())


def test_what_may_have_been_done_is_not_sent_to_another_server() -> None:
    async def talk() -> None:
        nodes = FakeNodes(3)
        async with nodes.run() as transport:
            nodes.answers[0] = HANG_UP
            with pytest.raises(goqueue.ServerUnreachable) as failure:
                await transport.ask(about_log(is_repeatable=False))
            assert failure.value.is_outcome_unknown
            assert nodes.total() == [1, 0, 0]

    asyncio.run(talk())


def test_one_server_alone_is_never_asked_who_leads() -> None:
    seen: list[str] = []

    async def answering(asked: Asked) -> Answer:
        seen.append(asked.target)
        return json_answer({})

    async def talk() -> None:
        async with peer(answering) as server:
            transport = Transport(Settings(server=server, retries=SWIFT))
            for number in range(5):
                await transport.ask(about_log(number))
            transport.close()

    asyncio.run(talk())
    assert len(seen) == 5


def test_several_addresses_of_one_node_are_not_asked_again_and_again_who_leads() -> None:
    asked_state = 0

    async def answering(asked: Asked) -> Answer:
        nonlocal asked_state
        if asked.target == "/cluster/state":
            asked_state += 1
            return json_answer({"nodes": [{"id": "only", "client_address": ""}]})
        return json_answer({"partitions": []})

    async def talk() -> None:
        async with peer(answering) as one, peer(answering) as other:
            transport = Transport(Settings(server=f"{one},{other}", retries=SWIFT))
            for number in range(30):
                await transport.ask(about_log(number))
                await asyncio.sleep(0.02)
            transport.close()

    asyncio.run(talk())
    assert asked_state == 1


def test_a_list_of_servers_is_text_with_commas() -> None:
    assert parse_servers("a:1, http://b:2") == parse_servers("http://a:1,http://b:2/")
    connection = goqueue.connect(["http://127.0.0.1:1", "http://127.0.0.1:2"])
    assert connection is not None


@pytest.mark.parametrize(
    "servers", ["", "http://a,", "http://a,https://b", "memory://a,http://b", "http://a,ftp://b"]
)
def test_servers_that_cannot_be_one_cluster_are_refused(servers: str) -> None:
    with pytest.raises(goqueue.GoQueueError) as refused:
        parse_servers(servers)
    assert refused.value.code == "request_invalid"


def test_a_key_is_sent_in_the_clear_to_no_server_of_the_list() -> None:
    with pytest.raises(goqueue.GoQueueError):
        goqueue.connect("http://127.0.0.1:1,http://queue.example", api_key="gq_x")
