// Types of the protocol, generated from proto/ by `make protocol`. Do not edit.

/** A moment or a length of time. */
export interface Timestamp {
  seconds: string;
  nanos: number;
}
export type Duration = Timestamp;
export interface TimestampInput {
  seconds?: string | number;
  nanos?: number;
}
export type DurationInput = TimestampInput;

/** What the answer to a publish waits for. */
export type AckMode =
  | "ACK_MODE_LEADER"
  | "ACK_MODE_NONE"
  | "ACK_MODE_ALL";

export type Isolation =
  | "ISOLATION_READ_COMMITTED"
  | "ISOLATION_READ_UNCOMMITTED";

/** Stable codes of errors, the same as in HTTP. */
export type ErrorCode =
  | "ERROR_CODE_UNSPECIFIED"
  | "ERROR_CODE_REQUEST_INVALID"
  | "ERROR_CODE_NAME_INVALID"
  | "ERROR_CODE_UNAUTHENTICATED"
  | "ERROR_CODE_PERMISSION_DENIED"
  | "ERROR_CODE_ROUTE_NOT_FOUND"
  | "ERROR_CODE_METHOD_NOT_ALLOWED"
  | "ERROR_CODE_BODY_TOO_LARGE"
  | "ERROR_CODE_RATE_LIMITED"
  | "ERROR_CODE_QUOTA_EXCEEDED"
  | "ERROR_CODE_STORAGE_FULL"
  | "ERROR_CODE_REQUEST_TIMEOUT"
  | "ERROR_CODE_INTERNAL_ERROR"
  | "ERROR_CODE_STORAGE_FAILED"
  | "ERROR_CODE_RECORDS_DAMAGED"
  | "ERROR_CODE_NO_REPLY"
  | "ERROR_CODE_TOPIC_NOT_FOUND"
  | "ERROR_CODE_TOPIC_EXISTS"
  | "ERROR_CODE_PARTITION_NOT_FOUND"
  | "ERROR_CODE_PARTITION_INVALID"
  | "ERROR_CODE_OFFSET_OUT_OF_RANGE"
  | "ERROR_CODE_TOPIC_BUSY"
  | "ERROR_CODE_TOPIC_INTERNAL"
  | "ERROR_CODE_GROUP_NOT_FOUND"
  | "ERROR_CODE_MEMBER_NOT_FOUND"
  | "ERROR_CODE_REBALANCE_IN_PROGRESS"
  | "ERROR_CODE_GENERATION_STALE"
  | "ERROR_CODE_SESSION_EXPIRED"
  | "ERROR_CODE_PARTITION_NOT_ASSIGNED"
  | "ERROR_CODE_GROUP_MISMATCH"
  | "ERROR_CODE_MESSAGE_TOO_LARGE"
  | "ERROR_CODE_MESSAGE_INVALID"
  | "ERROR_CODE_RECEIPT_INVALID"
  | "ERROR_CODE_RECEIPT_STALE"
  | "ERROR_CODE_MESSAGE_NOT_FOUND"
  | "ERROR_CODE_ALREADY_DELIVERED"
  | "ERROR_CODE_DELAY_TOO_LONG"
  | "ERROR_CODE_DEAD_LETTER_LOOP"
  | "ERROR_CODE_TRANSACTION_NOT_FOUND"
  | "ERROR_CODE_TRANSACTION_TIMEOUT"
  | "ERROR_CODE_PRODUCER_FENCED"
  | "ERROR_CODE_TRANSACTION_STATE_INVALID"
  | "ERROR_CODE_PRODUCER_NOT_FOUND"
  | "ERROR_CODE_SEQUENCE_OUT_OF_ORDER"
  | "ERROR_CODE_NOT_LEADER"
  | "ERROR_CODE_LEADER_UNAVAILABLE"
  | "ERROR_CODE_BROKER_UNAVAILABLE"
  | "ERROR_CODE_REPLICATION_FAILED"
  | "ERROR_CODE_NOT_ENOUGH_REPLICAS"
  | "ERROR_CODE_NOT_CONTROLLER"
  | "ERROR_CODE_EPOCH_STALE"
  | "ERROR_CODE_REASSIGNMENT_NOT_FOUND"
  | "ERROR_CODE_NODE_NOT_FOUND"
  | "ERROR_CODE_NODE_ALIVE"
  | "ERROR_CODE_SUBJECT_NOT_FOUND"
  | "ERROR_CODE_VERSION_NOT_FOUND"
  | "ERROR_CODE_SCHEMA_NOT_FOUND"
  | "ERROR_CODE_SCHEMA_INVALID"
  | "ERROR_CODE_SCHEMA_INCOMPATIBLE"
  | "ERROR_CODE_COMPATIBILITY_INVALID"
  | "ERROR_CODE_SCHEMA_VIOLATION"
  | "ERROR_CODE_SCHEMA_REFERENCED"
  | "ERROR_CODE_TENANT_NOT_FOUND"
  | "ERROR_CODE_TENANT_EXISTS"
  | "ERROR_CODE_TENANT_INACTIVE"
  | "ERROR_CODE_TENANT_NOT_EMPTY"
  | "ERROR_CODE_KEY_NOT_FOUND"
  | "ERROR_CODE_ACL_NOT_FOUND"
  | "ERROR_CODE_BACKUP_NOT_FOUND"
  | "ERROR_CODE_BACKUP_BUSY"
  | "ERROR_CODE_TRACE_NOT_FOUND"
  | "ERROR_CODE_SCHEDULE_NOT_FOUND"
  | "ERROR_CODE_SCHEDULE_EXISTS"
  | "ERROR_CODE_CERTIFICATE_IN_USE";

/** A message as it is stored, and as it is delivered. */
export interface Message {
  topic: string;
  partition: number;
  offset: string;
  timestamp: Timestamp | null;
  /** When a delayed message was due. */
  deliver_at: Timestamp | null;
  key: Buffer;
  /** Absent: a null value, which is a tombstone on compacted topics. */
  value?: Buffer;
  headers: Record<string, string>;
  /** 0 critical, 1 high, 2 normal, 3 low, 4 background. */
  priority: number;
  trace_id: string;
  /** How often it was delivered before. */
  retry_count: number;
  /** Set if the message is leased. */
  receipt_handle: string;
  deadline: Timestamp | null;
  /** Which field is set. */
  _value?: "value";
}

/** Why something was refused. The code is stable, the message is not. */
export interface Error {
  code: ErrorCode;
  message: string;
  details: Record<string, string>;
  retry_after: Duration | null;
}

export interface TopicPartition {
  topic: string;
  partition: number;
}

export interface TopicPartitionInput {
  topic?: string;
  partition?: number;
}

/** By receipt handle; or by group, topic, partition and offset, which commits offset + 1. */
export interface AckRequest {
  group_id: string;
  receipt_handle: string;
  topic: string;
  partition: number;
  offset: string;
}

/** By receipt handle; or by group, topic, partition and offset, which commits offset + 1. */
export interface AckRequestInput {
  group_id?: string;
  receipt_handle?: string;
  topic?: string;
  partition?: number;
  offset?: string | number;
}

export interface AckResponse {
  success: boolean;
  error: Error | null;
}

export interface NackRequest {
  group_id: string;
  receipt_handle: string;
  /** Unset: the backoff. */
  visibility_timeout: Duration | null;
  /** Ignored, as are `partition` and `offset`. */
  topic: string;
  partition: number;
  offset: string;
  reason: string;
}

export interface NackRequestInput {
  group_id?: string;
  receipt_handle?: string;
  /** Unset: the backoff. */
  visibility_timeout?: DurationInput;
  /** Ignored, as are `partition` and `offset`. */
  topic?: string;
  partition?: number;
  offset?: string | number;
  reason?: string;
}

export interface NackResponse {
  success: boolean;
  next_visible_at: Timestamp | null;
  error: Error | null;
  /** Set if the message went there. */
  dlq_topic: string;
}

export interface RejectRequest {
  group_id: string;
  receipt_handle: string;
  reason: string;
  /** Ignored, as are `partition` and `offset`. */
  topic: string;
  partition: number;
  offset: string;
}

export interface RejectRequestInput {
  group_id?: string;
  receipt_handle?: string;
  reason?: string;
  /** Ignored, as are `partition` and `offset`. */
  topic?: string;
  partition?: number;
  offset?: string | number;
}

export interface RejectResponse {
  success: boolean;
  dlq_topic: string;
  dlq_partition: number;
  dlq_offset: string;
  error: Error | null;
}

export interface ExtendVisibilityRequest {
  group_id: string;
  receipt_handle: string;
  visibility_timeout: Duration | null;
}

export interface ExtendVisibilityRequestInput {
  group_id?: string;
  receipt_handle?: string;
  visibility_timeout?: DurationInput;
}

export interface ExtendVisibilityResponse {
  success: boolean;
  new_deadline: Timestamp | null;
  error: Error | null;
}

export interface BatchAckRequest {
  group_id: string;
  receipt_handles: string[];
  offsets: OffsetAck[];
}

export interface BatchAckRequestInput {
  group_id?: string;
  receipt_handles?: string[];
  offsets?: OffsetAckInput[];
}

export interface OffsetAck {
  topic: string;
  partition: number;
  offset: string;
}

export interface OffsetAckInput {
  topic?: string;
  partition?: number;
  offset?: string | number;
}

export interface BatchAckResponse {
  success_count: number;
  failures: AckError[];
}

export interface AckError {
  receipt_handle: string;
  topic: string;
  partition: number;
  offset: string;
  error: Error | null;
}

export type ConsumeStartPosition =
  | "CONSUME_START_POSITION_EARLIEST"
  | "CONSUME_START_POSITION_LATEST"
  | "CONSUME_START_POSITION_OFFSET"
  | "CONSUME_START_POSITION_TIMESTAMP";

export type GroupMode =
  | "GROUP_MODE_PARTITIONED"
  | "GROUP_MODE_SHARED"
  | "GROUP_MODE_KEY_ORDERED";

export type RebalanceType =
  | "REBALANCE_TYPE_UNSPECIFIED"
  | "REBALANCE_TYPE_REVOKE"
  | "REBALANCE_TYPE_ASSIGN";

export interface ConsumeRequest {
  topic: string;
  /** Empty: all partitions. */
  partitions: number[];
  start_position: ConsumeStartPosition;
  start_offset: string;
  start_timestamp: Timestamp | null;
  /** Of one batch: 1 to 1000, 100 if 0. */
  max_messages: number;
  /** A batch ends near this; 4 MiB if 0. */
  max_bytes: number;
  /** At most 30 s, 100 ms if unset. */
  max_wait: Duration | null;
  consumer_id: string;
  isolation: Isolation;
}

export interface ConsumeRequestInput {
  topic?: string;
  /** Empty: all partitions. */
  partitions?: number[];
  start_position?: ConsumeStartPosition;
  start_offset?: string | number;
  start_timestamp?: TimestampInput;
  /** Of one batch: 1 to 1000, 100 if 0. */
  max_messages?: number;
  /** A batch ends near this; 4 MiB if 0. */
  max_bytes?: number;
  /** At most 30 s, 100 ms if unset. */
  max_wait?: DurationInput;
  consumer_id?: string;
  isolation?: Isolation;
}

export interface SubscribeRequest {
  topics: string[];
  group_id: string;
  consumer_id: string;
  /** EARLIEST or LATEST, for partitions without a committed offset. */
  start_position: ConsumeStartPosition;
  /** Maximum number of unsettled messages: 1 to 1000, 100 if 0. */
  max_messages: number;
  max_bytes: number;
  max_wait: Duration | null;
  session_timeout: Duration | null;
  heartbeat_interval: Duration | null;
  mode: GroupMode;
  isolation: Isolation;
}

export interface SubscribeRequestInput {
  topics?: string[];
  group_id?: string;
  consumer_id?: string;
  /** EARLIEST or LATEST, for partitions without a committed offset. */
  start_position?: ConsumeStartPosition;
  /** Maximum number of unsettled messages: 1 to 1000, 100 if 0. */
  max_messages?: number;
  max_bytes?: number;
  max_wait?: DurationInput;
  session_timeout?: DurationInput;
  heartbeat_interval?: DurationInput;
  mode?: GroupMode;
  isolation?: Isolation;
}

export interface ConsumeResponse {
  messages?: MessageBatch;
  heartbeat?: Heartbeat;
  assignment?: Assignment;
  rebalance?: RebalanceNotification;
  error?: Error;
  /** Which field is set. */
  payload?: "messages" | "heartbeat" | "assignment" | "rebalance" | "error";
}

/** Messages of one partition. */
export interface MessageBatch {
  messages: Message[];
  /** The next offset of that partition. */
  high_watermark: string;
}

export interface Heartbeat {
  timestamp: Timestamp | null;
}

export interface Assignment {
  generation: number;
  partitions: TopicPartition[];
  member_id: string;
}

export interface RebalanceNotification {
  type: RebalanceType;
  partitions: TopicPartition[];
  generation: number;
}

export type ServingStatus =
  | "SERVING_STATUS_UNKNOWN"
  | "SERVING_STATUS_SERVING"
  | "SERVING_STATUS_NOT_SERVING"
  | "SERVING_STATUS_SERVICE_UNKNOWN";

export interface HealthCheckRequest {
  /** Empty or `goqueue`: the node. */
  service: string;
}

export interface HealthCheckRequestInput {
  /** Empty or `goqueue`: the node. */
  service?: string;
}

export interface HealthCheckResponse {
  status: ServingStatus;
}

export type OffsetResetStrategy =
  | "OFFSET_RESET_STRATEGY_UNSPECIFIED"
  | "OFFSET_RESET_STRATEGY_EARLIEST"
  | "OFFSET_RESET_STRATEGY_LATEST"
  | "OFFSET_RESET_STRATEGY_TIMESTAMP"
  | "OFFSET_RESET_STRATEGY_OFFSET";

export interface CommitOffsetsRequest {
  group_id: string;
  offsets: OffsetCommit[];
  /** 0: not checked. */
  generation: number;
  /** May be empty while the group has no members. */
  member_id: string;
}

export interface CommitOffsetsRequestInput {
  group_id?: string;
  offsets?: OffsetCommitInput[];
  /** 0: not checked. */
  generation?: number;
  /** May be empty while the group has no members. */
  member_id?: string;
}

/** A committed offset is the next one to deliver. */
export interface OffsetCommit {
  topic: string;
  partition: number;
  offset: string;
  metadata: string;
}

/** A committed offset is the next one to deliver. */
export interface OffsetCommitInput {
  topic?: string;
  partition?: number;
  offset?: string | number;
  metadata?: string;
}

/** Each partition has its own result. */
export interface CommitOffsetsResponse {
  results: OffsetCommitResult[];
}

export interface OffsetCommitResult {
  topic: string;
  partition: number;
  success: boolean;
  error: Error | null;
}

export interface FetchOffsetsRequest {
  group_id: string;
  /** Empty: all. */
  partitions: TopicPartition[];
}

export interface FetchOffsetsRequestInput {
  group_id?: string;
  /** Empty: all. */
  partitions?: TopicPartitionInput[];
}

export interface FetchOffsetsResponse {
  offsets: OffsetFetchResult[];
}

export interface OffsetFetchResult {
  topic: string;
  partition: number;
  /** -1: nothing was committed. */
  offset: string;
  metadata: string;
  error: Error | null;
}

export interface ResetOffsetsRequest {
  group_id: string;
  strategy: OffsetResetStrategy;
  /** Empty: all partitions of the group. */
  partitions: TopicPartition[];
  timestamp: Timestamp | null;
  /** For the strategy OFFSET. */
  offsets: OffsetCommit[];
}

export interface ResetOffsetsRequestInput {
  group_id?: string;
  strategy?: OffsetResetStrategy;
  /** Empty: all partitions of the group. */
  partitions?: TopicPartitionInput[];
  timestamp?: TimestampInput;
  /** For the strategy OFFSET. */
  offsets?: OffsetCommitInput[];
}

export interface ResetOffsetsResponse {
  results: OffsetResetResult[];
}

export interface OffsetResetResult {
  topic: string;
  partition: number;
  old_offset: string;
  new_offset: string;
  error: Error | null;
}

export interface PublishRequest {
  topic: string;
  key: Buffer;
  /** Absent: a null value, which is a tombstone on compacted topics. */
  value?: Buffer;
  headers: Record<string, string>;
  /** Absent: by key, or round robin without one. */
  partition?: number;
  /** Absent: normal. */
  priority?: number;
  /** At most one of `delay` and `deliver_at`. */
  delay: Duration | null;
  deliver_at: Timestamp | null;
  ack_mode?: AckMode;
  /** Above 0: an idempotent or transactional producer. */
  producer_id: string;
  producer_epoch: number;
  sequence?: string;
  /** Which field is set. */
  _value?: "value";
  /** Which field is set. */
  _partition?: "partition";
  /** Which field is set. */
  _priority?: "priority";
  /** Which field is set. */
  _ack_mode?: "ack_mode";
  /** Which field is set. */
  _sequence?: "sequence";
}

export interface PublishRequestInput {
  topic?: string;
  key?: Uint8Array;
  /** Absent: a null value, which is a tombstone on compacted topics. */
  value?: Uint8Array;
  headers?: Record<string, string>;
  /** Absent: by key, or round robin without one. */
  partition?: number;
  /** Absent: normal. */
  priority?: number;
  /** At most one of `delay` and `deliver_at`. */
  delay?: DurationInput;
  deliver_at?: TimestampInput;
  ack_mode?: AckMode;
  /** Above 0: an idempotent or transactional producer. */
  producer_id?: string | number;
  producer_epoch?: number;
  sequence?: string | number;
}

export interface PublishResponse {
  topic: string;
  partition: number;
  offset: string;
  timestamp: Timestamp | null;
  error: Error | null;
  duplicate: boolean;
}

export interface PublishStreamRequest {
  /** Echoed in the answer. */
  correlation_id: string;
  topic: string;
  key: Buffer;
  /** Absent: a null value, which is a tombstone on compacted topics. */
  value?: Buffer;
  headers: Record<string, string>;
  partition?: number;
  priority?: number;
  delay: Duration | null;
  ack_mode?: AckMode;
  producer_id: string;
  producer_epoch: number;
  sequence?: string;
  deliver_at: Timestamp | null;
  /** Which field is set. */
  _value?: "value";
  /** Which field is set. */
  _partition?: "partition";
  /** Which field is set. */
  _priority?: "priority";
  /** Which field is set. */
  _ack_mode?: "ack_mode";
  /** Which field is set. */
  _sequence?: "sequence";
}

export interface PublishStreamRequestInput {
  /** Echoed in the answer. */
  correlation_id?: string;
  topic?: string;
  key?: Uint8Array;
  /** Absent: a null value, which is a tombstone on compacted topics. */
  value?: Uint8Array;
  headers?: Record<string, string>;
  partition?: number;
  priority?: number;
  delay?: DurationInput;
  ack_mode?: AckMode;
  producer_id?: string | number;
  producer_epoch?: number;
  sequence?: string | number;
  deliver_at?: TimestampInput;
}

export interface PublishStreamResponse {
  correlation_id: string;
  topic: string;
  partition: number;
  offset: string;
  timestamp: Timestamp | null;
  error: Error | null;
  duplicate: boolean;
}

export interface InitProducerRequest {
  /** Empty: an idempotent producer without transactions. */
  transactional_id: string;
  transaction_timeout_ms: string;
}

export interface InitProducerRequestInput {
  /** Empty: an idempotent producer without transactions. */
  transactional_id?: string;
  transaction_timeout_ms?: string | number;
}

export interface InitProducerResponse {
  producer_id: string;
  epoch: number;
  error: Error | null;
}

export interface BeginTransactionRequest {
  transactional_id: string;
  producer_id: string;
  epoch: number;
}

export interface BeginTransactionRequestInput {
  transactional_id?: string;
  producer_id?: string | number;
  epoch?: number;
}

export interface BeginTransactionResponse {
  transaction_id: string;
  error: Error | null;
}

export interface AddPartitionRequest {
  transactional_id: string;
  producer_id: string;
  epoch: number;
  topic: string;
  partition: number;
}

export interface AddPartitionRequestInput {
  transactional_id?: string;
  producer_id?: string | number;
  epoch?: number;
  topic?: string;
  partition?: number;
}

export interface AddPartitionResponse {
  error: Error | null;
}

export interface CommitTransactionRequest {
  transactional_id: string;
  producer_id: string;
  epoch: number;
}

export interface CommitTransactionRequestInput {
  transactional_id?: string;
  producer_id?: string | number;
  epoch?: number;
}

export interface CommitTransactionResponse {
  error: Error | null;
}

export interface AbortTransactionRequest {
  transactional_id: string;
  producer_id: string;
  epoch: number;
}

export interface AbortTransactionRequestInput {
  transactional_id?: string;
  producer_id?: string | number;
  epoch?: number;
}

export interface AbortTransactionResponse {
  error: Error | null;
}

export type ListTransactionsRequest = Record<string, never>;

export type ListTransactionsRequestInput = Record<string, never>;

export interface ListTransactionsResponse {
  transactions: TransactionInfo[];
}

export interface DescribeTransactionRequest {
  transaction_id: string;
}

export interface DescribeTransactionRequestInput {
  transaction_id?: string;
}

export interface DescribeTransactionResponse {
  transaction: TransactionInfo | null;
  error: Error | null;
}

export interface TransactionInfo {
  transaction_id: string;
  transactional_id: string;
  producer_id: string;
  epoch: number;
  state: string;
  start_time: Timestamp | null;
  last_update_time: Timestamp | null;
  timeout_ms: string;
  partitions: TransactionPartition[];
}

export interface TransactionPartition {
  topic: string;
  partitions: number[];
}

/** The unary methods of each service. */
export interface Methods {
  AckService: {
    Ack: [AckRequestInput, AckResponse];
    Nack: [NackRequestInput, NackResponse];
    Reject: [RejectRequestInput, RejectResponse];
    ExtendVisibility: [ExtendVisibilityRequestInput, ExtendVisibilityResponse];
    BatchAck: [BatchAckRequestInput, BatchAckResponse];
  };
  ConsumeService: {
  };
  HealthService: {
    Check: [HealthCheckRequestInput, HealthCheckResponse];
  };
  OffsetService: {
    CommitOffsets: [CommitOffsetsRequestInput, CommitOffsetsResponse];
    FetchOffsets: [FetchOffsetsRequestInput, FetchOffsetsResponse];
    ResetOffsets: [ResetOffsetsRequestInput, ResetOffsetsResponse];
  };
  PublishService: {
    Publish: [PublishRequestInput, PublishResponse];
  };
  TransactionService: {
    InitProducer: [InitProducerRequestInput, InitProducerResponse];
    BeginTransaction: [BeginTransactionRequestInput, BeginTransactionResponse];
    AddPartition: [AddPartitionRequestInput, AddPartitionResponse];
    CommitTransaction: [CommitTransactionRequestInput, CommitTransactionResponse];
    AbortTransaction: [AbortTransactionRequestInput, AbortTransactionResponse];
    ListTransactions: [ListTransactionsRequestInput, ListTransactionsResponse];
    DescribeTransaction: [DescribeTransactionRequestInput, DescribeTransactionResponse];
  };
}

/** The methods with streams, by `Service/Method`. */
export interface Streams {
  "ConsumeService/Consume": [ConsumeRequestInput, ConsumeResponse];
  "ConsumeService/Subscribe": [SubscribeRequestInput, ConsumeResponse];
  "HealthService/Watch": [HealthCheckRequestInput, HealthCheckResponse];
  "PublishService/PublishStream": [PublishStreamRequestInput, PublishStreamResponse];
}
