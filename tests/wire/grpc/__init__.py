"""Tests of the gRPC layer, mostly in memory: no socket, and a clock that the test moves."""
