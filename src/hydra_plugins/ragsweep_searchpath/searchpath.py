"""Let Hydra find named sweeps, wherever the command is typed: the project's own first, then the shipped ones."""

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from hydra_plugins.ragsweep_searchpath._source import SweepsSource


class RagsweepSearchPath(SearchPathPlugin):
    """Add ``conf`` and ``sweeps`` of the current folder, and the shipped ``sweeps``."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append to the search path, so that the shipped ``conf`` keeps the first word.

        Only for our own command: the plugin is seen by every Hydra program of the environment.
        """
        from ragsweep.sweep.composition import config_folder

        main = next((entry.path for entry in search_path.get_path() if entry.provider == "main"), "")
        if not main or Path(main.removeprefix("file://")).resolve() != config_folder():
            return
        Plugins.instance().register(SweepsSource)
        own = Path.cwd() / "conf"
        if own.is_dir() and own.resolve() != config_folder():
            search_path.append("ragsweep-own", f"file://{own}")
        folders = dict.fromkeys([Path.cwd() / "sweeps", config_folder().parent / "sweeps"])
        for folder in folders:
            if folder.is_dir():
                search_path.append("ragsweep-sweeps", f"sweeps://{folder}")
