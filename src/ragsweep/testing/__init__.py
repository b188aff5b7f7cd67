"""Contract tests for parts: inherit from a contract, set your part, and pytest checks what ragsweep requires of it."""
