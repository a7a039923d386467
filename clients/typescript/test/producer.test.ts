/** What producers and subscriptions do when a node fails: a fake one, which fails as it is told. */

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { type TestContext, test } from "node:test";

import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  status,
  type UntypedHandleCall,
} from "@grpc/grpc-js";

import { Delays } from "../src/delays.js";
import { itemError } from "../src/errors.js";
import { Fifo } from "../src/fifo.js";
import {
  Client,
  type ClientOptions,
  type ConsumeResponse,
  type ErrorCode,
  GoQueueError,
  partitionOf,
  type Producer,
  type PublishStreamRequest,
} from "../src/index.js";
import { serviceOf } from "../src/protocol.js";

type PublishStream = ServerDuplexStream<PublishStreamRequest, object>;
type SubscribeStream = ServerWritableStream<object, Partial<ConsumeResponse>>;
type Handlers = Record<string, Record<string, UntypedHandleCall>>;

const GONE = { code: status.UNAVAILABLE, details: "gone" };
const HASTY = { delays: { firstMs: 1, longestMs: 4 } };

/** A client of a node that serves these methods; both end with the test. */
async function fakeNode(t: TestContext, handlers: Handlers, options: ClientOptions = {}): Promise<Client> {
  const server = new Server();
  for (const [name, methods] of Object.entries(handlers))
    server.addService(serviceOf(name).service, methods);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (failed, found) =>
      failed ? reject(failed) : resolve(found),
    ),
  );
  const client = new Client(`127.0.0.1:${port}`, { ...HASTY, ...options });
  t.after(() => (client.close(), server.forceShutdown()));
  return client;
}

/** An address where nothing listens. */
async function unreachable(): Promise<string> {
  const taken = createServer();
  const port = await new Promise<number>((resolve) =>
    taken.listen(0, "127.0.0.1", () => resolve((taken.address() as { port: number }).port)),
  );
  await new Promise((resolve) => taken.close(resolve));
  return `127.0.0.1:${port}`;
}

const wireError = (code: ErrorCode): object => ({ code, message: "no" });
const code = (failed: unknown): unknown => (failed instanceof GoQueueError ? failed.code : failed);

/** Keeps messages as a node does that knows the numbers of producers, and fails by chance. */
class NumberedLog {
  readonly values = new Map<number, string[]>();
  readonly counts = new Map<string, number>();
  isStopped = false;
  inited = 0;
  private readonly next = new Map<string, number>();
  private readonly recent = new Map<string, number>();

  constructor(private seed: number) {}

  get handlers(): Handlers {
    return {
      PublishService: { PublishStream: (stream: PublishStream) => this.serve(stream) } as never,
      TransactionService: {
        InitProducer: (_: ServerUnaryCall<object, object>, done: (e: null, a: object) => void) =>
          done(null, { producer_id: (this.inited += 1) }),
      } as never,
    };
  }

  private happens(what: string, oneIn: number): boolean {
    this.seed = (Math.imul(this.seed, 1664525) + 1013904223) >>> 0;
    if ((this.seed >>> 8) % oneIn > 0) return false;
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
    return true;
  }

  private serve(stream: PublishStream): void {
    let isOver = false;
    stream.on("data", (request: PublishStreamRequest) => {
      if (isOver) return;
      const answer = this.isStopped ? undefined : this.store(request);
      if (answer) stream.write({ correlation_id: request.correlation_id, ...answer });
      else {
        isOver = true;
        stream.emit("error", GONE);
      }
    });
    stream.on("error", () => undefined);
    stream.on("end", () => stream.end());
  }

  private store(request: PublishStreamRequest): object | undefined {
    if (this.happens("lost request", 40)) return undefined;
    if (this.happens("busy", 20)) return { error: wireError("ERROR_CODE_TOPIC_BUSY") };
    const value = String(request.value);
    if (value === "bad") return { error: wireError("ERROR_CODE_MESSAGE_INVALID") };
    const partition = request.partition ?? 0;
    const part = this.values.get(partition) ?? [];
    this.values.set(partition, part);
    if (request.sequence !== undefined) {
      const lane = `${request.producer_id}/${partition}`;
      const [number, next] = [Number(request.sequence), this.next.get(lane) ?? 0];
      const stored = this.recent.get(`${lane}/${number}`);
      if (stored !== undefined && number > next - 6) return { offset: stored, duplicate: true };
      if (number !== next) return { error: wireError("ERROR_CODE_SEQUENCE_OUT_OF_ORDER") };
      this.next.set(lane, next + 1);
      this.recent.set(`${lane}/${number}`, part.length);
    }
    part.push(value);
    if (this.happens("lost answer", 40)) return undefined;
    if (this.happens("late answer", 40)) return { error: wireError("ERROR_CODE_REQUEST_TIMEOUT") };
    return { offset: part.length - 1 };
  }
}

async function publishAll(producer: Producer, values: string[]): Promise<PromiseSettledResult<unknown>[]> {
  const sent = values.map((value, index) =>
    producer.publish({ topic: "t", value, partition: index % 2 }),
  );
  const outcomes = await Promise.allSettled(sent);
  await producer.close();
  return outcomes;
}

const numbers = (count: number): string[] => Array.from({ length: count }, (_, index) => String(index));

test("an idempotent producer stores each message once, in order, whatever breaks", async (t) => {
  for (const seed of [1, 2, 3]) {
    const log = new NumberedLog(seed);
    const client = await fakeNode(t, log.handlers, { retries: 1000 });
    const values = numbers(400);
    const outcomes = await publishAll(client.producer({ idempotent: true }), values);
    log.isStopped = true;
    assert.deepEqual(outcomes.filter((each) => each.status === "rejected"), []);
    for (const partition of [0, 1])
      assert.deepEqual(log.values.get(partition), values.filter((_, index) => index % 2 === partition));
    assert.equal(log.counts.size, 4, "too little went wrong");
    assert.equal(log.inited, 1);
    client.close();
  }
});

test("an idempotent producer stores nothing twice when messages are given up", async (t) => {
  let renewed = 0;
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    const log = new NumberedLog(seed);
    const client = await fakeNode(t, log.handlers, { retries: (seed % 3) * 500 });
    const values = numbers(300).map((value, index) => (index % 7 === 6 ? "bad" : value));
    const outcomes = await publishAll(client.producer({ idempotent: true }), values);
    log.isStopped = true;
    const stored = [...log.values.values()].flat();
    assert.equal(new Set(stored).size, stored.length);
    for (const part of log.values.values())
      assert.deepEqual(part, [...part].sort((one, other) => Number(one) - Number(other)));
    outcomes.forEach((each, index) => {
      if (each.status === "fulfilled") assert.ok(stored.includes(values[index] as string));
    });
    renewed += log.inited - 1;
    client.close();
  }
  assert.ok(renewed > 0, "no producer gave up a message whose outcome was unknown");
});

test("a producer loses nothing that it reports as stored", async (t) => {
  const log = new NumberedLog(7);
  const client = await fakeNode(t, log.handlers, { retries: 1000 });
  const values = numbers(400);
  const outcomes = await publishAll(client.producer(), values);
  const stored = new Set([...log.values.values()].flat());
  assert.ok(outcomes.every((each) => each.status === "fulfilled"));
  assert.ok(values.every((value) => stored.has(value)));
});

test("a publish to an unreachable node fails when its retries are used up", async () => {
  for (const retries of [0, 2]) {
    const client = new Client(await unreachable(), { ...HASTY, retries });
    const producer = client.producer();
    const failed = await producer.publish({ topic: "t", value: "x" }).catch((error: unknown) => error);
    assert.equal((failed as GoQueueError).grpcStatus, status.UNAVAILABLE);
    await producer.close();
    client.close();
  }
});

test("a stream that the node ends well is opened again", async (t) => {
  let streams = 0;
  const client = await fakeNode(t, {
    PublishService: {
      PublishStream: (stream: PublishStream) => {
        streams += 1;
        if (streams < 3) stream.resume().end();
        else
          stream.on("data", ({ correlation_id }: PublishStreamRequest) =>
            stream.write({ correlation_id }),
          );
      },
    } as never,
  });
  await client.producer().publish({ topic: "t", value: "x" });
  assert.equal(streams, 3);
});

test("ready waits while too many messages are unanswered, and a close of the client fails them", async (t) => {
  const held: [PublishStream, PublishStreamRequest][] = [];
  const client = await fakeNode(t, {
    PublishService: {
      PublishStream: (stream: PublishStream) => {
        stream.on("error", () => undefined);
        stream.on("data", (request: PublishStreamRequest) => held.push([stream, request]));
      },
    } as never,
  });
  const producer = client.producer({ maxInFlight: 2 });
  const sent = [1, 2, 3].map((value) => producer.publish({ topic: "t", value: String(value) }));
  const outcomes = Promise.allSettled(sent);
  let isReady = false;
  const ready = producer.ready().then(() => (isReady = true));
  const heldOf = async (count: number): Promise<void> => {
    while (held.length < count) await new Promise(setImmediate);
  };
  await heldOf(2);
  assert.deepEqual([held.length, isReady], [2, false]);
  for (const [stream, { correlation_id }] of held) stream.write({ correlation_id });
  await ready;
  await heldOf(3);
  client.close();
  const codes = (await outcomes).map((each) => each.status);
  assert.deepEqual(codes, ["fulfilled", "fulfilled", "rejected"]);
  await assert.rejects(() => producer.publish({ topic: "t", value: "x" }), /closed/);
  assert.throws(() => client.producer(), /closed/);
});

test("a subscription outlasts many failures and ends with its client", async (t) => {
  let streams = 0;
  const client = await fakeNode(
    t,
    {
      ConsumeService: {
        Subscribe: (stream: SubscribeStream) => {
          streams += 1;
          stream.write({ assignment: { generation: 1, partitions: [], member_id: "m" } });
          if (streams > 20)
            stream.write({ messages: { messages: [{ receipt_handle: "a" }] as never, high_watermark: "0" } });
          else if (streams % 3 === 0)
            stream.write({ error: wireError("ERROR_CODE_SESSION_EXPIRED") as never }, () => stream.end());
          else if (streams % 3 === 1) stream.end();
          else stream.emit("error", GONE);
        },
      } as never,
    },
    { retries: 0 },
  );
  const seen: string[] = [];
  for await (const message of client.subscribe({ group: "g", topics: ["t"] })) {
    seen.push(message.receiptHandle);
    client.close();
  }
  assert.deepEqual(seen, ["a"]);
  assert.equal(streams, 21);
});

test("a subscription that is refused for good ends with the reason", async (t) => {
  const client = await fakeNode(t, {
    ConsumeService: {
      Subscribe: (stream: SubscribeStream) =>
        stream.write({ error: wireError("ERROR_CODE_GROUP_MISMATCH") as never }, () => stream.end()),
    } as never,
  });
  const failed = await client.subscribe({ group: "g", topics: ["t"] }).next().catch(code);
  assert.equal(failed, "group_mismatch");
});

test("an ack that is refused for a while is tried again", async (t) => {
  const asked: string[][] = [];
  const client = await fakeNode(t, {
    AckService: {
      BatchAck: (
        call: ServerUnaryCall<{ receipt_handles: string[] }, object>,
        done: (failed: null, answer: object) => void,
      ) => {
        asked.push(call.request.receipt_handles);
        const failures = [
          { receipt_handle: "busy", error: wireError("ERROR_CODE_NOT_LEADER") },
          { receipt_handle: "old", error: wireError("ERROR_CODE_RECEIPT_STALE") },
        ];
        done(null, { failures: asked.length > 1 ? [] : failures });
      },
    } as never,
  });
  const refused = await client.ack("new", "busy", "old");
  assert.deepEqual([...refused.keys()], ["old"]);
  assert.deepEqual(asked, [["new", "busy", "old"], ["busy"]]);
});

test("delays grow, begin again, and are as long as the node asks", () => {
  const delays = new Delays(100, 5_000);
  for (let attempt = 0; attempt < 50; attempt += 1) {
    const longest = Math.min(100 * 2 ** attempt, 5_000);
    const found = delays.next();
    assert.ok(found <= longest && found >= longest / 2);
  }
  assert.equal(delays.next(new GoQueueError("rate_limited", "", {}, 8, 60_000)), 60_000);
  delays.reset();
  assert.ok(delays.next() <= 100);
});

test("a ring keeps the order of its items while it grows", () => {
  const ring = new Fifo<number>();
  const taken: (number | undefined)[] = [];
  for (let number = 0; number < 1000; number += 1) {
    ring.push(number);
    if (number % 3 === 0) taken.push(ring.shift());
  }
  assert.equal(ring.length, 666);
  assert.deepEqual([...taken, ...ring.drain()], Array.from({ length: 1000 }, (_, number) => number));
  assert.equal(ring.shift(), undefined);
});

test("the error of an item has the status of its code, and keys the partition of the node", () => {
  const found = itemError({ code: "ERROR_CODE_TOPIC_NOT_FOUND", message: "", details: {}, retry_after: null });
  assert.equal(found.grpcStatus, status.NOT_FOUND);
  assert.equal(partitionOf("user-100", 3), 0x669441e1 % 3);
  assert.equal(partitionOf("user-100", 2 ** 31), 0x669441e1);
});
