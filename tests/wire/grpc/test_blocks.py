"""The trailers of a failed call: the message's escaping, and the details."""

from base64 import b64decode
from urllib.parse import unquote_to_bytes

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from emulator.api import pb
from emulator.errors import Code, PubsubError
from emulator.wire.grpc import blocks
from emulator.wire.grpc.blocks import fit_message


def trailers(problem: PubsubError, *, alone: bool = True) -> dict[str, str]:
    return {str(name): str(value) for name, value in Decoder().decode(blocks.error(problem, alone=alone))}


def details(fields: dict[str, str]) -> pb.Status:
    """grpc-status-details-bin as a client reads it, who has to put the padding back."""
    text = fields["grpc-status-details-bin"]
    return pb.Status.FromString(b64decode(text + "=" * (-len(text) % 4), validate=True))


@pytest.mark.rule("T30")
@given(st.text(st.characters(exclude_categories=[])))
def test_a_message_survives_its_escaping(text: str) -> None:
    fitted, escaped = fit_message(text)

    assert unquote_to_bytes(escaped).decode() == fitted
    assert all(0x20 <= ord(character) <= 0x7E for character in escaped)
    assert len(escaped) <= 500
    assert text.encode(errors="replace").decode().startswith(fitted)


@pytest.mark.rule("T30")
@given(st.text(st.characters(), min_size=1).map(lambda text: text * (600 // len(text))))
def test_a_message_is_cut_no_earlier_than_it_must(text: str) -> None:
    fitted, _ = fit_message(text)

    rest = text.encode(errors="replace").decode()[len(fitted) :]
    if rest:
        longer = "".join(
            character
            if 0x20 <= ord(character) <= 0x7E and character != "%"
            else "".join(f"%{byte:02X}" for byte in character.encode())
            for character in fitted + rest[0]
        )
        assert len(longer) > 500


@pytest.mark.rule("T30")
@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("", ""),
        ("plain ~text!", "plain ~text!"),
        ("100 %", "100 %25"),
        ("a\nb\r\tc\0", "a%0Ab%0D%09c%00"),
        ("\x7f", "%7F"),
        ("für", "f%C3%BCr"),
        ("😀", "%F0%9F%98%80"),
        ("\ud800", "?"),
        ("a" * 500, "a" * 500),
        ("a" * 501, "a" * 500),
        ("a" * 497 + "%%", "a" * 497 + "%25"),
        ("a" * 498 + "%", "a" * 498),
        ("😀" * 42, "%F0%9F%98%80" * 41),
        ("ü" * 10_000, "%C3%BC" * 83),
    ],
)
def test_how_a_message_is_escaped(text: str, escaped: str) -> None:
    assert fit_message(text)[1] == escaped


@pytest.mark.rule("T3", "T31")
def test_an_error_alone_has_all_that_a_reply_needs() -> None:
    assert trailers(PubsubError(Code.ABORTED, "Why.")) == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "10",
        "grpc-message": "Why.",
    }


@pytest.mark.rule("T3")
def test_an_error_after_headers_has_not() -> None:
    assert trailers(PubsubError(Code.ABORTED, "Why."), alone=False) == {"grpc-status": "10", "grpc-message": "Why."}


@pytest.mark.rule("T3")
@pytest.mark.parametrize("padding", range(3))
def test_details_hold_the_reason_in_unpadded_base64(padding: int) -> None:
    problem = PubsubError(Code.FAILED_PRECONDITION, "Why." + "!" * padding, "STOCKOUT", {"sku": "17"})

    fields = trailers(problem)

    assert "=" not in fields["grpc-status-details-bin"]
    status = details(fields)
    assert (status.code, status.message) == (int(fields["grpc-status"]), fields["grpc-message"])
    info = pb.ErrorInfo()
    (detail,) = status.details
    assert detail.Unpack(info)
    assert info == pb.ErrorInfo(reason="STOCKOUT", domain="pubsub.googleapis.com", metadata={"sku": "17"})


def test_an_error_without_a_reason_has_no_details() -> None:
    assert "grpc-status-details-bin" not in trailers(PubsubError(Code.ABORTED, "Why."))


@pytest.mark.rule("T3", "T30")
@pytest.mark.parametrize("text", ["x" * 600, "ü" * 600, "%" * 600, "\ud800", "a\nb"])
def test_details_say_what_the_trailers_say(text: str) -> None:
    fields = trailers(PubsubError(Code.ABORTED, text, "WHY"))

    assert details(fields).message == unquote_to_bytes(fields["grpc-message"]).decode()


@pytest.mark.rule("T7a")
def test_the_longest_message_leaves_room_in_a_header_list() -> None:
    fields = trailers(PubsubError(Code.INVALID_ARGUMENT, "😀" * 5_000, "WHY"))

    assert sum(len(name) + len(value) + 32 for name, value in fields.items()) < 1_500
