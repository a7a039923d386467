import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, GoQueueError } from "../src/index.js";

const address = process.env["GOQUEUE_GRPC"];
const topic = process.env["GOQUEUE_TOPIC"] ?? "";
const needsNode = { skip: address ? false : "GOQUEUE_GRPC names no node" };

test("a producer keeps the order of its messages", needsNode, async () => {
  const client = new Client(address!);
  const producer = client.producer();
  const sent = Array.from({ length: 500 }, (_, number) =>
    producer.publish({ topic, value: String(number), partition: 0 }),
  );
  const placed = await Promise.all(sent);
  placed.forEach((each, index) => assert.equal(each.offset, placed[0]!.offset + BigInt(index)));
  await producer.close();
  await assert.rejects(() => producer.publish({ topic, value: "x" }), /closed/);
  client.close();
});

test("leaving the loop frees what is leased", needsNode, async () => {
  const client = new Client(address!);
  const group = `ts-${Date.now()}`;
  await client.publish({ topic, value: "x" });
  for await (const _ of client.subscribe({ group, topics: [topic] })) break;
  for await (const message of client.subscribe({ group, topics: [topic] })) {
    assert.ok(message.retryCount >= 1);
    break;
  }
  client.close();
});

test("an abort ends a subscription", needsNode, async () => {
  const client = new Client(address!);
  const stop = new AbortController();
  const options = { group: `ts-abort-${Date.now()}`, topics: [topic], signal: stop.signal };
  for await (const message of client.subscribe(options)) {
    await message.ack();
    stop.abort();
  }
  client.close();
});

test("a refusal has its code", needsNode, async () => {
  const client = new Client(address!);
  await assert.rejects(
    () => client.publish({ topic: "never-created", value: "x" }),
    (failed: unknown) => failed instanceof GoQueueError && failed.code === "topic_not_found",
  );
  client.close();
});
