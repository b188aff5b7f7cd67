"""Searches: the directions of their objectives, their plan, their run, and the summary of their study."""
