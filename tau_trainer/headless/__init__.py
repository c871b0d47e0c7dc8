"""The headless engine: a program that replaces a Unity build.

It is started with a build's flags, connects as a gRPC client, speaks ML-Agents' protocol and plays a scene made of
arrays. It does not depend on the trainer: Tau Trainer and ``mlagents-learn`` drive it in the same way.

``python -m tau_trainer.headless --scene balance --mlagents-port 5005`` runs it;
:func:`tau_trainer.headless.build.write_build` writes a launcher. ``__main__`` must set numpy's threads before numpy is
imported, so nothing is imported here.
"""
