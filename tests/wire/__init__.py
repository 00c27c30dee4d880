"""Tests of the wire: bytes in, bytes out."""
