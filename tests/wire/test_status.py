"""Codes to HTTP numbers, and error documents."""

import json

import pytest

from emulator.errors import Code, PubsubError
from emulator.wire.status import HTTP_STATUS, HttpFailure, error_body, http_error_body


@pytest.mark.rule("S1.6")
@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("OK", 200),
        ("INVALID_ARGUMENT", 400),
        ("FAILED_PRECONDITION", 400),
        ("OUT_OF_RANGE", 400),
        ("UNAUTHENTICATED", 401),
        ("PERMISSION_DENIED", 403),
        ("NOT_FOUND", 404),
        ("ALREADY_EXISTS", 409),
        ("ABORTED", 409),
        ("RESOURCE_EXHAUSTED", 429),
        ("CANCELLED", 499),
        ("INTERNAL", 500),
        ("UNKNOWN", 500),
        ("DATA_LOSS", 500),
        ("UNIMPLEMENTED", 501),
        ("UNAVAILABLE", 503),
        ("DEADLINE_EXCEEDED", 504),
    ],
)
def test_each_code_has_its_http_number(code: str, number: int) -> None:
    assert HTTP_STATUS[Code[code]] == number


@pytest.mark.rule("S1.6")
def test_no_code_is_without_a_number() -> None:
    assert set(HTTP_STATUS) == set(Code)


@pytest.mark.rule("S1.6")
def test_an_error_without_reason_has_no_details() -> None:
    body = error_body(PubsubError(Code.NOT_FOUND, "Resource not found (resource=t)."))

    assert json.loads(body) == {
        "error": {"code": 404, "message": "Resource not found (resource=t).", "status": "NOT_FOUND"}
    }


@pytest.mark.rule("S1.6")
def test_reason_and_metadata_become_an_error_info() -> None:
    body = error_body(PubsubError(Code.FAILED_PRECONDITION, "no", "ACK_FAILED", {"id": "PERMANENT"}))

    assert json.loads(body)["error"]["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "ACK_FAILED",
            "domain": "pubsub.googleapis.com",
            "metadata": {"id": "PERMANENT"},
        }
    ]


@pytest.mark.rule("S1.6")
def test_a_reason_alone_has_no_metadata() -> None:
    body = error_body(PubsubError(Code.ABORTED, "no", "STALE"))

    assert "metadata" not in json.loads(body)["error"]["details"][0]


@pytest.mark.parametrize("text", ["größer", "日本", "\ud800", "\x00"])
def test_any_text_survives(text: str) -> None:
    assert json.loads(error_body(PubsubError(Code.ABORTED, text)))["error"]["message"] == text


@pytest.mark.rule("S1.1")
@pytest.mark.parametrize(
    ("number", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (404, "NOT_FOUND"),
        (405, "UNIMPLEMENTED"),
        (408, "DEADLINE_EXCEEDED"),
        (411, "INVALID_ARGUMENT"),
        (413, "RESOURCE_EXHAUSTED"),
        (415, "INVALID_ARGUMENT"),
        (417, "INVALID_ARGUMENT"),
        (431, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (501, "UNIMPLEMENTED"),
        (503, "UNAVAILABLE"),
        (505, "INTERNAL"),
    ],
)
def test_what_http_refuses_has_the_shape_of_every_error(number: int, name: str) -> None:
    document = json.loads(http_error_body(number, "no"))

    assert document == {"error": {"code": number, "message": "no", "status": name}}


def test_a_failure_shows_what_it_is() -> None:
    failure = HttpFailure(405, PubsubError(Code.UNIMPLEMENTED, "no such method"))

    assert repr(failure) == "<HttpFailure 405 'no such method'>"
    assert str(failure) == "no such method"
