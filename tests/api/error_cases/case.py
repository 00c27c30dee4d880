"""One call that must be refused, as plain data, so that every face can be tried with it."""

from dataclasses import dataclass
from typing import Any

from emulator.errors import Code
from tests.api.world import Data, World, parse, row


@dataclass(frozen=True, slots=True)
class Case:
    """A request that fails in a `populated` world.

    name: the test's id. rules: what the row proves. method: the RPC. request: proto JSON, placeholders in it.
    says: texts that the error's message holds: the field at fault and its value, or the resource.
    """

    name: str
    rules: tuple[str, ...]
    method: str
    request: Data
    code: Code
    says: tuple[str, ...]

    def message(self, world: World) -> Any:
        return parse(self.method, world.fill(self.request))


@dataclass(frozen=True, slots=True)
class GrpcCase(Case):
    """A request that REST cannot carry; `request` holds the arguments of its message type."""

    def message(self, world: World) -> Any:
        return row(self.method).request(**self.request)
