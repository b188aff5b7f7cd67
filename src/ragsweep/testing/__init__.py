"""Contract tests for parts: inherit one, name your part, and pytest checks the framework's requirements."""
