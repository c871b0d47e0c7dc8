"""Parts of `tools/unity_build.py`: finding an editor, running it, reading its log."""
