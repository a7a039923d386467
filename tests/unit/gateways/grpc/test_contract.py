"""The protocol is that of the contract: every number of a field, and nothing that was ever written.

The rows below are those of the contract: `name:number type`, `opt` for optional and `rep` for
repeated fields, TS, DUR and HDR for timestamps, durations and maps of texts.
"""

import re

import pytest
from google.protobuf import descriptor_pb2

from scripts.protocol.proto_parser import parse_files
from scripts.protocol.proto_rules import (
    facts_of,
    finds_breaks_of_baseline,
    read_baseline,
    written_baseline,
)
from scripts.protocol.python_writer import BASELINE, ROOT, proto_files

ROWS = """
Message | topic:1 string, partition:2 int32, offset:3 int64, timestamp:4 TS, deliver_at:5 TS, \
key:6 bytes, value:7 opt bytes, headers:8 HDR, priority:9 int32, trace_id:10 string, \
retry_count:11 int32, receipt_handle:12 string, deadline:13 TS
Error | code:1 ErrorCode, message:2 string, details:3 HDR, retry_after:4 DUR
PublishRequest | topic:1 string, key:2 bytes, value:3 opt bytes, headers:4 HDR, \
partition:5 opt int32, priority:6 opt int32, delay:7 DUR, deliver_at:8 TS, ack_mode:9 opt AckMode, \
producer_id:10 int64, producer_epoch:11 int32, sequence:12 opt int64
PublishResponse | topic:1 string, partition:2 int32, offset:3 int64, timestamp:4 TS, \
error:5 Error, duplicate:6 bool
PublishStreamRequest | correlation_id:1 string, topic:2 string, key:3 bytes, value:4 opt bytes, \
headers:5 HDR, partition:6 opt int32, priority:7 opt int32, delay:8 DUR, ack_mode:9 opt AckMode, \
producer_id:10 int64, producer_epoch:11 int32, sequence:12 opt int64, deliver_at:13 TS
PublishStreamResponse | correlation_id:1 string, topic:2 string, partition:3 int32, \
offset:4 int64, timestamp:5 TS, error:6 Error, duplicate:7 bool
ConsumeRequest | topic:1 string, partitions:2 rep int32, start_position:3 ConsumeStartPosition, \
start_offset:4 int64, start_timestamp:5 TS, max_messages:6 int32, max_bytes:7 int32, \
max_wait:8 DUR, consumer_id:9 string, isolation:10 Isolation
SubscribeRequest | topics:1 rep string, group_id:2 string, consumer_id:3 string, \
start_position:4 ConsumeStartPosition, max_messages:5 int32, max_bytes:6 int32, max_wait:7 DUR, \
session_timeout:8 DUR, heartbeat_interval:9 DUR, mode:10 GroupMode, isolation:11 Isolation
ConsumeResponse | messages:1 MessageBatch, heartbeat:2 Heartbeat, assignment:3 Assignment, \
rebalance:4 RebalanceNotification, error:5 Error
MessageBatch | messages:1 rep Message, high_watermark:2 int64
Heartbeat | timestamp:1 TS
TopicPartition | topic:1 string, partition:2 int32
Assignment | generation:1 int32, partitions:2 rep TopicPartition, member_id:3 string
RebalanceNotification | type:1 RebalanceType, partitions:2 rep TopicPartition, generation:3 int32
AckRequest | group_id:1 string, receipt_handle:2 string, topic:3 string, partition:4 int32, \
offset:5 int64
AckResponse | success:1 bool, error:2 Error
NackRequest | group_id:1 string, receipt_handle:2 string, visibility_timeout:3 DUR, \
topic:4 string, partition:5 int32, offset:6 int64, reason:7 string
NackResponse | success:1 bool, next_visible_at:2 TS, error:3 Error, dlq_topic:4 string
RejectRequest | group_id:1 string, receipt_handle:2 string, reason:3 string, topic:4 string, \
partition:5 int32, offset:6 int64
RejectResponse | success:1 bool, dlq_topic:2 string, dlq_partition:3 int32, dlq_offset:4 int64, \
error:5 Error
ExtendVisibilityRequest | group_id:1 string, receipt_handle:2 string, visibility_timeout:3 DUR
ExtendVisibilityResponse | success:1 bool, new_deadline:2 TS, error:3 Error
BatchAckRequest | group_id:1 string, receipt_handles:2 rep string, offsets:3 rep OffsetAck
OffsetAck | topic:1 string, partition:2 int32, offset:3 int64
BatchAckResponse | success_count:1 int32, failures:2 rep AckError
AckError | receipt_handle:1 string, topic:2 string, partition:3 int32, offset:4 int64, error:5 Error
CommitOffsetsRequest | group_id:1 string, offsets:2 rep OffsetCommit, generation:3 int32, \
member_id:4 string
OffsetCommit | topic:1 string, partition:2 int32, offset:3 int64, metadata:4 string
CommitOffsetsResponse | results:1 rep OffsetCommitResult
OffsetCommitResult | topic:1 string, partition:2 int32, success:3 bool, error:4 Error
FetchOffsetsRequest | group_id:1 string, partitions:2 rep TopicPartition
FetchOffsetsResponse | offsets:1 rep OffsetFetchResult
OffsetFetchResult | topic:1 string, partition:2 int32, offset:3 int64, metadata:4 string, \
error:5 Error
ResetOffsetsRequest | group_id:1 string, strategy:2 OffsetResetStrategy, \
partitions:3 rep TopicPartition, timestamp:4 TS, offsets:5 rep OffsetCommit
ResetOffsetsResponse | results:1 rep OffsetResetResult
OffsetResetResult | topic:1 string, partition:2 int32, old_offset:3 int64, new_offset:4 int64, \
error:5 Error
InitProducerRequest | transactional_id:1 string, transaction_timeout_ms:2 int64
InitProducerResponse | producer_id:1 int64, epoch:2 int32, error:3 Error
BeginTransactionRequest | transactional_id:1 string, producer_id:2 int64, epoch:3 int32
CommitTransactionRequest | transactional_id:1 string, producer_id:2 int64, epoch:3 int32
AbortTransactionRequest | transactional_id:1 string, producer_id:2 int64, epoch:3 int32
BeginTransactionResponse | transaction_id:1 string, error:2 Error
AddPartitionRequest | transactional_id:1 string, producer_id:2 int64, epoch:3 int32, \
topic:4 string, partition:5 int32
AddPartitionResponse | error:1 Error
CommitTransactionResponse | error:1 Error
AbortTransactionResponse | error:1 Error
ListTransactionsRequest |
ListTransactionsResponse | transactions:1 rep TransactionInfo
DescribeTransactionRequest | transaction_id:1 string
DescribeTransactionResponse | transaction:1 TransactionInfo, error:2 Error
TransactionInfo | transaction_id:1 string, transactional_id:2 string, producer_id:3 int64, \
epoch:4 int32, state:5 string, start_time:6 TS, last_update_time:7 TS, timeout_ms:8 int64, \
partitions:9 rep TransactionPartition
TransactionPartition | topic:1 string, partitions:2 rep int32
HealthCheckRequest | service:1 string
HealthCheckResponse | status:1 ServingStatus
"""
ENUMS = """
AckMode | LEADER 0, NONE 1, ALL 2
ConsumeStartPosition | EARLIEST 0, LATEST 1, OFFSET 2, TIMESTAMP 3
Isolation | READ_COMMITTED 0, READ_UNCOMMITTED 1
GroupMode | PARTITIONED 0, SHARED 1, KEY_ORDERED 2
RebalanceType | UNSPECIFIED 0, REVOKE 1, ASSIGN 2
OffsetResetStrategy | UNSPECIFIED 0, EARLIEST 1, LATEST 2, TIMESTAMP 3, OFFSET 4
ServingStatus | UNKNOWN 0, SERVING 1, NOT_SERVING 2, SERVICE_UNKNOWN 3
"""
METHODS = """
PublishService | Publish unary, PublishStream both
ConsumeService | Consume server, Subscribe server
AckService | Ack unary, Nack unary, Reject unary, ExtendVisibility unary, BatchAck unary
OffsetService | CommitOffsets unary, FetchOffsets unary, ResetOffsets unary
TransactionService | InitProducer unary, BeginTransaction unary, AddPartition unary, \
CommitTransaction unary, AbortTransaction unary, ListTransactions unary, DescribeTransaction unary
HealthService | Check unary, Watch server
"""
_Field = descriptor_pb2.FieldDescriptorProto
_SHORT = {"Timestamp": "TS", "Duration": "DUR"}
_STREAMS = {(False, False): "unary", (False, True): "server", (True, True): "both"}


def rows(text: str) -> dict[str, list[str]]:
    """The items of each row, by its name."""
    found = {}
    for line in text.strip().splitlines():
        name, _, items = line.partition("|")
        found[name.strip()] = [each for each in items.strip().split(", ") if each]
    return found


def files_of_contract() -> list[descriptor_pb2.FileDescriptorProto]:
    return [
        each.descriptor
        for each in proto_files().values()
        if each.descriptor.package == "goqueue.v1"
    ]


def described(
    message: descriptor_pb2.DescriptorProto, field: descriptor_pb2.FieldDescriptorProto
) -> str:
    kind = field.type_name.rpartition(".")[2] or _Field.Type.Name(field.type)[5:].lower()
    kind = _SHORT.get(kind, kind)
    if kind in {entry.name for entry in message.nested_type}:
        kind = "HDR"
    elif field.label == _Field.LABEL_REPEATED:
        kind = f"rep {kind}"
    elif field.proto3_optional:
        kind = f"opt {kind}"
    return f"{field.name}:{field.number} {kind}"


def test_every_field_has_the_number_and_type_of_the_contract() -> None:
    found = {
        message.name: [described(message, field) for field in message.field]
        for file in files_of_contract()
        for message in file.message_type
    }
    assert found == rows(ROWS)


def test_the_payloads_of_a_stream_are_one_choice() -> None:
    [message] = [
        each
        for file in files_of_contract()
        for each in file.message_type
        if each.name == "ConsumeResponse"
    ]
    assert [each.name for each in message.oneof_decl] == ["payload"]
    assert all(field.HasField("oneof_index") for field in message.field)


def test_every_enum_has_the_values_of_the_contract() -> None:
    found = {}
    for file in files_of_contract():
        for enum in file.enum_type:
            prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"
            found[enum.name] = [
                f"{value.name.removeprefix(prefix)} {value.number}" for value in enum.value
            ]
    # The numbers of errors are those of their codes, which the baseline keeps.
    del found["ErrorCode"]
    assert found == rows(ENUMS)


def test_every_service_has_the_methods_of_the_contract() -> None:
    found = {
        service.name: [
            f"{each.name} {_STREAMS[each.client_streaming, each.server_streaming]}"
            for each in service.method
        ]
        for file in files_of_contract()
        for service in file.service
    }
    assert found == rows(METHODS)


def baseline() -> dict[str, str]:
    return read_baseline((ROOT / BASELINE).read_text(encoding="utf-8"))


def test_nothing_that_was_ever_released_is_broken() -> None:
    assert list(finds_breaks_of_baseline(baseline(), proto_files())) == []


def test_the_baseline_has_everything_that_is_on_the_wire() -> None:
    message = "run `make protocol`: proto/baseline.txt is stale"
    assert baseline() == facts_of(proto_files()), message
    assert read_baseline(written_baseline(baseline())) == baseline()


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        ("common", "string trace_id = 10;", "", "Message field 10 is gone"),
        ("common", "trace_id = 10", "trace_id = 14", "Message field 10 is gone"),
        ("common", "RATE_LIMITED = 8", "RATE_LIMITED = 99", "ErrorCode value 8 is gone"),
        ("publish", "bool duplicate = 6;", "int32 duplicate = 6;", "TYPE_BOOL"),
        ("ack", "  rpc BatchAck(BatchAckRequest) returns (BatchAckResponse);\n", "", "BatchAck is"),
    ],
)
def test_a_change_that_is_committed_is_found_by_the_baseline(
    path: str, old: str, new: str, words: str
) -> None:
    texts = {name: (ROOT / "proto" / name).read_text() for name in proto_files()}
    name = f"goqueue/v1/{path}.proto"
    assert old in texts[name]
    texts[name] = texts[name].replace(old, new)
    assert words in " ".join(finds_breaks_of_baseline(baseline(), parse_files(texts)))


def test_a_file_that_is_removed_is_found_by_the_baseline() -> None:
    files = proto_files()
    del files["goqueue/v1/health.proto"]
    found = " ".join(finds_breaks_of_baseline(baseline(), files))
    assert "goqueue.v1.HealthService.Check is gone" in found
