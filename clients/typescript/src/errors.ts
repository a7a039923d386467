/** Refusals of the node. */

import { Metadata, type ServiceError, status } from "@grpc/grpc-js";

import type * as wire from "./messages.js";
import { decodeError } from "./protocol.js";

const TRAILER = "goqueue-error-bin";

/** Codes of refusals that may succeed later; true if it is known that nothing was done. */
const RETRIABLE = new Map([
  ["backup_busy", true],
  ["broker_unavailable", true],
  ["leader_unavailable", true],
  ["not_controller", true],
  ["not_enough_replicas", true],
  ["not_leader", true],
  ["rate_limited", true],
  ["rebalance_in_progress", true],
  ["replication_failed", false],
  ["request_timeout", false],
  ["storage_full", true],
  ["topic_busy", true],
]);

/** The codes of each status, which errors of single items do not carry. */
const CODES: [number, string][] = [
  [
    status.INVALID_ARGUMENT,
    "request_invalid name_invalid partition_invalid message_too_large message_invalid " +
      "receipt_invalid delay_too_long schema_invalid compatibility_invalid schema_violation",
  ],
  [status.UNAUTHENTICATED, "unauthenticated"],
  [status.PERMISSION_DENIED, "permission_denied topic_internal tenant_inactive"],
  [status.UNIMPLEMENTED, "route_not_found method_not_allowed"],
  [status.RESOURCE_EXHAUSTED, "body_too_large rate_limited quota_exceeded storage_full"],
  [status.DEADLINE_EXCEEDED, "request_timeout no_reply"],
  [status.INTERNAL, "internal_error storage_failed"],
  [
    status.NOT_FOUND,
    "topic_not_found partition_not_found group_not_found member_not_found message_not_found " +
      "transaction_not_found producer_not_found reassignment_not_found subject_not_found " +
      "version_not_found schema_not_found tenant_not_found key_not_found acl_not_found " +
      "backup_not_found trace_not_found node_not_found schedule_not_found",
  ],
  [status.ALREADY_EXISTS, "topic_exists tenant_exists schedule_exists certificate_in_use"],
  [status.OUT_OF_RANGE, "offset_out_of_range"],
  [
    status.ABORTED,
    "topic_busy rebalance_in_progress generation_stale session_expired transaction_timeout " +
      "epoch_stale backup_busy",
  ],
  [
    status.FAILED_PRECONDITION,
    "partition_not_assigned group_mismatch receipt_stale already_delivered dead_letter_loop " +
      "producer_fenced transaction_state_invalid sequence_out_of_order schema_incompatible " +
      "schema_referenced tenant_not_empty node_alive",
  ],
  [
    status.UNAVAILABLE,
    "not_leader leader_unavailable broker_unavailable replication_failed not_enough_replicas " +
      "not_controller",
  ],
  [status.DATA_LOSS, "records_damaged"],
];
const STATUSES = new Map(
  CODES.flatMap(([number, codes]) => codes.split(" ").map((code) => [code, number] as const)),
);

/** A call or an item that was refused. `code` is stable, such as `topic_not_found`. */
export class GoQueueError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly details: Readonly<Record<string, string>> = {},
    readonly grpcStatus: number = STATUSES.get(code) ?? status.UNKNOWN,
    readonly retryAfterMs = 0,
  ) {
    super(message);
    this.name = "GoQueueError";
  }

  /** Whether the same call, unchanged, may succeed later. */
  get isRetriable(): boolean {
    return RETRIABLE.has(this.code) || (this.code === "" && this.grpcStatus === status.UNAVAILABLE);
  }

  /** Whether the error is retriable and it is known that nothing was done. */
  get isUndone(): boolean {
    return RETRIABLE.get(this.code) ?? false;
  }
}

/** The error of one item of a stream or a batch. */
export function itemError(found: wire.Error, grpcStatus?: number): GoQueueError {
  const code = found.code.replace(/^ERROR_CODE_/, "").toLowerCase();
  const wait = found.retry_after;
  const waitMs = wait ? Number(wait.seconds) * 1000 + wait.nanos / 1e6 : 0;
  return new GoQueueError(code, found.message, found.details ?? {}, grpcStatus, waitMs);
}

/** A failed call as a GoQueueError, with the code of the node if it gave one. */
export function callError(failed: ServiceError): GoQueueError {
  if (failed instanceof GoQueueError) return failed;
  const metadata: Metadata | undefined = failed.metadata;
  const [found] = metadata?.get(TRAILER) ?? [];
  if (found instanceof Buffer) return itemError(decodeError(found), failed.code);
  return new GoQueueError("", failed.details || failed.message, {}, failed.code);
}

/** The error of what was closed. */
export function closedError(what: string): GoQueueError {
  return new GoQueueError("", `the ${what} is closed`, {}, status.CANCELLED);
}

/** A stream that the node ended well: it is about to stop. */
export function endedError(): GoQueueError {
  return new GoQueueError("", "the stream has ended", {}, status.UNAVAILABLE);
}
