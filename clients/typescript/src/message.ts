/** Messages as programs see them, and as they are on the wire. */

import { GoQueueError } from "./errors.js";
import type * as wire from "./messages.js";
import { fromDate, toDate, toDuration } from "./protocol.js";

export const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;
/** Room for what is added to a message: names of fields, a correlation id, a sequence number. */
const REQUEST_BYTES_MORE = 1024;
const PRIORITIES = ["critical", "high", "normal", "low", "background"] as const;

export type Priority = (typeof PRIORITIES)[number];

/** What the answer to a publish waits for: enough replicas, the leader's disk, or nothing. */
export type Acks = "all" | "leader" | "none";

/** What is published. A value of null is a tombstone on compacted topics. */
export interface OutgoingMessage {
  topic: string;
  value: string | Uint8Array | null;
  key?: string | Uint8Array;
  headers?: Record<string, string>;
  partition?: number;
  priority?: Priority;
  delayMs?: number;
  deliverAt?: Date;
}

/** Where a message was stored. With acks of none nothing is known yet: the offset is -1. */
export interface Placed {
  topic: string;
  partition: number;
  offset: bigint;
  timestamp: Date;
  /** An earlier attempt of an idempotent producer had stored the message. */
  duplicate: boolean;
}

/** A message as it was stored. */
export interface Received {
  topic: string;
  partition: number;
  offset: bigint;
  timestamp: Date;
  key: Buffer;
  value: Buffer | null;
  headers: Record<string, string>;
  priority: Priority;
  traceId: string;
  retryCount: number;
}

/** A message as a publish takes it; throws what would end a stream, and other messages with it. */
export function requestOf(message: OutgoingMessage, acks?: Acks): wire.PublishStreamRequestInput {
  const request: wire.PublishStreamRequestInput = { topic: message.topic };
  let size = REQUEST_BYTES_MORE;
  if (message.key !== undefined) request.key = Buffer.from(message.key);
  if (message.value !== null) request.value = Buffer.from(message.value);
  if (message.headers) request.headers = message.headers;
  if (message.partition !== undefined) request.partition = message.partition;
  if (message.priority) request.priority = PRIORITIES.indexOf(message.priority);
  if (message.delayMs !== undefined) request.delay = toDuration(message.delayMs);
  if (message.deliverAt) request.deliver_at = fromDate(message.deliverAt);
  if (acks && acks !== "all") request.ack_mode = acks === "none" ? "ACK_MODE_NONE" : "ACK_MODE_LEADER";
  size += (request.key?.length ?? 0) + (request.value?.length ?? 0);
  for (const [name, value] of Object.entries(message.headers ?? {}))
    size += Buffer.byteLength(name) + Buffer.byteLength(value) + 16;
  if (size > MESSAGE_BYTES_MAX)
    throw new GoQueueError("body_too_large", `the message has ${size} bytes`);
  return request;
}

export function placedOf(answer: wire.PublishResponse | wire.PublishStreamResponse): Placed {
  return {
    topic: answer.topic,
    partition: answer.partition,
    offset: BigInt(answer.offset),
    timestamp: toDate(answer.timestamp),
    duplicate: answer.duplicate,
  };
}

export function receivedOf(message: wire.Message): Received {
  return {
    topic: message.topic,
    partition: message.partition,
    offset: BigInt(message.offset),
    timestamp: toDate(message.timestamp),
    key: message.key,
    value: message._value === "value" ? (message.value ?? Buffer.alloc(0)) : null,
    headers: message.headers,
    priority: PRIORITIES[message.priority] ?? "normal",
    traceId: message.trace_id,
    retryCount: message.retry_count,
  };
}

/** The partition that the node chooses for a key, if the topic has so many. */
export function partitionOf(key: string | Uint8Array, partitions: number): number {
  return murmur3(Buffer.from(key)) % partitions;
}

/** MurmurHash3, x86, 32 bits, seed 0. */
function murmur3(data: Buffer): number {
  const turn = (word: number, bits: number): number => (word << bits) | (word >>> (32 - bits));
  const mix = (word: number): number => Math.imul(turn(Math.imul(word, 0xcc9e2d51), 15), 0x1b873593);
  const whole = data.length - (data.length % 4);
  let hash = 0;
  for (let at = 0; at < whole; at += 4)
    hash = (Math.imul(turn(hash ^ mix(data.readUInt32LE(at)), 13), 5) + 0xe6546b64) | 0;
  let rest = 0;
  for (let at = data.length - 1; at >= whole; at -= 1) rest = (rest << 8) | (data[at] as number);
  hash ^= mix(rest) ^ data.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
