"""Which configs are really better: what one matrix of scores (configs, questions) says, and what it cannot say."""
