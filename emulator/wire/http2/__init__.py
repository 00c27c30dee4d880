"""HTTP/2 for a server that answers gRPC: frames, header blocks, streams, one connection. No I/O.

RULE: bytes in, bytes out. Nothing here knows gRPC, an event loop or a clock.
"""
