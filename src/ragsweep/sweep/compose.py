"""Provide the folder of the shipped configs to the search path plugins of other packages."""

from ragsweep.sweep.composing.compose import config_folder as config_folder
