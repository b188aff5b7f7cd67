"""People's judgements of questions and passages, on a local page."""
