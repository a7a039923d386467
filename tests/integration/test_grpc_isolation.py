"""Tenants over gRPC: what another tenant has is answered like what nobody has."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.grpc_listener import METHODS
from tests.integration.grpc_client import CallFailed, GrpcClient, grpc_address, grpc_client
from tests.integration.keyed_callers import Callers, keyed_node

pytest.importorskip("grpc", reason="the extra `grpc` is not installed")

VALUE = "of globex alone"
# What each method is asked about things of the other tenant.
CALLS: dict[str, Any] = {
    "PublishService/Publish": lambda it: protocol.PublishRequest(topic=it.topic, value=b"x"),
    "AckService/Ack": lambda it: protocol.AckRequest(receipt_handle=it.receipt),
    "AckService/Nack": lambda it: protocol.NackRequest(receipt_handle=it.receipt),
    "AckService/Reject": lambda it: protocol.RejectRequest(receipt_handle=it.receipt),
    "AckService/ExtendVisibility": lambda it: protocol.ExtendVisibilityRequest(
        receipt_handle=it.receipt, visibility_timeout=protocol.Duration(seconds=30)
    ),
    "AckService/BatchAck": lambda it: protocol.BatchAckRequest(receipt_handles=[it.receipt]),
    "OffsetService/FetchOffsets": lambda it: protocol.FetchOffsetsRequest(group_id=it.group),
    "OffsetService/CommitOffsets": lambda it: protocol.CommitOffsetsRequest(
        group_id=it.group,
        offsets=[protocol.OffsetCommit(topic=it.topic, partition=0, offset=0)],
    ),
    "OffsetService/ResetOffsets": lambda it: protocol.ResetOffsetsRequest(
        group_id=it.group,
        strategy=protocol.OFFSET_RESET_STRATEGY_EARLIEST,
        partitions=[protocol.TopicPartition(topic=it.topic, partition=0)],
    ),
    "TransactionService/BeginTransaction": lambda it: protocol.BeginTransactionRequest(
        transactional_id=it.transactional_id, producer_id=it.producer, epoch=0
    ),
    "TransactionService/AddPartition": lambda it: protocol.AddPartitionRequest(
        transactional_id=it.transactional_id,
        producer_id=it.producer,
        epoch=0,
        topic=it.topic,
        partition=0,
    ),
    "TransactionService/CommitTransaction": lambda it: protocol.CommitTransactionRequest(
        transactional_id=it.transactional_id, producer_id=it.producer, epoch=0
    ),
    "TransactionService/AbortTransaction": lambda it: protocol.AbortTransactionRequest(
        transactional_id=it.transactional_id, producer_id=it.producer, epoch=0
    ),
    "TransactionService/DescribeTransaction": lambda it: protocol.DescribeTransactionRequest(
        transaction_id=it.transaction
    ),
}
# What is asked in tests of its own, or is about nothing that has an owner.
STREAMS = {"PublishService/PublishStream", "ConsumeService/Consume", "ConsumeService/Subscribe"}
OWN = {"TransactionService/InitProducer", "TransactionService/ListTransactions"}
OWN |= {f"{each}/Check" for each in ("HealthService", "/grpc.health.v1.Health")}
OWN |= {f"{each}/Watch" for each in ("HealthService", "/grpc.health.v1.Health")}


class Things(NamedTuple):
    """Names that a caller may try."""

    topic: str
    group: str
    transactional_id: str
    producer: int
    transaction: str
    receipt: str

    def masked(self, text: str) -> str:
        given = zip(self._fields, map(str, self), strict=True)
        for name, value in sorted(given, key=lambda each: -len(each[1])):
            text = re.sub(rf"(?<![\w.]){re.escape(value)}(?!\w)", f"<{name}>", text)
        return re.sub(r"seconds: \d+|nanos: \d+", "time", text)


class Scene(NamedTuple):
    address: str
    callers: Callers
    theirs: Things
    their_key: str
    own: Things
    key: str


@pytest.fixture(name="scene", scope="module")
def two_tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("node")
    with keyed_node(folder, "--grpc", "127.0.0.1:0") as callers:
        keys = {}
        for tenant in ("acme", "globex"):
            callers.do("POST", "/admin/tenants", {"id": tenant, "name": tenant})
            keys[tenant] = str(callers.key("admin", tenant)["key"])
            body = {"name": f"{tenant}.orders", "num_partitions": 1}
            callers.do("POST", "/topics", body, keys[tenant])
        address = grpc_address(callers.server)
        with (
            grpc_client(address, keys["globex"]) as client,
            grpc_client(address, keys["acme"]) as other,
        ):
            theirs = made_by(client, "globex")
            own = made_by(other, "acme")
            yield Scene(address, callers, theirs, keys["globex"], own, keys["acme"])


def made_by(client: GrpcClient, tenant: str) -> Things:
    """A topic with a leased message, a group and an open transaction of the tenant."""
    client.publish(f"{tenant}.orders", VALUE.encode() if tenant == "globex" else b"own")
    (message,) = client.subscribe(f"{tenant}.workers", f"{tenant}.orders").messages(1)
    init = protocol.InitProducerRequest(transactional_id="jobs")
    producer = client.call(
        "TransactionService/InitProducer", init, protocol.InitProducerResponse
    ).producer_id
    begin = protocol.BeginTransactionRequest(transactional_id="jobs", producer_id=producer, epoch=0)
    begun = client.call(
        "TransactionService/BeginTransaction", begin, protocol.BeginTransactionResponse
    )
    return Things(
        topic=f"{tenant}.orders",
        group=f"{tenant}.workers",
        transactional_id="jobs",
        producer=producer,
        transaction=begun.transaction_id,
        receipt=message.receipt_handle,
    )


def outcome(client: GrpcClient, method: str, things: Things) -> str:
    """Everything that a caller learns from a call, with the names that it gave masked."""
    request = CALLS[method](things)
    kind = getattr(protocol, type(request).__name__.replace("Request", "Response"))
    try:
        answer = str(client.call(method, request, kind))
    except CallFailed as failed:
        answer = f"{failed.status} {failed.args} {failed.error}"
    return things.masked(answer)


def absent(theirs: Things) -> Things:
    """The same kinds of names, of which there is none."""
    receipt = theirs.receipt
    middle = len(receipt) // 2
    other = "A" if receipt[middle] != "A" else "B"
    return Things(
        topic="globex.absent",
        group="globex.nobody",
        transactional_id="none",
        producer=theirs.producer + 1000,
        transaction=f"{theirs.producer + 1000}-1",
        receipt=receipt[:middle] + other + receipt[middle + 1 :],
    )


@pytest.mark.parametrize("method", CALLS)
def test_a_call_about_what_another_tenant_has_tells_nothing(scene: Scene, method: str) -> None:
    with grpc_client(scene.address, scene.key) as client:
        of_theirs = outcome(client, method, scene.theirs)
        of_nobody = outcome(client, method, absent(scene.theirs))

    assert of_theirs == of_nobody
    assert VALUE not in of_theirs


def test_every_method_is_tried() -> None:
    served = {method.decode().removeprefix("/goqueue.v1.") for method in METHODS}
    assert served == CALLS.keys() | STREAMS | OWN


@pytest.mark.parametrize("method", CALLS)
def test_one_foreign_name_among_own_ones_tells_nothing(scene: Scene, method: str) -> None:
    nobodys = absent(scene.theirs)
    for field in Things._fields:
        with grpc_client(scene.address, scene.key) as client:
            answers = []
            for given in (scene.theirs, nobodys):
                things = scene.own._replace(**{field: getattr(given, field)})
                if repr(CALLS[method](things)) == repr(CALLS[method](scene.own)):
                    # It names nothing of this kind, or what it names is the same for everybody.
                    break
                answers.append(outcome(client, method, things))
            else:
                assert answers[0] == answers[1], field
                assert VALUE not in answers[0]


def test_transactions_of_other_tenants_are_not_listed(scene: Scene) -> None:
    request = protocol.ListTransactionsRequest()
    with grpc_client(scene.address, scene.key) as client:
        method, kind = "TransactionService/ListTransactions", protocol.ListTransactionsResponse
        listed = client.call(method, request, kind)
    found = {each.transaction_id for each in listed.transactions}
    assert scene.theirs.transaction not in found


def test_a_stream_of_publishes_to_another_tenant_is_answered_like_one_to_no_topic(
    scene: Scene,
) -> None:
    answers = []
    for things in (scene.theirs, absent(scene.theirs)):
        with grpc_client(scene.address, scene.key) as client:
            request = protocol.PublishStreamRequest(topic=things.topic, value=b"x")
            (answer,) = client.publish_stream([request])
            answers.append(things.masked(str(answer)))
    assert answers[0] == answers[1]
    assert "TOPIC_NOT_FOUND" in answers[0]


@pytest.mark.parametrize("method", ["consume", "subscribe"])
def test_a_stream_of_another_tenants_topic_ends_like_one_of_no_topic(
    scene: Scene, method: str
) -> None:
    ended = []
    for things in (scene.theirs, absent(scene.theirs)):
        with grpc_client(scene.address, scene.key) as client:
            if method == "consume":
                stream = client.consume(things.topic)
            else:
                stream = client.subscribe("acme.workers", things.topic)
            try:
                (answer,) = map(str, itertools.islice(stream, 1))
            except CallFailed as failed:
                answer = f"{failed.args} {failed.error}"
            ended.append(things.masked(answer))
    assert ended[0] == ended[1]
    assert "not_found" in ended[0].lower()


def test_after_all_attempts_the_other_tenant_has_what_it_had(scene: Scene) -> None:
    with grpc_client(scene.address, scene.key) as intruder:
        for method in CALLS:
            outcome(intruder, method, scene.theirs)
    path = "/topics/globex.orders/partitions/0/messages?offset=0"
    found = scene.callers.do("GET", path, key=scene.their_key)
    assert [each["value"] for each in found["messages"]] == [VALUE]
    with grpc_client(scene.address, scene.their_key) as owner:
        commit = protocol.CommitTransactionRequest(
            transactional_id="jobs", producer_id=scene.theirs.producer, epoch=0
        )
        answer = owner.call(
            "TransactionService/CommitTransaction", commit, protocol.CommitTransactionResponse
        )
        assert not answer.HasField("error")
