"""Briscola, version 0, under the names that PettingZoo users expect (docs/environment.md)."""

from briscola_env.envs.aec import BriscolaAECEnv as raw_env
from briscola_env.envs.aec import env

__all__ = ["env", "raw_env"]
