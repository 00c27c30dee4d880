"""Which object serves which service of the catalogue."""

from collections.abc import Mapping
from typing import Final

from emulator.api.publisher import Publisher
from emulator.api.subscriber import Subscriber
from emulator.engine.broker import Broker

# The path of the one RPC that streams; whoever serves it opens a `StreamingPull`.
STREAMING_PULL: Final = "/google.pubsub.v1.Subscriber/StreamingPull"


def build_services(broker: Broker) -> Mapping[str, object]:
    """Full service name → the object with a method per RPC, as `Dispatcher` wants them."""
    return {
        "google.pubsub.v1.Publisher": Publisher(broker),
        "google.pubsub.v1.Subscriber": Subscriber(broker),
    }
