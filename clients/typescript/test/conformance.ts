/**
 * Runs the behaviours that all clients share and prints their results as JSON:
 * `node conformance.js ADDRESS PREFIX`. The topics PREFIX.a (three partitions) and PREFIX.q,
 * PREFIX.l, PREFIX.t and PREFIX.d (one partition) exist.
 */

import {
  Client,
  type Delivery,
  GoQueueError,
  type OffsetResetStrategy,
  type OutgoingMessage,
} from "../src/index.js";

const [address, prefix] = process.argv.slice(2) as [string, string];
const client = new Client(address);
const results: Record<string, unknown> = {};

async function code(run: () => Promise<unknown>): Promise<string> {
  try {
    await run();
    return "ok";
  } catch (failed) {
    return failed instanceof GoQueueError ? failed.code : String(failed);
  }
}

async function publishing(): Promise<void> {
  const producer = client.producer();
  const topic = `${prefix}.a`;
  const placed = await producer.publish({ topic, key: "user-100", value: "x" });
  results["partition_of_key"] = placed.partition;
  const refused: Record<string, OutgoingMessage> = {
    unknown_topic: { topic: `${prefix}.never`, value: "x" },
    invalid_topic: { topic: "no spaces", value: "x" },
    negative_partition: { topic, value: "x", partition: -1 },
    missing_partition: { topic, value: "x", partition: 99 },
    too_large: { topic, value: Buffer.alloc(2 << 20) },
    delay_too_long: { topic, value: "x", delayMs: 10_000 * 3_600_000 },
    reserved_header: { topic, value: "x", headers: { "gq.mine": "x" } },
  };
  for (const [name, message] of Object.entries(refused)) {
    results[name] = await code(() => producer.publish(message));
    results[`${name}_unary`] = await code(() => client.publish(message));
  }
  await producer.close();
}

async function reading(): Promise<void> {
  const topic = `${prefix}.q`;
  await client.publish({
    topic,
    key: Buffer.from([0, 255]),
    value: Buffer.from([255, 0]),
    headers: { a: "é" },
    priority: "high",
  });
  await client.publish({ topic, key: "k", value: null });
  await client.publish({ topic, key: "k", value: "" });
  const shown: unknown[] = [];
  for await (const message of client.consume({ topic })) {
    const value = message.value === null ? null : message.value.toString("hex");
    shown.push([
      Number(message.offset),
      message.key.toString("hex"),
      value,
      message.headers,
      message.priority,
    ]);
    if (shown.length === 3) break;
  }
  results["round_trip"] = shown;
  results["consume_unknown"] = await code(async () => {
    for await (const _ of client.consume({ topic: `${prefix}.never` })) break;
  });
}

async function leasing(): Promise<void> {
  const topic = `${prefix}.l`;
  for (const value of ["acked", "nacked", "rejected"]) await client.publish({ topic, value });
  const stream = client.subscribe({ group: `${prefix}.group`, topics: [topic], maxMessages: 10 });
  const next = async (): Promise<Delivery> => (await stream.next()).value as Delivery;
  const shown = (message: Delivery): unknown[] => [String(message.value), message.retryCount];
  const [acked, nacked, rejected] = [await next(), await next(), await next()];
  results["leased"] = [shown(acked), shown(nacked), shown(rejected)];
  await acked.ack();
  results["acked_again"] = await code(() => acked.ack());
  await nacked.nack("later", 0);
  const again = await next();
  results["redelivered"] = shown(again);
  results["stale_receipt"] = await code(() => nacked.ack());
  results["rejected"] = (await rejected.reject("unreadable")).replace(prefix, "");
  const refused = await client.ack(again.receiptHandle, "nonsense");
  results["batch"] = [refused.size, refused.get("nonsense")?.code];
  await stream.return();
}

async function offsets(): Promise<void> {
  const group_id = `${prefix}.offsets`;
  const commit = async (offset: number): Promise<string> => {
    const request = { group_id, offsets: [{ topic: `${prefix}.q`, partition: 0, offset }] };
    const answer = await client.call("OffsetService", "CommitOffsets", request);
    const [found] = answer.results;
    if (found?.success) return "ok";
    return String(found?.error?.code).replace("ERROR_CODE_", "").toLowerCase();
  };
  results["commits"] = [await commit(2), await commit(99)];
  const fetched = await client.call("OffsetService", "FetchOffsets", { group_id });
  results["fetched"] = Number(fetched.offsets[0]?.offset);
  const reset = async (strategy: OffsetResetStrategy): Promise<number[]> => {
    const answer = await client.call("OffsetService", "ResetOffsets", { group_id, strategy });
    return answer.results.map((each) => Number(each.new_offset));
  };
  results["reset"] = [
    await reset("OFFSET_RESET_STRATEGY_EARLIEST"),
    await reset("OFFSET_RESET_STRATEGY_LATEST"),
  ];
}

async function transactions(): Promise<void> {
  const topic = `${prefix}.t`;
  const producer = client.producer({ transactionalId: `${prefix}.producer` });
  results["outside_transaction"] = await code(() => producer.publish({ topic, value: "x" }));
  await producer.begin();
  results["begun_twice"] = await code(() => producer.begin());
  await producer.publish({ topic, value: "aborted", partition: 0 });
  await producer.abort();
  await producer.begin();
  await producer.publish({ topic, value: "committed", partition: 0 });
  await producer.publish({ topic, value: "without a number" });
  await producer.commit();
  const newer = client.producer({ transactionalId: `${prefix}.producer` });
  await newer.begin();
  await newer.abort();
  results["fenced"] = await code(() => producer.begin());
  const shown: string[] = [];
  for await (const message of client.consume({ topic })) {
    shown.push(String(message.value));
    if (shown.length === 2) break;
  }
  results["committed"] = shown;
  await Promise.all([producer.close(), newer.close()]);
}

async function delays(): Promise<void> {
  const topic = `${prefix}.d`;
  const sent = Date.now();
  await client.publish({ topic, value: "later", delayMs: 300 });
  await client.publish({ topic, value: "at once" });
  const stream = client.subscribe({ group: `${prefix}.delays`, topics: [topic] });
  const shown: unknown[] = [];
  for await (const message of stream) {
    shown.push([String(message.value), Date.now() - sent >= 300 || shown.length === 0]);
    await message.ack();
    if (shown.length === 2) break;
  }
  results["delayed"] = shown;
}

await publishing();
await reading();
await leasing();
await offsets();
await transactions();
await delays();
client.close();
console.log(JSON.stringify(results));
