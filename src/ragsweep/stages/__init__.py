"""Compute every distinct stage once: the graph of nodes, the plan, the executor and the store."""
