"""What `tools/unity_build.py` is made of: finding an editor, running it, reading its log."""
