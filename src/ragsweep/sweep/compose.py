"""The folder of the shipped configs, for the search path plugins of other packages."""

from ragsweep.sweep.composing.compose import config_folder as config_folder
