"""Contract tests for parts: inherit one, set your part, and pytest checks the framework's requirements."""
