"""Rerankers read question and chunk together and put the best candidates in a new order."""

from ragsweep.rerankers.none import NoReranker

__all__ = ["NoReranker"]
