"""What tests share: results, parts, models and commands to test with."""
