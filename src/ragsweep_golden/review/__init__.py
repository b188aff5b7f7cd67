"""Let people judge questions and passages on a local page."""
