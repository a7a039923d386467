/** Sequence numbers of idempotent producers, with which a message may be sent again. */

import type { GoQueueError } from "./errors.js";
import type * as wire from "./messages.js";
import type { Placed } from "./message.js";

/** The node recognises a repeated message among so many of a partition. */
const IN_FLIGHT_MAX = 5;
/** Codes of messages that no attempt can have stored. */
const NEVER_STORED = new Set(["message_invalid", "name_invalid", "partition_invalid", "request_invalid"]);

/** A message that has no answer yet. */
export interface Pending {
  request: Omit<wire.PublishStreamRequestInput, "sequence"> & { sequence?: number };
  resolve: (placed: Placed) => void;
  reject: (error: Error) => void;
  tries: number;
  /** It may be stored, although nobody said so. */
  isUnknown: boolean;
}

const nameOf = (entry: Pending): string => `${entry.request.topic}/${entry.request.partition}`;

interface Sequence {
  next: number;
  /** Numbers on the stream, in order. */
  inFlight: number[];
}

/** The id of a producer and its numbers. */
export class Stamps {
  private readonly sequences = new Map<string, Sequence>();

  constructor(
    readonly id: string,
    readonly epoch: number,
  ) {}

  /** Give a message its number, unless it has one; false if it has to wait for those before it. */
  stamp(entry: Pending): boolean {
    const { request } = entry;
    request.producer_id = this.id;
    request.producer_epoch = this.epoch;
    if (request.partition === undefined) return true;
    const counted = this.sequences.get(nameOf(entry)) ?? { next: 0, inFlight: [] };
    this.sequences.set(nameOf(entry), counted);
    const number = request.sequence ?? counted.next;
    // One that is sent again may be stored already, and so may those behind it.
    if (number - (counted.inFlight[0] ?? number) >= IN_FLIGHT_MAX) return false;
    if (request.sequence === undefined) counted.next += 1;
    request.sequence = number;
    counted.inFlight.push(number);
    return true;
  }

  /** Count a message that was answered. */
  leave(entry: Pending): void {
    this.sequences.get(nameOf(entry))?.inFlight.shift();
  }

  /** Begin a stream: nothing is on its way. */
  rewind(): void {
    for (const counted of this.sequences.values()) counted.inFlight = [];
  }

  continueWith(name: string, number: number): void {
    const counted = this.sequences.get(name);
    if (counted) counted.next = number;
  }
}

interface Hole {
  number: number;
  isUncertain: boolean;
}

/**
 * What happens to numbered messages after one was refused. The node takes the numbers of a partition
 * in order, so those behind it on the stream are refused, too: sending stops until all of them are
 * answered. Then they are sent again, with the same numbers if the refused one is sent again, too,
 * else with new ones.
 *
 * A number is given to another message only if no stream that broke can still bring the node the one
 * that had it; otherwise the producer takes a new id.
 */
export class Drain {
  isOn = false;
  /** What is sent again, in order. */
  readonly returned: Pending[] = [];
  private readonly troubled = new Set<string>();
  private readonly holes = new Map<string, Hole>();

  /** Whether a message was refused only because one before it was. */
  isFollower(entry: Pending, refused: GoQueueError): boolean {
    return refused.code === "sequence_out_of_order" && this.troubled.has(nameOf(entry));
  }

  /** Keep a refused message for the end of the drain. */
  wait(entry: Pending): void {
    this.begin(entry);
    this.returned.push(entry);
  }

  /** Give up a message that was refused. */
  leave(entry: Pending, refused: GoQueueError, isUnnumbering: boolean): void {
    this.giveUp(entry, isUnnumbering || (entry.isUnknown && !NEVER_STORED.has(refused.code)));
  }

  /** Give up a message. */
  giveUp(entry: Pending, isUncertain: boolean): void {
    this.begin(entry);
    const found = this.holes.get(nameOf(entry));
    const number = Math.min(entry.request.sequence ?? 0, found?.number ?? Infinity);
    this.holes.set(nameOf(entry), { number, isUncertain: isUncertain || !!found?.isUncertain });
  }

  /** Whether a message follows one that certainly is not stored. */
  isBehindHole(entry: Pending): boolean {
    const found = this.holes.get(nameOf(entry));
    const number = entry.request.sequence;
    return !!found && !found.isUncertain && number !== undefined && number > found.number;
  }

  /** Whether only a producer with another id can send these messages again. */
  needsRenewal(entries: readonly Pending[]): boolean {
    return (
      [...this.holes.values()].some((hole) => hole.isUncertain) ||
      entries.some((entry) => entry.isUnknown && this.isBehindHole(entry))
    );
  }

  /** Give the numbers of what was given up to those behind it. */
  renumber(entries: readonly Pending[], stamps: Stamps | undefined): void {
    const moved = entries.filter((entry) => this.isBehindHole(entry));
    for (const entry of moved) delete entry.request.sequence;
    for (const [name, hole] of this.holes) stamps?.continueWith(name, hole.number);
  }

  private begin(entry: Pending): void {
    this.isOn = true;
    this.troubled.add(nameOf(entry));
  }
}
