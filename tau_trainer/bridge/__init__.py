"""Communication with engines: messages, side channels, servers and processes."""
