"""Creates a subscription, twice, and publishes to it, through gcloud-aio-pubsub 2.1.0 and the names its README uses.

Arguments: the names of topic and subscription, and what to publish. Prints the replies of Publish as lines of JSON.
"""

import asyncio
import importlib
import json
import sys
from typing import Any

# Type checkers see the newer version, which is quite different.
gcloud_aio: Any = importlib.import_module("gcloud.aio.pubsub")


async def main(topic: str, subscription: str, *messages: str) -> None:
    subscriber = gcloud_aio.SubscriberClient(loop=asyncio.get_running_loop())
    for _ in range(2):
        subscriber.create_subscription(subscription, topic, ack_deadline_seconds=42)
    async with gcloud_aio.PublisherClient() as publisher:
        for text in messages:
            message = gcloud_aio.PubsubMessage(text, kind="greeting")
            print(json.dumps(await publisher.publish(topic, [message])))


asyncio.run(main(*sys.argv[1:]))
