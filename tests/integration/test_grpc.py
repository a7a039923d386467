"""gRPC on a real node, used by the library of the gRPC project: services, errors, streams, ends."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from goqueue.gateways.grpc import protocol
from tests.integration.grpc_client import CallFailed, GrpcClient, grpc_address, grpc_client
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving

GRPC = ("--grpc", "127.0.0.1:0", "--grpc-reflection", "true")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("node"), *GRPC) as process:
        yield process


@pytest.fixture
def client(node: ServerProcess) -> Iterator[GrpcClient]:
    with grpc_client(grpc_address(node)) as made:
        yield made


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_message_published_by_grpc_is_read_by_http_and_back(
    client: GrpcClient, api: Api, topic: str
) -> None:
    published = client.publish(topic, b"by grpc", key=b"k", headers={"a": "b"}, partition=0)
    assert (published.partition, published.offset) == (0, 0)
    api.post(f"/topics/{topic}/messages", {"messages": [{"value": "by http", "partition": 0}]})
    assert [each["value"] for each in api.read(topic)] == ["by grpc", "by http"]
    stream = client.consume(topic, partitions=[0])
    first, second = stream.messages(2)
    assert (first.value, first.key, dict(first.headers)) == (b"by grpc", b"k", {"a": "b"})
    assert (second.value, second.offset, second.priority) == (b"by http", 1, 2)
    assert first.timestamp.seconds == published.timestamp.seconds
    stream.cancel()


def test_a_refusal_is_a_status_and_an_error_with_the_code_of_http(client: GrpcClient) -> None:
    with pytest.raises(CallFailed) as failed:
        client.publish("never-created", b"x")
    assert failed.value.status == "NOT_FOUND"
    assert failed.value.error.code == protocol.ERROR_CODE_TOPIC_NOT_FOUND
    assert dict(failed.value.error.details) == {"topic": "never-created"}


def test_a_topic_that_validates_refuses_bad_values_of_calls_and_streams(
    client: GrpcClient, api: Api, topic: str
) -> None:
    api.post(f"/schemas/subjects/{topic}-value/versions", {"schema": '{"type": "integer"}'})
    api.do("PATCH", f"/topics/{topic}", {"schema_validation": True})
    with pytest.raises(CallFailed) as failed:
        client.publish(topic, b'"x"')
    assert failed.value.status == "INVALID_ARGUMENT"
    assert failed.value.error.code == protocol.ERROR_CODE_SCHEMA_VIOLATION
    assert "integer" in failed.value.error.details["reason"]
    values = (b"1", b"{", b"2")
    answers = list(
        client.publish_stream(
            protocol.PublishStreamRequest(topic=topic, value=value, partition=0) for value in values
        )
    )
    codes = [each.error.code for each in answers]
    assert codes == [0, protocol.ERROR_CODE_SCHEMA_VIOLATION, 0]
    assert [each["value"] for each in api.read(topic)] == ["1", "2"]


def test_an_unknown_method_is_unimplemented(client: GrpcClient) -> None:
    with pytest.raises(CallFailed) as failed:
        client.call("PublishService/Never", protocol.AckRequest(), protocol.AckResponse)
    assert failed.value.status == "UNIMPLEMENTED"
    assert failed.value.error.code == protocol.ERROR_CODE_ROUTE_NOT_FOUND


def test_a_stream_answers_each_request_in_order_and_outlives_failures(
    client: GrpcClient, topic: str
) -> None:
    def requests() -> Iterator[protocol.PublishStreamRequest]:
        for number in range(300):
            name = "never-created" if number % 100 == 50 else topic
            priority = 9 if number % 100 == 70 else 2
            yield protocol.PublishStreamRequest(
                correlation_id=str(number), topic=name, value=b"v", priority=priority, partition=1
            )

    answers = list(client.publish_stream(requests()))
    assert [each.correlation_id for each in answers] == list(map(str, range(300)))
    failed = {int(each.correlation_id): each.error.code for each in answers if each.error.code}
    assert set(failed) == {50, 70, 150, 170, 250, 270}
    assert failed[50] == protocol.ERROR_CODE_TOPIC_NOT_FOUND
    assert failed[70] == protocol.ERROR_CODE_MESSAGE_INVALID
    offsets = [each.offset for each in answers if not each.error.code]
    assert offsets == list(range(294))


def test_a_repeated_sequence_is_a_duplicate_with_the_first_place(
    client: GrpcClient, topic: str
) -> None:
    granted = client.call(
        "TransactionService/InitProducer",
        protocol.InitProducerRequest(),
        protocol.InitProducerResponse,
    )
    stamp = {"producer_id": granted.producer_id, "producer_epoch": granted.epoch, "partition": 0}
    first = client.publish(topic, b"once", sequence=0, **stamp)
    again = client.publish(topic, b"once", sequence=0, **stamp)
    assert (again.offset, again.duplicate, first.duplicate) == (first.offset, True, False)
    with pytest.raises(CallFailed) as failed:
        client.publish(topic, b"gap", sequence=7, **stamp)
    assert failed.value.error.code == protocol.ERROR_CODE_SEQUENCE_OUT_OF_ORDER


def test_messages_of_a_stream_keep_their_order_whatever_their_ack_modes(
    client: GrpcClient, topic: str
) -> None:
    modes = [protocol.ACK_MODE_ALL, protocol.ACK_MODE_LEADER] * 10
    requests = [
        protocol.PublishStreamRequest(topic=topic, partition=0, value=b"%d" % number, ack_mode=mode)
        for number, mode in enumerate(modes)
    ]
    answers = list(client.publish_stream(requests))
    assert [answer.offset for answer in answers] == list(range(len(modes)))


def test_a_stream_that_starts_at_no_offset_is_refused(client: GrpcClient, topic: str) -> None:
    position = protocol.CONSUME_START_POSITION_OFFSET
    with pytest.raises(CallFailed) as failed:
        client.consume(topic, start_position=position, start_offset=-5).messages(1)
    assert failed.value.status == "INVALID_ARGUMENT"


def test_a_transaction_is_seen_when_it_is_committed(client: GrpcClient, topic: str) -> None:
    name = f"{topic}.txn"
    granted = client.call(
        "TransactionService/InitProducer",
        protocol.InitProducerRequest(transactional_id=name),
        protocol.InitProducerResponse,
    )
    owner = {
        "transactional_id": name,
        "producer_id": granted.producer_id,
        "epoch": granted.epoch,
    }
    began = client.call(
        "TransactionService/BeginTransaction",
        protocol.BeginTransactionRequest(**owner),
        protocol.BeginTransactionResponse,
    )
    stamp = {"producer_id": granted.producer_id, "producer_epoch": granted.epoch, "partition": 0}
    client.publish(topic, b"committed", **stamp)
    listed = client.call(
        "TransactionService/ListTransactions",
        protocol.ListTransactionsRequest(),
        protocol.ListTransactionsResponse,
    )
    [shown] = [each for each in listed.transactions if each.transactional_id == name]
    assert (shown.transaction_id, shown.state) == (began.transaction_id, "ongoing")
    assert shown.last_update_time.seconds >= shown.start_time.seconds > 0
    assert [(each.topic, list(each.partitions)) for each in shown.partitions] == [(topic, [0])]
    uncommitted = client.consume(
        topic, partitions=[0], isolation=protocol.ISOLATION_READ_UNCOMMITTED
    )
    assert [each.value for each in uncommitted.messages(1)] == [b"committed"]
    uncommitted.cancel()
    client.call(
        "TransactionService/CommitTransaction",
        protocol.CommitTransactionRequest(**owner),
        protocol.CommitTransactionResponse,
    )
    committed = client.consume(topic, partitions=[0])
    assert [each.value for each in committed.messages(1)] == [b"committed"]
    committed.cancel()


def test_a_subscription_begins_with_its_assignment_and_delivers_leases(
    client: GrpcClient, topic: str
) -> None:
    for number in range(3):
        client.publish(topic, b"%d" % number, partition=0)
    stream = client.subscribe("billing", topic)
    first = next(iter(stream))
    assert first.WhichOneof("payload") == "assignment"
    assert [each.partition for each in first.assignment.partitions] == [0, 1]
    messages = stream.messages(3)
    assert [each.value for each in messages] == [b"0", b"1", b"2"]
    assert all(each.retry_count == 0 and each.deadline.seconds for each in messages)
    acked = client.ack(*(each.receipt_handle for each in messages), group="billing")
    assert (acked.success_count, len(acked.failures)) == (3, 0)
    stream.cancel()


def test_at_most_max_messages_are_unsettled(client: GrpcClient, api: Api, topic: str) -> None:
    for number in range(30):
        client.publish(topic, b"%d" % number)
    group = f"{topic}.limited"
    stream = client.subscribe(group, topic, max_messages=10)
    held = stream.messages(10)
    assert len(held) == 10
    [member] = api.get(f"/groups/{group}")["members"]
    assert member["in_flight"] == 10
    # Acknowledged by another protocol: that makes room, too.
    for message in held[:4]:
        api.post("/messages/ack", {"receipt_handle": message.receipt_handle})
    more = stream.messages(4)
    assert len(more) == 4
    [member] = api.get(f"/groups/{group}")["members"]
    assert member["in_flight"] == 10
    stream.cancel()


def test_a_cancelled_subscription_frees_its_leases_at_once(
    client: GrpcClient, api: Api, topic: str
) -> None:
    client.publish(topic, b"leased", partition=0)
    group = f"{topic}.cancelled"
    stream = client.subscribe(group, topic)
    [message] = stream.messages(1)
    stream.cancel()
    # Not only when the lease of 30 s ends: the next member gets it now, as a second delivery.
    again = client.subscribe(group, topic)
    [redelivered] = again.messages(1)
    assert (redelivered.value, redelivered.retry_count) == (b"leased", 1)
    assert redelivered.receipt_handle != message.receipt_handle
    again.cancel()
    wait_for(lambda: api.get(f"/groups/{group}")["members"] == [])


def test_a_rebalance_is_told_as_revoke_assign_and_assignment(
    client: GrpcClient, node: ServerProcess, topic: str
) -> None:
    group, beat = f"{topic}.shared", protocol.Duration(nanos=200_000_000)
    first = client.subscribe(group, topic, heartbeat_interval=beat)
    told = first.payloads("assignment", "rebalance")
    assert len(next(told).partitions) == 2
    with grpc_client(grpc_address(node)) as other:
        second = other.subscribe(group, topic, heartbeat_interval=beat)
        assert len(next(second.payloads("assignment")).partitions) == 1
        revoked = next(told)
        assert (revoked.type, len(revoked.partitions)) == (protocol.REBALANCE_TYPE_REVOKE, 1)
        assert len(next(told).partitions) == 1
        second.cancel()
    assigned = next(told)
    assert (assigned.type, len(assigned.partitions)) == (protocol.REBALANCE_TYPE_ASSIGN, 1)
    assert len(next(told).partitions) == 2
    first.cancel()


def test_subscriptions_are_cooperative_and_eager_where_a_group_has_eager_members(
    client: GrpcClient, api: Api, topic: str
) -> None:
    stream = client.subscribe(f"{topic}.alone", topic)
    assert len(next(stream.payloads("assignment")).partitions) == 2
    assert api.get(f"/groups/{topic}.alone")["protocol"] == "cooperative"
    stream.cancel()
    joined = {"client_id": "eager", "topics": [topic]}
    api.post(f"/groups/{topic}.eager/join", joined)
    stream = client.subscribe(f"{topic}.eager", topic)
    assert len(next(stream.payloads("assignment")).partitions) == 1
    assert api.get(f"/groups/{topic}.eager")["protocol"] == "eager"
    stream.cancel()


def test_what_was_leased_before_a_partition_moved_is_acknowledged_and_not_delivered_again(
    client: GrpcClient, api: Api, node: ServerProcess, topic: str
) -> None:
    for partition in (0, 1):
        client.publish(topic, b"%d" % partition, partition=partition)
    group = f"{topic}.moved"
    first = client.subscribe(group, topic)
    held = first.messages(2)
    with grpc_client(grpc_address(node)) as other:
        second = other.subscribe(group, topic)
        assert len(next(second.payloads("assignment")).partitions) == 1
        acked = client.ack(*(message.receipt_handle for message in held))
        assert (acked.success_count, len(acked.failures)) == (2, 0)
        second.cancel()
    first.cancel()
    lag = api.get(f"/groups/{group}/lag")
    assert lag["total_lag"] == 0


def test_an_evicted_member_is_told_that_its_session_expired(
    client: GrpcClient, api: Api, topic: str
) -> None:
    group = f"{topic}.evicted"
    stream = client.subscribe(group, topic, heartbeat_interval=protocol.Duration(nanos=200_000_000))
    next(iter(stream))
    api.send("DELETE", f"/groups/{group}")
    with pytest.raises(CallFailed) as failed:
        list(stream)
    assert failed.value.error.code == protocol.ERROR_CODE_SESSION_EXPIRED
    assert failed.value.status == "ABORTED"


def test_a_stream_that_fails_says_why_in_its_last_payload_and_in_its_trailers(
    client: GrpcClient, topic: str
) -> None:
    for stream, code in (
        (client.consume("never-created"), protocol.ERROR_CODE_TOPIC_NOT_FOUND),
        (client.subscribe("g", "never-created"), protocol.ERROR_CODE_TOPIC_NOT_FOUND),
        (client.consume(topic, max_messages=-1), protocol.ERROR_CODE_REQUEST_INVALID),
        (
            client.consume(topic, max_wait=protocol.Duration(seconds=-1)),
            protocol.ERROR_CODE_REQUEST_INVALID,
        ),
        (
            client.subscribe("g", topic, max_wait=protocol.Duration(seconds=-1)),
            protocol.ERROR_CODE_REQUEST_INVALID,
        ),
        (client.consume(topic, consumer_id="no name"), protocol.ERROR_CODE_NAME_INVALID),
    ):
        payloads = stream.payloads("error")
        assert next(payloads).code == code
        with pytest.raises(CallFailed) as failed:
            next(payloads)
        assert failed.value.error.code == code


def test_nack_reject_and_extend_settle_as_on_http(client: GrpcClient, topic: str) -> None:
    for value in (b"nacked", b"rejected", b"extended"):
        client.publish(topic, value, partition=0)
    stream = client.subscribe(f"{topic}.settled", topic)
    nacked, rejected, extended = stream.messages(3)
    answer = client.call(
        "AckService/Nack",
        protocol.NackRequest(
            receipt_handle=nacked.receipt_handle, visibility_timeout=protocol.Duration()
        ),
        protocol.NackResponse,
    )
    assert answer.success
    assert answer.next_visible_at.seconds
    [again] = stream.messages(1)
    assert (again.value, again.retry_count) == (b"nacked", 1)
    answer = client.call(
        "AckService/Reject",
        protocol.RejectRequest(receipt_handle=rejected.receipt_handle, reason="unreadable"),
        protocol.RejectResponse,
    )
    assert (answer.dlq_topic, answer.dlq_partition) == (f"{topic}.dlq", 0)
    # Markers of the move may stand before it.
    letters = client.consume(f"{topic}.dlq", partitions=[0])
    [letter] = letters.messages(1)
    assert (letter.value, letter.offset) == (b"rejected", answer.dlq_offset)
    letters.cancel()
    answer = client.call(
        "AckService/ExtendVisibility",
        protocol.ExtendVisibilityRequest(
            receipt_handle=extended.receipt_handle,
            visibility_timeout=protocol.Duration(seconds=3600),
        ),
        protocol.ExtendVisibilityResponse,
    )
    assert answer.new_deadline.seconds > extended.deadline.seconds
    with pytest.raises(CallFailed) as failed:
        client.call(
            "AckService/Ack",
            protocol.AckRequest(receipt_handle=nacked.receipt_handle),
            protocol.AckResponse,
        )
    assert failed.value.error.code == protocol.ERROR_CODE_RECEIPT_STALE
    failures = client.ack("not a handle", extended.receipt_handle).failures
    assert [each.error.code for each in failures] == [protocol.ERROR_CODE_RECEIPT_INVALID]
    stream.cancel()


def test_offsets_are_committed_fetched_and_reset_by_partition(
    client: GrpcClient, topic: str
) -> None:
    for partition in (0, 0, 1):
        client.publish(topic, b"x", partition=partition)
    group = f"{topic}.offsets"
    commits = [
        protocol.OffsetCommit(topic=topic, partition=0, offset=2, metadata="at the end"),
        protocol.OffsetCommit(topic=topic, partition=1, offset=99, metadata="never"),
    ]
    answer = client.call(
        "OffsetService/CommitOffsets",
        protocol.CommitOffsetsRequest(group_id=group, offsets=commits),
        protocol.CommitOffsetsResponse,
    )
    assert [each.success for each in answer.results] == [True, False]
    assert answer.results[1].error.code == protocol.ERROR_CODE_OFFSET_OUT_OF_RANGE
    wanted = [protocol.TopicPartition(topic=topic, partition=each) for each in (0, 1)]
    fetched = client.call(
        "OffsetService/FetchOffsets",
        protocol.FetchOffsetsRequest(group_id=group, partitions=wanted),
        protocol.FetchOffsetsResponse,
    )
    assert [each.offset for each in fetched.offsets] == [2, -1]
    assert [each.metadata for each in fetched.offsets] == ["at the end", ""]
    reset = client.call(
        "OffsetService/ResetOffsets",
        protocol.ResetOffsetsRequest(
            group_id=group,
            strategy=protocol.OFFSET_RESET_STRATEGY_EARLIEST,
            partitions=wanted[:1],
        ),
        protocol.ResetOffsetsResponse,
    )
    assert [(each.old_offset, each.new_offset) for each in reset.results] == [(2, 0)]


def test_a_deadline_ends_a_call_and_a_stream_with_its_status(
    client: GrpcClient, topic: str
) -> None:
    stream = client.consume(topic)
    request = protocol.ConsumeRequest(topic=topic)
    with pytest.raises(CallFailed) as failed:
        client.call("ConsumeService/Consume", request, protocol.ConsumeResponse, timeout=0.3)
    assert failed.value.status == "DEADLINE_EXCEEDED"
    stream.cancel()


def test_consume_starts_where_it_is_told(client: GrpcClient, topic: str) -> None:
    places = [client.publish(topic, b"%d" % number, partition=0) for number in range(4)]
    latest = client.consume(topic, start_position=protocol.CONSUME_START_POSITION_LATEST)
    by_offset = client.consume(
        topic,
        partitions=[0],
        start_position=protocol.CONSUME_START_POSITION_OFFSET,
        start_offset=2,
    )
    assert [each.value for each in by_offset.messages(2)] == [b"2", b"3"]
    by_time = client.consume(
        topic,
        partitions=[0],
        start_position=protocol.CONSUME_START_POSITION_TIMESTAMP,
        start_timestamp=places[3].timestamp,
    )
    assert by_time.messages(1)[-1].offset == 3
    received: list[protocol.Message] = []
    reader = threading.Thread(target=lambda: received.extend(latest.messages(1)))
    reader.start()
    for number in itertools.count():
        client.publish(topic, b"new %d" % number, partition=1)
        reader.join(0.1)
        if not reader.is_alive():
            break
    assert all(each.value.startswith(b"new") for each in received)
    for stream in (latest, by_offset, by_time):
        stream.cancel()


def test_a_delayed_message_comes_later_and_a_wrong_delay_is_refused_and_counted(
    client: GrpcClient, api: Api, topic: str
) -> None:
    client.publish(topic, b"later", partition=0, delay=protocol.Duration(seconds=2))
    client.publish(topic, b"now", partition=0)
    stream = client.consume(topic, partitions=[0])
    assert [each.value for each in stream.messages(2)] == [b"now", b"later"]
    stream.cancel()
    with pytest.raises(CallFailed) as failed:
        client.publish(
            topic,
            b"both",
            delay=protocol.Duration(seconds=1),
            deliver_at=protocol.Timestamp(seconds=1),
        )
    assert failed.value.error.code == protocol.ERROR_CODE_MESSAGE_INVALID
    with pytest.raises(CallFailed) as failed:
        client.publish(topic, b"never", delay=protocol.Duration(seconds=10**9))
    assert failed.value.error.code == protocol.ERROR_CODE_DELAY_TOO_LONG
    metrics = api.ask("GET", "/metrics").content.decode()
    for code in ("message_invalid", "delay_too_long"):
        labels = f'{{topic="{topic}",error_type="{code}"}}'
        assert f"goqueue_broker_messages_failed_total{labels} 1" in metrics


def test_a_message_of_many_frames_comes_whole_and_one_too_many_is_refused(
    client: GrpcClient, topic: str
) -> None:
    value = bytes(range(256)) * 4000
    client.publish(topic, value, partition=0)
    stream = client.consume(topic, partitions=[0])
    [message] = stream.messages(1)
    assert message.value == value
    stream.cancel()
    with pytest.raises(CallFailed) as failed:
        client.publish(topic, b"x" * (2 * 1024 * 1024))
    assert failed.value.error.code == protocol.ERROR_CODE_MESSAGE_TOO_LARGE
    with pytest.raises(CallFailed) as failed:
        client.publish(topic, b"x" * (17 * 1024 * 1024))
    assert failed.value.status == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("service", ["goqueue.v1.HealthService", "grpc.health.v1.Health"])
def test_health_is_served_under_both_names(client: GrpcClient, service: str) -> None:
    def status(name: str) -> int:
        request = protocol.HealthCheckRequest(service=name)
        answer = client.call(f"{service}/Check", request, protocol.HealthCheckResponse)
        return int(answer.status)

    assert status("") == status("goqueue") == protocol.SERVING_STATUS_SERVING
    assert status("goqueue.v1.AckService") == protocol.SERVING_STATUS_SERVING
    assert status("never") == protocol.SERVING_STATUS_SERVICE_UNKNOWN


def test_reflection_lists_the_services(client: GrpcClient) -> None:
    request = protocol.ReflectionRequest(list_services="")
    answer = client.call(
        "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request,
        protocol.ReflectionResponse,
    )
    names = [each.name for each in answer.list_services_response.service]
    assert "goqueue.v1.PublishService" in names
    assert "grpc.health.v1.Health" in names
    request = protocol.ReflectionRequest(file_containing_symbol="goqueue.v1.PublishService")
    answer = client.call(
        "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request,
        protocol.ReflectionResponse,
    )
    assert len(answer.file_descriptor_response.file_descriptor_proto) >= 3


def test_a_stop_ends_streams_with_unavailable_and_exits_cleanly(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with serving(tmp_path_factory.mktemp("stopped"), "--grpc", "127.0.0.1:0") as node:
        api = Api(node.url)
        api.create("orders", partitions=1)
        with grpc_client(grpc_address(node)) as client:
            streams = [client.subscribe("g", "orders"), client.consume("orders")]
            next(iter(streams[0]))
            ended: list[str] = []

            def read(number: int) -> None:
                try:
                    list(streams[number])
                except CallFailed as failed:
                    ended.append(failed.status)

            readers = [threading.Thread(target=read, args=(number,)) for number in (0, 1)]
            for reader in readers:
                reader.start()
            client.publish("orders", b"x")
            assert node.stop() == 0
            for reader in readers:
                reader.join(30)
            assert ended == ["UNAVAILABLE", "UNAVAILABLE"]
        api.close()
