"""What a message system is: topics, subscriptions, leases.

RULE: standard library only; nothing here awaits, knows protobuf, HTTP or a socket. A method without `await` is a
transaction on one event loop, so there are no locks.
"""
