"""REST as one function: replies, errors, methods, replies that come later."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import errors
from emulator.api import pb
from emulator.api.catalogue import RPCS, Rpc
from emulator.api.dispatch import Dispatcher, Outcome, Reply
from emulator.api.replies import Parked, Undoable
from emulator.errors import Code, PubsubError
from emulator.wire.rest import Rest, RestRequest, RestResponse

from .rest_fake import Face

TOPIC = "/v1/projects/p/topics/t"
PULL = "/v1/projects/p/subscriptions/s:pull"


def failing(problem: Exception) -> Callable[[], Outcome]:
    def fail() -> Outcome:
        raise problem

    return fail


def pull_response(data: bytes = b"a") -> pb.PullResponse:
    message = pb.PubsubMessage(data=data, message_id="1", publish_time=pb.Timestamp(seconds=1_700_000_000))
    return pb.PullResponse(received_messages=[pb.ReceivedMessage(ack_id="x", message=message)])


# Replies


@pytest.mark.rule("S1.7.1", "S1.7.8")
def test_a_reply_is_json() -> None:
    face = Face(create_topic=lambda: pb.Topic(name="projects/p/topics/t", labels={"a": "ü"}))

    answer = face.send("PUT", TOPIC)

    assert answer == RestResponse(
        status=200,
        headers={"content-type": "application/json; charset=UTF-8"},
        body='{"name":"projects/p/topics/t","labels":{"a":"ü"}}'.encode(),
        give_back=None,
    )


@pytest.mark.rule("S1.7.1", "B089", "B095")
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/projects/p/topics"),
        ("DELETE", TOPIC),
        ("POST", PULL),
        ("POST", PULL.replace("pull", "acknowledge")),
    ],
)
def test_an_empty_reply_is_an_empty_object(method: str, target: str) -> None:
    answer = Face().send(method, target)

    assert (answer.status, answer.body) == (200, b"{}")
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("query", ["?$alt=json;enum-encoding=int", "?alt=json%3Benum-encoding%3Dint"])
def test_enums_are_numbers_if_asked_for(query: str) -> None:
    face = Face(get_topic=lambda: pb.Topic(state=1))

    assert face.reply("GET", TOPIC + query) == {"state": 1}


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("query", ["", "?alt=json", "?$alt=json"])
def test_enums_are_names_otherwise(query: str) -> None:
    face = Face(get_topic=lambda: pb.Topic(state=1))

    assert face.reply("GET", TOPIC + query) == {"state": "ACTIVE"}


@pytest.mark.parametrize("query", ["?prettyPrint=true", "?$prettyPrint=true"])
def test_a_reply_is_indented_if_asked_for(query: str) -> None:
    face = Face(get_topic=lambda: pb.Topic(name="n"))

    assert face.send("GET", TOPIC + query).body == b'{\n  "name": "n"\n}\n'


@pytest.mark.rule("S1")
@pytest.mark.parametrize("rpc", [rpc for rpc in RPCS if rpc.http], ids=lambda rpc: rpc.method)
def test_every_row_is_served_by_each_of_its_bindings(rpc: Rpc) -> None:
    face = Face()
    for binding in rpc.http:
        path = "/v1/" + binding.template.partition("=")[2].replace("*", "abc").replace("}", "")

        assert face.send(binding.verb, path).status == 200

    assert [call.rpc for call in face.handlers.calls] == [rpc.name] * len(rpc.http)
    assert {type(call.request) for call in face.handlers.calls} == {rpc.request}


@pytest.mark.rule("S1")
def test_streaming_is_not_offered() -> None:
    assert Face().send("POST", PULL.replace("pull", "streamingPull")).status == 404


# Errors


@pytest.mark.rule("S1.6")
@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_a_handler_s_error_becomes_its_document(code: Code) -> None:
    face = Face(get_topic=failing(PubsubError(code, "text (resource=x).", "REASON", {"k": "v"})))

    answer = face.send("GET", TOPIC)
    error = json.loads(answer.body)["error"]

    assert (error["code"], error["status"], error["message"]) == (answer.status, code.name, "text (resource=x).")
    assert error["details"][0]["metadata"] == {"k": "v"}
    assert answer.headers == {"content-type": "application/json; charset=UTF-8"}


@pytest.mark.rule("S1.1")
def test_an_rpc_that_nobody_serves_is_501() -> None:
    rest = Rest(Dispatcher({}))

    answer = rest.handle(RestRequest("GET", TOPIC, "", {}, b""))

    assert isinstance(answer, RestResponse)
    assert answer.status == 501
    assert json.loads(answer.body)["error"]["status"] == "UNIMPLEMENTED"
    assert "GetTopic" in json.loads(answer.body)["error"]["message"]


@pytest.mark.rule("S1.1")
def test_an_unknown_path_is_404_in_json() -> None:
    error = Face().error("GET", "/v1/nowhere?x=y")

    assert (error["code"], error["status"]) == (404, "NOT_FOUND")
    assert "/v1/nowhere" in error["message"]


@pytest.mark.rule("S1.1")
def test_another_method_is_405_in_json_with_allow() -> None:
    answer = Face().send("POST", "/v1/projects/p/topics")

    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert json.loads(answer.body)["error"]["status"] == "UNIMPLEMENTED"


def test_a_surprise_is_logged_with_its_traceback_and_is_500(caplog: pytest.LogCaptureFixture) -> None:
    face = Face(get_topic=lambda: object())  # type: ignore[arg-type, return-value]  # what no handler may answer

    answer = face.send("GET", TOPIC)

    assert answer.status == 500
    assert json.loads(answer.body)["error"]["status"] == "INTERNAL"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info


# Methods


@pytest.mark.rule("T2")
def test_options_answers_what_is_allowed() -> None:
    face = Face()

    answer = face.send("OPTIONS", TOPIC)

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers == {"allow": "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"}
    assert face.handlers.calls == []


@pytest.mark.rule("T2")
@pytest.mark.parametrize("path", ["/v1/nowhere", "*", "/v1/projects/p/topics/t:frobnicate"])
def test_options_of_an_unknown_path_is_404(path: str) -> None:
    assert Face().send("OPTIONS", path).status == 404


@pytest.mark.rule("T2")
@pytest.mark.parametrize(("target", "status"), [(TOPIC, 200), (PULL, 405), ("/v1/nowhere", 404)])
def test_head_is_get_without_a_body(target: str, status: int) -> None:
    answer = Face().send("HEAD", target)

    assert (answer.status, answer.body) == (status, b"")
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"


# Leases in a reply


@pytest.mark.rule("S7.2.4")
def test_a_reply_with_leases_can_be_given_back() -> None:
    given_back: list[int] = []
    face = Face(pull=lambda: Undoable(pull_response(), lambda: given_back.append(1)))

    answer = face.send("POST", PULL)

    assert answer.status == 200
    assert given_back == []
    assert answer.give_back is not None
    answer.give_back()
    assert given_back == [1]


@pytest.mark.rule("S7.2.4")
def test_leases_of_a_reply_that_cannot_be_written_are_given_back(caplog: pytest.LogCaptureFixture) -> None:
    given_back: list[int] = []
    broken = pb.PullResponse(received_messages=[pb.ReceivedMessage(message=pb.PubsubMessage(publish_time=never()))])
    face = Face(pull=lambda: Undoable(broken, lambda: given_back.append(1)))

    answer = face.send("POST", PULL)

    assert (answer.status, answer.give_back) == (500, None)
    assert given_back == [1]
    assert len(caplog.records) == 1


def never() -> pb.Timestamp:
    return pb.Timestamp(seconds=10**15)


# Replies that come later


class Waiting:
    """A parked pull, and what the wire asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.reply: Parked[Reply] = Parked(lambda: self.asked.append("cancel"), lambda: self.asked.append("hurry"))
        self.rest = Face(pull=lambda: self.reply).rest

    def send(self, method: str = "POST", query: str = "") -> RestResponse | Parked[RestResponse]:
        return self.rest.handle(RestRequest(method, PULL, query, {}, b""))

    def park(self, query: str = "") -> Parked[RestResponse]:
        answer = self.send(query=query)
        assert isinstance(answer, Parked)
        assert not answer.done
        return answer


@pytest.mark.rule("S7.2.3")
def test_a_parked_reply_is_answered_when_it_comes() -> None:
    waiting = Waiting()
    answer = waiting.park("fields=receivedMessages.ackId")

    waiting.reply.complete(pull_response())

    assert answer.result() == RestResponse(
        200, {"content-type": "application/json; charset=UTF-8"}, b'{"receivedMessages":[{"ackId":"x"}]}', None
    )


@pytest.mark.rule("S7.2.4")
def test_a_parked_reply_with_leases_can_be_given_back() -> None:
    given_back: list[int] = []
    waiting = Waiting()
    answer = waiting.park()

    waiting.reply.complete(Undoable(pull_response(), lambda: given_back.append(1)))

    give_back = answer.result().give_back
    assert give_back is not None
    give_back()
    assert given_back == [1]


def test_a_parked_reply_that_is_there_already_is_not_waited_for() -> None:
    waiting = Waiting()
    waiting.reply.complete(pb.PullResponse())

    answer = waiting.send()

    assert isinstance(answer, RestResponse)
    assert answer.body == b"{}"


@pytest.mark.rule("S1.6")
def test_a_parked_reply_that_fails_is_an_error_document() -> None:
    waiting = Waiting()
    answer = waiting.park()

    waiting.reply.fail(errors.not_found("projects/p/subscriptions/s"))

    response = answer.result()
    assert response.status == 404
    assert json.loads(response.body)["error"]["status"] == "NOT_FOUND"


def test_a_parked_reply_that_fails_unexpectedly_is_logged_and_500(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    answer = waiting.park()

    waiting.reply.fail(ZeroDivisionError("a bug"))

    assert answer.result().status == 500
    assert "ZeroDivisionError" in json.loads(answer.result().body)["error"]["message"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.rule("S7.2.4")
def test_a_parked_reply_that_cannot_be_written_is_given_back(caplog: pytest.LogCaptureFixture) -> None:
    given_back: list[int] = []
    waiting = Waiting()
    answer = waiting.park()
    broken = pb.PullResponse(received_messages=[pb.ReceivedMessage(message=pb.PubsubMessage(publish_time=never()))])

    waiting.reply.complete(Undoable(broken, lambda: given_back.append(1)))

    assert (answer.result().status, answer.result().give_back) == (500, None)
    assert given_back == [1]
    assert len(caplog.records) == 1


@pytest.mark.rule("S7.2.3", "S7.2.4")
def test_hurry_and_cancel_reach_the_handler() -> None:
    waiting = Waiting()
    answer = waiting.park()

    answer.hurry()
    answer.cancel()

    assert waiting.asked == ["hurry", "cancel"]


def test_head_of_a_parked_reply_has_no_body() -> None:
    waiting = Waiting()
    rest = Face(get_topic=lambda: waiting.reply).rest

    answer = rest.handle(RestRequest("HEAD", TOPIC, "", {}, b""))
    waiting.reply.complete(pb.Topic(name="n"))

    assert isinstance(answer, Parked)
    assert (answer.result().status, answer.result().body) == (200, b"")


# Anything at all

ANY_FACE = Face()
_SEGMENTS = st.sampled_from(
    ["v1", "projects", "p", "topics", "t", "t:publish", "subscriptions", "s:pull", "%", "%2F", "", "schemas", "\ud800"]
)
_PATHS = st.lists(_SEGMENTS | st.text(max_size=3), max_size=7).map(lambda segments: "/" + "/".join(segments))
_QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["alt", "$alt", "fields", "pageSize", "updateMask", "schemaId", "view", "key", "options.x"])
        | st.text(max_size=3),
        st.sampled_from(["json", "3", "labels", "a(b)", "%", "*"]) | st.text(max_size=3),
    ).map("=".join),
    max_size=3,
).map("&".join)
_BODIES = st.binary(max_size=20) | st.sampled_from(
    [
        b"{}",
        b"[]",
        b"null",
        b'{"messages":[{"data":"?"}]}',
        b'{"topic":{},"updateMask":3}',
        b"[" * 2_000,
        b'{"a":' * 2_000,
    ]
)


@pytest.mark.rule("S1.7.4")
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "PRI"]) | st.text(max_size=3),
    path=st.sampled_from([TOPIC, PULL, f"{TOPIC}:publish", "/v1/projects/p/schemas"]) | _PATHS | st.text(max_size=8),
    query=_QUERIES | st.text(max_size=8),
    headers=st.dictionaries(st.just("content-encoding"), st.sampled_from(["gzip", "deflate", "br", ""])),
    body=_BODIES,
)
def test_whatever_comes_gets_an_answer(
    method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    answer: Any = ANY_FACE.rest.handle(RestRequest(method, path, query, headers, body))

    assert answer.status in {200, 204, 400, 404, 405, 415}
    if answer.body:
        assert ("error" in json.loads(answer.body)) == (answer.status >= 400)


def test_the_face_shows_how_much_it_serves() -> None:
    assert repr(Face().rest) == f"<Rest <Routes templates={sum(len(rpc.http) for rpc in RPCS)}>>"


def test_rows_can_be_chosen() -> None:
    rows = [rpc for rpc in RPCS if rpc.name == "get_topic"]
    rest = Rest(Dispatcher({}, rows), rows)

    answer = rest.handle(RestRequest("OPTIONS", TOPIC, "", {}, b""))

    assert isinstance(answer, RestResponse)
    assert answer.headers == {"allow": "GET, HEAD, OPTIONS"}


@pytest.mark.rule("T17")
def test_there_is_no_discovery_document() -> None:
    error = Face().error("GET", "/$discovery/rest?version=v1")

    assert (error["code"], error["status"]) == (404, "NOT_FOUND")
