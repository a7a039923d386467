/** Producers: messages over one stream, also idempotent and in transactions. */

import type { ClientDuplexStream, ServiceError } from "@grpc/grpc-js";

import type { Client } from "./client.js";
import { type Delays, pause } from "./delays.js";
import { callError, closedError, endedError, GoQueueError, itemError } from "./errors.js";
import { Fifo } from "./fifo.js";
import { type Acks, type OutgoingMessage, type Placed, placedOf, requestOf } from "./message.js";
import type * as wire from "./messages.js";
import { Drain, type Pending, Stamps } from "./sequences.js";

const IN_FLIGHT_MAX = 10_000;
/** So many times the bound on messages in flight may wait for their turn. */
const HELD_FACTOR = 10;

export interface ProducerOptions {
  /** What answers wait for: `all` unless set. */
  acks?: Acks;
  /**
   * Number the messages of each partition, so that one that is sent again is stored once. Every
   * message needs a `partition` (see `partitionOf`), and at most five of each are on their way.
   */
  idempotent?: boolean;
  /**
   * Publish in transactions: see `begin`. A newer producer with the same id fences this one. Messages
   * with a `partition` are numbered; others are not sent again after an unknown outcome.
   */
  transactionalId?: string;
  /** A transaction that lasts longer is aborted: a minute unless set. */
  transactionTimeoutMs?: number;
  /** How many messages are on the stream at a time: 10,000 unless set. */
  maxInFlight?: number;
}

type Stream = ClientDuplexStream<wire.PublishStreamRequestInput, wire.PublishStreamResponse>;
type Ended = GoQueueError | "renewed";

/**
 * Publishes over one stream; many messages may be on their way. A stream that breaks is opened
 * again and what was not answered is sent again: without `idempotent` a message may then be stored
 * twice. A message that the node refuses for a while is sent again later.
 */
export class Producer {
  // What is accepted is in one of these, each in order, until it is answered: it is on the stream,
  // has to be sent again (as has what the drain holds), or was never sent.
  private readonly sent = new Fifo<Pending>();
  private readonly again = new Fifo<Pending>();
  private readonly queue = new Fifo<Pending>();
  private drain = new Drain();
  private stamps: Stamps | undefined;
  private stream: Stream | undefined;
  private endSession: (why: Ended) => void = () => undefined;
  private readonly maxInFlight: number;
  private readonly over = new AbortController();
  private readonly itemDelays: Delays;
  private unfinished = 0;
  private number = 0;
  private resumeAt = 0;
  private resumeTimer: ReturnType<typeof setTimeout> | undefined;
  private isRunning = false;
  private isBlocked = false;
  private hasAnswers = false;
  private isClosed = false;
  private waiters: { limit: number; resolve: () => void }[] = [];
  private failure: Error | undefined;
  private began = -1;

  constructor(
    private readonly client: Client,
    private readonly options: ProducerOptions = {},
  ) {
    this.maxInFlight = Math.max(options.maxInFlight ?? IN_FLIGHT_MAX, 1);
    this.itemDelays = client.delays.fresh();
  }

  /**
   * Publish a message; resolves when it is stored, rejects if it is refused. It need not be awaited
   * before the next one: `ready` bounds how many wait.
   */
  publish(message: OutgoingMessage): Promise<Placed> {
    return new Promise((resolve, reject) => {
      if (this.isClosed) throw closedError("producer");
      if (this.unfinished >= this.maxInFlight * HELD_FACTOR)
        throw new Error("too many messages wait for the node: await ready() between them");
      if (this.options.idempotent && message.partition === undefined)
        throw new GoQueueError("request_invalid", "idempotent messages need a partition");
      const request = requestOf(message, this.options.acks) as Pending["request"];
      this.queue.push({ request, resolve, reject, tries: 0, isUnknown: false });
      this.unfinished += 1;
      if (this.stream) this.pump();
      else void this.run();
    });
  }

  /** Wait until fewer than `maxInFlight` messages are unanswered. */
  ready(): Promise<void> {
    return this.waitFor(this.maxInFlight - 1);
  }

  /** Wait until everything that was published before is answered. */
  flush(): Promise<void> {
    return this.waitFor(0);
  }

  /** Wait for what was published, as long as retries last, and end. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.flush();
    this.abandon(closedError("producer"));
  }

  /** End at once: what is unanswered fails. */
  abandon(error: GoQueueError): void {
    this.isClosed = true;
    this.over.abort();
    clearTimeout(this.resumeTimer);
    const left = [...this.drain.returned, ...this.sent.drain(), ...this.again.drain()];
    left.push(...this.queue.drain());
    this.drain = new Drain();
    this.reject(error, left);
    this.endSession(error);
    this.client.forget(this);
  }

  // ---- transactions ------------------------------------------------------------------------

  /** Open a transaction: what is published until `commit` is stored as a whole, or not at all. */
  async begin(): Promise<void> {
    const owner = await this.owner();
    await this.client.retry(
      () => this.client.call("TransactionService", "BeginTransaction", owner),
      (failed) => failed.isUndone,
    );
    this.failure = undefined;
    this.began = owner.epoch;
  }

  /**
   * Wait for what was published and commit. Fails if a message of the transaction was not stored:
   * then it has to be aborted. May be repeated.
   */
  async commit(): Promise<void> {
    await this.flush();
    if (this.failure)
      throw new Error("a message of the transaction was not stored", { cause: this.failure });
    const owner = await this.owner();
    await this.client.retry(() =>
      this.client.call("TransactionService", "CommitTransaction", owner),
    );
  }

  /** Wait for what was published and abort the transaction. May be repeated. */
  async abort(): Promise<void> {
    await this.flush();
    const owner = await this.owner();
    // Another id of the producer has ended what was open under the last one.
    if (owner.epoch !== this.began) return;
    await this.client.retry(() => this.client.call("TransactionService", "AbortTransaction", owner));
  }

  private async owner(): Promise<{ transactional_id: string; producer_id: string; epoch: number }> {
    const name = this.options.transactionalId;
    if (!name) throw new Error("the producer is not transactional");
    const stamps = this.stamps ?? (await this.client.retry(() => this.identify()));
    return { transactional_id: name, producer_id: stamps.id, epoch: stamps.epoch };
  }

  private identifying: Promise<Stamps> | undefined;

  private identify(): Promise<Stamps> {
    const ask = async (): Promise<Stamps> => {
      const answer = await this.client.call("TransactionService", "InitProducer", {
        transactional_id: this.options.transactionalId ?? "",
        transaction_timeout_ms: this.options.transactionTimeoutMs ?? 0,
      });
      this.stamps = new Stamps(answer.producer_id, answer.epoch);
      return this.stamps;
    };
    this.identifying ??= ask().finally(() => (this.identifying = undefined));
    return this.identifying;
  }

  // ---- the stream --------------------------------------------------------------------------

  private get isStamped(): boolean {
    return !!this.options.idempotent || !!this.options.transactionalId;
  }

  private isNumbered(entry: Pending): boolean {
    return this.isStamped && entry.request.partition !== undefined;
  }

  /** Keep a stream open while there is something to send. */
  private async run(): Promise<void> {
    if (this.isRunning) return;
    this.isRunning = true;
    const delays = this.client.delays.fresh();
    while (this.again.length + this.queue.length > 0 && !this.over.signal.aborted) {
      const why = await this.session();
      if (why === "renewed") continue;
      if (this.recover(why)) delays.reset();
      await pause(delays.next(why), this.over.signal);
    }
    this.isRunning = false;
  }

  /** Serve one stream until it ends; why it did. */
  private async session(): Promise<Ended> {
    this.hasAnswers = false;
    try {
      if (this.isStamped && !this.stamps) await this.identify();
      this.stamps?.rewind();
      if (this.over.signal.aborted) return closedError("producer");
      const stream = this.client.open("PublishService/PublishStream") as Stream;
      const why = await new Promise<Ended>((resolve) => {
        this.endSession = resolve;
        stream.on("data", (answer: wire.PublishStreamResponse) => {
          if (this.stream === stream) this.settle(answer);
        });
        stream.on("error", (failed: ServiceError) => resolve(callError(failed)));
        stream.on("end", () => resolve(endedError()));
        stream.on("drain", () => {
          this.isBlocked = false;
          this.pump();
        });
        this.isBlocked = false;
        this.stream = stream;
        this.pump();
      });
      this.stream = undefined;
      stream.cancel();
      return why;
    } catch (failed) {
      return callError(failed as ServiceError);
    }
  }

  /** Send what may be sent. */
  private pump(): void {
    while (this.stream && !this.isBlocked && !this.drain.isOn && this.sent.length < this.maxInFlight) {
      const waitMs = this.resumeAt - Date.now();
      if (waitMs > 0) {
        this.resumeTimer ??= setTimeout(() => {
          this.resumeTimer = undefined;
          this.pump();
        }, waitMs);
        return;
      }
      const entry = this.again.first ?? this.queue.first;
      if (!entry || (this.isStamped && !this.stamps?.stamp(entry))) return;
      if (this.again.length) this.again.shift();
      else this.queue.shift();
      this.number += 1;
      entry.request.correlation_id = String(this.number);
      this.sent.push(entry);
      this.isBlocked = !this.stream.write(entry.request);
    }
  }

  /** Give an answer to the oldest message on the stream. */
  private settle(answer: wire.PublishStreamResponse): void {
    const entry = this.sent.first;
    if (!entry || entry.request.correlation_id !== answer.correlation_id) {
      this.endSession(new GoQueueError("", "the node answered a message that was not sent"));
      return;
    }
    this.hasAnswers = true;
    this.sent.shift();
    if (this.isNumbered(entry)) this.stamps?.leave(entry);
    const refused = answer.error ? itemError(answer.error) : undefined;
    const isRepeated = !!refused && this.refuse(entry, refused);
    if (!refused) this.itemDelays.reset();
    const isRenewed = this.drain.isOn && this.sent.length === 0 && this.resolveDrain(refused);
    if (refused && !isRepeated) this.reject(refused, [entry]);
    else if (!refused) {
      this.finish(1);
      entry.resolve(placedOf(answer));
    }
    if (isRenewed) this.endSession("renewed");
    else this.pump();
  }

  /** Whether a refused message is sent again. */
  private refuse(entry: Pending, refused: GoQueueError): boolean {
    const isNumbered = this.isNumbered(entry);
    if (isNumbered && this.drain.isFollower(entry, refused)) {
      this.drain.wait(entry);
      return true;
    }
    const canRepeat =
      refused.isRetriable && (refused.isUndone || isNumbered || !this.options.transactionalId);
    const isRepeated = canRepeat && entry.tries < this.client.retries;
    if (refused.isRetriable && !refused.isUndone) entry.isUnknown = true;
    if (isRepeated) {
      entry.tries += 1;
      this.resumeAt = Date.now() + this.itemDelays.next(refused);
    }
    if (isNumbered && isRepeated) this.drain.wait(entry);
    else if (isNumbered) this.drain.leave(entry, refused, this.isUnnumbering(refused));
    else if (isRepeated) this.again.push(entry);
    return isRepeated;
  }

  /** Whether an error shows that the node does not know the numbers of the producer. */
  private isUnnumbering(failed: GoQueueError): boolean {
    if (failed.code === "producer_fenced") return !this.options.transactionalId;
    return failed.code === "producer_not_found" || failed.code === "sequence_out_of_order";
  }

  /** Decide what is sent again after a stream broke; whether that had answers. */
  private recover(why: GoQueueError): boolean {
    for (const entry of this.sent)
      entry.isUnknown = entry.isUnknown || !this.drain.isBehindHole(entry);
    const waiting = [...this.drain.returned.splice(0), ...this.sent.drain(), ...this.again.drain()];
    const dropped: Pending[] = [];
    for (const entry of this.divide(waiting, why, dropped)) this.again.push(entry);
    for (const entry of dropped)
      if (this.isNumbered(entry) && entry.request.sequence !== undefined)
        this.drain.giveUp(entry, entry.isUnknown);
    if (!this.hasAnswers)
      for (const entry of this.divide(this.queue.drain(), why, dropped)) this.queue.push(entry);
    this.resolveDrain(why);
    this.reject(why, dropped);
    return this.hasAnswers;
  }

  /** Count a try; what is sent again. What failed is added to `dropped`. */
  private divide(entries: Pending[], why: GoQueueError, dropped: Pending[]): Pending[] {
    return entries.filter((entry) => {
      entry.tries += 1;
      const isSafe = !entry.isUnknown || !this.options.transactionalId || this.isNumbered(entry);
      const isKept = why.isRetriable && isSafe && entry.tries <= this.client.retries;
      if (!isKept) dropped.push(entry);
      return isKept;
    });
  }

  /** End a drain: nothing is on the stream. Whether the producer needs another id. */
  private resolveDrain(why: GoQueueError | undefined): boolean {
    const ended = this.drain;
    this.drain = new Drain();
    const waiting = [...ended.returned, ...this.again.drain()];
    const isRenewed = ended.needsRenewal(waiting);
    const uncertain: Pending[] = [];
    if (!isRenewed) ended.renumber(waiting, this.stamps);
    else this.stamps = undefined;
    for (const entry of waiting) {
      if (isRenewed && this.isNumbered(entry)) {
        if (entry.isUnknown && !ended.isBehindHole(entry)) {
          uncertain.push(entry);
          continue;
        }
        entry.isUnknown = false;
        delete entry.request.sequence;
      }
      this.again.push(entry);
    }
    this.reject(new Error("the message may be stored", { cause: why }), uncertain);
    return isRenewed;
  }

  private reject(error: Error, entries: Pending[]): void {
    if (entries.length) this.failure = error;
    this.finish(entries.length);
    for (const entry of entries) entry.reject(error);
  }

  private finish(count: number): void {
    this.unfinished -= count;
    if (this.waiters.length) {
      const reached = this.waiters.filter((waiter) => this.unfinished <= waiter.limit);
      this.waiters = this.waiters.filter((waiter) => this.unfinished > waiter.limit);
      for (const waiter of reached) waiter.resolve();
    }
  }

  private waitFor(limit: number): Promise<void> {
    if (this.unfinished <= limit) return Promise.resolve();
    return new Promise((resolve) => this.waiters.push({ limit, resolve }));
  }
}
