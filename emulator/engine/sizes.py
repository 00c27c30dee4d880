"""How many bytes protobuf takes for a field whose length stands before it (encoding: protobuf.dev)."""


def field_size(length: int) -> int:
    """Of a field with a number below 16 and so many bytes: its tag, its length in seven bits a byte, and they."""
    return 1 + max(1, (length.bit_length() + 6) // 7) + length


def map_entry_size(key: str, value: str) -> int:
    """Of an entry of a map of strings, a field like any other."""
    return field_size(field_size(len(key.encode())) + field_size(len(value.encode())))
