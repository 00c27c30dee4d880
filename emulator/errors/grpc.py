"""Errors of gRPC's framing, and of the services that only it has."""

from emulator.errors.base import Code, PubsubError, show


def headers_too_large(limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"The request's headers are larger than {limit} bytes.")


def unknown_encoding(encoding: str) -> PubsubError:
    return PubsubError(
        Code.UNIMPLEMENTED, f"Messages compressed with {show(encoding)} are not supported (argument=grpc-encoding)."
    )


def bad_timeout(text: str) -> PubsubError:
    return PubsubError(Code.INTERNAL, f"Malformed grpc-timeout: {show(text)} (argument=grpc-timeout).")


def bad_message_flag(flag: int) -> PubsubError:
    return PubsubError(Code.INTERNAL, f"A message starts with {flag} instead of 0 or 1.")


def message_too_large(size: int, limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"Received message larger than max ({size} vs. {limit} bytes).")


def compressed_without_encoding() -> PubsubError:
    return PubsubError(Code.INTERNAL, "A compressed message in a call without grpc-encoding.")


def bad_compression(encoding: str, problem: str) -> PubsubError:
    return PubsubError(Code.INTERNAL, f"A message could not be decompressed as {encoding}: {show(problem)}.")


def no_message() -> PubsubError:
    return PubsubError(Code.INTERNAL, "The call holds no message; a unary call needs exactly one.")


def second_message() -> PubsubError:
    return PubsubError(Code.INTERNAL, "The call holds more than one message; a unary call needs exactly one.")


def truncated_message() -> PubsubError:
    return PubsubError(Code.INTERNAL, "The call ends in the middle of a message.")


def unreadable_request(method: str) -> PubsubError:
    return PubsubError(Code.INTERNAL, f"The message is no request of {method}.")


def deadline_exceeded() -> PubsubError:
    return PubsubError(Code.DEADLINE_EXCEEDED, "The call's deadline has passed.")


def too_much_unread(limit: int) -> PubsubError:
    return PubsubError(
        Code.RESOURCE_EXHAUSTED, f"More than {limit} bytes of replies wait for the connection's flow-control window."
    )


def too_much_unfinished(limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"The connection's unfinished requests hold more than {limit} bytes.")


def too_much_unanswered(limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"The call's unanswered requests hold more than {limit} bytes.")


def unknown_service(name: str) -> PubsubError:
    return PubsubError(Code.NOT_FOUND, f"Service not found: {show(name)} (argument=service).")


def not_described(kind: str, name: str) -> PubsubError:
    return PubsubError(Code.NOT_FOUND, f"No such {kind} in the descriptions of this server: {show(name)}.")
