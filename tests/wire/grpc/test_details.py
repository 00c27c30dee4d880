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


def trailers_of(failures: dict[str, str], header_list: int | None) -> dict[str, str]:
    block = blocks.error(errors.ack_ids_refused(failures), alone=True, header_list=header_list)
    return {str(name): str(value) for name, value in Decoder(max_header_list_size=2**20).decode(block)}


def refused(failures: dict[str, str], header_list: int | None) -> bytes:
    return status_of(trailers_of(failures, header_list))


def counted(fields: dict[str, str]) -> int:
    """What HTTP/2 counts for fields (RFC 9113 §6.5.2)."""
    return sum(len(name) + len(value) + 32 for name, value in fields.items())


@pytest.mark.rule("S8.13")
@pytest.mark.parametrize("code", [INVALID, UNORDERED])
@pytest.mark.parametrize(
    ("header_list", "most", "listed"),
    [
        (None, 8_192, (75, 90)),
        (16_384, 8_192, (75, 90)),
        (32_768, 16_384, (160, 190)),
        (4_194_304, 65_536, (700, 790)),
        (2**32 - 1, 65_536, (700, 790)),
        (4_000, 2_000, (5, 14)),
        (2_300, 1_150, (0, 1)),
    ],
)
def test_as_many_ids_are_listed_as_the_peer_takes(
    header_list: int | None, most: int, listed: tuple[int, int], code: str
) -> None:
    fields = trailers_of(dict.fromkeys(IDS, code), header_list)

    # Some peers refuse at random from half of what they announce.
    assert most - 320 < counted(fields) <= most - 190
    info = info_of(status_of(fields))
    assert (info.reason, info.domain) == ("EXACTLY_ONCE_ACKID_FAILURE", "pubsub.googleapis.com")
    low, high = listed
    assert low <= len(info.metadata) <= high
    assert dict(info.metadata) == dict.fromkeys(IDS[: len(info.metadata)], code)


@pytest.mark.rule("S8.13", "K17", "T7a")
@pytest.mark.parametrize("code", [INVALID, UNORDERED])
@pytest.mark.parametrize("header_list", [None, 16_384])
def test_what_pythons_client_takes(header_list: int | None, code: str) -> None:
    fields = trailers_of(dict.fromkeys(IDS, code), header_list)

    assert len(status_of(fields)) <= 5_800
    assert sum(len(name) + len(value) for name, value in fields.items()) < 8_000


@pytest.mark.rule("S8.13")
@pytest.mark.parametrize("header_list", [0, 1, 100, 1_000])
def test_a_peer_that_takes_next_to_nothing_gets_no_details(header_list: int) -> None:
    assert refused(dict.fromkeys(IDS, INVALID), header_list) == b""


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
    @pytest.mark.parametrize("announced", [65_536, 16_384, 4_194_304])
    def test_a_thousand_expired_ids(self, service: Service, kind: Any, announced: int) -> None:
        client = service.client()
        client.h2.update_settings({SettingCodes.MAX_HEADER_LIST_SIZE: announced})
        client.exchange()

        reply = self.refusal(service, client, kind())

        parsed = pb.Status.FromString(status_of(reply.end))
        half = min(announced // 2, 65_536)
        assert reply.status == 3
        assert (parsed.code, parsed.message) == (reply.status, reply.message)
        assert half - 400 < counted(dict(reply.end)) <= half
        assert set(info_of(status_of(reply.end)).metadata.values()) == {INVALID}

    def test_the_others_are_served_as_ever(self, service: Service) -> None:
        assert service.admin.rpc("GetSubscription", pb.GetSubscriptionRequest(subscription=READERS)).topic == TOPIC
