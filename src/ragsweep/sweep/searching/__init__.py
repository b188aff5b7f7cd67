"""Searches: their plan, their run, and the summary of their study."""
