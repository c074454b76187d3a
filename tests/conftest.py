"""Hypothesis draws the same examples everywhere, keeps no database, and knows no deadline."""

from hypothesis import settings

settings.register_profile("suite", derandomize=True, database=None, deadline=None)
settings.load_profile("suite")
