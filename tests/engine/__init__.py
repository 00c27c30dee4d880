"""The engine, rule by rule and against a model: no sockets, no sleep, a clock that a test turns."""
