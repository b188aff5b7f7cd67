"""Contract tests for parts: inherit one, name your part, and pytest checks what the framework relies on."""
