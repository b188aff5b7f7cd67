"""Scores in, conclusions out."""
