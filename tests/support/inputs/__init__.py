"""Files and texts that tests read: of other tools, of attackers, changed or damaged."""
