"""Tests of the services that gRPC itself defines: health and reflection, in memory and with real clients."""
