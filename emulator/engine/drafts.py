"""What a publisher gives: drafts, which become messages when they are stored for somebody."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from emulator.engine.values import Draft, Message

# What the server adds to a published message on the wire: tags, a timestamp and the id's digits at their longest.
ENVELOPE_BYTES: Final = 32

NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})


class PlainDrafts:
    """Drafts of data alone, none of them empty, as parts of `body`; each part is made when it becomes a message.

    `spans` has where the data of each begins and ends, and `Draft.size`.
    """

    __slots__ = ("_body", "_spans")

    def __init__(self, body: bytes, spans: Sequence[tuple[int, int, int]]) -> None:
        self._body = body
        self._spans = spans

    def messages(self, first: int, publish_time: int) -> list[Message]:
        body, none = self._body, NO_ATTRIBUTES
        return [
            Message(number, publish_time, body[start:stop], none, "", size + ENVELOPE_BYTES)
            for number, (start, stop, size) in enumerate(self._spans, first)
        ]

    def __len__(self) -> int:
        return len(self._spans)

    def __repr__(self) -> str:
        return f"<PlainDrafts {len(self._spans)}>"


Drafts: TypeAlias = Sequence[Draft] | PlainDrafts


def messages_of(drafts: Drafts, first: int, publish_time: int) -> list[Message]:
    """What is stored of them, numbered from `first` on."""
    if isinstance(drafts, PlainDrafts):
        return drafts.messages(first, publish_time)
    return [
        Message(number, publish_time, draft.data, draft.attributes, draft.ordering_key, draft.size + ENVELOPE_BYTES)
        for number, draft in enumerate(drafts, first)
    ]
