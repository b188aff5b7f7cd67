"""Configs of the example, which its plugin adds to the search path of Hydra."""
