// Receives through @google-cloud/pubsub and tells what came of it; compat_tests/subscribers.py says how.

import readline from "node:readline";
import { setTimeout } from "node:timers/promises";
import { PubSub } from "@google-cloud/pubsub";

const WORK_MS = 1;

const [projectId, name, count, what, maxMessages] = process.argv.slice(2);
const pubsub = new PubSub({ projectId });
const subscription = pubsub.subscription(name, { flowControl: { maxMessages: Number(maxMessages) } });
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const received = [];
const attempts = [];
let working = 0;
let peak = 0;
let done = 0;

function tell(event, more = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
}

async function take(message) {
  const data = message.data.toString();
  const isNew = !received.includes(data);
  received.push(data);
  attempts.push(message.deliveryAttempt);
  peak = Math.max(peak, ++working);
  if (what === "hold" && received.length === 1) {
    tell("holding");
    await lines.next();
  }
  await setTimeout(WORK_MS);
  working--;
  if (what === "reject") {
    message.nack();
    done++;
  } else if (what === "nack" && isNew) {
    message.nack();
  } else {
    message.ack();
    done++;
  }
}

await new Promise((resolve, reject) => {
  subscription.on("error", reject);
  subscription.on("message", async (message) => {
    await take(message);
    if (done === Number(count)) {
      resolve();
    }
  });
});
await subscription.close();
await subscription.getMetadata();
tell("closed", { received, peak, attempts });
while (!(await lines.next()).done);
await pubsub.close();
