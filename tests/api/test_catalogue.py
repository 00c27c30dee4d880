"""The catalogue against a transcript of service.md §1, gRPC's own services, and the real client's methods."""

import dataclasses
import re
from typing import Any, NamedTuple

import pytest
from google import pubsub_v1

from emulator.api import catalogue
from emulator.api.catalogue import BY_PATH, RPCS, HttpBinding, Rpc

TOPIC = "projects/*/topics/*"
SUBSCRIPTION = "projects/*/subscriptions/*"
SNAPSHOT = "projects/*/snapshots/*"
SCHEMA = "projects/*/schemas/*"
RESOURCES = (TOPIC, SUBSCRIPTION, SNAPSHOT, SCHEMA)


class Row(NamedTuple):
    """One line of §1: the REST column as "VERB template", the body, and the types of request and reply."""

    method: str
    rest: str | None
    body: str
    request: str
    response: str


PUBLISHER = (
    Row("CreateTopic", f"PUT /v1/{{name={TOPIC}}}", "*", "Topic", "Topic"),
    Row("UpdateTopic", f"PATCH /v1/{{topic.name={TOPIC}}}", "*", "UpdateTopicRequest", "Topic"),
    Row("Publish", f"POST /v1/{{topic={TOPIC}}}:publish", "*", "PublishRequest", "PublishResponse"),
    Row("GetTopic", f"GET /v1/{{topic={TOPIC}}}", "", "GetTopicRequest", "Topic"),
    Row("ListTopics", "GET /v1/{project=projects/*}/topics", "", "ListTopicsRequest", "ListTopicsResponse"),
    Row(
        "ListTopicSubscriptions",
        f"GET /v1/{{topic={TOPIC}}}/subscriptions",
        "",
        "ListTopicSubscriptionsRequest",
        "ListTopicSubscriptionsResponse",
    ),
    Row(
        "ListTopicSnapshots",
        f"GET /v1/{{topic={TOPIC}}}/snapshots",
        "",
        "ListTopicSnapshotsRequest",
        "ListTopicSnapshotsResponse",
    ),
    Row("DeleteTopic", f"DELETE /v1/{{topic={TOPIC}}}", "", "DeleteTopicRequest", "Empty"),
    Row(
        "DetachSubscription",
        f"POST /v1/{{subscription={SUBSCRIPTION}}}:detach",
        "",
        "DetachSubscriptionRequest",
        "DetachSubscriptionResponse",
    ),
)

SUBSCRIBER = (
    Row("CreateSubscription", f"PUT /v1/{{name={SUBSCRIPTION}}}", "*", "Subscription", "Subscription"),
    Row("GetSubscription", f"GET /v1/{{subscription={SUBSCRIPTION}}}", "", "GetSubscriptionRequest", "Subscription"),
    Row(
        "UpdateSubscription",
        f"PATCH /v1/{{subscription.name={SUBSCRIPTION}}}",
        "*",
        "UpdateSubscriptionRequest",
        "Subscription",
    ),
    Row(
        "ListSubscriptions",
        "GET /v1/{project=projects/*}/subscriptions",
        "",
        "ListSubscriptionsRequest",
        "ListSubscriptionsResponse",
    ),
    Row("DeleteSubscription", f"DELETE /v1/{{subscription={SUBSCRIPTION}}}", "", "DeleteSubscriptionRequest", "Empty"),
    Row(
        "ModifyAckDeadline",
        f"POST /v1/{{subscription={SUBSCRIPTION}}}:modifyAckDeadline",
        "*",
        "ModifyAckDeadlineRequest",
        "Empty",
    ),
    Row("Acknowledge", f"POST /v1/{{subscription={SUBSCRIPTION}}}:acknowledge", "*", "AcknowledgeRequest", "Empty"),
    Row("Pull", f"POST /v1/{{subscription={SUBSCRIPTION}}}:pull", "*", "PullRequest", "PullResponse"),
    Row("StreamingPull", None, "", "StreamingPullRequest", "StreamingPullResponse"),
    Row(
        "ModifyPushConfig",
        f"POST /v1/{{subscription={SUBSCRIPTION}}}:modifyPushConfig",
        "*",
        "ModifyPushConfigRequest",
        "Empty",
    ),
    Row("GetSnapshot", f"GET /v1/{{snapshot={SNAPSHOT}}}", "", "GetSnapshotRequest", "Snapshot"),
    Row("ListSnapshots", "GET /v1/{project=projects/*}/snapshots", "", "ListSnapshotsRequest", "ListSnapshotsResponse"),
    Row("CreateSnapshot", f"PUT /v1/{{name={SNAPSHOT}}}", "*", "CreateSnapshotRequest", "Snapshot"),
    Row("UpdateSnapshot", f"PATCH /v1/{{snapshot.name={SNAPSHOT}}}", "*", "UpdateSnapshotRequest", "Snapshot"),
    Row("DeleteSnapshot", f"DELETE /v1/{{snapshot={SNAPSHOT}}}", "", "DeleteSnapshotRequest", "Empty"),
    Row("Seek", f"POST /v1/{{subscription={SUBSCRIPTION}}}:seek", "*", "SeekRequest", "SeekResponse"),
)

SCHEMA_SERVICE = (
    Row("CreateSchema", "POST /v1/{parent=projects/*}/schemas", "schema", "CreateSchemaRequest", "Schema"),
    Row("GetSchema", f"GET /v1/{{name={SCHEMA}}}", "", "GetSchemaRequest", "Schema"),
    Row("ListSchemas", "GET /v1/{parent=projects/*}/schemas", "", "ListSchemasRequest", "ListSchemasResponse"),
    Row(
        "ListSchemaRevisions",
        f"GET /v1/{{name={SCHEMA}}}:listRevisions",
        "",
        "ListSchemaRevisionsRequest",
        "ListSchemaRevisionsResponse",
    ),
    Row("CommitSchema", f"POST /v1/{{name={SCHEMA}}}:commit", "*", "CommitSchemaRequest", "Schema"),
    Row("RollbackSchema", f"POST /v1/{{name={SCHEMA}}}:rollback", "*", "RollbackSchemaRequest", "Schema"),
    Row(
        "DeleteSchemaRevision",
        f"DELETE /v1/{{name={SCHEMA}}}:deleteRevision",
        "",
        "DeleteSchemaRevisionRequest",
        "Schema",
    ),
    Row("DeleteSchema", f"DELETE /v1/{{name={SCHEMA}}}", "", "DeleteSchemaRequest", "Empty"),
    Row(
        "ValidateSchema",
        "POST /v1/{parent=projects/*}/schemas:validate",
        "*",
        "ValidateSchemaRequest",
        "ValidateSchemaResponse",
    ),
    Row(
        "ValidateMessage",
        "POST /v1/{parent=projects/*}/schemas:validateMessage",
        "*",
        "ValidateMessageRequest",
        "ValidateMessageResponse",
    ),
)

PUBSUB = {
    f"/google.pubsub.v1.{service}/{row.method}": row
    for service, rows in (("Publisher", PUBLISHER), ("Subscriber", SUBSCRIBER), ("SchemaService", SCHEMA_SERVICE))
    for row in rows
}

IAM = {
    "/google.iam.v1.IAMPolicy/SetIamPolicy": ("POST", "setIamPolicy", "*", "SetIamPolicyRequest", "Policy"),
    "/google.iam.v1.IAMPolicy/GetIamPolicy": ("GET", "getIamPolicy", "", "GetIamPolicyRequest", "Policy"),
    "/google.iam.v1.IAMPolicy/TestIamPermissions": (
        "POST",
        "testIamPermissions",
        "*",
        "TestIamPermissionsRequest",
        "TestIamPermissionsResponse",
    ),
}

REFLECTION = ("ServerReflectionRequest", "ServerReflectionResponse")

# gRPC's own services: path, types of request and reply.
GRPC = {
    "/grpc.health.v1.Health/Check": ("HealthCheckRequest", "HealthCheckResponse"),
    "/grpc.health.v1.Health/List": ("HealthListRequest", "HealthListResponse"),
    "/grpc.health.v1.Health/Watch": ("HealthCheckRequest", "HealthCheckResponse"),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": REFLECTION,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": REFLECTION,
}

# Whether the client streams, and the server; all others do neither.
STREAMING = {
    "/google.pubsub.v1.Subscriber/StreamingPull": (True, True),
    "/grpc.health.v1.Health/Watch": (False, True),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": (True, True),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": (True, True),
}

each_rpc = pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: rpc.path)
each_rpc_of_the_api = pytest.mark.parametrize(
    "rpc", [rpc for rpc in RPCS if rpc.path not in GRPC], ids=lambda rpc: rpc.path
)


def type_names(rpc: Rpc) -> tuple[str, str]:
    return rpc.request.DESCRIPTOR.name, rpc.response.DESCRIPTOR.name


@pytest.mark.rule("S1")
def test_there_is_one_row_per_rpc_in_the_order_of_the_services() -> None:
    assert [rpc.path for rpc in RPCS] == [*PUBSUB, *IAM, *GRPC]


@pytest.mark.rule("S1")
@pytest.mark.parametrize("path", PUBSUB)
def test_a_pubsub_rpc_has_the_rest_binding_of_the_table(path: str) -> None:
    row = PUBSUB[path]
    bindings = [(f"{binding.verb} {binding.template}", binding.body) for binding in BY_PATH[path].http]

    assert bindings == ([] if row.rest is None else [(row.rest, row.body)])


@pytest.mark.rule("S1")
@pytest.mark.parametrize("path", PUBSUB)
def test_a_pubsub_rpc_has_the_types_of_the_table(path: str) -> None:
    row = PUBSUB[path]

    assert type_names(BY_PATH[path]) == (row.request, row.response)


@pytest.mark.rule("S1")
@pytest.mark.parametrize("path", IAM)
def test_an_iam_rpc_is_bound_on_all_four_kinds_of_resource(path: str) -> None:
    verb, suffix, body, request, response = IAM[path]
    expected = {HttpBinding(verb, f"/v1/{{resource={resource}}}:{suffix}", body) for resource in RESOURCES}

    assert set(BY_PATH[path].http) == expected
    assert len(BY_PATH[path].http) == len(expected)
    assert type_names(BY_PATH[path]) == (request, response)


@pytest.mark.rule("T15")
@pytest.mark.parametrize("path", GRPC)
def test_an_rpc_of_grpc_itself_is_not_offered_over_rest(path: str) -> None:
    assert BY_PATH[path].http == ()
    assert type_names(BY_PATH[path]) == GRPC[path]


@pytest.mark.rule("S1")
@each_rpc
def test_few_rpcs_stream(rpc: Rpc) -> None:
    assert (rpc.client_streaming, rpc.server_streaming) == STREAMING.get(rpc.path, (False, False))


@pytest.mark.rule("S1")
@each_rpc_of_the_api
def test_the_snake_case_name_is_the_clients_method(rpc: Rpc) -> None:
    clients = {
        "Publisher": pubsub_v1.PublisherClient,
        "Subscriber": pubsub_v1.SubscriberClient,
        "SchemaService": pubsub_v1.SchemaServiceClient,
        "IAMPolicy": pubsub_v1.PublisherClient,
    }

    assert callable(getattr(clients[rpc.service.rpartition(".")[2]], rpc.name))


@pytest.mark.rule("S1")
@each_rpc
def test_path_variables_and_body_are_fields_of_the_request(rpc: Rpc) -> None:
    for binding in rpc.http:
        for variable in re.findall(r"\{([a-z_.]+)=", binding.template):
            assert_field(rpc.request.DESCRIPTOR, variable)
        if binding.body not in ("", "*"):
            assert_field(rpc.request.DESCRIPTOR, binding.body)


def assert_field(message: Any, path: str) -> None:
    head, _, rest = path.partition(".")
    assert head in message.fields_by_name
    if rest:
        assert_field(message.fields_by_name[head].message_type, rest)


def test_two_rpcs_never_share_a_rest_address() -> None:
    addresses = [(binding.verb, re.sub(r"\{[a-z_.]+=", "{", binding.template)) for r in RPCS for binding in r.http]

    assert len(addresses) == len(set(addresses))


def test_the_index_by_path_holds_every_row_and_is_read_only() -> None:
    assert list(BY_PATH.values()) == list(RPCS)
    with pytest.raises(TypeError):
        BY_PATH["/x/Y"] = RPCS[0]  # type: ignore[index]  # that it can't be assigned is the point


@pytest.mark.parametrize(("row", "field"), [(RPCS[0], "method"), (RPCS[0].http[0], "verb")])
def test_rows_are_frozen(row: Rpc | HttpBinding, field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(row, field, "x")


def test_every_service_of_the_catalogue_contributes_rows() -> None:
    assert list(dict.fromkeys(rpc.service for rpc in RPCS)) == list(catalogue.SERVICES)
