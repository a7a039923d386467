/**
 * Publishes and handles numbers without end, whatever becomes of the node:
 * `node endurance.js ADDRESS TOPIC GROUP`. Prints "stored N" for what an idempotent producer was told
 * is stored in one of the two partitions of TOPIC, and "handled N" for what a member of GROUP has
 * handled. When its standard input ends it stops publishing, prints "published", and goes on handling
 * until it is killed.
 */

import { Client, GoQueueError } from "../src/index.js";

const [address, topic, group] = process.argv.slice(2) as [string, string, string];
const client = new Client(address, { retries: 100 });
let isOver = false;
process.stdin.on("end", () => (isOver = true)).resume();
process.on("unhandledRejection", (failed) => {
  console.error(failed);
  process.exit(1);
});

async function publish(): Promise<void> {
  const producer = client.producer({ idempotent: true, maxInFlight: 100 });
  for (let number = 0; !isOver; number += 1) {
    await producer.ready();
    const stored = producer.publish({ topic, value: String(number), partition: number % 2 });
    void stored.then(() => console.log(`stored ${number}`));
    if (number % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await producer.close();
  console.log("published");
}

async function handle(): Promise<void> {
  const options = {
    group,
    topics: [topic],
    maxMessages: 200,
    // The node remembers members of its last life until their sessions end.
    sessionTimeoutMs: 1_000,
  };
  for await (const message of client.subscribe(options)) {
    console.log(`handled ${message.value}`);
    message.ack().catch((failed: unknown) => {
      // Leases that the node has ended come again.
      if (!(failed instanceof GoQueueError) || failed.code !== "receipt_stale") throw failed;
    });
  }
}

await Promise.all([publish(), handle()]);
