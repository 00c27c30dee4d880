"""Ack ids: what they carry, and that nothing made up passes for one."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine.ackids import AckId, AckIds
from emulator.errors import Code, PubsubError

RUN = 0xABCDEF
ALPHABET = string.ascii_letters + string.digits + "-_"

# Two spellings of base64: the standard one's characters are read like the URL-safe one's.
SAME_VALUE = {"-": "+", "_": "/"}

subscriptions = st.integers(min_value=1, max_value=2**24 - 1)
numbers = st.integers(min_value=1, max_value=2**40 - 1)


@pytest.fixture(scope="module")
def ids() -> AckIds:
    return AckIds(RUN)


@pytest.fixture(scope="module")
def some(ids: AckIds) -> str:
    """An id that holds both characters which base64 spells in two ways."""
    return next(
        ack_id for lease in range(1, 100_000) if {"-", "_"} <= set(ack_id := ids.encode(0xF0F0F0, 0x1234567890, lease))
    )


def is_malformed(ids: AckIds, text: str) -> bool:
    try:
        ids.decode(text)
    except PubsubError as error:
        return error.code is Code.INVALID_ARGUMENT
    return False


@pytest.mark.rule("S7.1.1")
@given(subscription=subscriptions, message=numbers, lease=numbers)
def test_an_id_reads_back_as_what_it_was_made_of(ids: AckIds, subscription: int, message: int, lease: int) -> None:
    assert ids.decode(ids.encode(subscription, message, lease)) == AckId(subscription, message, lease)


@pytest.mark.rule("S7.1.1")
@given(subscription=subscriptions, message=numbers, lease=numbers)
def test_an_id_is_24_url_safe_characters(ids: AckIds, subscription: int, message: int, lease: int) -> None:
    ack_id = ids.encode(subscription, message, lease)

    assert len(ack_id) == 24
    assert set(ack_id) <= set(ALPHABET)


@pytest.mark.rule("S7.1.1")
@given(
    first=st.tuples(subscriptions, numbers, numbers),
    second=st.tuples(subscriptions, numbers, numbers),
)
def test_different_deliveries_have_different_ids(
    ids: AckIds, first: tuple[int, int, int], second: tuple[int, int, int]
) -> None:
    assert (ids.encode(*first) == ids.encode(*second)) == (first == second)


@pytest.mark.rule("S7.1.1", "S7.1.8")
@given(run=st.integers(min_value=0, max_value=2**24 - 1), subscription=subscriptions, message=numbers, lease=numbers)
def test_an_id_of_another_run_names_no_subscription(
    ids: AckIds, run: int, subscription: int, message: int, lease: int
) -> None:
    decoded = ids.decode(AckIds(run).encode(subscription, message, lease))

    assert decoded == AckId(subscription if run == RUN else None, message, lease)


@pytest.mark.rule("S7.1.8")
def test_no_other_character_fits_at_any_place(ids: AckIds, some: str) -> None:
    # The check is linear, so what holds for all changes of one id holds for all changes of every id.
    changes = [
        (place, other)
        for place, right in enumerate(some)
        for other in map(chr, range(256))
        if other not in (right, SAME_VALUE.get(right))
    ]

    accepted = [
        (place, other) for place, other in changes if not is_malformed(ids, some[:place] + other + some[place + 1 :])
    ]

    assert accepted == []


def test_both_spellings_of_base64_are_read_alike(ids: AckIds, some: str) -> None:
    assert ids.decode(some.replace("-", "+").replace("_", "/")) == ids.decode(some)


@pytest.mark.rule("S7.1.8")
@given(text=st.text(max_size=40))
def test_text_that_is_no_id_is_malformed(ids: AckIds, text: str) -> None:
    assert is_malformed(ids, text)


@pytest.mark.rule("S7.1.8")
@pytest.mark.parametrize("change", ["{0} ", " {0}", "{0}\n", "{0}=", "{0}{0}", "\ufeff{0}"])
def test_an_id_with_something_around_it_is_malformed(ids: AckIds, some: str, change: str) -> None:
    assert is_malformed(ids, change.format(some))


@pytest.mark.rule("S7.1.8")
@pytest.mark.parametrize("padding", ["=", "=="])
def test_padding_does_not_stand_for_a_check_of_zeros(ids: AckIds, padding: str) -> None:
    checked_by_zeros = next(
        ack_id for lease in range(4, 2_000_000, 4) if (ack_id := ids.encode(1, 1, lease)).endswith("AAA")
    )

    assert not is_malformed(ids, checked_by_zeros)
    assert is_malformed(ids, checked_by_zeros[: -len(padding)] + padding)


def test_only_24_bits_of_the_run_count() -> None:
    assert AckIds(RUN | 1 << 24).encode(1, 2, 3) == AckIds(RUN).encode(1, 2, 3)


class TestOwn:
    """The short way for the ids of one subscription."""

    @given(subscription=subscriptions, message=numbers, lease=numbers)
    def test_it_makes_the_same_ids(self, ids: AckIds, subscription: int, message: int, lease: int) -> None:
        own = ids.of(subscription)

        assert own.encode(message, lease).decode() == ids.encode(subscription, message, lease)
        assert own.decode(ids.encode(subscription, message, lease)) == (message, lease)

    @given(subscription=subscriptions, other=subscriptions, message=numbers, lease=numbers)
    def test_it_leaves_others_alone(self, ids: AckIds, subscription: int, other: int, message: int, lease: int) -> None:
        ack_id = ids.encode(other, message, lease)

        assert ids.of(subscription).decode(ack_id) == ((message, lease) if subscription == other else None)
        assert AckIds(RUN ^ 1).of(other).decode(ack_id) is None

    @given(
        at=st.integers(min_value=0, max_value=23),
        character=st.characters(),
        message=numbers,
        lease=numbers,
    )
    def test_what_is_malformed_is_not_its_own(
        self, ids: AckIds, at: int, character: str, message: int, lease: int
    ) -> None:
        ack_id = ids.encode(5, message, lease)
        changed = ack_id[:at] + character + ack_id[at + 1 :]
        found = ids.of(5).decode(changed)

        assert found is None or (not is_malformed(ids, changed) and found == (message, lease))
        for cut in (ack_id[:-1], ack_id + "A", ack_id[:8], ack_id[:-4] + "AA==", ""):
            assert ids.of(5).decode(cut) is None

    def test_it_shows_how_they_begin(self, ids: AckIds) -> None:
        assert repr(ids.of(1)) == f"<OwnAckIds {ids.encode(1, 2, 3)[:8]}>"


def test_it_shows_its_run(ids: AckIds) -> None:
    assert repr(ids) == "<AckIds run=abcdef>"
