"""Files and texts that tests read: those of other tools, those of attackers, and mutated or damaged ones."""
