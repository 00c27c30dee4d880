"""Receives through google-cloud-pubsub from a subscription, says of each message that it has it, and never lets go.

Arguments: project and subscription id. A line for each message is its data, as it came. Made to be killed.
"""

import sys
import threading
from typing import Any

from google.cloud import pubsub_v1

# The shortest lease there is, so that what a killed one held comes back soon.
LEASE_S = 10


def hold(message: Any) -> None:
    sys.stdout.write(f"{message.data.decode()}\n")
    sys.stdout.flush()
    threading.Event().wait()


client = pubsub_v1.SubscriberClient()
client.subscribe(
    client.subscription_path(*sys.argv[1:]),
    hold,
    flow_control=pubsub_v1.types.FlowControl(
        min_duration_per_lease_extension=LEASE_S, max_duration_per_lease_extension=LEASE_S
    ),
).result()
