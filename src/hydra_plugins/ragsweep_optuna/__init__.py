"""The former name of the plugin ``optuna_sweeper``."""
