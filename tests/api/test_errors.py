"""The calls that must be refused, by gRPC's values: code, HTTP number, words, and nothing changed."""

from collections import Counter

import pytest

from emulator.errors import PubsubError
from emulator.wire.status import HTTP_STATUS
from tests.api.error_cases import CASES, Case
from tests.api.world import populated


@pytest.mark.rule(
    "B025",
    "B026",
    "B055",
    "B095",
    "B097",
    "B098",
    "B124",
    "B151",
    "B152",
    "B154",
    "B155",
    "B157",
    "K11",
    "S1",
    "S1.2",
    "S1.5a",
    "S1.6",
    "S1.8.1",
    "S1.8.2",
    "S1.8.5",
    "S1.8.6",
    "S1.9.2",
    "S1.9.3",
    "S1.9.6",
    "S11.1",
    "S11.2",
    "S11.4",
    "S11.5",
    "S12.10",
    "S12.11",
    "S12.2",
    "S12.6",
    "S12.8",
    "S3.1",
    "S3.2",
    "S3.4",
    "S3.6",
    "S3.7",
    "S3.8",
    "S4.subscription.ack_deadline_seconds",
    "S4.subscription.dead_letter_policy",
    "S4.subscription.detached",
    "S4.subscription.enable_exactly_once_delivery",
    "S4.subscription.enable_message_ordering",
    "S4.subscription.expiration_policy",
    "S4.subscription.filter",
    "S4.subscription.message_retention_duration",
    "S4.subscription.name",
    "S4.subscription.push_config",
    "S4.subscription.retry_policy",
    "S4.subscription.state",
    "S4.subscription.topic_message_retention_duration",
    "S4.topic.ingestion_data_source_settings",
    "S4.topic.kms_key_name",
    "S4.topic.message_retention_duration",
    "S4.topic.message_storage_policy",
    "S4.topic.message_transforms",
    "S4.topic.name",
    "S4.topic.satisfies_pzs",
    "S4.topic.schema_settings",
    "S4.topic.tags",
    "S5.1",
    "S5.2",
    "S5.3",
    "S5.4",
    "S5.5",
    "S5.6",
    "S5.7",
    "S6.1",
    "S6.2",
    "S7.1.3",
    "S7.1.8",
    "S7.1.9",
    "S7.2.1",
    "S7.2.5",
    "S7.2.6",
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refused_call_says_why_and_changes_nothing(case: Case) -> None:
    world = populated()
    request = case.message(world)
    before = world.state()

    with pytest.raises(PubsubError) as refusal:
        world.send(case.method, request)

    error = refusal.value
    assert (error.code, HTTP_STATUS[error.code]) == (case.code, HTTP_STATUS[case.code])
    assert [text for text in world.fill(case.says) if text not in error.message] == [], error.message
    assert world.state() == before


def test_the_mark_lists_what_the_rows_prove() -> None:
    (mark,) = [
        mark for mark in vars(test_a_refused_call_says_why_and_changes_nothing)["pytestmark"] if mark.name == "rule"
    ]

    assert set(mark.args) == {"S1.6", *(rule for case in CASES for rule in case.rules)}


def test_every_row_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
