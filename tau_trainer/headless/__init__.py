"""The headless engine: a program that replaces a Unity build.

You start it with the flags of a build. It connects as a gRPC client, uses ML-Agents' protocol and plays a scene that
consists of arrays. It works with any ML-Agents trainer: Tau Trainer and ``mlagents-learn`` drive it in the same way.

``python -m tau_trainer.headless --scene balance --mlagents-port 5005`` runs it;
:func:`tau_trainer.headless.build.write_build` writes a launcher. This module imports nothing, because ``__main__`` must
set numpy's number of threads before numpy is imported.
"""
