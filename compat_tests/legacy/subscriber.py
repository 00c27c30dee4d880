"""Receives through google-cloud-pubsub 1.7.2 and tells what came of it; compat_tests/subscribers.py says how."""

import importlib
import json
import sys
import threading
import time
from typing import Any

# Type checkers see the newer versions of both, which are quite different.
pubsub_v1: Any = importlib.import_module("google.cloud.pubsub_v1")
gcloud_aio: Any = importlib.import_module("gcloud.aio.pubsub")

WORK_S = 0.001


class Receiver:
    """What the callback does, in the threads of the library."""

    def __init__(self, count: int, what: str) -> None:
        self._count = count
        self._what = what
        self._lock = threading.Lock()
        self._acked = 0
        self._working = 0
        self.received: list[str] = []
        self.peak = 0
        self.finished = threading.Event()

    def take(self, message: Any) -> None:
        data = message.data.decode()
        with self._lock:
            is_new = data not in self.received
            self.received.append(data)
            first = len(self.received) == 1
            self._working += 1
            self.peak = max(self.peak, self._working)
        if first and self._what == "hold":
            tell("holding")
            sys.stdin.readline()
        time.sleep(WORK_S)
        with self._lock:
            self._working -= 1
        if is_new and self._what == "nack":
            message.nack()
            return
        message.ack()
        with self._lock:
            self._acked += 1
            if self._acked == self._count:
                self.finished.set()

    def __repr__(self) -> str:
        return f"<Receiver {len(self.received)} received, {self._acked} of {self._count} acked>"


def tell(event: str, **more: object) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


def main(project: str, name: str, count: str, what: str, most: str) -> None:
    client = pubsub_v1.SubscriberClient()
    subscription = client.subscription_path(project, name)
    # As the README of gcloud-aio-pubsub 2.1.0 shows it, the limit apart.
    flow_control = gcloud_aio.FlowControl(
        max_bytes=100 * 1024 * 1024, max_messages=int(most), max_lease_duration=10, max_duration_per_lease_extension=0
    )
    receiver = Receiver(int(count), what)
    future = client.subscribe(subscription, receiver.take, flow_control=flow_control)
    receiver.finished.wait()
    # Acks that still wait in the library when it is cancelled are lost; a message leaves its leases once it is acked.
    while future._manager.leaser.message_count:
        time.sleep(WORK_S)
    future.cancel()
    future.result()
    client.api.get_subscription(subscription)
    tell("closed", received=receiver.received, peak=receiver.peak)
    sys.stdin.read()
    client.close()


main(*sys.argv[1:])
