"""Keep what was measured."""
