/**
 * A client of GoQueue over gRPC.
 *
 *     const client = new Client("127.0.0.1:9000", { apiKey });
 *     const producer = client.producer();
 *     await producer.publish({ topic: "orders", value: "hello" });
 *     for await (const message of client.subscribe({ group: "billing", topics: ["orders"] })) {
 *       await message.ack();
 *     }
 */

export { Client, type ClientOptions } from "./client.js";
export { type ConsumeOptions, Delivery, type SubscribeOptions } from "./delivery.js";
export { GoQueueError } from "./errors.js";
export {
  type Acks,
  type OutgoingMessage,
  partitionOf,
  type Placed,
  type Priority,
  type Received,
} from "./message.js";
export type * from "./messages.js";
export { Producer, type ProducerOptions } from "./producer.js";
