// Makes the calls of a plan through @grpc/grpc-js and reports what came of them; compat_tests/peers.py says how.

import fs from "node:fs";
import grpc from "@grpc/grpc-js";

const [target, planFile, reportFile] = process.argv.slice(2);
const plan = JSON.parse(fs.readFileSync(planFile, "utf8"));
const report = {};

const GZIP = 2;
const insecure = grpc.credentials.createInsecure();
const client = new grpc.Client(target, insecure);
const squeezing = new grpc.Client(target, insecure, { "grpc.default_compression_algorithm": GZIP });
const asIs = (bytes) => bytes;

function metadataOf(step) {
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(step.metadata ?? {})) {
    metadata.add(name, name.endsWith("-bin") ? Buffer.from(value, "base64") : value);
  }
  return metadata;
}

function call(step, request) {
  const options = step.timeout_ms ? { deadline: Date.now() + step.timeout_ms } : {};
  return new Promise((resolve) => {
    const through = step.gzip ? squeezing : client;
    const made = through.makeUnaryRequest(step.path, asIs, asIs, request, metadataOf(step), options, (error, reply) =>
      resolve({ code: error ? error.code : 0, message: error ? error.details : "", reply }),
    );
    if (step.cancel_ms) {
      setTimeout(() => made.cancel(), step.cancel_ms);
    }
  });
}

async function run(step) {
  const request = fs.readFileSync(step.request);
  const outcome = { codes: {}, message: "", replies: [] };
  let left = step.count;
  const worker = async () => {
    while (left-- > 0) {
      const { code, message, reply } = await call(step, request);
      outcome.codes[code] = (outcome.codes[code] ?? 0) + 1;
      outcome.message = message || outcome.message;
      if (reply) {
        outcome.replies.push(reply.toString("base64"));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(step.in_flight, step.count) }, worker));
  return outcome;
}

for (const step of plan) {
  report[step.name] = await run(step);
}
fs.writeFileSync(reportFile, JSON.stringify(report));
client.close();
squeezing.close();
