// Handles the messages of a topic as a member of a group: node worker.js ADDRESS TOPIC GROUP [COUNT]
import { Client } from "../src/index.js";

const [address, topic, group, count] = process.argv.slice(2) as [string, string, string, string?];
const client = new Client(address, { apiKey: process.env["GOQUEUE_API_KEY"] ?? "" });
let left = Number(count ?? Infinity);
for await (const message of client.subscribe({ group, topics: [topic] })) {
  console.log(`handling ${message.value}`);
  await message.ack();
  left -= 1;
  if (left === 0) break;
}
client.close();
