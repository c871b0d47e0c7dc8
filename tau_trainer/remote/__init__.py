"""This program's other processes: their start and end, messages, and shared memory."""
