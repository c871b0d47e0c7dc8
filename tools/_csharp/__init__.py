"""The parts behind `tools/csharp.py`: fetching, compiling, and the Unity project's assemblies."""
