"""grpc.health.v1.Health: whether this server takes calls, as a whole ("") and service by service (clients.md T15)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from emulator.api import pb
from emulator.errors import grpc as grpc_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from emulator.wire.grpc.calls import StreamingCall
    from emulator.wire.grpc.server import Opener

SERVICE: Final = "grpc.health.v1.Health"


class Health:
    """SERVING for every service until `stop`; its methods are the unary RPCs, as `Dispatcher` wants them."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(("", *services))
        self._serving = True
        self._watches: set[_Watch] = set()

    @property
    def openers(self) -> Mapping[str, Opener]:
        """Who opens the streaming RPCs, by path."""
        return MappingProxyType({f"/{SERVICE}/Watch": self._open_watch})

    def stop(self) -> None:
        """NOT_SERVING from here on; who watches is told."""
        self._serving = False
        for watch in list(self._watches):
            watch.tell()

    def status(self, service: str) -> int:
        if service not in self._services:
            return pb.HealthCheckResponse.SERVICE_UNKNOWN
        return pb.HealthCheckResponse.SERVING if self._serving else pb.HealthCheckResponse.NOT_SERVING

    def check(self, request: pb.HealthCheckRequest) -> pb.HealthCheckResponse:
        """Raises NOT_FOUND for a service that this server does not know."""
        status = self.status(request.service)
        if status == pb.HealthCheckResponse.SERVICE_UNKNOWN:
            raise grpc_errors.unknown_service(request.service)
        return pb.HealthCheckResponse(status=status)

    def list(self, _request: pb.HealthListRequest) -> pb.HealthListResponse:
        """What `check` says of every service."""
        return pb.HealthListResponse(
            statuses={service: pb.HealthCheckResponse(status=self.status(service)) for service in self._services}
        )

    def _open_watch(self, call: StreamingCall) -> _Watch:
        return _Watch(self, call)

    def attend(self, watch: _Watch) -> None:
        """Tell this watch of changes from now on."""
        self._watches.add(watch)

    def forget(self, watch: _Watch) -> None:
        self._watches.discard(watch)

    def __repr__(self) -> str:
        return f"<Health {'serving' if self._serving else 'stopped'} watches={len(self._watches)}>"


class _Watch:
    """A Watch call: says the status at once and whenever it changes, the newest only if its caller is slow."""

    def __init__(self, health: Health, call: StreamingCall) -> None:
        self._health = health
        self._call = call
        self._service: str | None = None
        self._told: int | None = None

    def message(self, request: pb.HealthCheckRequest) -> None:
        if self._service is not None:
            raise grpc_errors.second_message()
        self._service = request.service
        self._health.attend(self)
        self._call.send_headers()
        self.tell()

    def tell(self) -> None:
        """Send the status if it is news; what cannot leave now is looked at again once there is room."""
        assert self._service is not None
        status = self._health.status(self._service)
        if status != self._told and self._call.ready():
            self._told = status
            self._call.send(pb.HealthCheckResponse(status=status))

    def half_closed(self) -> None:
        if self._service is None:
            raise grpc_errors.no_message()

    def sent(self) -> None: ...

    def gone(self) -> None:
        self._health.forget(self)

    def writable(self) -> None:
        self.tell()

    def __repr__(self) -> str:
        return f"<_Watch {self._service!r} told={self._told}>"
