"""Games of this package, as plug-ins: they are found by name (:mod:`tau_trainer.plugins`), and nothing imports them."""
