"""How bytes arrive and leave: one port, REST over HTTP/1.1; nothing here knows what a topic is."""
