"""The HTTP/2 layer, in memory: bytes in, frames out."""
