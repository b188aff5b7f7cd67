"""The plugin ``optuna_sweeper`` under its former name."""
