"""Plain REST with the standard library: one call, and a project in which a test makes what it needs."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

from compat_tests.targets import Target

# Longer than any Pull waits on this project's server.
TIMEOUT_S = 20

Fields = Mapping[str, Any]

# How a refusal looks: HTTP number and canonical name.
INVALID = (400, "INVALID_ARGUMENT")
PRECONDITION = (400, "FAILED_PRECONDITION")
MISSING = (404, "NOT_FOUND")
EXISTS = (409, "ALREADY_EXISTS")
UNIMPLEMENTED = (501, "UNIMPLEMENTED")


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The `error` object; fails the test on any other reply."""
        assert self.status >= 400, f"succeeded with {self.body[:200]!r}"
        return self.json["error"]

    @property
    def refusal(self) -> tuple[int, str]:
        """HTTP number and canonical name of an error reply, which has to hold the number twice."""
        assert self.error["code"] == self.status, self.body
        return self.status, self.error["status"]

    def ok(self) -> Any:
        """The JSON of a reply that has to be a success."""
        assert self.status == 200, self.body
        return self.json


class Rest:
    """Calls on one server. Each has a connection of its own."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def call(
        self,
        verb: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """`path` is raw and follows `/v1/`; a body that is no bytes goes out as JSON."""
        payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"content-type": "application/json"} if payload is not None else {}
        connection = HTTPConnection(self.target.host, self.target.port, timeout=TIMEOUT_S)
        try:
            url = f"/v1/{path}" + (f"?{urlencode(query)}" if query else "")
            connection.request(verb, url, payload, {**sent, **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def __repr__(self) -> str:
        return f"<Rest {self.target.url}>"


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery of a Pull."""

    ack_id: str
    data: bytes
    message: Mapping[str, Any]
    document: Mapping[str, Any]


class Project:
    """A project of a test's own; its verbs succeed or fail the test."""

    def __init__(self, rest: Rest, identifier: str) -> None:
        self.rest = rest
        self.id = identifier
        self.name = f"projects/{identifier}"

    def topic_name(self, identifier: str = "topic") -> str:
        return f"{self.name}/topics/{identifier}"

    def subscription_name(self, identifier: str = "sub") -> str:
        return f"{self.name}/subscriptions/{identifier}"

    def snapshot_name(self, identifier: str = "snap") -> str:
        return f"{self.name}/snapshots/{identifier}"

    def topic(self, identifier: str = "topic", **fields: object) -> str:
        """Create a topic and return its name."""
        name = self.topic_name(identifier)
        self.rest.call("PUT", name, fields).ok()
        return name

    def subscription(self, topic: str, identifier: str = "sub", **fields: object) -> str:
        """Create a subscription and return its name."""
        name = self.subscription_name(identifier)
        self.rest.call("PUT", name, {"topic": topic, **fields}).ok()
        return name

    def snapshot(self, subscription: str, identifier: str = "snap", **fields: object) -> str:
        """Create a snapshot and return its name."""
        name = self.snapshot_name(identifier)
        self.rest.call("PUT", name, {"subscription": subscription, **fields}).ok()
        return name

    def pair(self, **fields: object) -> tuple[str, str]:
        """A topic and its subscription with these fields."""
        topic = self.topic()
        return topic, self.subscription(topic, "sub", **fields)

    def publish(self, topic: str, *messages: bytes | Fields) -> list[str]:
        """Publish, bytes being the data of a message, and return the ids."""
        documents = [{"data": b64encode(m).decode()} if isinstance(m, bytes) else m for m in messages]
        ids: list[str] = self.rest.call("POST", f"{topic}:publish", {"messages": documents}).ok()["messageIds"]
        return ids

    def pull(self, subscription: str, most: int = 100, *, wait: bool = False) -> list[Received]:
        """What there is now, or with `wait` as soon as there is something."""
        request = {"maxMessages": most, "returnImmediately": not wait}
        reply = self.rest.call("POST", f"{subscription}:pull", request).ok()
        return [
            Received(one["ackId"], b64decode(one["message"].get("data", "")), one["message"], one)
            for one in reply.get("receivedMessages", [])
        ]

    def pull_one(self, subscription: str) -> Received:
        """The one message that has to be there or to come soon."""
        (received,) = self.pull(subscription, 1, wait=True)
        return received

    def data(self, subscription: str) -> list[bytes]:
        """Pull the data of all there is now."""
        return [one.data for one in self.pull(subscription)]

    def take(self, subscription: str) -> list[bytes]:
        """The same, and ack it."""
        received = self.pull(subscription)
        if received:
            self.acknowledge(subscription, [one.ack_id for one in received]).ok()
        return [one.data for one in received]

    def seek(self, subscription: str, **target: object) -> Answer:
        """Seek with these fields, which should be `time` or `snapshot`."""
        return self.rest.call("POST", f"{subscription}:seek", target)

    def acknowledge(self, subscription: str, ack_ids: Iterable[str]) -> Answer:
        return self.rest.call("POST", f"{subscription}:acknowledge", {"ackIds": list(ack_ids)})

    def modify(self, subscription: str, ack_ids: Iterable[str], seconds: int) -> Answer:
        """ModifyAckDeadline; 0 seconds is a nack."""
        request = {"ackIds": list(ack_ids), "ackDeadlineSeconds": seconds}
        return self.rest.call("POST", f"{subscription}:modifyAckDeadline", request)

    def __repr__(self) -> str:
        return f"<Project {self.id} on {self.rest!r}>"
