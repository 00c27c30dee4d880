"""The details of an error are never larger than their peer takes (service.md §8.13)."""

from base64 import b64decode
from typing import Any

import pytest
from h2.settings import SettingCodes
from hpack import Decoder

from emulator import errors
from emulator.api import pb
from emulator.wire.grpc import blocks
from tests.wire.grpc.memory import Lab, Reply
from tests.wire.grpc.streams import READERS, TOPIC, Client, Service

INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"
UNORDERED = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"

IDS = [f"{number:024d}" for number in range(1_000)]

ONCE = "projects/acme/subscriptions/once"


def status_of(fields: Any) -> bytes:
    """The serialized Status, empty when there is none."""
    text = fields.get("grpc-status-details-bin", "")
    return b64decode(text + "=" * (-len(text) % 4), validate=True)


def info_of(status: bytes) -> Any:
    (detail,) = pb.Status.FromString(status).details
    info = pb.ErrorInfo()
    assert detail.Unpack(info)
    return info


def refused(failures: dict[str, str], header_list: int | None) -> bytes:
    block = blocks.error(errors.ack_ids_refused(failures), alone=True, header_list=header_list)
    return status_of({str(name): str(value) for name, value in Decoder(max_header_list_size=2**20).decode(block)})


@pytest.mark.rule("S8.13")
@pytest.mark.parametrize(
    ("header_list", "most", "listed"),
    [
        (None, 5_800, (80, 90)),
        (16_384, 5_844, (80, 90)),
        (4_194_304, 48_852, (750, 800)),
        (2**32 - 1, 48_852, (750, 800)),
        (4_000, 1_200, (8, 14)),
        (1_700, 337, (0, 1)),
    ],
)
def test_as_many_ids_are_listed_as_the_peer_takes(header_list: int | None, most: int, listed: tuple[int, int]) -> None:
    status = refused(dict.fromkeys(IDS, INVALID), header_list)

    assert len(status) <= most
    info = info_of(status)
    assert (info.reason, info.domain) == ("EXACTLY_ONCE_ACKID_FAILURE", "pubsub.googleapis.com")
    low, high = listed
    assert low <= len(info.metadata) <= high
    assert dict(info.metadata) == dict.fromkeys(IDS[: len(info.metadata)], INVALID)


@pytest.mark.rule("S8.13")
@pytest.mark.parametrize("header_list", [0, 1, 100, 1_000])
def test_a_peer_that_takes_next_to_nothing_gets_no_details(header_list: int) -> None:
    assert refused(dict.fromkeys(IDS, INVALID), header_list) == b""


@pytest.mark.rule("S8.13")
def test_no_room_is_left_unused() -> None:
    """One more id would not fit."""
    for header_list in range(2_000, 20_000, 97):
        status = refused(dict.fromkeys(IDS, INVALID), header_list)
        room = min(header_list // 2, 65_536) * 3 // 4 - 300

        assert room - 100 < len(status) <= room


@pytest.mark.rule("S8.13", "S8.5")
def test_what_clients_retry_comes_first() -> None:
    failures = {ack_id: UNORDERED if number >= 950 else INVALID for number, ack_id in enumerate(IDS)}

    info = info_of(refused(failures, None))

    assert set(IDS[950:]) < set(info.metadata)
    assert all(failures[ack_id] == code for ack_id, code in info.metadata.items())


@pytest.mark.rule("S8.13")
def test_the_message_is_short() -> None:
    assert len(errors.ack_ids_refused(dict.fromkeys(IDS, INVALID)).message.encode()) <= 500


class TestOverTheWire:
    @pytest.fixture
    def service(self, lab: Lab) -> Service:
        service = Service(lab)
        service.create_subscription(ONCE, enable_exactly_once_delivery=True, ack_deadline_seconds=10)
        return service

    def refusal(self, service: Service, client: Client, request: Any) -> Reply:
        """The answer to a request with ids of 1,000 expired deliveries."""
        for _ in range(10):
            service.publish(*[b"x"] * 100)
        pulled = service.admin.rpc("Pull", pb.PullRequest(subscription=ONCE, max_messages=1_000))
        service.clock.advance(10)
        request.subscription = ONCE
        request.ack_ids.extend(received.ack_id for received in pulled.received_messages)
        method = type(request).__name__.removesuffix("Request")
        return client.invoke(method, request)

    @pytest.mark.rule("S8.4", "S8.7", "S8.13", "K17")
    @pytest.mark.parametrize("kind", [pb.AcknowledgeRequest, pb.ModifyAckDeadlineRequest])
    @pytest.mark.parametrize(("announced", "most"), [(65_536, 24_276), (16_384, 5_844), (4_194_304, 48_852)])
    def test_a_thousand_expired_ids(self, service: Service, kind: Any, announced: int, most: int) -> None:
        client = service.client()
        client.h2.update_settings({SettingCodes.MAX_HEADER_LIST_SIZE: announced})
        client.exchange()

        reply = self.refusal(service, client, kind())

        status = status_of(reply.end)
        parsed = pb.Status.FromString(status)
        assert reply.status == 3
        assert (parsed.code, parsed.message) == (reply.status, reply.message)
        assert most - 100 < len(status) <= most
        assert set(info_of(status).metadata.values()) == {INVALID}

    def test_the_others_are_served_as_ever(self, service: Service) -> None:
        assert service.admin.rpc("GetSubscription", pb.GetSubscriptionRequest(subscription=READERS)).topic == TOPIC
