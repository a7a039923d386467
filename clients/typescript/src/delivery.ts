/** Messages that are delivered, and what to ask for to get them. */

import type { Client } from "./client.js";
import { type Priority, type Received, receivedOf } from "./message.js";
import type * as wire from "./messages.js";
import { toDate, toDuration } from "./protocol.js";

export interface SubscribeOptions {
  group: string;
  topics: string[];
  consumerId?: string;
  start?: "earliest" | "latest";
  /** At most so many messages are unsettled at a time. */
  maxMessages?: number;
  sessionTimeoutMs?: number;
  mode?: "partitioned" | "shared" | "key_ordered";
  signal?: AbortSignal;
  onAssignment?: (partitions: wire.TopicPartition[]) => void;
}

export interface ConsumeOptions {
  topic: string;
  partitions?: number[];
  from?: "earliest" | "latest" | bigint | Date;
  maxMessages?: number;
  isolation?: "read_committed" | "read_uncommitted";
  signal?: AbortSignal;
}

/** A message that is leased to this program until `deadline`. */
export class Delivery implements Received {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly timestamp: Date;
  readonly key: Buffer;
  readonly value: Buffer | null;
  readonly headers: Record<string, string>;
  readonly priority: Priority;
  readonly traceId: string;
  readonly retryCount: number;
  readonly receiptHandle: string;
  readonly deadline: Date;

  constructor(
    private readonly client: Client,
    message: wire.Message,
  ) {
    const received = receivedOf(message);
    this.topic = received.topic;
    this.partition = received.partition;
    this.offset = received.offset;
    this.timestamp = received.timestamp;
    this.key = received.key;
    this.value = received.value;
    this.headers = received.headers;
    this.priority = received.priority;
    this.traceId = received.traceId;
    this.retryCount = received.retryCount;
    this.receiptHandle = message.receipt_handle;
    this.deadline = toDate(message.deadline);
  }

  /** Settle the message: the group does not get it again. */
  async ack(): Promise<void> {
    await this.client.ack(this.receiptHandle);
  }

  /**
   * Return the message for redelivery, after its backoff or after a delay. Not repeated after an
   * unknown outcome, as `reject` is not.
   */
  async nack(reason = "", delayMs?: number): Promise<void> {
    const timeout = delayMs === undefined ? {} : { visibility_timeout: toDuration(delayMs) };
    const request = { receipt_handle: this.receiptHandle, reason, ...timeout };
    await this.client.retry(
      () => this.client.call("AckService", "Nack", request),
      (failed) => failed.isUndone,
    );
  }

  /** Move the message to the dead-letter topic; its name. */
  async reject(reason = ""): Promise<string> {
    const request = { receipt_handle: this.receiptHandle, reason };
    const answer = await this.client.retry(
      () => this.client.call("AckService", "Reject", request),
      (failed) => failed.isUndone,
    );
    return answer.dlq_topic;
  }

  /** Set the end of the lease to this long from now. */
  async extend(timeoutMs: number): Promise<void> {
    const request = {
      receipt_handle: this.receiptHandle,
      visibility_timeout: toDuration(timeoutMs),
    };
    await this.client.retry(() => this.client.call("AckService", "ExtendVisibility", request));
  }
}
