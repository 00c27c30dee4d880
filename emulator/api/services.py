"""Which object serves which service of the catalogue."""

from collections.abc import Mapping

from emulator.api.publisher import Publisher
from emulator.api.subscriber import Subscriber
from emulator.engine.broker import Broker


def build_services(broker: Broker) -> Mapping[str, object]:
    """Full service name → the object with a method per RPC, as `Dispatcher` wants them."""
    return {
        "google.pubsub.v1.Publisher": Publisher(broker),
        "google.pubsub.v1.Subscriber": Subscriber(broker),
    }
