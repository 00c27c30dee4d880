"""Measures this server beside Google's emulator: `python -m bench`."""
