// Replays through @google-cloud/pubsub: arguments are the project, a subscription's id and a snapshot's. It receives the
// one message there is and acks it, makes the snapshot before that and goes back to it, and then seeks to the epoch. At
// every turn it receives and acks one. In the end it tells what it saw in a line of JSON.

import { PubSub } from "@google-cloud/pubsub";

const [projectId, name, snapshotId] = process.argv.slice(2);
const pubsub = new PubSub({ projectId });

async function receiveOne() {
  const subscription = pubsub.subscription(name, { flowControl: { maxMessages: 1 } });
  const data = await new Promise((resolve, reject) => {
    subscription.on("error", reject);
    subscription.on("message", async (message) => {
      await message.ackWithResponse();
      resolve(message.data.toString());
    });
  });
  await subscription.close();
  return data;
}

const subscription = pubsub.subscription(name);
const [snapshot] = await subscription.createSnapshot(snapshotId);
const received = [await receiveOne()];
await subscription.snapshot(snapshotId).seek();
received.push(await receiveOne());
await subscription.seek(new Date(0));
received.push(await receiveOne());
const [snapshots] = await pubsub.getSnapshots();
await snapshot.delete();
const [left] = await pubsub.getSnapshots();
console.log(JSON.stringify({ received, snapshots: snapshots.map((one) => one.name), left: left.length }));
await pubsub.close();
