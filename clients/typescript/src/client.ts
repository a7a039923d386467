/** A connection to a node. */

import {
  type ChannelCredentials,
  type Client as GrpcClient,
  type ClientReadableStream,
  credentials,
  Metadata,
  type ServiceError,
} from "@grpc/grpc-js";

import { Delays, pause } from "./delays.js";
import { type ConsumeOptions, Delivery, type SubscribeOptions } from "./delivery.js";
import { callError, closedError, endedError, GoQueueError, itemError } from "./errors.js";
import {
  MESSAGE_BYTES_MAX,
  type OutgoingMessage,
  type Placed,
  placedOf,
  type Received,
  receivedOf,
  requestOf,
} from "./message.js";
import type * as wire from "./messages.js";
import { Producer, type ProducerOptions } from "./producer.js";
import { fromDate, serviceOf, toDuration } from "./protocol.js";

const CALL_MS = 30_000;
const RETRIES = 10;
/** The member lost its place in the group: it has to join again. */
const LEFT = new Set(["session_expired", "member_not_found", "generation_stale"]);

export interface ClientOptions {
  /** Sent with every call. */
  apiKey?: string;
  /** TLS: true for the authorities of the system, or PEM texts. */
  tls?: boolean | { ca?: Buffer; key?: Buffer; cert?: Buffer };
  /**
   * How often a call or a publish that fails with a retriable error is tried again: 10 unless set,
   * which takes about 20 seconds. Subscriptions are tried again until they are ended.
   */
  retries?: number;
  /** The first and the longest wait between attempts. */
  delays?: { firstMs?: number; longestMs?: number };
}

type Unary = (
  request: unknown,
  metadata: Metadata,
  options: { deadline: number },
  done: (failed: ServiceError | null, answer: unknown) => void,
) => void;

/** A connection to a node. */
export class Client {
  readonly retries: number;
  /** Waits between attempts; for one use take a `fresh` one. */
  readonly delays: Delays;
  private readonly credentials: ChannelCredentials;
  private readonly metadata = new Metadata();
  private readonly services = new Map<string, GrpcClient>();
  private readonly producers = new Set<Producer>();
  private readonly closed = new AbortController();

  constructor(
    private readonly address: string,
    options: ClientOptions = {},
  ) {
    this.retries = options.retries ?? RETRIES;
    this.delays = new Delays(options.delays?.firstMs, options.delays?.longestMs);
    if (options.apiKey) this.metadata.set("authorization", `Bearer ${options.apiKey}`);
    const tls = options.tls === true ? {} : options.tls;
    this.credentials = tls
      ? credentials.createSsl(tls.ca, tls.key, tls.cert)
      : credentials.createInsecure();
  }

  /** A producer on a stream of its own. */
  producer(options: ProducerOptions = {}): Producer {
    if (this.closed.signal.aborted) throw closedError("client");
    const producer = new Producer(this, options);
    this.producers.add(producer);
    return producer;
  }

  /** Publish one message with a call of its own. Not repeated after an unknown outcome. */
  async publish(message: OutgoingMessage): Promise<Placed> {
    const request = requestOf(message);
    const answer = await this.retry(
      () => this.call("PublishService", "Publish", request),
      (failed) => failed.isUndone,
    );
    return placedOf(answer);
  }

  /**
   * Settle messages by receipt handle; the errors of those that were refused, by handle. Those that
   * were refused for a while are tried again.
   */
  async ack(...receiptHandles: string[]): Promise<Map<string, GoQueueError>> {
    if (receiptHandles.length === 1) {
      const request = { receipt_handle: receiptHandles[0] as string };
      await this.retry(() => this.call("AckService", "Ack", request));
      return new Map();
    }
    const refused = new Map<string, GoQueueError>();
    let waiting = receiptHandles;
    const delays = this.delays.fresh();
    for (let attempt = 0; waiting.length; attempt += 1) {
      const request = { receipt_handles: waiting };
      const answer = await this.retry(() => this.call("AckService", "BatchAck", request));
      for (const handle of waiting) refused.delete(handle);
      waiting = [];
      let busy: GoQueueError | undefined;
      for (const { receipt_handle: handle, error } of answer.failures) {
        if (!error) continue;
        const found = itemError(error);
        refused.set(handle, found);
        if (!found.isRetriable || attempt >= this.retries) continue;
        waiting.push(handle);
        busy = found;
      }
      if (busy) await pause(delays.next(busy), this.closed.signal);
    }
    return refused;
  }

  /**
   * Join a group and iterate over leased messages, until the loop is left, the signal is aborted or
   * the client is closed: then the group is left and what is leased is free. A stream that breaks is
   * opened again, and what was leased over it comes again.
   */
  async *subscribe(options: SubscribeOptions): AsyncGenerator<Delivery, void, undefined> {
    const request: wire.SubscribeRequestInput = {
      group_id: options.group,
      topics: options.topics,
      consumer_id: options.consumerId ?? "",
      max_messages: options.maxMessages ?? 0,
      start_position:
        options.start === "latest" ? "CONSUME_START_POSITION_LATEST" : "CONSUME_START_POSITION_EARLIEST",
      mode: `GROUP_MODE_${(options.mode ?? "partitioned").toUpperCase()}` as wire.GroupMode,
    };
    if (options.sessionTimeoutMs !== undefined)
      request.session_timeout = toDuration(options.sessionTimeoutMs);
    const delays = this.delays.fresh();
    while (!this.isOver(options.signal)) {
      try {
        for await (const response of this.read("Subscribe", request, options.signal)) {
          if (response.assignment) {
            delays.reset();
            options.onAssignment?.(response.assignment.partitions);
          }
          for (const message of response.messages?.messages ?? []) {
            yield new Delivery(this, message);
            // What is left of the batch is free again: the stream has ended.
            if (this.isOver(options.signal)) return;
          }
        }
        if (this.isOver(options.signal)) return;
        throw endedError();
      } catch (failed) {
        if (this.isOver(options.signal)) return;
        const isLost = failed instanceof GoQueueError && (failed.isRetriable || LEFT.has(failed.code));
        if (!isLost) throw failed;
        await this.pause(delays.next(failed), options.signal);
      }
    }
  }

  /** Iterate over the messages of partitions in offset order. Does not reconnect. */
  async *consume(options: ConsumeOptions): AsyncGenerator<Received, void, undefined> {
    const request: wire.ConsumeRequestInput = {
      topic: options.topic,
      partitions: options.partitions ?? [],
      max_messages: options.maxMessages ?? 0,
      isolation: `ISOLATION_${(options.isolation ?? "read_committed").toUpperCase()}` as wire.Isolation,
    };
    const from = options.from ?? "earliest";
    if (typeof from === "bigint") {
      request.start_position = "CONSUME_START_POSITION_OFFSET";
      request.start_offset = from.toString();
    } else if (from instanceof Date) {
      request.start_position = "CONSUME_START_POSITION_TIMESTAMP";
      request.start_timestamp = fromDate(from);
    } else if (from === "latest") request.start_position = "CONSUME_START_POSITION_LATEST";
    for await (const response of this.read("Consume", request, options.signal))
      for (const message of response.messages?.messages ?? []) {
        yield receivedOf(message);
        if (this.isOver(options.signal)) return;
      }
  }

  /** Any unary method of a service, with messages as plain objects. */
  call<Service extends keyof wire.Methods, Method extends keyof wire.Methods[Service] & string>(
    service: Service,
    method: Method,
    request: wire.Methods[Service][Method] extends [infer Request, unknown] ? Request : never,
  ): Promise<wire.Methods[Service][Method] extends [unknown, infer Answer] ? Answer : never> {
    type Answered = wire.Methods[Service][Method] extends [unknown, infer Answer] ? Answer : never;
    return new Promise((resolve, reject) => {
      const client = this.service(service);
      const run = (client as unknown as Record<string, Unary>)[method] as Unary;
      const options = { deadline: Date.now() + CALL_MS };
      run.call(client, request, this.metadata, options, (failed, answer) =>
        failed ? reject(callError(failed)) : resolve(answer as Answered),
      );
    });
  }

  /** A stream, named `Service/Method`; `request` is the message of those that take one. */
  open<Name extends keyof wire.Streams>(name: Name, request?: wire.Streams[Name][0]): unknown {
    const [service, method] = name.split("/") as [string, string];
    const client = this.service(service);
    type Opened = (first: unknown, metadata?: Metadata) => unknown;
    const run = (client as unknown as Record<string, Opened>)[method] as Opened;
    return request === undefined
      ? run.call(client, this.metadata)
      : run.call(client, request, this.metadata);
  }

  /** Run a call again while it fails with an error that can be retried. */
  async retry<Answer>(
    call: () => Promise<Answer>,
    canRetry: (failed: GoQueueError) => boolean = (failed) => failed.isRetriable,
  ): Promise<Answer> {
    const delays = this.delays.fresh();
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await call();
      } catch (failed) {
        const isOver = attempt >= this.retries || this.closed.signal.aborted;
        if (!(failed instanceof GoQueueError) || isOver || !canRetry(failed)) throw failed;
        await pause(delays.next(failed), this.closed.signal);
      }
    }
  }

  /** End the connection and everything on it: subscriptions end, and publishes fail. */
  close(): void {
    this.closed.abort();
    for (const producer of this.producers) producer.abandon(closedError("client"));
    for (const service of this.services.values()) service.close();
    this.services.clear();
  }

  /** Called by a producer that has ended. */
  forget(producer: Producer): void {
    this.producers.delete(producer);
  }

  private isOver(signal?: AbortSignal): boolean {
    return this.closed.signal.aborted || !!signal?.aborted;
  }

  private async pause(ms: number, signal?: AbortSignal): Promise<void> {
    const both = new AbortController();
    const end = (): void => both.abort();
    for (const each of [this.closed.signal, signal]) each?.addEventListener("abort", end);
    await pause(ms, both.signal);
    for (const each of [this.closed.signal, signal]) each?.removeEventListener("abort", end);
  }

  private async *read(
    method: "Consume" | "Subscribe",
    request: wire.ConsumeRequestInput | wire.SubscribeRequestInput,
    signal?: AbortSignal,
  ): AsyncGenerator<wire.ConsumeResponse, void, undefined> {
    if (this.closed.signal.aborted) throw closedError("client");
    const stream = this.open(
      `ConsumeService/${method}`,
      request,
    ) as ClientReadableStream<wire.ConsumeResponse>;
    const cancel = (): void => stream.cancel();
    for (const each of [this.closed.signal, signal]) each?.addEventListener("abort", cancel);
    try {
      for await (const response of stream as AsyncIterable<wire.ConsumeResponse>) {
        if (response.error) throw itemError(response.error);
        yield response;
      }
    } catch (failed) {
      if (signal?.aborted) return;
      if (this.closed.signal.aborted) throw closedError("client");
      throw callError(failed as ServiceError);
    } finally {
      for (const each of [this.closed.signal, signal]) each?.removeEventListener("abort", cancel);
      stream.on("error", () => undefined);
      stream.cancel();
    }
  }

  private service(name: string): GrpcClient {
    if (this.closed.signal.aborted) throw closedError("client");
    let found = this.services.get(name);
    if (!found) {
      const options = {
        "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
        "grpc.keepalive_time_ms": 30_000,
        // The library would wait for up to two minutes before it connects to a node that is back.
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.max_reconnect_backoff_ms": 5_000,
      };
      found = new (serviceOf(name))(this.address, this.credentials, options);
      this.services.set(name, found);
    }
    return found;
  }
}
