"""Texts and their places in documents: short quotes, passages compared by words, answers looked up."""
