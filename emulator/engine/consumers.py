"""Who takes messages from one subscription: waiting Pulls and open streams, in turn."""

from collections import deque

from emulator.engine.entries import Consumer, Entry
from emulator.engine.pulls import Pull
from emulator.engine.streams import Stream


class Consumers:
    """All of them, and the line of those that may have room: one without leaves it, and joins when it has some."""

    __slots__ = ("_streams", "_waits", "line")

    def __init__(self) -> None:
        self.line: deque[Consumer] = deque()
        # By their start; they wait equally long, so the first is the first to be over.
        self._waits: dict[Consumer, Pull] = {}
        self._streams: dict[Consumer, Stream] = {}

    # Pulls

    def join(self, pull: Pull) -> None:
        """A Pull that takes what there is."""
        self._stand(pull)

    def wait(self, pull: Pull) -> None:
        """One that found nothing, and stays in the line."""
        self._waits[pull] = pull

    def leave(self, pull: Consumer) -> bool:
        """A Pull is done; whether it was waiting."""
        self._step_out(pull)
        return self._waits.pop(pull, None) is not None

    @property
    def first_wait_ends(self) -> int | None:
        """When the first waiting Pull gives up, in nanoseconds on the clock."""
        return next((pull.deadline for pull in self._waits.values()), None)

    def waiting(self, until: int | None = None) -> list[Pull]:
        """The waiting Pulls; only those that give up by then."""
        return [pull for pull in self._waits.values() if until is None or pull.deadline <= until]

    # Streams

    def open(self, stream: Stream) -> None:
        self._streams[stream] = stream

    def line_up(self, consumer: Consumer) -> None:
        """It may have room again; a Pull never has."""
        if not consumer.in_line and consumer in self._streams and consumer.room(0):
            self._stand(consumer)

    def streams(self) -> list[Stream]:
        return list(self._streams.values())

    def drop(self, stream: Stream) -> bool:
        """A stream takes nothing more; whether it did."""
        self._step_out(stream)
        return self._streams.pop(stream, None) is not None

    # The line

    def next_for(self, entry: Entry) -> Consumer | None:
        """Whose turn it is, rather not the one's that had this message before (lease-policy.md V13).

        A Pull's turn lasts as long as it has room; streams share message by message (service.md §7.3.11).
        """
        line, size = self.line, entry.message.size
        previous = None
        while line:
            consumer = line.popleft()
            if not consumer.room(size):
                consumer.in_line = False
            elif line and 0 != consumer.number == entry.previous:
                previous = consumer
            else:
                if previous is not None:
                    line.appendleft(previous)
                if consumer.takes_all:
                    line.appendleft(consumer)
                else:
                    line.append(consumer)
                return consumer
        if previous is not None:
            line.append(previous)
        return previous

    def _stand(self, consumer: Consumer) -> None:
        consumer.in_line = True
        self.line.append(consumer)

    def _step_out(self, consumer: Consumer) -> None:
        if consumer.in_line:
            consumer.in_line = False
            self.line.remove(consumer)

    # All of them

    def clear(self) -> list[Consumer]:
        """Forget all; who they were."""
        everyone = [*self._waits, *self._streams]
        for consumer in self.line:
            consumer.in_line = False
        self.line.clear()
        self._waits.clear()
        self._streams.clear()
        return everyone

    def counts(self) -> dict[str, int]:
        """How many wait, how many streams are open, and deliveries in their connections' outboxes."""
        return {
            "waiting_pulls": len(self._waits),
            "pull_streams": len(self._streams),
            "unwritten": sum(stream.unwritten for stream in self._streams.values()),
        }

    def __bool__(self) -> bool:
        """Whether anybody is there, with room or without."""
        return bool(self._waits or self._streams)

    def __repr__(self) -> str:
        return f"<Consumers waits={len(self._waits)} streams={len(self._streams)} line={len(self.line)}>"
