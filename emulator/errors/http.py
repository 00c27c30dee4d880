"""Errors of HTTP and of REST's JSON."""

from emulator.errors.base import Code, PubsubError, invalid, show


def not_json(problem: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received: {show(problem)} (argument=body).")


def bad_base64(argument: str, value: str) -> PubsubError:
    return invalid(argument, value, "expected base64")


def unknown_query_parameter(name: str, value: str) -> PubsubError:
    return invalid(show(name), value, "no such query parameter")


def bad_path_segment(segment: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid path segment {show(segment)}; a name's part cannot hold a slash (argument=path).",
    )


def unknown_path(path: str) -> PubsubError:
    return PubsubError(Code.NOT_FOUND, f"Path not found: {show(path)} (argument=path).")


def method_not_allowed(method: str, path: str, allowed: str) -> PubsubError:
    return PubsubError(
        Code.UNIMPLEMENTED,
        f"Method {show(method)} is not offered on {show(path)}; allowed: {allowed} (argument=method).",
    )


def broken_percent_escape(part: str, value: str) -> PubsubError:
    return invalid(part, value, "expected percent-encoded UTF-8")


def repeated_json_key(key: str) -> PubsubError:
    return not_json(f"the key {show(key)} stands twice in one object")


def unreadable_json_value(argument: str, value: object, expected: str) -> PubsubError:
    return invalid(show(argument), _json_value(value), f"expected {expected}")


def unknown_json_field(argument: str, value: object, message: str) -> PubsubError:
    return invalid(show(argument), _json_value(value), f"no such field of {message}")


def field_given_twice(argument: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"The field {argument} is given twice (argument={argument}).")


def nested_too_deeply(argument: str, limit: int) -> PubsubError:
    return invalid(show(argument), "a value in itself", f"at most {limit} levels are allowed")


def conflicting_masks(in_body: str, in_query: str) -> PubsubError:
    return invalid("update_mask", in_query, f"the request's body has another mask, {show(in_body) or '(empty)'}")


def unknown_reply_field(path: str, message: str) -> PubsubError:
    return invalid("fields", path, f"no such field of {message}")


def body_too_large(limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"The request's body has more than {limit} bytes (argument=body).")


def too_many_elements(limit: int) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT, f"The request's JSON document has more than {limit} elements (argument=body)."
    )


def too_many_gzip_members(limit: int) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"The request's gzip body has more than {limit} members (argument=body).")


def broken_content_encoding(encoding: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT, f"The request's body is not what its content-encoding says: {encoding} (argument=body)."
    )


def refused_by_http(code: Code, message: str) -> PubsubError:
    """For what an HTTP server refuses by itself, in its own words."""
    return PubsubError(code, show(message))


def _json_value(value: object) -> str:
    """A JSON value as it may stand in a message; what it may hold inside is of no interest and may be huge."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def header_too_large(limit: int) -> PubsubError:
    return PubsubError(
        Code.RESOURCE_EXHAUSTED, f"A line of the request's head has more than {limit} bytes (argument=headers)."
    )


def head_too_large(limit: int) -> PubsubError:
    return PubsubError(Code.RESOURCE_EXHAUSTED, f"The request's head has more than {limit} bytes (argument=headers).")


def not_http(problem: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"Not a valid HTTP/1.1 request: {show(problem)}.")


def unknown_expectation(value: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT, f"Unknown expectation {show(value)}; only 100-continue is met (argument=expect)."
    )
