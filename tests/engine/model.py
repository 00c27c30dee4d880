"""What the engine should do, told a second time in plain dictionaries; not a line of it is the engine's.

Times are nanoseconds. A token, what an ack id stands for, is (subscription's number, message's number, lease's number).
"""

from typing import Any, TypeAlias

S = 1_000_000_000
MS = 1_000_000

PULL_WAIT = 5 * S
MAX_MESSAGES_PULLED = 1_000
MAX_DEADLINE_S = 600

Token: TypeAlias = tuple[int, int, int]
Row: TypeAlias = dict[str, Any]


class Refused(Exception):
    """The call fails with this status."""


class Model:
    """Topics and subscriptions as rows; every rule applied in the most obvious way."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.topics: dict[str, Row] = {}
        self.subscriptions: dict[str, Row] = {}
        self.published = 0
        self.created = 0

    # Topics

    def create_topic(self, name: str) -> None:
        if name in self.topics:
            raise Refused("ALREADY_EXISTS")
        self.topics[name] = {"name": name}

    def delete_topic(self, name: str) -> None:
        gone = self._topic(name)
        del self.topics[name]
        for sub in self.subscriptions.values():
            if sub["topic"] is gone:
                sub["topic"] = None

    def publish(self, name: str, bodies: list[bytes]) -> list[int]:
        topic = self._topic(name)
        numbers = [self.published + place for place in range(1, len(bodies) + 1)]
        self.published += len(bodies)
        for sub in self.subscriptions.values():
            if sub["topic"] is topic and not sub["detached"]:
                for number, body in zip(numbers, bodies, strict=True):
                    published = self.now - self.now % MS
                    sub["messages"][number] = {"body": body, "published": published, "failures": 0, "lease": None}
                self._deliver(sub)
        return numbers

    def refuse_to_publish(self, name: str, status: str) -> None:
        """A request that no topic takes."""
        self._topic(name)
        raise Refused(status)

    # Subscriptions

    def create_subscription(self, name: str, topic: str, settings: Row) -> None:
        its_topic = self._topic(topic)
        if name in self.subscriptions:
            raise Refused("ALREADY_EXISTS")
        self.created += 1
        self.subscriptions[name] = {
            "number": self.created,
            "topic": its_topic,
            "detached": False,
            **settings,
            "messages": {},
            "leases": 0,
            "pulls": [],
            "used": self.now,
        }

    def update_subscription(self, name: str, settings: Row) -> None:
        sub = self._subscription(name)
        sub.update(settings, used=self.now)
        if settings["delivery"] != "pull":
            self._end_pulls(sub, "FAILED_PRECONDITION")
        self._pass(name)

    def detach_subscription(self, name: str) -> None:
        sub = self._subscription(name)
        sub.update(detached=True, messages={}, used=self.now)
        self._end_pulls(sub, "FAILED_PRECONDITION")

    def delete_subscription(self, name: str) -> None:
        self._subscription(name)
        self._forget(name)

    def reset(self) -> None:
        for name in list(self.subscriptions):
            self._forget(name)
        self.topics.clear()

    # Leases

    def pull(self, name: str, most: int, *, wait: bool) -> Row:
        sub = self._subscription(name)
        if most <= 0:
            raise Refused("INVALID_ARGUMENT")
        if sub["detached"] or sub["delivery"] != "pull":
            raise Refused("FAILED_PRECONDITION")
        sub["used"] = self.now
        pull: Row = {
            "subscription": sub,
            "most": min(most, MAX_MESSAGES_PULLED),
            "until": self.now + PULL_WAIT,
            "done": False,
            "error": None,
            "got": [],
        }
        sub["pulls"].append(pull)
        self._deliver(sub)
        if not pull["done"] and not wait:
            self._stop(pull)
            pull["done"] = True
        return pull

    def cancel(self, pull: Row) -> None:
        """The caller of a Pull went away, having taken no answer."""
        self._stop(pull)

    def hurry(self, pull: Row) -> None:
        self._stop(pull)
        pull["done"] = True

    def acknowledge(self, name: str, tokens: list[Token | None]) -> None:
        sub, named = self._named(name, tokens)
        for _, number, _ in named:
            sub["messages"].pop(number, None)

    def modify_ack_deadline(self, name: str, tokens: list[Token | None], seconds: int) -> None:
        if name in self.subscriptions and not 0 <= seconds <= MAX_DEADLINE_S:
            raise Refused("INVALID_ARGUMENT")
        sub, named = self._named(name, tokens)
        for token in named:
            message = self._leased(sub, token)
            if message is not None and seconds:
                message["lease"]["until"] = self.now + seconds * S
            elif message is not None:
                self._fail(message)
        self._deliver(sub)

    def give_back(self, tokens: list[Token]) -> None:
        """Deliveries of one reply that was never written."""
        for sub in self.subscriptions.values():
            for token in tokens:
                message = self._leased(sub, token)
                if message is not None:
                    message["lease"] = None
            self._deliver(sub)

    # Time

    def advance(self, amount: int) -> None:
        target = self.now + amount
        while (due := self.next_event()) is not None and due <= target:
            self.now = max(self.now, due)
            for name in list(self.subscriptions):
                self._pass(name)
        self.now = target

    def next_event(self) -> int | None:
        """When something happens next if nobody calls."""
        times: list[int] = []
        for sub in self.subscriptions.values():
            times += [message["lease"]["until"] for message in sub["messages"].values() if message["lease"]]
            times += [message["published"] + sub["retention"] + 1 for message in sub["messages"].values()]
            times += [pull["until"] for pull in sub["pulls"]]
            if sub["ttl"] is not None and not sub["pulls"]:
                times.append(sub["used"] + sub["ttl"])
        return min(times, default=None)

    def _pass(self, name: str) -> None:
        """Let happen what is due at this moment."""
        sub = self.subscriptions[name]
        if sub["ttl"] is not None and not sub["pulls"] and sub["used"] + sub["ttl"] <= self.now:
            self._forget(name)
            return
        for number, message in list(sub["messages"].items()):
            if self.now - message["published"] > sub["retention"]:
                del sub["messages"][number]
            elif message["lease"] and message["lease"]["until"] <= self.now:
                self._fail(message)
        for pull in [pull for pull in sub["pulls"] if pull["until"] <= self.now]:
            self.hurry(pull)
        self._deliver(sub)

    # Steps of the above

    def _topic(self, name: str) -> Row:
        if name not in self.topics:
            raise Refused("NOT_FOUND")
        return self.topics[name]

    def _subscription(self, name: str) -> Row:
        if name not in self.subscriptions:
            raise Refused("NOT_FOUND")
        return self.subscriptions[name]

    def _named(self, name: str, tokens: list[Token | None]) -> tuple[Row, list[Token]]:
        """The subscription and those tokens that are its own; None stands for a malformed ack id."""
        sub = self._subscription(name)
        others = {other["number"] for other in self.subscriptions.values()} - {sub["number"]}
        if not tokens or any(token is None or token[0] in others for token in tokens):
            raise Refused("INVALID_ARGUMENT")
        sub["used"] = self.now
        return sub, [token for token in tokens if token is not None and token[0] == sub["number"]]

    def _leased(self, sub: Row, token: Token) -> Row | None:
        """The message whose present lease the token stands for."""
        number, message_number, lease_number = token
        message: Row | None = sub["messages"].get(message_number)
        if number != sub["number"] or message is None or message["lease"] is None:
            return None
        return message if message["lease"]["number"] == lease_number else None

    def _fail(self, message: Row) -> None:
        message["lease"] = None
        message["failures"] += 1

    def _deliver(self, sub: Row) -> None:
        while sub["pulls"]:
            waiting = sorted(number for number, message in sub["messages"].items() if message["lease"] is None)
            if not waiting:
                return
            pull = sub["pulls"][0]
            for number in waiting[: pull["most"]]:
                sub["leases"] += 1
                until = self.now + sub["ack_deadline"]
                sub["messages"][number]["lease"] = {"number": sub["leases"], "until": until}
                pull["got"].append((sub["number"], number, sub["leases"]))
            self._stop(pull)
            pull["done"] = True

    def _stop(self, pull: Row) -> None:
        """The Pull waits no longer; as long as it did, the subscription was in use."""
        sub = pull["subscription"]
        rest = [other for other in sub["pulls"] if other is not pull]
        if len(rest) < len(sub["pulls"]):
            sub.update(pulls=rest, used=self.now)

    def _end_pulls(self, sub: Row, error: str) -> None:
        for pull in sub["pulls"]:
            pull.update(done=True, error=error)
        sub["pulls"] = []

    def _forget(self, name: str) -> None:
        self._end_pulls(self.subscriptions.pop(name), "NOT_FOUND")

    # For comparison

    def view(self) -> Row:
        return {
            "published": self.published,
            "topics": {
                name: [
                    sub_name
                    for sub_name, sub in self.subscriptions.items()
                    if sub["topic"] is topic and not sub["detached"]
                ]
                for name, topic in self.topics.items()
            },
            "subscriptions": {
                name: {
                    "topic": sub["topic"]["name"] if sub["topic"] else None,
                    "detached": sub["detached"],
                    **{field: sub[field] for field in ("ack_deadline", "retention", "ttl", "delivery")},
                    "messages": {
                        number: (message["failures"], message["lease"]["until"] if message["lease"] else None)
                        for number, message in sub["messages"].items()
                    },
                }
                for name, sub in self.subscriptions.items()
            },
            "waiting_pulls": sum(len(sub["pulls"]) for sub in self.subscriptions.values()),
        }
