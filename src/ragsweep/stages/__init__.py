"""Compute every distinct stage once: node graph, plan, executor, store."""
