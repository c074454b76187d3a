"""The arena: who is better, by how much, and how sure is that (docs/evaluation.md)."""

from briscola_env.arena.bradley_terry import Ratings, ratings
from briscola_env.arena.entrants import load_policy
from briscola_env.arena.match import Match, evaluate, play_until_decided
from briscola_env.arena.phases import Phases, by_phase
from briscola_env.arena.play import Deals, episode_seeds, match_seating, play_deals, play_parts
from briscola_env.arena.stats import Estimate, Sprt, sprt

__all__ = [
    "Deals",
    "Estimate",
    "Match",
    "Phases",
    "Ratings",
    "Sprt",
    "by_phase",
    "episode_seeds",
    "evaluate",
    "load_policy",
    "match_seating",
    "play_deals",
    "play_parts",
    "play_until_decided",
    "ratings",
    "sprt",
]
