"""Every error of the service that a user may see: one function each, returning the `PubsubError` to raise.

Those of HTTP, gRPC and the start are in modules of their own. Texts carry the culprit as `(resource=…)`, `(name=…)` or
`(argument=…)`, as production's do (service.md §1.6).
"""

from collections.abc import Mapping, Sequence

from emulator.errors.base import Code, PubsubError, invalid, show

__all__ = ["Code", "PubsubError"]

# Resources


def not_found(name: str) -> PubsubError:
    return PubsubError(Code.NOT_FOUND, f"Resource not found (resource={show(name)}).")


def already_exists(name: str) -> PubsubError:
    return PubsubError(Code.ALREADY_EXISTS, f"Resource already exists in the project (resource={show(name)}).")


def detached(subscription: str) -> PubsubError:
    return PubsubError(Code.FAILED_PRECONDITION, f"The subscription is detached (resource={show(subscription)}).")


def not_a_pull_subscription(subscription: str, kind: str) -> PubsubError:
    return PubsubError(
        Code.FAILED_PRECONDITION,
        f"Only pull subscriptions can be pulled; this one has a {kind} (resource={show(subscription)}).",
    )


def snapshot_of_another_topic(snapshot: str, subscription: str) -> PubsubError:
    return PubsubError(
        Code.FAILED_PRECONDITION,
        f"The snapshot and the subscription {show(subscription)} do not belong to the same topic "
        f"(resource={show(snapshot)}).",
    )


def snapshot_would_expire(name: str, lifetime: str, least: str) -> PubsubError:
    return PubsubError(
        Code.FAILED_PRECONDITION,
        f"The snapshot would expire in {lifetime}, and at least {least} are required: the subscription has a message "
        f"that is nearly as old as a snapshot may get (resource={show(name)}).",
    )


# Names


def malformed_name(argument: str, value: str, pattern: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid resource name in {argument}: {show(value) or '(empty)'}; expected {pattern} "
        f"(name={show(value)}) (argument={argument}).",
    )


def malformed_id(argument: str, value: str, identifier: str, rule: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid resource id {show(identifier) or '(empty)'} in {argument}; {rule} "
        f"(name={show(value)}) (argument={argument}).",
    )


# Fields


def missing(argument: str) -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, f"Missing required field {argument} (argument={argument}).")


def out_of_range(argument: str, value: object, low: object, high: object, unit: str = "") -> PubsubError:
    return invalid(argument, value, f"must be between {low} and {high}{' ' + unit if unit else ''}")


def too_small(argument: str, value: object, low: object, unit: str = "") -> PubsubError:
    return invalid(argument, value, f"must be at least {low}{' ' + unit if unit else ''}")


def malformed(argument: str, value: object, expected: str) -> PubsubError:
    return invalid(argument, value, f"expected {expected}")


def unsupported_choice(argument: str, value: object, choices: Sequence[str]) -> PubsubError:
    return invalid(argument, value, f"must be one of {', '.join(choices)}")


def exclusive_fields(fields: Sequence[str]) -> PubsubError:
    named = ", ".join(fields)
    return PubsubError(Code.INVALID_ARGUMENT, f"At most one of {named} may be set (argument={fields[-1]}).")


def exactly_once_needs_pull(kind: str) -> PubsubError:
    return invalid("enable_exactly_once_delivery", True, f"not allowed together with {kind}")


def ttl_below_retention(ttl: str, retention: str) -> PubsubError:
    return invalid("expiration_policy.ttl", ttl, f"must not be shorter than message_retention_duration ({retention})")


def backoff_order(minimum: str, maximum: str) -> PubsubError:
    return invalid("retry_policy.maximum_backoff", maximum, f"must not be below minimum_backoff ({minimum})")


def too_many_labels(count: int, limit: int) -> PubsubError:
    return invalid("labels", f"{count} labels", f"at most {limit} are allowed")


def bad_label(part: str, value: str, rule: str) -> PubsubError:
    return invalid("labels", f"{part} {value!r}", rule)


def too_long(argument: str, value: str, size: int, limit: int) -> PubsubError:
    return invalid(argument, value, f"{size} bytes, at most {limit} are allowed")


def bad_filter(source: str, position: int, expectation: str) -> PubsubError:
    """`position`: where `source` stops being a filter, in characters from 1."""
    return invalid("filter", source, f"at character {position}, expected {expectation}")


# Update masks


def mask_missing() -> PubsubError:
    return PubsubError(Code.INVALID_ARGUMENT, "The update mask must name at least one field (argument=update_mask).")


def mask_unknown_path(path: str, resource: str) -> PubsubError:
    return invalid("update_mask", path, f"no such field of {resource}")


def mask_immutable_path(path: str) -> PubsubError:
    return invalid("update_mask", path, "this field cannot be changed after creation")


def mask_output_only_path(path: str) -> PubsubError:
    return invalid("update_mask", path, "this field is output only")


def mask_with_wildcard() -> PubsubError:
    return invalid("update_mask", "*", "must be the only path")


# Lists


def bad_page_token(token: str) -> PubsubError:
    return invalid("page_token", token, "not a token of this list")


# Publishing


def no_messages() -> PubsubError:
    return invalid("messages", "0 messages", "at least one is required")


def too_many_messages(count: int, limit: int) -> PubsubError:
    return invalid("messages", f"{count} messages", f"at most {limit} are allowed in a request")


def publish_too_large(size: int, limit: int) -> PubsubError:
    return invalid("messages", f"a request of {size} bytes", f"at most {limit} bytes are allowed")


def empty_message(index: int) -> PubsubError:
    return invalid(f"messages[{index}]", "a message without data", "data or at least one attribute is required")


def too_many_attributes(index: int, count: int, limit: int) -> PubsubError:
    return invalid(f"messages[{index}].attributes", f"{count} attributes", f"at most {limit} are allowed")


def bad_attribute_key(index: int, key: str, rule: str) -> PubsubError:
    return invalid(f"messages[{index}].attributes", f"key {show(key)!r}", rule)


def attribute_value_too_long(index: int, key: str, size: int, limit: int) -> PubsubError:
    return invalid(
        f"messages[{index}].attributes", f"{size} bytes for key {show(key)!r}", f"at most {limit} bytes are allowed"
    )


def mixed_ordering_keys(index: int, first: str, other: str) -> PubsubError:
    return PubsubError(
        Code.FAILED_PRECONDITION,
        f"All messages of a request must have the same ordering key; messages[0] has {show(first)!r}, "
        f"messages[{index}] has {show(other)!r} (argument=messages[{index}].ordering_key).",
    )


# Acknowledging


def no_ack_ids() -> PubsubError:
    return invalid("ack_ids", "0 ack ids", "at least one is required")


def malformed_ack_id(ack_id: str) -> PubsubError:
    return invalid("ack_ids", ack_id, "not an ack id")


def foreign_ack_id(ack_id: str, subscription: str) -> PubsubError:
    return invalid("ack_ids", ack_id, f"an ack id of another subscription than {subscription}")


def ack_ids_refused(failures: Mapping[str, str]) -> PubsubError:
    """Under exactly-once: `failures` are codes by ack id; clients retry what is transient, so that comes first."""
    ordered = dict(sorted(failures.items(), key=lambda item: not item[1].startswith("TRANSIENT_")))
    some = next(iter(ordered))
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid value for ack_ids: {len(failures)} of them, {show(some)} among them ({failures[some]}); an ack id is "
        "valid until its deadline, a newer delivery, an ack or a nack, and in publish order (argument=ack_ids).",
        reason="EXACTLY_ONCE_ACKID_FAILURE",
        metadata=ordered,
    )


def ack_request_too_large(size: int, limit: int) -> PubsubError:
    return invalid("ack_ids", f"a request of {size} bytes", f"at most {limit} bytes are allowed")


# Streams and feeds


def only_on_the_first_request(argument: str, value: object) -> PubsubError:
    return invalid(argument, value, "may only be set on the first request of a stream")


def lengths_differ(argument: str, count: int, other: str, other_count: int) -> PubsubError:
    return invalid(argument, f"{count} values", f"{other} has {other_count}; each needs its counterpart")


def event_subscription_exists(name: str) -> PubsubError:
    return PubsubError(Code.ALREADY_EXISTS, f"The connection has an event subscription {show(name)} already.")


# Calls


def not_implemented(method: str) -> PubsubError:
    return PubsubError(Code.UNIMPLEMENTED, f"{method} is not implemented by this emulator yet.")


def unknown_method(path: str) -> PubsubError:
    return PubsubError(Code.UNIMPLEMENTED, f"Method not found: {show(path)}.")


def internal(cause: BaseException) -> PubsubError:
    return PubsubError(
        Code.INTERNAL, f"Internal error of the emulator: {type(cause).__name__}; the log has the traceback."
    )


def shutting_down() -> PubsubError:
    return PubsubError(Code.UNAVAILABLE, "The emulator is shutting down.")
