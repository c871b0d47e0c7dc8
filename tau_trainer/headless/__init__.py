"""The headless engine: a program that stands where a Unity build stands.

It is started with a build's flags, connects as a gRPC client, speaks ML-Agents' protocol and plays a scene made of
arrays. It knows no trainer: ours and ``mlagents-learn`` drive it alike.

``python -m tau_trainer.headless --scene balance --mlagents-port 5005`` runs it;
:func:`tau_trainer.headless.build.write_build` leaves a launcher. ``__main__`` must set numpy's threads before numpy is
imported, so nothing is imported here.
"""
