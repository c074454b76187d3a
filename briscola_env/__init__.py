"""Briscola for reinforcement learning: `briscola_v0` for PettingZoo, `Briscola-v0` for Gymnasium.

Importing the package registers the environments and compiles nothing.
"""

import gymnasium
import pettingzoo

from briscola_env.rules import CheckpointError, IllegalActionError, InvalidRulesError, Rules

__version__ = "0.1.0"

__all__ = ["CheckpointError", "IllegalActionError", "InvalidRulesError", "Rules", "__version__"]


def _register() -> None:
    """Enter the environments into the registries, once."""
    if "Briscola-v0" not in gymnasium.registry:
        gymnasium.register(
            "Briscola-v0",
            entry_point="briscola_env.envs.single:BriscolaEnv",
            vector_entry_point="briscola_env.envs.vector:BriscolaVectorEnv",
        )
    # PettingZoo has a registry from 1.27 on.
    registry = getattr(pettingzoo, "aec_registry", None)
    if registry is not None and "briscola-v0" not in registry:
        pettingzoo.register("aec", "briscola-v0", entry_point="briscola_env.briscola_v0:env")


_register()
