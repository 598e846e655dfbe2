"""Hypothesis without deadlines: the time of one example depends on what else the machine does."""

from hypothesis import settings

settings.register_profile("ops", deadline=None, max_examples=30)
settings.load_profile("ops")
