"""One table of behaviours, run over HTTP and over gRPC from Python; other languages print theirs.

Each function returns results by name, without what differs between two runs: the prefix of topics.
The topics PREFIX.a (three partitions) and PREFIX.q, PREFIX.l, PREFIX.t and PREFIX.d (one partition)
exist.
"""

import base64
import time
from collections.abc import Callable
from functools import partial

from goqueue.gateways.grpc import protocol
from tests.integration.grpc_client import CallFailed, GrpcClient
from tests.integration.http_api import Api, Json

__all__ = ["EXPECTED", "over_grpc", "over_http"]

PRIORITIES = ("critical", "high", "normal", "low", "background")
LARGE = 2 * 1024 * 1024
YEAR_S = 10_000 * 3600
DELAY_S = 0.3

_REFUSED = {
    "unknown_topic": "topic_not_found",
    "invalid_topic": "name_invalid",
    "negative_partition": "partition_invalid",
    "missing_partition": "partition_not_found",
    "too_large": "message_too_large",
    "delay_too_long": "delay_too_long",
    "reserved_header": "message_invalid",
}
EXPECTED: Json = {
    "partition_of_key": 0x669441E1 % 3,
    **_REFUSED,
    # The same by a call of its own instead of a stream.
    **{f"{name}_unary": code for name, code in _REFUSED.items()},
    "round_trip": [
        [0, "00ff", "ff00", {"a": "é"}, "high"],
        [1, "6b", None, {}, "normal"],
        [2, "6b", "", {}, "normal"],
    ],
    "consume_unknown": "topic_not_found",
    "leased": [["acked", 0], ["nacked", 0], ["rejected", 0]],
    "acked_again": "ok",
    "redelivered": ["nacked", 1],
    "stale_receipt": "receipt_stale",
    "rejected": ".l.dlq",
    "batch": [1, "receipt_invalid"],
    "commits": ["ok", "offset_out_of_range"],
    "fetched": 2,
    "reset": [[0], [3]],
    "outside_transaction": "transaction_state_invalid",
    "begun_twice": "transaction_state_invalid",
    "fenced": "producer_fenced",
    "committed": ["committed", "without a number"],
    # Whether each came no earlier than it was due.
    "delayed": [["at once", True], ["later", True]],
}


# ---- HTTP ----------------------------------------------------------------------------------


def over_http(api: Api, prefix: str) -> Json:
    """The results over HTTP."""
    return {
        **_http_publishing(api, prefix),
        **_http_reading(api, prefix),
        **_http_leasing(api, prefix),
        **_http_offsets(api, prefix),
        **_http_transactions(api, prefix),
        **_http_delays(api, prefix),
    }


def _http_publishing(api: Api, prefix: str) -> Json:
    def publish(topic: str, **message: object) -> Json:
        target = f"/topics/{topic}/messages"
        return api.ask("POST", target, {"messages": [{"value": "x", **message}]}).body

    topic = f"{prefix}.a"
    results = {
        "partition_of_key": publish(topic, key="user-100")["results"][0]["partition"],
        "unknown_topic": publish(f"{prefix}.never")["code"],
        "invalid_topic": publish("no%20spaces")["code"],
        "negative_partition": publish(topic, partition=-1)["code"],
        "missing_partition": publish(topic, partition=99)["code"],
        "too_large": publish(topic, value="x" * LARGE)["code"],
        "delay_too_long": publish(topic, delay=YEAR_S)["code"],
        "reserved_header": publish(topic, headers={"gq.mine": "x"})["code"],
    }
    return results | {f"{name}_unary": results[name] for name in _REFUSED}


def _http_reading(api: Api, prefix: str) -> Json:
    topic = f"{prefix}.q"
    first = {
        "key": base64.b64encode(b"\x00\xff").decode(),
        "value": base64.b64encode(b"\xff\x00").decode(),
        "encoding": "base64",
        "headers": {"a": "é"},
        "priority": "high",
    }
    messages = [first, {"key": "k", "value": None}, {"key": "k", "value": ""}]
    api.post(f"/topics/{topic}/messages", {"messages": messages})
    shown = []
    for message in api.read(topic):
        decode: Callable[[str], bytes] = base64.b64decode if message.get("encoding") else str.encode
        value = message["value"]
        shown.append(
            [
                message["offset"],
                decode(message["key"]).hex(),
                None if value is None else decode(value).hex(),
                message.get("headers", {}),
                message["priority"],
            ]
        )
    refused = api.ask("GET", f"/topics/{prefix}.never/partitions/0/messages")
    return {"round_trip": shown, "consume_unknown": refused.code}


def _http_leasing(api: Api, prefix: str) -> Json:
    topic = f"{prefix}.l"
    values = ("acked", "nacked", "rejected")
    api.post(f"/topics/{topic}/messages", {"messages": [{"value": each} for each in values]})
    member = api.join(f"{prefix}.group", topic)

    def receive(count: int) -> list[Json]:
        found: list[Json] = []
        while len(found) < count:
            found += member.poll()
        return found

    def shown(message: Json) -> list[object]:
        return [message["value"], message["delivery_count"] - 1]

    def settle(action: str, message: Json, **fields: object) -> Json:
        body = {"receipt_handle": message["receipt_handle"], **fields}
        return api.ask("POST", f"/messages/{action}", body).body

    acked, nacked, rejected = leased = receive(3)
    settle("ack", acked)
    repeated = settle("ack", acked)
    settle("nack", nacked, delay="0s", reason="later")
    [again] = receive(1)
    stale = settle("ack", nacked)["code"]
    letters = settle("reject", rejected, reason="unreadable")["dlq_topic"]
    handles = [again["receipt_handle"], "nonsense"]
    batch = api.post("/messages/ack/batch", {"receipt_handles": handles})["results"]
    codes = [each["code"] for each in batch if not each["success"]]
    return {
        "leased": [shown(each) for each in leased],
        "acked_again": "ok" if repeated.get("acknowledged") else repeated["code"],
        "redelivered": shown(again),
        "stale_receipt": stale,
        "rejected": letters.removeprefix(prefix),
        "batch": [len(codes), codes[0]],
    }


def _http_offsets(api: Api, prefix: str) -> Json:
    group, topic = f"{prefix}.offsets", f"{prefix}.q"

    def commit(offset: int) -> str:
        body = {"offsets": {topic: {"0": offset}}}
        answer = api.ask("POST", f"/groups/{group}/offsets", body)
        return "ok" if answer.status == 200 else answer.code

    commits = [commit(2), commit(99)]
    fetched = api.get(f"/groups/{group}/offsets")["offsets"][topic]["0"]

    def reset(strategy: str) -> list[int]:
        body = {"topic": topic, "strategy": strategy}
        answer = api.post(f"/groups/{group}/offsets/reset", body)
        return [each["offset"] for each in answer["new_offsets"]]

    resets = [reset("earliest"), reset("latest")]
    return {"commits": commits, "fetched": fetched, "reset": resets}


def _http_transactions(api: Api, prefix: str) -> Json:
    topic, name = f"{prefix}.t", f"{prefix}.producer"

    def init() -> Json:
        granted = api.post("/producers/init", {"transactional_id": name})
        return {
            "transactional_id": name,
            "producer_id": granted["producer_id"],
            "epoch": granted["epoch"],
        }

    owner = init()

    def ask(action: str, body: Json) -> str:
        answer = api.ask("POST", f"/transactions/{action}", body)
        return "ok" if answer.status == 200 else answer.code

    def publish(value: str, **fields: object) -> str:
        stamp = {"producer_id": owner["producer_id"], "epoch": owner["epoch"]}
        return ask("publish", {**stamp, "topic": topic, "value": value, **fields})

    outside = publish("x")
    ask("begin", owner)
    twice = ask("begin", owner)
    publish("aborted", partition=0, sequence=0)
    ask("abort", owner)
    ask("begin", owner)
    publish("committed", partition=0, sequence=1)
    publish("without a number")
    ask("commit", owner)
    init()
    return {
        "outside_transaction": outside,
        "begun_twice": twice,
        "fenced": ask("begin", owner),
        "committed": [each["value"] for each in api.read(topic)],
    }


def _http_delays(api: Api, prefix: str) -> Json:
    topic, sent = f"{prefix}.d", time.monotonic()
    api.publish(topic, {"value": "later", "delay": DELAY_S}, "at once")
    member = api.join(f"{prefix}.delays", topic)
    shown: list[list[object]] = []
    while len(shown) < 2:
        for message in member.poll():
            is_due = time.monotonic() - sent >= DELAY_S or not shown
            shown.append([message["value"], is_due])
            api.ack(message)
    return {"delayed": shown}


# ---- gRPC ----------------------------------------------------------------------------------


def over_grpc(client: GrpcClient, prefix: str) -> Json:
    """The results over gRPC."""
    return {
        **_grpc_publishing(client, prefix),
        **_grpc_reading(client, prefix),
        **_grpc_leasing(client, prefix),
        **_grpc_offsets(client, prefix),
        **_grpc_transactions(client, prefix),
        **_grpc_delays(client, prefix),
    }


def _name(number: int) -> str:
    """The name of an error by its number in the protocol."""
    [name] = [
        name
        for name in dir(protocol)
        if name.startswith("ERROR_CODE_") and getattr(protocol, name) == number
    ]
    return name.removeprefix("ERROR_CODE_").lower()


def _code(call: Callable[[], object]) -> str:
    try:
        call()
    except CallFailed as failed:
        return _name(failed.error.code)
    return "ok"


def _grpc_publishing(client: GrpcClient, prefix: str) -> Json:
    topic = f"{prefix}.a"
    placed = client.publish(topic, b"x", key=b"user-100")
    refused: dict[str, Json] = {
        "unknown_topic": {"topic": f"{prefix}.never"},
        "invalid_topic": {"topic": "no spaces"},
        "negative_partition": {"partition": -1},
        "missing_partition": {"partition": 99},
        "too_large": {"value": b"x" * LARGE},
        "delay_too_long": {"delay": protocol.Duration(seconds=YEAR_S)},
        "reserved_header": {"headers": {"gq.mine": "x"}},
    }
    messages = [{"topic": topic, "value": b"x", **fields} for fields in refused.values()]
    answers = client.publish_stream(protocol.PublishStreamRequest(**fields) for fields in messages)
    streamed = {
        name: _name(answer.error.code) for name, answer in zip(refused, answers, strict=True)
    }
    by_call = {
        f"{name}_unary": _code(partial(client.publish, **fields))
        for name, fields in zip(refused, messages, strict=True)
    }
    return {"partition_of_key": placed.partition, **streamed, **by_call}


def _grpc_reading(client: GrpcClient, prefix: str) -> Json:
    topic = f"{prefix}.q"
    client.publish(topic, b"\xff\x00", key=b"\x00\xff", headers={"a": "é"}, priority=1)
    client.publish(topic, None, key=b"k")
    client.publish(topic, b"", key=b"k")
    stream = client.consume(topic)
    shown = [
        [
            message.offset,
            message.key.hex(),
            message.value.hex() if message.HasField("value") else None,
            dict(message.headers),
            PRIORITIES[message.priority],
        ]
        for message in stream.messages(3)
    ]
    stream.cancel()
    unknown = _code(lambda: client.consume(f"{prefix}.never").messages(1))
    return {"round_trip": shown, "consume_unknown": unknown}


def _grpc_leasing(client: GrpcClient, prefix: str) -> Json:
    topic = f"{prefix}.l"
    for value in (b"acked", b"nacked", b"rejected"):
        client.publish(topic, value)
    stream = client.subscribe(f"{prefix}.group", topic, max_messages=10)

    def shown(message: protocol.Message) -> list[object]:
        return [message.value.decode(), message.retry_count]

    def ack(message: protocol.Message) -> str:
        request = protocol.AckRequest(receipt_handle=message.receipt_handle)
        return _code(lambda: client.call("AckService/Ack", request, protocol.AckResponse))

    acked, nacked, rejected = leased = stream.messages(3)
    first, repeated = ack(acked), ack(acked)
    assert first == "ok"
    nack = protocol.NackRequest(
        receipt_handle=nacked.receipt_handle,
        reason="later",
        visibility_timeout=protocol.Duration(),
    )
    client.call("AckService/Nack", nack, protocol.NackResponse)
    [again] = stream.messages(1)
    stale = ack(nacked)
    reject = protocol.RejectRequest(receipt_handle=rejected.receipt_handle, reason="unreadable")
    letters = client.call("AckService/Reject", reject, protocol.RejectResponse).dlq_topic
    failures = client.ack(again.receipt_handle, "nonsense").failures
    stream.cancel()
    return {
        "leased": [shown(each) for each in leased],
        "acked_again": repeated,
        "redelivered": shown(again),
        "stale_receipt": stale,
        "rejected": letters.removeprefix(prefix),
        "batch": [len(failures), _name(failures[0].error.code)],
    }


def _grpc_offsets(client: GrpcClient, prefix: str) -> Json:
    group, topic = f"{prefix}.offsets", f"{prefix}.q"

    def commit(offset: int) -> str:
        request = protocol.CommitOffsetsRequest(
            group_id=group, offsets=[protocol.OffsetCommit(topic=topic, offset=offset)]
        )
        method = "OffsetService/CommitOffsets"
        [result] = client.call(method, request, protocol.CommitOffsetsResponse).results
        return "ok" if result.success else _name(result.error.code)

    commits = [commit(2), commit(99)]
    request = protocol.FetchOffsetsRequest(group_id=group)
    method = "OffsetService/FetchOffsets"
    [fetched] = client.call(method, request, protocol.FetchOffsetsResponse).offsets

    def reset(strategy: int) -> list[int]:
        request = protocol.ResetOffsetsRequest(group_id=group, strategy=strategy)
        method = "OffsetService/ResetOffsets"
        answer = client.call(method, request, protocol.ResetOffsetsResponse)
        return [each.new_offset for each in answer.results]

    resets = [
        reset(protocol.OFFSET_RESET_STRATEGY_EARLIEST),
        reset(protocol.OFFSET_RESET_STRATEGY_LATEST),
    ]
    return {"commits": commits, "fetched": fetched.offset, "reset": resets}


def _grpc_transactions(client: GrpcClient, prefix: str) -> Json:
    topic, name = f"{prefix}.t", f"{prefix}.producer"

    def init() -> protocol.InitProducerResponse:
        request = protocol.InitProducerRequest(transactional_id=name)
        method = "TransactionService/InitProducer"
        granted: protocol.InitProducerResponse = client.call(
            method, request, protocol.InitProducerResponse
        )
        return granted

    granted = init()

    def ask(action: str) -> str:
        kinds = getattr(protocol, f"{action}Request"), getattr(protocol, f"{action}Response")
        request = kinds[0](
            transactional_id=name, producer_id=granted.producer_id, epoch=granted.epoch
        )
        return _code(lambda: client.call(f"TransactionService/{action}", request, kinds[1]))

    def publish(value: bytes, **fields: object) -> str:
        stamp: Json = {"producer_id": granted.producer_id, "producer_epoch": granted.epoch}
        return _code(lambda: client.publish(topic, value, **stamp, **fields))

    outside = publish(b"x")
    ask("BeginTransaction")
    twice = ask("BeginTransaction")
    publish(b"aborted", partition=0, sequence=0)
    ask("AbortTransaction")
    ask("BeginTransaction")
    publish(b"committed", partition=0, sequence=1)
    publish(b"without a number")
    ask("CommitTransaction")
    init()
    fenced = ask("BeginTransaction")
    stream = client.consume(topic)
    shown = [message.value.decode() for message in stream.messages(2)]
    stream.cancel()
    return {
        "outside_transaction": outside,
        "begun_twice": twice,
        "fenced": fenced,
        "committed": shown,
    }


def _grpc_delays(client: GrpcClient, prefix: str) -> Json:
    topic, sent = f"{prefix}.d", time.monotonic()
    client.publish(topic, b"later", delay=protocol.Duration(nanos=int(DELAY_S * 1e9)))
    client.publish(topic, b"at once")
    stream = client.subscribe(f"{prefix}.delays", topic)
    shown: list[list[object]] = []
    while len(shown) < 2:
        for message in stream.messages(1):
            is_due = time.monotonic() - sent >= DELAY_S or not shown
            shown.append([message.value.decode(), is_due])
            client.ack(message.receipt_handle)
    stream.cancel()
    return {"delayed": shown}
