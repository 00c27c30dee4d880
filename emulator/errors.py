"""Every error a user may see: one function each, returning the `PubsubError` to raise.

Texts carry the culprit as `(resource=…)`, `(name=…)` or `(argument=…)`, as production's do (service.md §1.6).
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum

_SHOWN_CHARACTERS = 120


class Code(IntEnum):
    """The canonical gRPC status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class PubsubError(Exception):
    """A call's failure: what the caller is told.

    `reason` and `metadata`, when given, become a `google.rpc.ErrorInfo` detail.
    """

    __slots__ = ("code", "message", "metadata", "reason")

    def __init__(self, code: Code, message: str, reason: str = "", metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata or {}

    def __repr__(self) -> str:
        return f"<PubsubError {self.code.name} {self.message!r}>"


def _show(value: object) -> str:
    """A value as it may stand in a message: control characters escaped, long ones cut."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _invalid(argument: str, value: object, rule: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid value for {argument}: {_show(value) or '(empty)'}; {rule} (argument={argument}).",
    )


# Resources


def not_found(name: str) -> PubsubError:
    return PubsubError(Code.NOT_FOUND, f"Resource not found (resource={_show(name)}).")


def already_exists(name: str) -> PubsubError:
    return PubsubError(Code.ALREADY_EXISTS, f"Resource already exists in the project (resource={_show(name)}).")


def detached(subscription: str) -> PubsubError:
    return PubsubError(Code.FAILED_PRECONDITION, f"The subscription is detached (resource={_show(subscription)}).")


def not_a_pull_subscription(subscription: str, kind: str) -> PubsubError:
    return PubsubError(
        Code.FAILED_PRECONDITION,
        f"Only pull subscriptions can be pulled; this one has a {kind} (resource={_show(subscription)}).",
    )


# Names


def malformed_name(argument: str, value: str, pattern: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid resource name in {argument}: {_show(value) or '(empty)'}; expected {pattern} "
        f"(name={_show(value)}) (argument={argument}).",
    )


def malformed_id(argument: str, value: str, identifier: str, rule: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid resource id {_show(identifier) or '(empty)'} in {argument}; {rule} "
        f"(name={_show(value)}) (argument={argument}).",
    )


# Fields


def missing(argument: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"Missing required field {argument} (argument={argument}).")


def out_of_range(argument: str, value: object, low: object, high: object, unit: str = "") -> PubsubError:
    return _invalid(argument, value, f"must be between {low} and {high}{' ' + unit if unit else ''}")


def too_small(argument: str, value: object, low: object, unit: str = "") -> PubsubError:
    return _invalid(argument, value, f"must be at least {low}{' ' + unit if unit else ''}")


def malformed(argument: str, value: object, expected: str) -> PubsubError:
    return _invalid(argument, value, f"expected {expected}")


def unsupported_choice(argument: str, value: object, choices: Sequence[str]) -> PubsubError:
    return _invalid(argument, value, f"must be one of {', '.join(choices)}")


def exclusive_fields(fields: Sequence[str]) -> PubsubError:
    named = ", ".join(fields)
    return PubsubError(Code.INVALID_ARGUMENT, f"At most one of {named} may be set (argument={fields[-1]}).")


def exactly_once_needs_pull(kind: str) -> PubsubError:
    return _invalid("enable_exactly_once_delivery", True, f"not allowed together with {kind}")


def ttl_below_retention(ttl: str, retention: str) -> PubsubError:
    return _invalid("expiration_policy.ttl", ttl, f"must not be shorter than message_retention_duration ({retention})")


def backoff_order(minimum: str, maximum: str) -> PubsubError:
    return _invalid("retry_policy.maximum_backoff", maximum, f"must not be below minimum_backoff ({minimum})")


def too_many_labels(count: int, limit: int) -> PubsubError:
    return _invalid("labels", f"{count} labels", f"at most {limit} are allowed")


def bad_label(part: str, value: str, rule: str) -> PubsubError:
    return _invalid("labels", f"{part} {value!r}", rule)


def too_long(argument: str, value: str, size: int, limit: int) -> PubsubError:
    return _invalid(argument, value, f"{size} bytes, at most {limit} are allowed")


# Update masks


def mask_missing() -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, "The update mask must name at least one field (argument=update_mask).")


def mask_unknown_path(path: str, resource: str) -> PubsubError:
    return _invalid("update_mask", path, f"no such field of {resource}")


def mask_immutable_path(path: str) -> PubsubError:
    return _invalid("update_mask", path, "this field cannot be changed after creation")


def mask_output_only_path(path: str) -> PubsubError:
    return _invalid("update_mask", path, "this field is output only")


def mask_with_wildcard() -> PubsubError:
    return _invalid("update_mask", "*", "must be the only path")


# Lists


def bad_page_token(token: str) -> PubsubError:
    return _invalid("page_token", token, "not a token of this list")


# Publishing


def no_messages() -> PubsubError:
    return _invalid("messages", "0 messages", "at least one is required")


def too_many_messages(count: int, limit: int) -> PubsubError:
    return _invalid("messages", f"{count} messages", f"at most {limit} are allowed in a request")


def publish_too_large(size: int, limit: int) -> PubsubError:
    return _invalid("messages", f"a request of {size} bytes", f"at most {limit} bytes are allowed")


def empty_message(index: int) -> PubsubError:
    return _invalid(f"messages[{index}]", "a message without data", "data or at least one attribute is required")


def too_many_attributes(index: int, count: int, limit: int) -> PubsubError:
    return _invalid(f"messages[{index}].attributes", f"{count} attributes", f"at most {limit} are allowed")


def bad_attribute_key(index: int, key: str, rule: str) -> PubsubError:
    return _invalid(f"messages[{index}].attributes", f"key {_show(key)!r}", rule)


def attribute_value_too_long(index: int, key: str, size: int, limit: int) -> PubsubError:
    return _invalid(
        f"messages[{index}].attributes", f"{size} bytes for key {_show(key)!r}", f"at most {limit} bytes are allowed"
    )


def mixed_ordering_keys(index: int, first: str, other: str) -> PubsubError:
    return PubsubError(
        Code.FAILED_PRECONDITION,
        f"All messages of a request must have the same ordering key; messages[0] has {_show(first)!r}, "
        f"messages[{index}] has {_show(other)!r} (argument=messages[{index}].ordering_key).",
    )


# Acknowledging


def no_ack_ids() -> PubsubError:
    return _invalid("ack_ids", "0 ack ids", "at least one is required")


def malformed_ack_id(ack_id: str) -> PubsubError:
    return _invalid("ack_ids", ack_id, "not an ack id")


def foreign_ack_id(ack_id: str, subscription: str) -> PubsubError:
    return _invalid("ack_ids", ack_id, f"an ack id of another subscription than {subscription}")


def ack_request_too_large(size: int, limit: int) -> PubsubError:
    return _invalid("ack_ids", f"a request of {size} bytes", f"at most {limit} bytes are allowed")


# Calls


def not_implemented(method: str) -> PubsubError:
    return PubsubError(Code.UNIMPLEMENTED, f"{method} is not implemented by this emulator yet.")


def unknown_method(path: str) -> PubsubError:
    return PubsubError(Code.UNIMPLEMENTED, f"Method not found: {_show(path)}.")


def internal(cause: BaseException) -> PubsubError:
    return PubsubError(
        Code.INTERNAL, f"Internal error of the emulator: {type(cause).__name__}; the log has the traceback."
    )


def shutting_down() -> PubsubError:
    return PubsubError(Code.UNAVAILABLE, "The emulator is shutting down.")


# REST


def not_json(problem: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received: {_show(problem)} (argument=body).")


def bad_base64(argument: str, value: str) -> PubsubError:
    return _invalid(argument, value, "expected base64")


def unknown_query_parameter(name: str, value: str) -> PubsubError:
    return _invalid(_show(name), value, "no such query parameter")


def bad_path_segment(segment: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid path segment {_show(segment)}; a name's part cannot hold a slash (argument=path).",
    )


def unknown_path(path: str) -> PubsubError:
    return PubsubError(Code.NOT_FOUND, f"Path not found: {_show(path)} (argument=path).")


def method_not_allowed(method: str, path: str, allowed: str) -> PubsubError:
    return PubsubError(
        Code.UNIMPLEMENTED,
        f"Method {_show(method)} is not offered on {_show(path)}; allowed: {allowed} (argument=method).",
    )


def broken_percent_escape(part: str, value: str) -> PubsubError:
    return _invalid(part, value, "expected percent-encoded UTF-8")


def repeated_json_key(key: str) -> PubsubError:
    return not_json(f"the key {_show(key)} stands twice in one object")


def unreadable_json_value(argument: str, value: object, expected: str) -> PubsubError:
    return _invalid(_show(argument), _json_value(value), f"expected {expected}")


def unknown_json_field(argument: str, value: object, message: str) -> PubsubError:
    return _invalid(_show(argument), _json_value(value), f"no such field of {message}")


def field_given_twice(argument: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"The field {argument} is given twice (argument={argument}).")


def nested_too_deeply(argument: str, limit: int) -> PubsubError:
    return _invalid(_show(argument), "a value in itself", f"at most {limit} levels are allowed")


def conflicting_masks(in_body: str, in_query: str) -> PubsubError:
    return _invalid("update_mask", in_query, f"the request's body has another mask, {_show(in_body) or '(empty)'}")


def unknown_reply_field(path: str, message: str) -> PubsubError:
    return _invalid("fields", path, f"no such field of {message}")


def body_too_large(limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"The request's body has more than {limit} bytes (argument=body).")


def broken_content_encoding(encoding: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT, f"The request's body is not what its content-encoding says: {encoding} (argument=body)."
    )


def refused_by_http(code: Code, message: str) -> PubsubError:
    """For what an HTTP server refuses by itself, in its own words."""
    return PubsubError(code, _show(message))


def _json_value(value: object) -> str:
    """A JSON value as it may stand in a message; what it may hold inside is of no interest and may be huge."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


# HTTP


def header_too_large(limit: int) -> PubsubError:
    return PubsubError(
        Code.RESOURCE_EXHAUSTED, f"A line of the request's head has more than {limit} bytes (argument=headers)."
    )


def not_http(problem: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"Not a valid HTTP/1.1 request: {_show(problem)}.")


def unknown_expectation(value: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT, f"Unknown expectation {_show(value)}; only 100-continue is met (argument=expect)."
    )


# Starting


class UsageError(Exception):
    """What the user asked for cannot be understood."""


class StartError(Exception):
    """The server cannot start where it was told to."""


def bad_option(source: str, value: str, problem: str) -> UsageError:
    return UsageError(f"{source}: {_show(value)!r} {problem}")


def port_unknown() -> UsageError:
    return UsageError("port 0 stands for whichever port was free; say which, or give the --port-file of the server")


def port_taken(host: str, port: int) -> StartError:
    return StartError(
        f"port {port} on {host or 'every interface'} is already in use; "
        "stop what listens there, or choose another with --port (0 takes a free one)"
    )


def cannot_listen(host: str, port: int, reason: str) -> StartError:
    return StartError(f"cannot listen on {host or 'every interface'}, port {port}: {reason}")


def no_common_port(host: str) -> StartError:
    return StartError(f"found no port that is free on every address of {host}; choose one with --port")


def cannot_write_port_file(path: str, reason: str) -> StartError:
    return StartError(f"cannot write the port to {path}: {reason}")


# gRPC


def headers_too_large(limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"The request's headers are larger than {limit} bytes.")


def unknown_encoding(encoding: str) -> PubsubError:
    return PubsubError(
        Code.UNIMPLEMENTED, f"Messages compressed with {_show(encoding)} are not supported (argument=grpc-encoding)."
    )


def bad_timeout(text: str) -> PubsubError:
    return PubsubError(Code.INTERNAL, f"Malformed grpc-timeout: {_show(text)} (argument=grpc-timeout).")


def bad_message_flag(flag: int) -> PubsubError:
    return PubsubError(Code.INTERNAL, f"A message starts with {flag} instead of 0 or 1.")


def message_too_large(size: int, limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"Received message larger than max ({size} vs. {limit} bytes).")


def compressed_without_encoding() -> PubsubError:
    return PubsubError(Code.INTERNAL, "A compressed message in a call without grpc-encoding.")


def bad_compression(encoding: str, problem: str) -> PubsubError:
    return PubsubError(Code.INTERNAL, f"A message could not be decompressed as {encoding}: {_show(problem)}.")


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
    return PubsubError(Code.NOT_FOUND, f"Service not found: {_show(name)} (argument=service).")


def not_described(kind: str, name: str) -> PubsubError:
    return PubsubError(Code.NOT_FOUND, f"No such {kind} in the descriptions of this server: {_show(name)}.")
