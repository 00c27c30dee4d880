"""A leased message as Pull and StreamingPull answer it."""

from emulator.api import pb
from emulator.engine.entries import Lease
from emulator.engine.subscription import Subscription


def received(subscription: Subscription, lease: Lease) -> pb.ReceivedMessage:
    """The message of a live lease, with its ack id and, where they are shown, its attempts (service.md §7.1)."""
    assert lease.entry is not None
    message = lease.entry.message
    shown = pb.ReceivedMessage(
        ack_id=subscription.ack_id(lease),
        message=pb.PubsubMessage(
            data=message.data,
            attributes=message.attributes,
            message_id=str(message.number),
            ordering_key=message.ordering_key,
        ),
    )
    shown.message.publish_time.FromNanoseconds(message.publish_time)
    if subscription.settings.shows_attempts:
        shown.delivery_attempt = lease.entry.failures + 1
    return shown
