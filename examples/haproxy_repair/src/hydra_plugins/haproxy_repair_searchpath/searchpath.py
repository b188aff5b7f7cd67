"""Add this package's configs to Hydra's search path."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class HaproxyRepairSearchPath(SearchPathPlugin):
    """Append ``conf`` of the package, so that a folder's own options of the same name take precedence."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append to the search path."""
        search_path.append("haproxy-repair", "pkg://haproxy_repair.conf")
