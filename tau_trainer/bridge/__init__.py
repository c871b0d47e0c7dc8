"""The wire: messages, side channels, servers and processes of engines."""
