// Publishes ten messages over one stream: node publish.js ADDRESS TOPIC
import { Client } from "../src/index.js";

const [address, topic] = process.argv.slice(2) as [string, string];
const client = new Client(address, { apiKey: process.env["GOQUEUE_API_KEY"] ?? "" });
const producer = client.producer();
const sent = Array.from({ length: 10 }, (_, number) =>
  producer.publish({ topic, value: `message ${number}` }),
);
for (const placed of await Promise.all(sent))
  console.log(`stored in partition ${placed.partition} at offset ${placed.offset}`);
await producer.close();
client.close();
