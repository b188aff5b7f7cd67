"""Add this package's configs to Hydra's search path."""

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class HaproxyRepairSearchPath(SearchPathPlugin):
    """Append ``conf`` of the package for ragsweep's own command: every Hydra program of the environment loads it."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append to the search path, so that the shipped ``conf`` takes precedence."""
        from ragsweep.sweep.compose import config_folder

        main = next((entry.path for entry in search_path.get_path() if entry.provider == "main"), "")
        if main and Path(main.removeprefix("file://")).resolve() == config_folder():
            search_path.append("haproxy-repair", "pkg://haproxy_repair.conf")
