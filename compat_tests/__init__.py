"""The real clients against a server that was started as a user starts it, and Google's emulator as a second target."""
