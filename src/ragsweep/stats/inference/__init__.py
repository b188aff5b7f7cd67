"""Inference from one matrix of scores (configs, questions)."""
