"""One API with two faces: whatever is asked, REST and gRPC say the same and do the same."""

import json
from base64 import b64decode
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from emulator.api import pb
from emulator.api.catalogue import RPCS, Rpc
from emulator.errors import Code
from emulator.wire.grpc.blocks import fit_message
from emulator.wire.grpc.server import GrpcServer
from emulator.wire.rest import Rest, RestRequest, RestResponse
from emulator.wire.status import HTTP_STATUS
from tests.api.error_cases import CASES, REST_CASES, Case
from tests.api.world import (
    ACK_ID,
    DEAD,
    ELSEWHERE,
    ELSEWHERES,
    FOREIGN_ACK_ID,
    KEPT,
    ORDERS,
    ORPHAN,
    ORPHANS,
    PULLED,
    SNAPSHOTS_TOKEN,
    SUBSCRIPTIONS_TOKEN,
    TOPIC_SNAPSHOTS_TOKEN,
    TOPICS_TOKEN,
    Data,
    World,
    parse,
    populated,
    row,
)
from tests.wire.grpc.memory import Lab, Reply, Served, framed
from tests.wire.test_errors_rest import http_request

FRESH = "projects/acme/subscriptions/fresh"

SUCCESSES: list[tuple[str, dict[str, Any]]] = [
    ("CreateTopic", {"name": "projects/acme/topics/fresh", "labels": {"a": "b"}, "messageRetentionDuration": "600.5s"}),
    ("UpdateTopic", {"topic": {"name": ORDERS, "labels": {"a": "b"}}, "updateMask": "labels,messageRetentionDuration"}),
    (
        "Publish",
        {
            "topic": ORDERS,
            "messages": [
                {"data": "YWJj", "attributes": {"k": "ü"}, "orderingKey": "o"},
                {"data": "+/8=", "orderingKey": "o"},
            ],
        },
    ),
    ("GetTopic", {"topic": ORDERS}),
    ("ListTopics", {"project": "projects/acme"}),
    ("ListTopics", {"project": "projects/acme", "pageSize": 1}),
    ("ListTopics", {"project": "projects/acme", "pageToken": TOPICS_TOKEN}),
    ("ListTopicSubscriptions", {"topic": ORDERS, "pageSize": 2}),
    ("DeleteTopic", {"topic": DEAD}),
    ("DetachSubscription", {"subscription": PULLED}),
    (
        "CreateSubscription",
        {
            "name": FRESH,
            "topic": ORDERS,
            "ackDeadlineSeconds": 20,
            "filter": 'attributes.a = "b"',
            "expirationPolicy": {},
            "retryPolicy": {"minimumBackoff": "0.000000001s"},
            "enableMessageOrdering": True,
        },
    ),
    ("CreateSubscription", {"name": FRESH, "topic": ORDERS, "pushConfig": {"pushEndpoint": "http://here/"}}),
    ("GetSubscription", {"subscription": PULLED}),
    ("GetSubscription", {"subscription": "projects/acme/subscriptions/orphan"}),
    (
        "UpdateSubscription",
        {"subscription": {"name": PULLED, "ackDeadlineSeconds": 30}, "updateMask": "ackDeadlineSeconds,labels"},
    ),
    ("ListSubscriptions", {"project": "projects/acme"}),
    ("ListSubscriptions", {"project": "projects/acme", "pageSize": 2, "pageToken": SUBSCRIPTIONS_TOKEN}),
    ("DeleteSubscription", {"subscription": PULLED}),
    ("ModifyAckDeadline", {"subscription": PULLED, "ackIds": [ACK_ID], "ackDeadlineSeconds": 0}),
    ("Acknowledge", {"subscription": PULLED, "ackIds": [ACK_ID]}),
    ("Acknowledge", {"subscription": ELSEWHERE, "ackIds": [FOREIGN_ACK_ID]}),
    ("Pull", {"subscription": PULLED, "maxMessages": 10, "returnImmediately": True}),
    ("Pull", {"subscription": ELSEWHERE, "maxMessages": 1}),
    (
        "ModifyPushConfig",
        {"subscription": PULLED, "pushConfig": {"pushEndpoint": "http://here/", "attributes": {"a": "b"}}},
    ),
    ("CreateSnapshot", {"name": "projects/acme/snapshots/fresh", "subscription": PULLED, "labels": {"a": "b"}}),
    ("CreateSnapshot", {"name": "projects/other/snapshots/fresh", "subscription": ORPHAN, "tags": {"1/a": "b"}}),
    ("GetSnapshot", {"snapshot": KEPT}),
    ("GetSnapshot", {"snapshot": ORPHANS}),
    ("UpdateSnapshot", {"snapshot": {"name": KEPT, "labels": {"a": "b"}}, "updateMask": "labels"}),
    ("ListSnapshots", {"project": "projects/acme"}),
    ("ListSnapshots", {"project": "projects/acme", "pageSize": 1, "pageToken": SNAPSHOTS_TOKEN}),
    ("ListTopicSnapshots", {"topic": ORDERS}),
    ("ListTopicSnapshots", {"topic": ORDERS, "pageSize": 1, "pageToken": TOPIC_SNAPSHOTS_TOKEN}),
    ("DeleteSnapshot", {"snapshot": KEPT}),
    ("Seek", {"subscription": PULLED, "snapshot": KEPT}),
    ("Seek", {"subscription": PULLED, "snapshot": ELSEWHERES}),
    ("Seek", {"subscription": ORPHAN, "snapshot": ORPHANS}),
    ("Seek", {"subscription": PULLED, "time": "1970-01-01T00:00:00.000000001Z"}),
    ("Seek", {"subscription": ELSEWHERE, "time": "9999-12-31T23:59:59.999999999Z"}),
]


def over_grpc(lab: Lab, world: World, method: str, request: Message) -> Reply:
    served = Served(lab, GrpcServer(world.dispatcher, RPCS, {}, wait_s=5))
    reply = served.peer().call(row(method).path, framed(request.SerializeToString()))
    assert served.is_empty()
    return reply


def over_rest(world: World, method: str, request: Data) -> RestResponse:
    response = Rest(world.dispatcher).handle(http_request(method, request))
    assert isinstance(response, RestResponse)
    return response


def details_of(reply: Reply) -> list[dict[str, Any]]:
    """The details of a gRPC error as REST writes them."""
    text = reply.end.get("grpc-status-details-bin")
    if text is None:
        return []
    status = pb.Status.FromString(b64decode(text + "=" * (-len(text) % 4)))
    assert (status.code, status.message) == (reply.status, reply.message)
    found = []
    for detail in status.details:
        info = pb.ErrorInfo()
        assert detail.Unpack(info)
        found.append({"@type": detail.type_url, **json_format.MessageToDict(info)})
    return found


def without_ack_ids(message: Any) -> Any:
    """A reply whose ack ids, which are good for one server only, are left out."""
    if isinstance(message, pb.PullResponse):
        for received in message.received_messages:
            assert len(received.ack_id) == 24
            received.ClearField("ack_id")
    return message


@pytest.mark.rule("S1.6", "T3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refused_call_says_why_and_changes_nothing(lab: Lab, case: Case) -> None:
    world = populated()
    request = case.message(world)
    before = world.state()

    reply = over_grpc(lab, world, case.method, request)

    assert (reply.alone, reply.status) == (True, case.code)
    was_cut = len(reply.end["grpc-message"]) > 480
    assert was_cut or [text for text in world.fill(case.says) if text not in reply.message] == [], reply.message
    assert world.state() == before


@pytest.mark.rule("S1.6")
@pytest.mark.parametrize("case", REST_CASES, ids=lambda case: case.name)
def test_both_faces_refuse_in_the_same_words(lab: Lab, case: Case) -> None:
    world = populated()

    reply = over_grpc(lab, world, case.method, case.message(world))
    response = over_rest(world, case.method, world.fill(case.request))

    error = json.loads(response.body)["error"]
    assert (error["code"], error["status"]) == (HTTP_STATUS[Code(reply.status)], Code(reply.status).name)
    assert fit_message(error["message"])[0] == reply.message
    assert error.get("details", []) == details_of(reply)


@pytest.mark.parametrize(("method", "request_"), SUCCESSES, ids=lambda value: value if isinstance(value, str) else "")
def test_both_faces_do_the_same(lab: Lab, method: str, request_: dict[str, Any]) -> None:
    one, other = populated(), populated()

    reply = over_grpc(lab, one, method, parse(method, one.fill(request_)))
    response = over_rest(other, method, other.fill(request_))

    assert (reply.status, response.status) == (Code.OK, 200), (reply, response)
    (message,) = reply.messages
    kind = row(method).response
    by_rest = json_format.Parse(response.body, kind())
    assert without_ack_ids(kind.FromString(message)) == without_ack_ids(by_rest)
    assert one.state() == other.state()


def test_every_implemented_rpc_is_tried() -> None:
    world = World.empty()

    implemented = {rpc.method for rpc in RPCS if world.dispatcher.implements(rpc)}
    assert {method for method, _ in SUCCESSES} == implemented
    assert {case.method for case in CASES} == implemented


def not_implemented() -> list[Rpc]:
    world = World.empty()
    return [rpc for rpc in RPCS if rpc.http and not world.dispatcher.implements(rpc)]


@pytest.mark.parametrize("rpc", not_implemented(), ids=lambda rpc: rpc.method)
def test_both_faces_lack_the_same(lab: Lab, rpc: Rpc) -> None:
    world = populated()
    served = Served(lab, GrpcServer(world.dispatcher, RPCS, {}, wait_s=5))
    path = rpc.http[0].template
    while "{" in path:
        before, _, rest = path.partition("{")
        variable, _, after = rest.partition("}")
        path = before + variable.partition("=")[2].replace("**", "x").replace("*", "x") + after

    reply = served.peer().call(rpc.path, framed(b""))
    response = Rest(world.dispatcher).handle(RestRequest(rpc.http[0].verb, path, "", {}, b""))

    assert isinstance(response, RestResponse)
    error = json.loads(response.body)["error"]
    assert (reply.alone, reply.status, error["status"]) == (True, Code.UNIMPLEMENTED, "UNIMPLEMENTED")
    assert error["message"] == reply.message
