"""Deliveries in the outbox: turns, room, sizes, notes, and what becomes of what was not written."""

import pytest

from emulator.engine.entries import RECEIVED_BYTES
from emulator.engine.outbox import Outbox, Parcel
from tests.engine.streams import Shelf, drain, outbox, seen, send


@pytest.fixture
def box() -> Outbox:
    return outbox()


class TestDeliveries:
    @pytest.mark.rule("O6")
    def test_leave_in_the_order_in_which_they_were_queued(self, box: Outbox) -> None:
        shelf = Shelf(box)

        shelf.put(3, 1)
        shelf.put(2)
        drain(box)

        assert shelf.written == [[3, 1, 2]]

    @pytest.mark.rule("O7")
    def test_recipients_take_turns(self) -> None:
        box = outbox(max_bytes=2 * (10 + RECEIVED_BYTES))
        first, second = Shelf(box), Shelf(box)
        first.put(1, 2, 3, 4, 5)
        second.put(11, 12, 13)

        order = seen(drain(box))

        assert order == [[1, 2], [11, 12], [3, 4], [13], [5]]

    @pytest.mark.rule("O17", "O7")
    def test_a_recipient_without_room_is_skipped(self, box: Outbox) -> None:
        shut, open_one = Shelf(box, space=0), Shelf(box)
        shut.put(1)
        open_one.put(2)

        order = seen(drain(box))

        assert (order, shut.pile.shut, open_one.pile.shut) == ([[2]], True, False)

    @pytest.mark.rule("O17")
    def test_a_recipient_that_has_room_again_is_not_asked_before_it_says_so(self, box: Outbox) -> None:
        shelf = Shelf(box, space=0)
        shelf.put(1)
        drain(box)
        shelf.space = 1_000
        shelf.put(2)

        before = seen(drain(box))
        shelf.pile.resume()

        assert (before, seen(drain(box))) == ([], [[1, 2]])

    @pytest.mark.rule("O18", "O17")
    @pytest.mark.parametrize(
        ("space", "expected"),
        [(149, [1, 2]), (150, [1, 2, 3]), (100, [1, 2]), (99, [1]), (50, [1]), (49, [1]), (1, [1])],
    )
    def test_no_more_leave_than_have_room_but_one_always(self, box: Outbox, space: int, expected: list[int]) -> None:
        shelf = Shelf(box, space=space)
        shelf.put(1, 2, 3, size=50 - RECEIVED_BYTES)

        item = box.take()

        assert isinstance(item, Parcel)
        assert [lease.number for lease in item.leases] == expected

    @pytest.mark.rule("O18", "S7.1.12")
    @pytest.mark.parametrize(
        ("sizes", "expected"),
        [
            ([30, 30], [[0, 1]]),
            ([30, 31], [[0], [1]]),
            ([30, 30, 1], [[0, 1], [2]]),
            ([200], [[0]]),
            ([1, 200, 1], [[0], [1], [2]]),
            ([200, 200], [[0], [1]]),
            ([60, 60, 60], [[0], [1], [2]]),
        ],
    )
    def test_a_response_is_not_larger_than_allowed_unless_it_is_one_message(
        self, sizes: list[int], expected: list[list[int]]
    ) -> None:
        box = outbox(max_bytes=2 * (30 + RECEIVED_BYTES))
        shelf = Shelf(box)
        for number, size in enumerate(sizes):
            shelf.put(number, size=size)

        drain(box)

        assert shelf.written == expected

    @pytest.mark.rule("O15")
    def test_one_whose_lease_has_ended_is_skipped(self, box: Outbox) -> None:
        shelf = Shelf(box)
        leases = shelf.put(1, 2, 3, 4)

        shelf.end(leases[0])
        shelf.end(leases[2])
        counts = (box.deliveries, shelf.pile.count, shelf.pile.bytes)
        drain(box)

        assert (counts, shelf.written) == ((2, 2, 20), [[2, 4]])

    @pytest.mark.rule("O15")
    def test_a_recipient_whose_leases_have_all_ended_gets_no_response(self, box: Outbox) -> None:
        shelf, other = Shelf(box), Shelf(box)
        for lease in shelf.put(1, 2):
            shelf.end(lease)
        other.put(3)

        drain(box)

        assert (shelf.written, other.written, box.deliveries) == ([], [[3]], 0)

    @pytest.mark.rule("O15")
    def test_one_that_ended_takes_no_room_from_others(self, box: Outbox) -> None:
        shelf = Shelf(box, space=100)
        dead, *_ = shelf.put(1, 2, 3, size=50 - RECEIVED_BYTES)

        shelf.end(dead)
        drain(box)

        assert shelf.written == [[2, 3]]

    @pytest.mark.rule("O15")
    def test_what_waits_is_counted(self, box: Outbox) -> None:
        shelf = Shelf(box)
        shelf.put(1, 2, size=7)
        queued = (box.deliveries, shelf.pile.count, shelf.pile.bytes)

        drain(box)

        assert (queued, box.deliveries, shelf.pile.count, shelf.pile.bytes) == ((2, 2, 14), 0, 0, 0)

    @pytest.mark.rule("O15")
    def test_a_lease_tells_whether_it_waits_or_was_written(self, box: Outbox) -> None:
        (lease,) = Shelf(box).put(1)
        queued = (lease.queued, lease.written)

        drain(box)

        assert (queued, lease.queued, lease.written) == ((True, False), False, True)


@pytest.mark.rule("O19")
class TestNotes:
    def test_one_goes_before_the_deliveries_of_its_recipient(self, box: Outbox) -> None:
        shelf = Shelf(box)
        shelf.put(1, 2)

        shelf.pile.note()
        drain(box)

        assert shelf.written == [[], [1, 2]]

    def test_several_before_its_turn_are_one(self, box: Outbox) -> None:
        shelf = Shelf(box)

        for _ in range(3):
            shelf.pile.note()
        drain(box)

        assert shelf.written == [[]]

    def test_one_after_its_turn_is_another(self, box: Outbox) -> None:
        shelf = Shelf(box)
        shelf.pile.note()
        drain(box)

        shelf.pile.note()
        drain(box)

        assert shelf.written == [[], []]

    def test_one_needs_its_recipients_room(self, box: Outbox) -> None:
        shelf, other = Shelf(box, space=0), Shelf(box)
        shelf.pile.note()
        shelf.pile.note()
        other.put(1)
        drain(box)
        before = list(shelf.written)

        shelf.space = 1
        shelf.pile.resume()
        drain(box)

        assert (before, shelf.written, other.written) == ([], [[]], [[1]])

    def test_one_takes_a_turn_like_a_response(self, box: Outbox) -> None:
        first, second = Shelf(box), Shelf(box)
        first.put(1)
        first.pile.note()
        second.put(2)

        assert seen(drain(box)) == [[], [2], [1]]


@pytest.mark.rule("O12")
class TestClosing:
    @pytest.mark.rule("O16")
    def test_returns_what_was_never_written_in_its_order(self, box: Outbox) -> None:
        shelf, other = Shelf(box), Shelf(box, space=0)
        shelf.put(1, 2)
        other.put(5, 4)
        drain(box)
        shelf.put(3)

        unwritten = box.close()

        assert seen(unwritten) == [[3], [5, 4]]
        assert [parcel.recipient for parcel in unwritten] == [shelf, other]

    @pytest.mark.rule("O15", "O16")
    def test_does_not_return_what_has_ended(self, box: Outbox) -> None:
        shelf, other = Shelf(box), Shelf(box)
        shelf.end(shelf.put(1, 2)[0])
        shelf.end(other.put(3)[0])

        assert seen(box.close()) == [[2]]

    def test_again_returns_nothing(self, box: Outbox) -> None:
        Shelf(box).put(1)
        box.close()

        assert (box.close(), box.closed) == ([], True)

    def test_discards_events_which_is_no_drop(self, box: Outbox) -> None:
        box.add_subscription("a")
        send(box, "a", range(5))

        box.close()

        assert (drain(box), box.dropped("a"), box.event_drops) == ([], 0, 0)

    def test_makes_events_that_come_later_vanish(self, box: Outbox) -> None:
        box.add_subscription("a", 1)
        box.close()

        send(box, "a", range(3))
        send(box, "never opened", [1])

        assert (drain(box), box.event_drops) == ([], 0)

    def test_nothing_leaves_afterwards(self, box: Outbox) -> None:
        woken: list[str] = []
        box = Outbox(lambda: woken.append("woken"), 100)
        shelf = Shelf(box)
        shelf.put(1)
        shelf.pile.note()
        box.close()
        woken.clear()

        shelf.pile.resume()
        shelf.pile.note()

        assert (drain(box), shelf.written, box.deliveries, woken) == ([], [], 0, [])

    @pytest.mark.rule("O16")
    def test_one_pile_alone_leaves_the_others(self, box: Outbox) -> None:
        shelf, other = Shelf(box), Shelf(box)
        shelf.put(1, 2)
        other.put(3)

        unwritten = shelf.pile.close()
        again = shelf.pile.close()
        drain(box)

        assert [lease.number for lease in unwritten] == [1, 2]
        assert not any(lease.queued for lease in unwritten)
        assert (again, shelf.written, other.written, shelf.pile.count) == ([], [], [[3]], 0)

    def test_a_closed_pile_forgets_whom_it_was_for(self, box: Outbox) -> None:
        shelf = Shelf(box)
        shelf.pile.close()

        nobody = shelf.pile.recipient
        nobody.deliver([])
        nobody.give_back([])

        assert (nobody is shelf, nobody.room(), repr(nobody)) == (False, 0, "<_Nobody>")

    def test_shuts_every_pile_before_anything_is_given_back(self, box: Outbox) -> None:
        shelves = [Shelf(box) for _ in range(3)]
        shelves[1].put(1)

        box.close()

        assert [shelf.pile.shut for shelf in shelves] == [True] * 3
