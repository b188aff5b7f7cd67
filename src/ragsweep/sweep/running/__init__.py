"""Run jobs: prepare, launch and evaluate their configs, and record and track the results."""
