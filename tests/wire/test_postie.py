"""The postie: who is pushed what and when, what becomes of what is not, and that nobody else waits for it."""

import asyncio
import logging
from collections.abc import Iterable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from emulator.engine.entries import Entry, Lease, Leases
from emulator.engine.outbox import Letter, Outbox, Parcel, Pile
from emulator.engine.pulls import Pull
from emulator.errors import Code, PubsubError
from emulator.limits import MAX_PENDING_DEFAULT
from emulator.wire import postie as postie_module
from emulator.wire.postie import ConnectionOutbox
from tests.engine.helpers import SUBSCRIPTION, TOPIC, World, message
from tests.engine.streams import Reader

FEED = "news"


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, a turn is over when there is nothing left to do."""
    monkeypatch.setattr(postie_module, "time", SimpleNamespace(monotonic=lambda: 0.0))


class Line:
    """A connection that notes what is pushed: a parcel as its lease numbers, a letter as its event's number.

    `problems` says what the n-th push raises instead, from 1 on. While `gate` is shut, pushes wait.
    """

    def __init__(self, **problems: Exception) -> None:
        self.problems = {int(name.removeprefix("push_")): problem for name, problem in problems.items()}
        self.seen: list[object] = []
        self.letters: list[Letter] = []
        self.tasks: set[asyncio.Task[object] | None] = set()
        self.pushes = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def push(self, item: Parcel | Letter) -> None:
        self.pushes += 1
        self.tasks.add(asyncio.current_task())
        problem = self.problems.get(self.pushes)
        if problem is not None:
            raise problem
        await self.gate.wait()
        if isinstance(item, Parcel):
            self.seen.append([lease.number for lease in item.leases])
            item.recipient.deliver(item.leases)
        else:
            self.seen.append(item.event["number"])
            self.letters.append(item)

    def __repr__(self) -> str:
        return f"<Line pushes={self.pushes}>"


class Addressee:
    """Somebody who gets deliveries over a connection, each in a response of its own."""

    def __init__(self, postie: ConnectionOutbox) -> None:
        self._postie = postie
        self.pile: Pile = postie.add_recipient(self)
        self.delivered: list[int] = []
        self.given_back: list[int] = []

    def room(self) -> int:
        return 1

    def deliver(self, leases: Leases) -> None:
        self.delivered += [lease.number for lease in leases]

    def take_back(self, leases: Leases) -> None:
        self.given_back += [lease.number for lease in leases]

    def give_back(self, leases: Leases) -> None:
        self.given_back += [lease.number for lease in leases]

    def send(self, *numbers: int) -> list[Lease]:
        leases = [Lease(number, Entry(message(number, size=10)), Pull(1, 1, 0)) for number in numbers]
        for lease in leases:
            self._postie.send_delivery(lease, self.pile)
        return leases


def send(postie: ConnectionOutbox, numbers: Iterable[int], feed: str = FEED) -> None:
    """An event per number."""
    for number in numbers:
        postie.send_event(feed, {"number": number})


async def turns(count: int = 5) -> None:
    """Let everybody else go on; so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def drained(postie: ConnectionOutbox) -> None:
    """Start the round and let it come to its end."""
    postie.start()
    await turns()


class TestOrder:
    @pytest.mark.rule("A1", "O4", "O6", "O11")
    async def test_of_ten_events_the_newest_three_follow_the_delivery(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED, max_pending=3)
        send(postie, range(1, 11))
        Addressee(postie).send(77)
        assert postie.dropped(FEED) == 7

        await drained(postie)

        assert line.seen == [[77], 8, 9, 10]
        assert [(letter.seq, letter.dropped) for letter in line.letters] == [(8, 7), (9, 7), (10, 7)]
        postie.close()

    @pytest.mark.rule("A2", "O5")
    async def test_fifty_deliveries_all_leave_in_order(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED, max_pending=3)
        addressee = Addressee(postie)
        addressee.send(*range(50))

        await drained(postie)

        assert addressee.delivered == list(range(50))
        assert (postie.outbox.event_drops, postie.dropped(FEED)) == (0, 0)
        postie.close()

    @pytest.mark.rule("A3", "O4")
    async def test_each_event_above_the_capacity_drops_one(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED, max_pending=3)
        send(postie, range(3))
        counted = [postie.dropped(FEED)]

        for number in range(3, 8):
            send(postie, [number])
            counted.append(postie.dropped(FEED))
        await drained(postie)

        assert counted == [0, 1, 2, 3, 4, 5]
        assert line.seen == [5, 6, 7]
        postie.close()

    @pytest.mark.rule("O3")
    async def test_a_thousand_events_are_kept_unless_another_number_is_chosen(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED)
        send(postie, range(MAX_PENDING_DEFAULT + 1))

        await drained(postie)

        assert line.seen == list(range(1, 1_001))
        with pytest.raises(PubsubError) as caught:
            postie.add_subscription("other", max_pending=0)
        assert caught.value.code is Code.INVALID_ARGUMENT
        postie.close()

    @pytest.mark.rule("A4", "O6")
    async def test_a_delivery_goes_before_events_that_came_earlier(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED)
        send(postie, range(5))
        Addressee(postie).send(77)

        await drained(postie)

        assert line.seen == [[77], 0, 1, 2, 3, 4]
        postie.close()

    @pytest.mark.rule("O6")
    async def test_a_delivery_that_comes_during_a_push_is_next(self) -> None:
        line = Line()
        line.gate.clear()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED)
        send(postie, range(3))
        await drained(postie)

        Addressee(postie).send(77)
        line.gate.set()
        await turns()

        assert line.seen == [0, [77], 1, 2]
        postie.close()

    @pytest.mark.rule("A5", "O7")
    async def test_a_quiet_feed_is_not_starved_by_a_busy_one(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription("busy")
        postie.add_subscription("quiet")
        send(postie, range(100), "busy")
        send(postie, range(200, 203), "quiet")

        await drained(postie)

        assert {200, 201, 202} <= set(line.seen[:6])
        assert len(line.seen) == 103
        postie.close()

    @pytest.mark.rule("O7")
    async def test_recipients_take_turns(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        busy, quiet = Addressee(postie), Addressee(postie)
        busy.send(*range(10))
        quiet.send(100, 101)

        await drained(postie)

        assert line.seen[:5] == [[0], [100], [1], [101], [2]]
        postie.close()


class TestNobodyWaits:
    @pytest.mark.rule("O1", "O2")
    async def test_whoever_sends_is_done_before_anything_is_pushed_and_one_task_pushes_it_all(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED)
        addressee = Addressee(postie)
        postie.start()
        await turns()

        send(postie, range(3))
        addressee.send(77)
        assert line.pushes == 0
        await turns()
        addressee.send(78)
        await turns()

        assert line.seen == [[77], 0, 1, 2, [78]]
        (only,) = line.tasks
        assert only is not asyncio.current_task()
        postie.close()

    @pytest.mark.rule("O1", "O2", "A10")
    async def test_a_push_that_waits_holds_its_own_connection_only(self) -> None:
        stalled, free = Line(), Line()
        stalled.gate.clear()
        posties = [ConnectionOutbox(line) for line in (stalled, free)]
        for postie in posties:
            postie.add_subscription(FEED, max_pending=2)
            postie.start()

        for number in range(50):
            for postie in posties:
                send(postie, [number])
            await turns()

        assert (stalled.pushes, stalled.seen, free.seen) == (1, [], list(range(50)))
        assert [postie.dropped(FEED) for postie in posties] == [47, 0]
        stalled.gate.set()
        await turns()
        assert stalled.seen == [0, 48, 49]
        for postie in posties:
            postie.close()

    @pytest.mark.rule("O1")
    async def test_with_nothing_to_do_it_sleeps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looks: list[Outbox] = []
        take = Outbox.take

        def noted(outbox: Outbox) -> Parcel | Letter | None:
            looks.append(outbox)
            return take(outbox)

        monkeypatch.setattr(Outbox, "take", noted)
        line = Line()
        postie = ConnectionOutbox(line)
        addressee = Addressee(postie)
        await drained(postie)
        looks.clear()

        await turns(50)
        assert looks == []
        addressee.send(1)
        await turns(50)

        assert (line.seen, len(looks)) == ([[1]], 2)
        postie.close()


class TestFailures:
    @pytest.mark.rule("A6a", "O8", "O12")
    @pytest.mark.parametrize("closed", [ConnectionResetError(), BrokenPipeError(), ConnectionError()])
    async def test_a_closed_connection_ends_the_round(
        self, caplog: pytest.LogCaptureFixture, closed: Exception
    ) -> None:
        line = Line(push_2=closed)
        tasks = asyncio.all_tasks()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED)
        addressee = Addressee(postie)
        addressee.send(1, 2, 3, 4)
        send(postie, range(3))

        await drained(postie)

        assert (postie.outbox.closed, asyncio.all_tasks()) == (True, tasks)
        assert (line.seen, addressee.given_back) == ([[1]], [2, 3, 4])
        send(postie, range(3))
        addressee.send(5)
        postie.start()
        await turns()
        assert (line.pushes, postie.outbox.deliveries, postie.dropped(FEED)) == (2, 0, 0)
        assert caplog.records == []

    @pytest.mark.rule("A6b", "O8")
    async def test_any_other_failure_costs_its_event_only(self, caplog: pytest.LogCaptureFixture) -> None:
        line = Line(push_2=ZeroDivisionError())
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED)
        send(postie, range(4))

        await drained(postie)

        assert line.seen == [0, 2, 3]
        assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [(logging.ERROR, True)]
        assert (postie.outbox.closed, postie.dropped(FEED)) == (False, 0)
        postie.close()

    @pytest.mark.rule("A6b", "O8", "O5")
    async def test_a_delivery_that_is_given_up_goes_back(self, caplog: pytest.LogCaptureFixture) -> None:
        line = Line(push_2=ZeroDivisionError())
        postie = ConnectionOutbox(line)
        addressee = Addressee(postie)
        addressee.send(1, 2, 3)

        await drained(postie)

        assert (line.seen, addressee.given_back) == ([[1], [3]], [2])
        assert len(caplog.records) == 1
        postie.close()

    @pytest.mark.rule("O8", "O16")
    async def test_what_goes_back_is_delivered_again_and_counts_no_attempt(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        world = readers()
        line = Line(push_1=ZeroDivisionError(), push_2=ZeroDivisionError())
        postie = ConnectionOutbox(line)
        reader = Reader(world, postie.outbox)
        world.publish(b"one", b"two")

        await drained(postie)

        assert reader.bodies == [b"one", b"two"]
        assert world.failures() == [0, 0]
        assert len(caplog.records) == 2
        postie.close()

    @pytest.mark.rule("O8")
    async def test_a_delivery_that_fails_again_and_again_lets_others_go_on(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        world = readers()
        line = Line(**{f"push_{number}": ZeroDivisionError() for number in range(1, 1_000)})
        postie = ConnectionOutbox(line)
        Reader(world, postie.outbox)
        world.publish(b"one")

        postie.start()
        pushes = [0]
        for _ in range(20):
            await turns(1)
            pushes.append(line.pushes)

        assert max(after - before for before, after in pairwise(pushes)) == 1
        postie.close()
        assert (world.waiting(), world.leases(), world.failures()) == (1, 0, [0])
        assert {record.levelno for record in caplog.records} == {logging.ERROR}


class TestItsLife:
    @pytest.mark.rule("O12", "O16")
    async def test_close_gives_back_what_waits_and_discards_events_uncounted(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED, max_pending=3)
        send(postie, range(4))
        one, other = Addressee(postie), Addressee(postie)
        one.send(1, 2, 3)
        other.send(4)

        postie.close()
        postie.close()
        postie.start()
        await turns()

        assert (one.given_back, other.given_back) == ([1, 2, 3], [4])
        assert (line.pushes, postie.outbox.event_drops) == (0, 1)

    @pytest.mark.rule("O12")
    async def test_after_close_sending_does_nothing(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        postie.add_subscription(FEED, max_pending=1)
        addressee = Addressee(postie)
        await drained(postie)
        postie.close()

        send(postie, range(5))
        (lease,) = addressee.send(1)
        await turns()

        assert (line.pushes, postie.dropped(FEED), postie.outbox.deliveries) == (0, 0, 0)
        assert (lease.queued, lease.written, addressee.given_back) == (False, False, [])

    @pytest.mark.rule("O12")
    async def test_close_leaves_no_task(self) -> None:
        tasks = asyncio.all_tasks()
        postie = ConnectionOutbox(Line())
        await drained(postie)
        assert len(asyncio.all_tasks()) == len(tasks) + 1

        postie.close()
        await turns()

        assert asyncio.all_tasks() == tasks

    @pytest.mark.rule("O12", "O16")
    async def test_a_push_that_is_cut_off_goes_back_too(self) -> None:
        line = Line()
        line.gate.clear()
        postie = ConnectionOutbox(line)
        addressee = Addressee(postie)
        addressee.send(1, 2, 3)
        await drained(postie)

        postie.close()
        line.gate.set()
        await turns()

        assert sorted(addressee.given_back) == [1, 2, 3]
        assert (line.seen, line.pushes) == ([], 1)

    @pytest.mark.rule("O2")
    async def test_started_twice_there_is_one_task(self) -> None:
        tasks = asyncio.all_tasks()
        line = Line()
        postie = ConnectionOutbox(line)
        addressee = Addressee(postie)
        postie.start()
        postie.start()
        assert len(asyncio.all_tasks()) == len(tasks) + 1

        addressee.send(1, 2)
        await turns()

        assert line.seen == [[1], [2]]
        postie.close()

    @pytest.mark.rule("O15")
    async def test_a_lease_that_has_ended_is_not_sent(self) -> None:
        line = Line()
        postie = ConnectionOutbox(line)
        addressee = Addressee(postie)
        (first, _) = addressee.send(1, 2)
        first.entry = None
        addressee.pile.forget(10)
        (ended,) = [Lease(3, Entry(message(3)), Pull(1, 1, 0))]
        ended.entry = None
        postie.send_delivery(ended, addressee.pile)

        await drained(postie)

        assert line.seen == [[2]]
        postie.close()
        assert addressee.given_back == []


def readers() -> World:
    """A world with the subscription that `Reader` takes from."""
    world = World()
    world.create_topic(TOPIC)
    world.subscribe(SUBSCRIPTION)
    return world
