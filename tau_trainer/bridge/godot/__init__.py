"""Games with Godot RL Agents: JSON messages over a socket, builds, and recorded play."""
