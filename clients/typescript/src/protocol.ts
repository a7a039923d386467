/** The protocol: loaded from the .proto files of the package. Its types are in messages.ts. */

import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { type GrpcObject, loadPackageDefinition, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

import type * as wire from "./messages.js";

const require = createRequire(import.meta.url);
const protobuf = require("protobufjs") as typeof import("protobufjs");

/** The folder with the .proto files: that of the package, or of the repository. */
function protoFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  for (let level = 0; level < 6; level += 1) {
    const found = join(folder, "proto");
    if (existsSync(join(found, "goqueue", "v1", "publish.proto"))) return found;
    folder = dirname(folder);
  }
  throw new Error("the .proto files of the package are missing");
}

const FOLDER = protoFolder();
const FILES = ["ack", "common", "consume", "health", "offset", "publish", "transaction"].map(
  (name) => `goqueue/v1/${name}.proto`,
);

const definition = loadSync(FILES, {
  includeDirs: [FOLDER],
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});

const loaded = (loadPackageDefinition(definition)["goqueue"] as GrpcObject)["v1"] as GrpcObject;

/** The client class of a service, such as `PublishService`. */
export function serviceOf(name: string): ServiceClientConstructor {
  return loaded[name] as ServiceClientConstructor;
}

const root = new protobuf.Root();
root.resolvePath = (_origin, target) =>
  target.startsWith("google/") ? target : join(FOLDER, target);
root.loadSync("goqueue/v1/common.proto", { keepCase: true });
const errorType = root.lookupType("goqueue.v1.Error");

/** An `Error` message from its bytes. */
export function decodeError(bytes: Uint8Array): wire.Error {
  const options = { enums: String, longs: String, defaults: true, objects: true };
  return errorType.toObject(errorType.decode(bytes), options) as wire.Error;
}

export function toDuration(ms: number): { seconds: number; nanos: number } {
  const seconds = Math.floor(ms / 1000);
  return { seconds, nanos: Math.round((ms - seconds * 1000) * 1e6) };
}

export function toDate(found: wire.Timestamp | null): Date {
  return new Date(found ? Number(found.seconds) * 1000 + found.nanos / 1e6 : 0);
}

export function fromDate(date: Date): { seconds: number; nanos: number } {
  return toDuration(date.getTime());
}
