"""Server reflection, v1 and v1alpha: what services, methods and messages there are (clients.md T15)."""

from __future__ import annotations

from collections import deque
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from emulator import errors
from emulator.api import pb
from emulator.api.catalogue import BY_PATH
from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from google.protobuf.descriptor import FileDescriptor

    from emulator.wire.grpc.calls import StreamingCall
    from emulator.wire.grpc.server import Opener

PATHS: Final = tuple(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")
)

# What one call may be answered in a turn of the loop, and how much it may ask ahead of that. A question is some twenty
# bytes long, an answer up to a thousand times as much.
_BURST_BYTES: Final = 262_144
_WAITING_MAX_BYTES: Final = 1_048_576
_QUESTION_OVERHEAD_BYTES: Final = 128


class Reflection:
    """Answers from the descriptor set; `services` are the full names that it lists."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = tuple(services)

    @property
    def openers(self) -> Mapping[str, Opener]:
        """Who opens the streaming RPCs, by path."""
        # The two versions differ in the names of their messages only.
        return MappingProxyType({path: partial(_Questions, self, BY_PATH[path].response) for path in PATHS})

    def answer(self, request: Any, response: Any, sent: set[str]) -> None:
        """Fill in a response. `sent` holds the names of the files that the caller has got already."""
        response.valid_host = request.host
        response.original_request.CopyFrom(request)
        try:
            self._answer(request, response, sent)
        except PubsubError as problem:
            response.error_response.error_code = problem.code
            response.error_response.error_message = problem.message

    def _answer(self, request: Any, response: Any, sent: set[str]) -> None:
        match kind := request.WhichOneof("message_request"):
            case "list_services":
                for service in self._services:
                    response.list_services_response.service.add(name=service)
            case "all_extension_numbers_of_type":
                name = request.all_extension_numbers_of_type
                message = _find(pb.POOL.FindMessageTypeByName, "message", name)
                response.all_extension_numbers_response.base_type_name = name
                response.all_extension_numbers_response.extension_number.extend(
                    sorted(extension.number for extension in pb.POOL.FindAllExtensions(message))
                )
            case None:
                raise errors.missing("message_request")
            case _:
                file = _FINDERS[kind](getattr(request, kind))
                response.file_descriptor_response.file_descriptor_proto.extend(_files(file, sent))

    def __repr__(self) -> str:
        return f"<Reflection services={len(self._services)}>"


class _Questions:
    """One call: a stream of questions, each answered in its turn."""

    def __init__(self, reflection: Reflection, response: Callable[[], Any], call: StreamingCall) -> None:
        self._reflection = reflection
        self._response = response
        self._call = call
        self._waiting: deque[Any] = deque()
        self._waiting_bytes = 0
        self._room = _BURST_BYTES
        self._turn_planned = False
        self._sent: set[str] = set()
        self._half_closed = False

    def message(self, request: Any) -> None:
        self._waiting.append(request)
        self._waiting_bytes += _size(request)
        self._go_on()
        if self._waiting_bytes > _WAITING_MAX_BYTES:
            raise grpc_errors.too_much_unanswered(_WAITING_MAX_BYTES)

    def half_closed(self) -> None:
        self._half_closed = True
        self._go_on()

    def writable(self) -> None:
        self._go_on()

    def sent(self) -> None: ...

    def gone(self) -> None:
        """Nothing to undo: a turn that is still to come finds a call that is not ready."""

    def _go_on(self) -> None:
        """Answer what can be answered now; stop when the peer does not read, or others want their turn."""
        while self._waiting and self._room > 0 and self._call.ready():
            request = self._waiting.popleft()
            self._waiting_bytes -= _size(request)
            response = self._response()
            self._reflection.answer(request, response, self._sent)
            answer = response.SerializeToString()
            self._room -= len(answer)
            self._call.send_bytes(answer)
        if self._room <= 0:
            if not self._turn_planned:
                self._turn_planned = True
                self._call.next_turn(self._take_turn)
        elif self._half_closed and not self._waiting:
            self._call.finish()

    def _take_turn(self) -> None:
        self._turn_planned = False
        self._room = _BURST_BYTES
        self._go_on()

    def __repr__(self) -> str:
        return f"<_Questions waiting={len(self._waiting)} sent={len(self._sent)}>"


def _size(request: Any) -> int:
    size: int = request.ByteSize()
    return size + _QUESTION_OVERHEAD_BYTES


def _find(finder: Callable[..., Any], kind: str, name: str, *where: object) -> Any:
    """What a finder of the descriptor pool finds; raises NOT_FOUND."""
    try:
        return finder(*where) if where else finder(name)
    except KeyError:
        raise grpc_errors.not_described(kind, name) from None


def _file_by_name(name: str) -> FileDescriptor:
    file: FileDescriptor = _find(pb.POOL.FindFileByName, "file", name)
    return file


def _file_of_symbol(name: str) -> FileDescriptor:
    try:
        return pb.POOL.FindFileContainingSymbol(name)
    except KeyError:  # a method is a symbol, too, but not to the pool
        method = _find(pb.POOL.FindMethodByName, "symbol", name)
        file: FileDescriptor = method.containing_service.file
        return file


def _file_of_extension(request: Any) -> FileDescriptor:
    message = _find(pb.POOL.FindMessageTypeByName, "message", request.containing_type)
    name = f"{request.containing_type}[{request.extension_number}]"
    extension = _find(pb.POOL.FindExtensionByNumber, "extension", name, message, request.extension_number)
    file: FileDescriptor = extension.file
    return file


_FINDERS: Final = MappingProxyType(
    {
        "file_by_filename": _file_by_name,
        "file_containing_symbol": _file_of_symbol,
        "file_containing_extension": _file_of_extension,
    }
)


def _files(wanted: FileDescriptor, sent: set[str]) -> Iterator[bytes]:
    """A file, then those it depends on, near and far, that were not sent before.

    The file itself always comes: clients take the first one for the answer.
    """
    yield wanted.serialized_pb
    sent.add(wanted.name)
    ahead = deque(wanted.dependencies)
    while ahead:
        file = ahead.popleft()
        if file.name not in sent:
            sent.add(file.name)
            yield file.serialized_pb
            ahead.extend(file.dependencies)
