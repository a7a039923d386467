# Types of the messages, generated from proto/ by `make protocol`. Do not edit.
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Literal, Self, TypeVar

_Item = TypeVar("_Item")

class _Items(list[_Item]):
    def add(self) -> _Item: ...

class _Message:
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...
    def ParseFromString(self, data: bytes | memoryview) -> int: ...
    def SerializeToString(self) -> bytes: ...
    def ByteSize(self) -> int: ...
    def CopyFrom(self, other: Self) -> None: ...
    def HasField(self, name: str) -> bool: ...
    def ClearField(self, name: str) -> None: ...

class Timestamp(_Message):
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    seconds: int
    nanos: int

class Duration(_Message):
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    seconds: int
    nanos: int

FILES: dict[str, bytes]

class ReflectionRequest(_Message):
    def __init__(
        self,
        *,
        host: str | None = ...,
        file_by_filename: str | None = ...,
        file_containing_symbol: str | None = ...,
        file_containing_extension: ExtensionRequest | None = ...,
        all_extension_numbers_of_type: str | None = ...,
        list_services: str | None = ...,
    ) -> None: ...
    host: str
    file_by_filename: str
    file_containing_symbol: str
    file_containing_extension: ExtensionRequest
    all_extension_numbers_of_type: str
    list_services: str
    def WhichOneof(self, name: str) -> str | None: ...

class ExtensionRequest(_Message):
    def __init__(
        self, *, containing_type: str | None = ..., extension_number: int | None = ...
    ) -> None: ...
    containing_type: str
    extension_number: int

class ReflectionResponse(_Message):
    def __init__(
        self,
        *,
        valid_host: str | None = ...,
        original_request: ReflectionRequest | None = ...,
        file_descriptor_response: FileDescriptorResponse | None = ...,
        all_extension_numbers_response: ExtensionNumberResponse | None = ...,
        list_services_response: ListServiceResponse | None = ...,
        error_response: ErrorResponse | None = ...,
    ) -> None: ...
    valid_host: str
    original_request: ReflectionRequest
    file_descriptor_response: FileDescriptorResponse
    all_extension_numbers_response: ExtensionNumberResponse
    list_services_response: ListServiceResponse
    error_response: ErrorResponse
    def WhichOneof(self, name: str) -> str | None: ...

class FileDescriptorResponse(_Message):
    def __init__(self, *, file_descriptor_proto: Iterable[bytes] | None = ...) -> None: ...
    file_descriptor_proto: MutableSequence[bytes]

class ExtensionNumberResponse(_Message):
    def __init__(
        self, *, base_type_name: str | None = ..., extension_number: Iterable[int] | None = ...
    ) -> None: ...
    base_type_name: str
    extension_number: MutableSequence[int]

class ListServiceResponse(_Message):
    def __init__(self, *, service: Iterable[ServiceResponse] | None = ...) -> None: ...
    service: _Items[ServiceResponse]

class ServiceResponse(_Message):
    def __init__(self, *, name: str | None = ...) -> None: ...
    name: str

class ErrorResponse(_Message):
    def __init__(
        self, *, error_code: int | None = ..., error_message: str | None = ...
    ) -> None: ...
    error_code: int
    error_message: str

class Message(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        timestamp: Timestamp | None = ...,
        deliver_at: Timestamp | None = ...,
        key: bytes | None = ...,
        value: bytes | None = ...,
        headers: Mapping[str, str] | None = ...,
        priority: int | None = ...,
        trace_id: str | None = ...,
        retry_count: int | None = ...,
        receipt_handle: str | None = ...,
        deadline: Timestamp | None = ...,
    ) -> None: ...
    topic: str
    partition: int
    offset: int
    timestamp: Timestamp
    deliver_at: Timestamp
    key: bytes
    value: bytes
    headers: MutableMapping[str, str]
    priority: int
    trace_id: str
    retry_count: int
    receipt_handle: str
    deadline: Timestamp

class Error(_Message):
    def __init__(
        self,
        *,
        code: int | None = ...,
        message: str | None = ...,
        details: Mapping[str, str] | None = ...,
        retry_after: Duration | None = ...,
    ) -> None: ...
    code: int
    message: str
    details: MutableMapping[str, str]
    retry_after: Duration

class TopicPartition(_Message):
    def __init__(self, *, topic: str | None = ..., partition: int | None = ...) -> None: ...
    topic: str
    partition: int

ACK_MODE_LEADER: Literal[0]
ACK_MODE_NONE: Literal[1]
ACK_MODE_ALL: Literal[2]
ISOLATION_READ_COMMITTED: Literal[0]
ISOLATION_READ_UNCOMMITTED: Literal[1]
ERROR_CODE_UNSPECIFIED: Literal[0]
ERROR_CODE_REQUEST_INVALID: Literal[1]
ERROR_CODE_NAME_INVALID: Literal[2]
ERROR_CODE_UNAUTHENTICATED: Literal[3]
ERROR_CODE_PERMISSION_DENIED: Literal[4]
ERROR_CODE_ROUTE_NOT_FOUND: Literal[5]
ERROR_CODE_METHOD_NOT_ALLOWED: Literal[6]
ERROR_CODE_BODY_TOO_LARGE: Literal[7]
ERROR_CODE_RATE_LIMITED: Literal[8]
ERROR_CODE_QUOTA_EXCEEDED: Literal[9]
ERROR_CODE_STORAGE_FULL: Literal[10]
ERROR_CODE_REQUEST_TIMEOUT: Literal[11]
ERROR_CODE_INTERNAL_ERROR: Literal[12]
ERROR_CODE_STORAGE_FAILED: Literal[13]
ERROR_CODE_RECORDS_DAMAGED: Literal[14]
ERROR_CODE_NO_REPLY: Literal[15]
ERROR_CODE_TOPIC_NOT_FOUND: Literal[100]
ERROR_CODE_TOPIC_EXISTS: Literal[101]
ERROR_CODE_PARTITION_NOT_FOUND: Literal[102]
ERROR_CODE_PARTITION_INVALID: Literal[103]
ERROR_CODE_OFFSET_OUT_OF_RANGE: Literal[104]
ERROR_CODE_TOPIC_BUSY: Literal[105]
ERROR_CODE_TOPIC_INTERNAL: Literal[106]
ERROR_CODE_GROUP_NOT_FOUND: Literal[200]
ERROR_CODE_MEMBER_NOT_FOUND: Literal[201]
ERROR_CODE_REBALANCE_IN_PROGRESS: Literal[202]
ERROR_CODE_GENERATION_STALE: Literal[203]
ERROR_CODE_SESSION_EXPIRED: Literal[204]
ERROR_CODE_PARTITION_NOT_ASSIGNED: Literal[205]
ERROR_CODE_GROUP_MISMATCH: Literal[206]
ERROR_CODE_MESSAGE_TOO_LARGE: Literal[300]
ERROR_CODE_MESSAGE_INVALID: Literal[301]
ERROR_CODE_RECEIPT_INVALID: Literal[302]
ERROR_CODE_RECEIPT_STALE: Literal[303]
ERROR_CODE_MESSAGE_NOT_FOUND: Literal[304]
ERROR_CODE_ALREADY_DELIVERED: Literal[305]
ERROR_CODE_DELAY_TOO_LONG: Literal[306]
ERROR_CODE_DEAD_LETTER_LOOP: Literal[307]
ERROR_CODE_TRANSACTION_NOT_FOUND: Literal[400]
ERROR_CODE_TRANSACTION_TIMEOUT: Literal[401]
ERROR_CODE_PRODUCER_FENCED: Literal[402]
ERROR_CODE_TRANSACTION_STATE_INVALID: Literal[403]
ERROR_CODE_PRODUCER_NOT_FOUND: Literal[404]
ERROR_CODE_SEQUENCE_OUT_OF_ORDER: Literal[405]
ERROR_CODE_NOT_LEADER: Literal[500]
ERROR_CODE_LEADER_UNAVAILABLE: Literal[501]
ERROR_CODE_BROKER_UNAVAILABLE: Literal[502]
ERROR_CODE_REPLICATION_FAILED: Literal[503]
ERROR_CODE_NOT_ENOUGH_REPLICAS: Literal[504]
ERROR_CODE_NOT_CONTROLLER: Literal[505]
ERROR_CODE_EPOCH_STALE: Literal[506]
ERROR_CODE_REASSIGNMENT_NOT_FOUND: Literal[507]
ERROR_CODE_NODE_NOT_FOUND: Literal[508]
ERROR_CODE_NODE_ALIVE: Literal[509]
ERROR_CODE_SUBJECT_NOT_FOUND: Literal[600]
ERROR_CODE_VERSION_NOT_FOUND: Literal[601]
ERROR_CODE_SCHEMA_NOT_FOUND: Literal[602]
ERROR_CODE_SCHEMA_INVALID: Literal[603]
ERROR_CODE_SCHEMA_INCOMPATIBLE: Literal[604]
ERROR_CODE_COMPATIBILITY_INVALID: Literal[605]
ERROR_CODE_SCHEMA_VIOLATION: Literal[606]
ERROR_CODE_SCHEMA_REFERENCED: Literal[607]
ERROR_CODE_TENANT_NOT_FOUND: Literal[700]
ERROR_CODE_TENANT_EXISTS: Literal[701]
ERROR_CODE_TENANT_INACTIVE: Literal[702]
ERROR_CODE_TENANT_NOT_EMPTY: Literal[703]
ERROR_CODE_KEY_NOT_FOUND: Literal[704]
ERROR_CODE_ACL_NOT_FOUND: Literal[705]
ERROR_CODE_BACKUP_NOT_FOUND: Literal[706]
ERROR_CODE_BACKUP_BUSY: Literal[707]
ERROR_CODE_TRACE_NOT_FOUND: Literal[708]
ERROR_CODE_SCHEDULE_NOT_FOUND: Literal[709]
ERROR_CODE_SCHEDULE_EXISTS: Literal[710]
ERROR_CODE_CERTIFICATE_IN_USE: Literal[711]

class AckRequest(_Message):
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        receipt_handle: str | None = ...,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
    ) -> None: ...
    group_id: str
    receipt_handle: str
    topic: str
    partition: int
    offset: int

class AckResponse(_Message):
    def __init__(self, *, success: bool | None = ..., error: Error | None = ...) -> None: ...
    success: bool
    error: Error

class NackRequest(_Message):
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        receipt_handle: str | None = ...,
        visibility_timeout: Duration | None = ...,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        reason: str | None = ...,
    ) -> None: ...
    group_id: str
    receipt_handle: str
    visibility_timeout: Duration
    topic: str
    partition: int
    offset: int
    reason: str

class NackResponse(_Message):
    def __init__(
        self,
        *,
        success: bool | None = ...,
        next_visible_at: Timestamp | None = ...,
        error: Error | None = ...,
        dlq_topic: str | None = ...,
    ) -> None: ...
    success: bool
    next_visible_at: Timestamp
    error: Error
    dlq_topic: str

class RejectRequest(_Message):
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        receipt_handle: str | None = ...,
        reason: str | None = ...,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
    ) -> None: ...
    group_id: str
    receipt_handle: str
    reason: str
    topic: str
    partition: int
    offset: int

class RejectResponse(_Message):
    def __init__(
        self,
        *,
        success: bool | None = ...,
        dlq_topic: str | None = ...,
        dlq_partition: int | None = ...,
        dlq_offset: int | None = ...,
        error: Error | None = ...,
    ) -> None: ...
    success: bool
    dlq_topic: str
    dlq_partition: int
    dlq_offset: int
    error: Error

class ExtendVisibilityRequest(_Message):
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        receipt_handle: str | None = ...,
        visibility_timeout: Duration | None = ...,
    ) -> None: ...
    group_id: str
    receipt_handle: str
    visibility_timeout: Duration

class ExtendVisibilityResponse(_Message):
    def __init__(
        self,
        *,
        success: bool | None = ...,
        new_deadline: Timestamp | None = ...,
        error: Error | None = ...,
    ) -> None: ...
    success: bool
    new_deadline: Timestamp
    error: Error

class BatchAckRequest(_Message):
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        receipt_handles: Iterable[str] | None = ...,
        offsets: Iterable[OffsetAck] | None = ...,
    ) -> None: ...
    group_id: str
    receipt_handles: MutableSequence[str]
    offsets: _Items[OffsetAck]

class OffsetAck(_Message):
    def __init__(
        self, *, topic: str | None = ..., partition: int | None = ..., offset: int | None = ...
    ) -> None: ...
    topic: str
    partition: int
    offset: int

class BatchAckResponse(_Message):
    def __init__(
        self, *, success_count: int | None = ..., failures: Iterable[AckError] | None = ...
    ) -> None: ...
    success_count: int
    failures: _Items[AckError]

class AckError(_Message):
    def __init__(
        self,
        *,
        receipt_handle: str | None = ...,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        error: Error | None = ...,
    ) -> None: ...
    receipt_handle: str
    topic: str
    partition: int
    offset: int
    error: Error

class ConsumeRequest(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        partitions: Iterable[int] | None = ...,
        start_position: int | None = ...,
        start_offset: int | None = ...,
        start_timestamp: Timestamp | None = ...,
        max_messages: int | None = ...,
        max_bytes: int | None = ...,
        max_wait: Duration | None = ...,
        consumer_id: str | None = ...,
        isolation: int | None = ...,
    ) -> None: ...
    topic: str
    partitions: MutableSequence[int]
    start_position: int
    start_offset: int
    start_timestamp: Timestamp
    max_messages: int
    max_bytes: int
    max_wait: Duration
    consumer_id: str
    isolation: int

class SubscribeRequest(_Message):
    def __init__(
        self,
        *,
        topics: Iterable[str] | None = ...,
        group_id: str | None = ...,
        consumer_id: str | None = ...,
        start_position: int | None = ...,
        max_messages: int | None = ...,
        max_bytes: int | None = ...,
        max_wait: Duration | None = ...,
        session_timeout: Duration | None = ...,
        heartbeat_interval: Duration | None = ...,
        mode: int | None = ...,
        isolation: int | None = ...,
    ) -> None: ...
    topics: MutableSequence[str]
    group_id: str
    consumer_id: str
    start_position: int
    max_messages: int
    max_bytes: int
    max_wait: Duration
    session_timeout: Duration
    heartbeat_interval: Duration
    mode: int
    isolation: int

class ConsumeResponse(_Message):
    def __init__(
        self,
        *,
        messages: MessageBatch | None = ...,
        heartbeat: Heartbeat | None = ...,
        assignment: Assignment | None = ...,
        rebalance: RebalanceNotification | None = ...,
        error: Error | None = ...,
    ) -> None: ...
    messages: MessageBatch
    heartbeat: Heartbeat
    assignment: Assignment
    rebalance: RebalanceNotification
    error: Error
    def WhichOneof(self, name: str) -> str | None: ...

class MessageBatch(_Message):
    def __init__(
        self, *, messages: Iterable[Message] | None = ..., high_watermark: int | None = ...
    ) -> None: ...
    messages: _Items[Message]
    high_watermark: int

class Heartbeat(_Message):
    def __init__(self, *, timestamp: Timestamp | None = ...) -> None: ...
    timestamp: Timestamp

class Assignment(_Message):
    def __init__(
        self,
        *,
        generation: int | None = ...,
        partitions: Iterable[TopicPartition] | None = ...,
        member_id: str | None = ...,
    ) -> None: ...
    generation: int
    partitions: _Items[TopicPartition]
    member_id: str

class RebalanceNotification(_Message):
    def __init__(
        self,
        *,
        type: int | None = ...,
        partitions: Iterable[TopicPartition] | None = ...,
        generation: int | None = ...,
    ) -> None: ...
    type: int
    partitions: _Items[TopicPartition]
    generation: int

CONSUME_START_POSITION_EARLIEST: Literal[0]
CONSUME_START_POSITION_LATEST: Literal[1]
CONSUME_START_POSITION_OFFSET: Literal[2]
CONSUME_START_POSITION_TIMESTAMP: Literal[3]
GROUP_MODE_PARTITIONED: Literal[0]
GROUP_MODE_SHARED: Literal[1]
GROUP_MODE_KEY_ORDERED: Literal[2]
REBALANCE_TYPE_UNSPECIFIED: Literal[0]
REBALANCE_TYPE_REVOKE: Literal[1]
REBALANCE_TYPE_ASSIGN: Literal[2]

class HealthCheckRequest(_Message):
    def __init__(self, *, service: str | None = ...) -> None: ...
    service: str

class HealthCheckResponse(_Message):
    def __init__(self, *, status: int | None = ...) -> None: ...
    status: int

SERVING_STATUS_UNKNOWN: Literal[0]
SERVING_STATUS_SERVING: Literal[1]
SERVING_STATUS_NOT_SERVING: Literal[2]
SERVING_STATUS_SERVICE_UNKNOWN: Literal[3]

class CommitOffsetsRequest(_Message):
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        offsets: Iterable[OffsetCommit] | None = ...,
        generation: int | None = ...,
        member_id: str | None = ...,
    ) -> None: ...
    group_id: str
    offsets: _Items[OffsetCommit]
    generation: int
    member_id: str

class OffsetCommit(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        metadata: str | None = ...,
    ) -> None: ...
    topic: str
    partition: int
    offset: int
    metadata: str

class CommitOffsetsResponse(_Message):
    def __init__(self, *, results: Iterable[OffsetCommitResult] | None = ...) -> None: ...
    results: _Items[OffsetCommitResult]

class OffsetCommitResult(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        partition: int | None = ...,
        success: bool | None = ...,
        error: Error | None = ...,
    ) -> None: ...
    topic: str
    partition: int
    success: bool
    error: Error

class FetchOffsetsRequest(_Message):
    def __init__(
        self, *, group_id: str | None = ..., partitions: Iterable[TopicPartition] | None = ...
    ) -> None: ...
    group_id: str
    partitions: _Items[TopicPartition]

class FetchOffsetsResponse(_Message):
    def __init__(self, *, offsets: Iterable[OffsetFetchResult] | None = ...) -> None: ...
    offsets: _Items[OffsetFetchResult]

class OffsetFetchResult(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        metadata: str | None = ...,
        error: Error | None = ...,
    ) -> None: ...
    topic: str
    partition: int
    offset: int
    metadata: str
    error: Error

class ResetOffsetsRequest(_Message):
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        strategy: int | None = ...,
        partitions: Iterable[TopicPartition] | None = ...,
        timestamp: Timestamp | None = ...,
        offsets: Iterable[OffsetCommit] | None = ...,
    ) -> None: ...
    group_id: str
    strategy: int
    partitions: _Items[TopicPartition]
    timestamp: Timestamp
    offsets: _Items[OffsetCommit]

class ResetOffsetsResponse(_Message):
    def __init__(self, *, results: Iterable[OffsetResetResult] | None = ...) -> None: ...
    results: _Items[OffsetResetResult]

class OffsetResetResult(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        partition: int | None = ...,
        old_offset: int | None = ...,
        new_offset: int | None = ...,
        error: Error | None = ...,
    ) -> None: ...
    topic: str
    partition: int
    old_offset: int
    new_offset: int
    error: Error

OFFSET_RESET_STRATEGY_UNSPECIFIED: Literal[0]
OFFSET_RESET_STRATEGY_EARLIEST: Literal[1]
OFFSET_RESET_STRATEGY_LATEST: Literal[2]
OFFSET_RESET_STRATEGY_TIMESTAMP: Literal[3]
OFFSET_RESET_STRATEGY_OFFSET: Literal[4]

class PublishRequest(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        key: bytes | None = ...,
        value: bytes | None = ...,
        headers: Mapping[str, str] | None = ...,
        partition: int | None = ...,
        priority: int | None = ...,
        delay: Duration | None = ...,
        deliver_at: Timestamp | None = ...,
        ack_mode: int | None = ...,
        producer_id: int | None = ...,
        producer_epoch: int | None = ...,
        sequence: int | None = ...,
    ) -> None: ...
    topic: str
    key: bytes
    value: bytes
    headers: MutableMapping[str, str]
    partition: int
    priority: int
    delay: Duration
    deliver_at: Timestamp
    ack_mode: int
    producer_id: int
    producer_epoch: int
    sequence: int

class PublishResponse(_Message):
    def __init__(
        self,
        *,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        timestamp: Timestamp | None = ...,
        error: Error | None = ...,
        duplicate: bool | None = ...,
    ) -> None: ...
    topic: str
    partition: int
    offset: int
    timestamp: Timestamp
    error: Error
    duplicate: bool

class PublishStreamRequest(_Message):
    def __init__(
        self,
        *,
        correlation_id: str | None = ...,
        topic: str | None = ...,
        key: bytes | None = ...,
        value: bytes | None = ...,
        headers: Mapping[str, str] | None = ...,
        partition: int | None = ...,
        priority: int | None = ...,
        delay: Duration | None = ...,
        ack_mode: int | None = ...,
        producer_id: int | None = ...,
        producer_epoch: int | None = ...,
        sequence: int | None = ...,
        deliver_at: Timestamp | None = ...,
    ) -> None: ...
    correlation_id: str
    topic: str
    key: bytes
    value: bytes
    headers: MutableMapping[str, str]
    partition: int
    priority: int
    delay: Duration
    ack_mode: int
    producer_id: int
    producer_epoch: int
    sequence: int
    deliver_at: Timestamp

class PublishStreamResponse(_Message):
    def __init__(
        self,
        *,
        correlation_id: str | None = ...,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        timestamp: Timestamp | None = ...,
        error: Error | None = ...,
        duplicate: bool | None = ...,
    ) -> None: ...
    correlation_id: str
    topic: str
    partition: int
    offset: int
    timestamp: Timestamp
    error: Error
    duplicate: bool

class InitProducerRequest(_Message):
    def __init__(
        self, *, transactional_id: str | None = ..., transaction_timeout_ms: int | None = ...
    ) -> None: ...
    transactional_id: str
    transaction_timeout_ms: int

class InitProducerResponse(_Message):
    def __init__(
        self, *, producer_id: int | None = ..., epoch: int | None = ..., error: Error | None = ...
    ) -> None: ...
    producer_id: int
    epoch: int
    error: Error

class BeginTransactionRequest(_Message):
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        producer_id: int | None = ...,
        epoch: int | None = ...,
    ) -> None: ...
    transactional_id: str
    producer_id: int
    epoch: int

class BeginTransactionResponse(_Message):
    def __init__(self, *, transaction_id: str | None = ..., error: Error | None = ...) -> None: ...
    transaction_id: str
    error: Error

class AddPartitionRequest(_Message):
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        producer_id: int | None = ...,
        epoch: int | None = ...,
        topic: str | None = ...,
        partition: int | None = ...,
    ) -> None: ...
    transactional_id: str
    producer_id: int
    epoch: int
    topic: str
    partition: int

class AddPartitionResponse(_Message):
    def __init__(self, *, error: Error | None = ...) -> None: ...
    error: Error

class CommitTransactionRequest(_Message):
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        producer_id: int | None = ...,
        epoch: int | None = ...,
    ) -> None: ...
    transactional_id: str
    producer_id: int
    epoch: int

class CommitTransactionResponse(_Message):
    def __init__(self, *, error: Error | None = ...) -> None: ...
    error: Error

class AbortTransactionRequest(_Message):
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        producer_id: int | None = ...,
        epoch: int | None = ...,
    ) -> None: ...
    transactional_id: str
    producer_id: int
    epoch: int

class AbortTransactionResponse(_Message):
    def __init__(self, *, error: Error | None = ...) -> None: ...
    error: Error

class ListTransactionsRequest(_Message):
    def __init__(self) -> None: ...

class ListTransactionsResponse(_Message):
    def __init__(self, *, transactions: Iterable[TransactionInfo] | None = ...) -> None: ...
    transactions: _Items[TransactionInfo]

class DescribeTransactionRequest(_Message):
    def __init__(self, *, transaction_id: str | None = ...) -> None: ...
    transaction_id: str

class DescribeTransactionResponse(_Message):
    def __init__(
        self, *, transaction: TransactionInfo | None = ..., error: Error | None = ...
    ) -> None: ...
    transaction: TransactionInfo
    error: Error

class TransactionInfo(_Message):
    def __init__(
        self,
        *,
        transaction_id: str | None = ...,
        transactional_id: str | None = ...,
        producer_id: int | None = ...,
        epoch: int | None = ...,
        state: str | None = ...,
        start_time: Timestamp | None = ...,
        last_update_time: Timestamp | None = ...,
        timeout_ms: int | None = ...,
        partitions: Iterable[TransactionPartition] | None = ...,
    ) -> None: ...
    transaction_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    start_time: Timestamp
    last_update_time: Timestamp
    timeout_ms: int
    partitions: _Items[TransactionPartition]

class TransactionPartition(_Message):
    def __init__(
        self, *, topic: str | None = ..., partitions: Iterable[int] | None = ...
    ) -> None: ...
    topic: str
    partitions: MutableSequence[int]
