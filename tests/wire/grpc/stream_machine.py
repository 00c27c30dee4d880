"""Streams of several connections in memory, under any sequence of calls, stalls and losses, against the ledger."""

from typing import Any

from google.protobuf.message import Message
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from emulator.api import pb
from emulator.api.catalogue import RPCS, SERVICES
from emulator.api.dispatch import Dispatcher
from emulator.api.services import STREAMING_PULL, build_services
from emulator.api.streaming_pull import PONG_DELAY_S, StreamingPull
from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.wire.grpc import health
from emulator.wire.grpc.health import Health
from emulator.wire.grpc.server import GrpcServer
from tests.wire.grpc.memory import Lab, Reply, framed, path_of
from tests.wire.grpc.stream_links import WIDE_WINDOW, Link
from tests.wire.grpc.stream_model import (
    INVALID_ARGUMENT,
    OK,
    PULL_WAIT,
    RETENTION,
    UNAVAILABLE,
    Ledger,
    Reader,
    S,
    Subscription,
)

TOPIC, DEAD_LETTERS, WIDE_TOPIC = (f"projects/p/topics/{name}" for name in ("topic", "dead-letters", "wide"))
SHOWS, PLAIN, WIDE = (f"projects/p/subscriptions/{name}" for name in ("shows-attempts", "plain", "wide"))
TERMS = {SHOWS: 10, PLAIN: 15, WIDE: 60}

MOST_CONNECTIONS, MOST_STREAMS = 4, 4

subscriptions = st.sampled_from([SHOWS, SHOWS, PLAIN])
picks = st.integers(0, 7)
sizes = st.lists(st.sampled_from([1, 1, 10, 200, 1_500, 3_000, 12_000]), min_size=1, max_size=6)
many_small = st.integers(5, 25).map(lambda count: [20] * count)
floods = st.integers(8, 20).map(lambda count: [1_500] * count)
afterwards = st.sampled_from(
    ["", "ask", "ask", "half-close", "reset", "offend", "die", "eof", "wait", "wait and resume", "resume"]
)
windows = st.sampled_from([4_000, 4_000, 20_000, 65_535])
whose = st.sampled_from(["out", "out", "out", "late", "any"])
stream_settings = st.fixed_dictionaries(
    {
        "max_messages": st.sampled_from([0, 0, 0, -1, 1, 3, 8]),
        "max_bytes": st.sampled_from([0, 0, 0, 0, 100, 2_000, 40_000]),
        "term": st.sampled_from([10, 10, 20, 60]),
        "protocol": st.sampled_from([0, 1, 1]),
    }
)


class StreamMachine(RuleBasedStateMachine):
    """Each rule does something to the server, lets it come to rest, and has the ledger look at what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.lab = Lab()
        self.clock = FakeClock()
        self.broker = Broker(self.clock)
        health_service = Health(SERVICES)
        dispatcher = Dispatcher({**build_services(self.broker), health.SERVICE: health_service})
        openers = {STREAMING_PULL: lambda call: StreamingPull(self.broker, call, call.outbox)}
        self.server = GrpcServer(dispatcher, RPCS, openers, wait_s=5)
        self.ledger = Ledger(self.clock.now())
        self.links: list[Link] = []
        self.sound = True
        self.published = 0
        self.topics = 0
        self.was_wide = False
        self.pulls: dict[int, tuple[Subscription, Reply]] = {}
        # Never stalled, for what needs an answer.
        self.desk = self._connect(65_535)

    # Calls

    def _connect(self, window: int) -> Link:
        link = Link(self.ledger).connect(self.lab, self.server, window)
        self.links.append(link)
        return link

    def _start(self, link: Link, method: str, request: Message) -> tuple[int, Reply]:
        stream_id = link.client.open(path_of(method))
        link.client.send(stream_id, framed(request.SerializeToString()), end=True)
        return stream_id, link.client.replies[stream_id]

    def _call(self, method: str, request: Message, link: Link | None = None) -> Reply:
        _, reply = self._start(link or self.desk, method, request)
        self.settle()
        assert reply.status == OK, reply
        return reply

    def _send(self, link: Link, stream_id: int, **fields: Any) -> None:
        link.client.send(stream_id, framed(pb.StreamingPullRequest(**fields).SerializeToString()))

    def _caller(self, pick: int) -> Link:
        """A connection that answers, whatever some of its streams do."""
        able = [link for link in self.links if link.reads and 0 not in link.client.stalled]
        return able[pick % len(able)]

    def _streams(self, *, reading: bool = True) -> list[tuple[Link, int, Reader]]:
        return [
            (link, stream_id, reader)
            for link in self.links
            if link.reads or not reading
            for stream_id, reader in link.live().items()
        ]

    # Rest

    def settle(self) -> None:
        """Let happen what is due to happen now, and look at it."""
        self.sound = False
        quiet = 0
        while quiet < 2:  # what the clients read last may have made room
            before = sum(link.written for link in self.links)
            self.lab.turn(6)
            for link in self.links:
                if link.reads:
                    link.client.exchange()
            quiet = quiet + 1 if sum(link.written for link in self.links) == before else 0
        for link in self.links:
            if link.problem is not None:
                raise link.problem
            link.look()
        self._take_pulls()
        self.ledger.rest()
        assert self.broker.counts()["pull_streams"] == sum(reader.takes for reader in self.ledger.readers)
        assert self.lab.problems == []
        self.links = [link for link in self.links if not link.transport.lost]
        self.sound = True

    def _take_pulls(self) -> None:
        for handle, (subscription, reply) in list(self.pulls.items()):
            if reply.ended:
                del self.pulls[handle]
                if self.ledger.subscriptions.get(subscription.name) is subscription:
                    assert reply.status == OK
                    (body,) = reply.messages
                    self.ledger.pulled(subscription, handle, pb.PullResponse.FromString(body))

    # Topics and subscriptions

    @initialize(first=stream_settings, second=stream_settings)
    def begin(self, first: dict[str, int], second: dict[str, int]) -> None:
        self._call("CreateTopic", pb.Topic(name=DEAD_LETTERS))
        self._create_topic()
        for name in (SHOWS, PLAIN):
            self._create_subscription(name, TOPIC)
        link = self._connect(4_000)
        self._open(link, SHOWS, first)
        self._open(link, SHOWS, second)

    def _create_topic(self) -> None:
        self.topics += 1
        self._call("CreateTopic", pb.Topic(name=TOPIC))

    def _create_subscription(self, name: str, topic: str) -> None:
        policy = pb.DeadLetterPolicy(dead_letter_topic=DEAD_LETTERS, max_delivery_attempts=100)
        request = pb.Subscription(
            name=name,
            topic=topic,
            ack_deadline_seconds=TERMS[name],
            message_retention_duration=pb.Duration(seconds=RETENTION // S),
            dead_letter_policy=policy if name == SHOWS else None,
        )
        self.ledger.created(
            Subscription(name, self.topics if topic == TOPIC else -1, TERMS[name] * S, shows_attempts=name == SHOWS)
        )
        self._call("CreateSubscription", request)

    def _delete_subscription(self, name: str) -> None:
        self.ledger.deleted(name)
        self._call("DeleteSubscription", pb.DeleteSubscriptionRequest(subscription=name))

    @rule(name=subscriptions, chance=st.integers(0, 3), with_topic=st.booleans())
    def begin_anew(self, name: str, chance: int, with_topic: bool) -> None:
        if chance:
            return
        if with_topic:
            self._call("DeleteTopic", pb.DeleteTopicRequest(topic=TOPIC))
            self._create_topic()
        self._delete_subscription(name)
        self._create_subscription(name, TOPIC)

    # Messages

    def _publish(self, topic: str, number: int, bodies: list[bytes], link: Link | None = None) -> None:
        self.ledger.publishes(number, self.published + 1, bodies)
        request = pb.PublishRequest(topic=topic, messages=[pb.PubsubMessage(data=body) for body in bodies])
        reply = self._call("Publish", request, link)
        (body,) = reply.messages
        numbers = [str(self.published + place) for place in range(1, len(bodies) + 1)]
        assert list(pb.PublishResponse.FromString(body).message_ids) == numbers
        self.published += len(bodies)

    @rule(sizes=sizes | many_small, pick=picks)
    def publish(self, sizes: list[int], pick: int) -> None:
        bodies = [b"%05d" % (self.published + place) * (size // 5 + 1) for place, size in enumerate(sizes)]
        self._publish(TOPIC, self.topics, bodies, self._caller(pick))

    @rule(sizes=sizes | many_small, settings=stream_settings, name=subscriptions, pick=picks)
    def open_stream_to_a_backlog(self, sizes: list[int], settings: dict[str, int], name: str, pick: int) -> None:
        self.publish(sizes, pick)
        self.open_stream(settings, name, pick)

    @precondition(lambda self: not self.was_wide and self.published > 20)
    @rule()
    def more_than_a_response_holds(self) -> None:
        self.was_wide = True
        self._call("CreateTopic", pb.Topic(name=WIDE_TOPIC))
        self._create_subscription(WIDE, WIDE_TOPIC)
        self._publish(WIDE_TOPIC, -1, [bytes(900_000)] * 5)
        link = self._connect(WIDE_WINDOW)
        self._open(link, WIDE, {"max_messages": 0, "max_bytes": 0, "term": 60, "protocol": 1})
        self._lose(link, "die")
        self._delete_subscription(WIDE)

    @rule(name=subscriptions, most=st.integers(1, 4), wait=st.booleans())
    def pull(self, name: str, most: int, wait: bool) -> None:
        subscription = self.ledger.subscriptions[name]
        request = pb.PullRequest(subscription=name, max_messages=most, return_immediately=not wait)
        handle, reply = self._start(self.desk, "Pull", request)
        self.pulls[handle] = (subscription, reply)
        if wait:
            subscription.waits[handle] = self.clock.now() + PULL_WAIT
        self.settle()

    # Streams

    @precondition(lambda self: len(self.links) < MOST_CONNECTIONS)
    @rule(window=windows, settings=stream_settings, name=subscriptions)
    def connect(self, window: int, settings: dict[str, int], name: str) -> None:
        self._open(self._connect(window), name, settings)

    @rule(settings=stream_settings, name=subscriptions, pick=picks)
    def open_stream(self, settings: dict[str, int], name: str, pick: int) -> None:
        links = [link for link in self.links if link.reads and len(link.live()) < MOST_STREAMS]
        if links:
            self._open(links[pick % len(links)], name, settings)

    def _open(self, link: Link, name: str, settings: dict[str, int]) -> None:
        term, protocol = settings["term"], settings["protocol"]
        reader = Reader(
            self.ledger.subscriptions[name],
            settings["max_messages"],
            settings["max_bytes"],
            term * S,
            heartbeats=protocol >= 1,
        )
        self.ledger.opened(reader)
        stream_id = link.client.open(STREAMING_PULL)
        link.readers[stream_id] = reader
        self._send(
            link,
            stream_id,
            subscription=name,
            stream_ack_deadline_seconds=term,
            max_outstanding_messages=reader.max_messages,
            max_outstanding_bytes=reader.max_bytes,
            protocol_version=protocol,
        )
        self.settle()

    @precondition(lambda self: self._streams())
    @rule(pick=picks, how=st.sampled_from(["half-close", "reset", "offend"]))
    def end_stream(self, pick: int, how: str) -> None:
        streams = self._streams()
        self._end(*streams[pick % len(streams)], how)

    def _end(self, link: Link, stream_id: int, reader: Reader, how: str) -> None:
        if how == "reset":
            reader.over = True
            link.client.cancel(stream_id)
        elif how == "half-close":
            reader.due = OK
            link.client.h2.end_stream(stream_id)
            link.client.exchange()
        else:
            reader.due = INVALID_ARGUMENT
            self._send(link, stream_id, max_outstanding_messages=7)
        self.settle()

    @precondition(lambda self: len(self.links) > 1)
    @rule(pick=picks, how=st.sampled_from(["die", "die", "unnoticed", "eof"]))
    def lose_connection(self, pick: int, how: str) -> None:
        self._lose(self.links[1 + pick % (len(self.links) - 1)], how)

    def _lose(self, link: Link, how: str) -> None:
        link.reads = False
        link.dead = True
        if how == "unnoticed":
            link.transport.die_unnoticed()
        else:
            for reader in link.readers.values():
                reader.over = True
            if how == "eof":
                link.transport.stop_sending()
            link.transport.die()
        self.settle()

    @precondition(lambda self: self._streams())
    @rule(pick=picks, sizes=floods | floods | sizes | many_small, then=afterwards)
    def stall_stream(self, pick: int, sizes: list[int], then: str) -> None:
        self._stall(pick, sizes, "stream", then)

    @precondition(lambda self: self._streams())
    @rule(pick=picks, sizes=floods | floods | sizes | many_small, then=afterwards)
    def stall_connection(self, pick: int, sizes: list[int], then: str) -> None:
        self._stall(pick, sizes, "connection", then)

    @precondition(lambda self: self._streams())
    @rule(pick=picks, sizes=floods | floods | sizes | many_small, then=afterwards)
    def stall_socket(self, pick: int, sizes: list[int], then: str) -> None:
        self._stall(pick, sizes, "socket", then)

    def _stall(self, pick: int, sizes: list[int], what: str, then: str) -> None:
        streams = [each for each in self._streams() if each[0] is not self.desk]
        if not streams:
            return
        if pick % 4:
            # More than its window holds may wait for one without limits.
            streams = [each for each in streams if max(each[2].max_messages, each[2].max_bytes) <= 0] or streams
        link, stream_id, reader = streams[pick % len(streams)]
        if what == "socket":
            link.reads = False
            link.transport.room = 0
        else:
            link.client.stalled.add(0 if what == "connection" else stream_id)
        self.publish(sizes, 0)
        if then in ("die", "eof"):
            self._lose(link, then)
        elif then in ("half-close", "reset", "offend") and link.reads:
            self._end(link, stream_id, reader, then)
        elif then == "ask" and link.reads:
            self._ask(link, stream_id, reader, 3)
        if "wait" in then:
            self._advance(reader.term)
        if "resume" in then:
            self._resume(link)
        if then:
            self._look_with_a_stream_of_its_own(reader.subscription)

    def _look_with_a_stream_of_its_own(self, subscription: Subscription) -> None:
        """A stream that takes everything: what it does not get is not there."""
        if self.ledger.subscriptions.get(subscription.name) is subscription:
            self._open(self.desk, subscription.name, {"max_messages": 0, "max_bytes": 0, "term": 10, "protocol": 0})
            self._end(self.desk, max(self.desk.readers), self.ledger.readers[-1], "reset")

    @precondition(lambda self: self._stalled())
    @rule(pick=picks)
    def resume(self, pick: int) -> None:
        stalled = self._stalled()
        self._resume(stalled[pick % len(stalled)])

    def _stalled(self) -> list[Link]:
        return [link for link in self.links if link.client.stalled or link.transport.room == 0]

    def _resume(self, link: Link) -> None:
        if link.transport.room == 0:
            link.transport.room = None
            link.reads = not link.dead
        link.client.resume()
        self.settle()

    @precondition(lambda self: self._streams())
    @rule(pick=picks, what=st.sampled_from(["ask", "ping", "change"]), term=st.sampled_from([10, 20, 60]))
    def talk(self, pick: int, what: str, term: int) -> None:
        streams = self._streams()
        link, stream_id, reader = streams[pick % len(streams)]
        if what == "ask":
            self._ask(link, stream_id, reader, 2)
        elif what == "ping":
            pongs = link.client.pongs
            link.client.h2.ping(b"are you?")
            self.settle()
            assert link.client.pongs == pongs + 1
        elif reader.open:  # what waits for it would have the deadline of before
            reader.term = term * S
            self._send(link, stream_id, stream_ack_deadline_seconds=term)
            self.settle()

    def _ask(self, link: Link, stream_id: int, reader: Reader, count: int) -> None:
        for _ in range(count):
            reader.heartbeat_owed = reader.heartbeats
            self._send(link, stream_id)
            if reader.open:
                self.lab.advance(PONG_DELAY_S)
                self.settle()
        self.lab.advance(PONG_DELAY_S)
        self.settle()

    # Leases

    def _pick_ids(self, name: str, whose: str, chosen: list[int]) -> list[str]:
        """Ack ids of one subscription: of leases that are out, of such as are over, or of any; one may come twice."""
        now = self.clock.now()
        found = self.ledger.subscriptions[name].deliveries()
        if whose != "any":
            found = [delivery for delivery in found if delivery.may_be_out(now) is (whose == "out")]
        return [found[-1 - one % len(found)].ack_id for one in chosen] if found else []

    @rule(name=subscriptions, whose=whose, chosen=st.lists(picks, min_size=1, max_size=5), pick=picks)
    def acknowledge(self, name: str, whose: str, chosen: list[int], pick: int) -> None:
        ack_ids = self._pick_ids(name, whose, chosen)
        if ack_ids:
            self.ledger.acknowledges(ack_ids)
            self._settle_leases(name, pick, ack_ids, None)

    @rule(
        name=subscriptions,
        whose=whose,
        chosen=st.lists(picks, min_size=1, max_size=3),
        seconds=st.sampled_from([0, 0, 0, 5, 10, 60]),
        pick=picks,
    )
    def modify(self, name: str, whose: str, chosen: list[int], seconds: int, pick: int) -> None:
        ack_ids = self._pick_ids(name, whose, chosen)
        if ack_ids:
            self.ledger.moves(ack_ids, seconds)
            self._settle_leases(name, pick, ack_ids, seconds)

    def _settle_leases(self, name: str, pick: int, ack_ids: list[str], seconds: int | None) -> None:
        """Acknowledge or modify, by a call or on a stream, whichever stream delivered the messages."""
        subscription = self.ledger.subscriptions[name]
        streams = [each for each in self._streams() if each[2].subscription is subscription]
        if pick % 2 and streams:
            link, stream_id, _ = streams[pick // 2 % len(streams)]
            if seconds is None:
                self._send(link, stream_id, ack_ids=ack_ids)
            else:
                terms = [seconds] * len(ack_ids)
                self._send(link, stream_id, modify_deadline_ack_ids=ack_ids, modify_deadline_seconds=terms)
            self.settle()
        elif seconds is None:
            request = pb.AcknowledgeRequest(subscription=name, ack_ids=ack_ids)
            self._call("Acknowledge", request, self._caller(pick))
        else:
            modack = pb.ModifyAckDeadlineRequest(subscription=name, ack_ids=ack_ids, ack_deadline_seconds=seconds)
            self._call("ModifyAckDeadline", modack, self._caller(pick))

    # Time

    @rule(seconds=st.sampled_from([1, 5, 10, 10, 11, 15, 20, 60, 601]))
    def advance(self, seconds: int) -> None:
        self._advance(seconds * S)

    @rule(shift=st.sampled_from([-1, 0, 1, 123_456_789]))
    def advance_to_what_comes_next(self, shift: int) -> None:
        now = self.clock.now()
        self._advance(max(0, (self.ledger.next_event() or now) - now + shift))

    def _advance(self, amount: int) -> None:
        """Move from one thing that may happen to the next, so that each is seen at its moment."""
        target = self.clock.now() + amount
        while (now := self.clock.now()) < target:
            due = [time for time in (self.clock.next_due(), self.ledger.next_event()) if time is not None]
            self.ledger.now = min([target, *(max(time, now) for time in due)])
            self.clock.advance_ns(self.ledger.now - now)
            self.settle()

    # The end

    def teardown(self) -> None:
        try:
            if self.sound:
                self._nothing_is_lost()
                self._shut_down()
        finally:
            for link in self.links:
                link.transport.die()
            self.lab.advance(2)
            self.lab.close()

    def _nothing_is_lost(self) -> None:
        """Once nobody holds anything back, whoever takes everything gets what is owed, at last when all leases end."""
        for link in self._stalled():
            self._resume(link)
        for link, stream_id, reader in self._streams():
            reader.due = OK
            link.client.h2.end_stream(stream_id)
        self.settle()
        for name in self.ledger.subscriptions:
            self._open(self.desk, name, {"max_messages": 0, "max_bytes": 0, "term": 60, "protocol": 0})
        for subscription in self.ledger.subscriptions.values():
            while any(not message.is_over(self.clock.now()) for message in subscription.messages.values()):
                ack_ids = [each.ack_id for each in subscription.deliveries() if each.may_be_out(self.clock.now())]
                if ack_ids:
                    self.ledger.acknowledges(ack_ids)
                    self._settle_leases(subscription.name, 0, ack_ids, None)
                else:
                    self.advance_to_what_comes_next(0)

    def _shut_down(self) -> None:
        self._advance(PULL_WAIT)
        for _, _, reader in self._streams(reading=False):
            reader.due = UNAVAILABLE
        for link in self.links:
            link.reads = False  # the library takes nothing after a GOAWAY
        self.server.say_goodbye()
        self.broker.close()
        self.settle()
        for link in self.links:
            link.transport.die()
        self.lab.advance(2)
        counts = self.broker.counts()
        held = {key: counts[key] for key in ("waiting", "leases", "waiting_pulls", "pull_streams", "unwritten")}
        assert not any(held.values()), held
        assert not any(self.server.counts().values()), self.server.counts()
        assert self.clock.timer_count() == 0
        assert self.lab.timers() == 0
        assert self.lab.problems == []
