"""What Pub/Sub says: protobuf in and out, one function per RPC, no sockets."""
