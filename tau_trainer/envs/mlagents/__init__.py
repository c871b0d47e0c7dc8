"""mlagents-envs' low-level API on Tau Trainer's bridge: replace ``mlagents_envs.`` by ``tau_trainer.envs.mlagents.``.

Modules, names, signatures and meanings are those of mlagents-envs 1.1.0 (API 1.5.0); docs/guides/python-api.md says
where they differ.
"""
