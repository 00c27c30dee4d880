"""gRPC over the HTTP/2 of `wire/http2`: calls, their messages and their status."""
