"""Make Hydra find named sweeps: first in the folder ``sweeps`` of the current folder, then among the shipped sweeps.

Hydra's file source would need the parent folder of ``sweeps`` on the search path and would turn every folder in that
parent into a config group. A folder of sweeps therefore has its own config source, whose files are the options of the
group ``sweeps``.
"""

import builtins
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

GROUP = "sweeps"


class SweepsSource(ConfigSource):
    """The config source for search path entries ``sweeps://FOLDER``: files in FOLDER are configs ``sweeps/NAME``."""

    @staticmethod
    def scheme() -> str:
        """Return the scheme of the search path entries that this source reads."""
        return "sweeps"

    def load_config(self, config_path: str) -> ConfigResult:
        """Load the sweep ``sweeps/NAME``; raise ConfigLoadError if there is no such sweep.

        Without an ``@package`` header, the keys of the sweep are merged into the root of the config.
        """
        file = self._file(config_path)
        if not file.is_file():
            raise ConfigLoadError(f"Config not found : {file}")
        text = file.read_text(encoding="utf-8")
        first = text.partition("\n")[0].split()
        package = first[2] if first[:2] == ["#", "@package"] and len(first) == 3 else "_global_"
        config = OmegaConf.create(text) if text.strip() else OmegaConf.create()
        return ConfigResult(
            config=config, path=f"{self.scheme()}://{self.path}", provider=self.provider, header={"package": package}
        )

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is the group ``sweeps`` or the root."""
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        """Return whether the path is an existing sweep, ``sweeps/NAME``."""
        return config_path.startswith(f"{GROUP}/") and self._file(config_path).is_file()

    def available(self) -> bool:
        """Return whether the folder of sweeps exists."""
        return Path(self.path).is_dir()

    def list(self, config_path: str, results_filter: ObjectType | None) -> builtins.list[str]:
        """Return ["sweeps"] for the root path, the sorted sweep names for the group ``sweeps``, and [] for other paths.

        ``results_filter`` restricts the result to groups or to configs; None restricts nothing.
        """
        if config_path == "":
            return [GROUP] if results_filter in (None, ObjectType.GROUP) else []
        if config_path != GROUP or results_filter == ObjectType.GROUP:
            return []
        return sorted(path.stem for path in Path(self.path).glob("*.yaml"))

    def _file(self, config_path: str) -> Path:
        name = config_path.removeprefix(f"{GROUP}/")
        return Path(self.path, name if name.endswith(".yaml") else f"{name}.yaml")


class RagsweepSearchPath(SearchPathPlugin):
    """The plugin that makes Hydra search ``conf`` and ``sweeps`` of the current folder, and the shipped ``sweeps``."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append ``conf`` and ``sweeps`` of the current folder, and the shipped ``sweeps``, to the search path.

        Missing folders are skipped, and the shipped ``conf`` has precedence. Do nothing in other Hydra
        programs: they load this plugin, too, if it is installed in their environment.
        """
        from ragsweep.sweep.composing.compose import config_folder

        main = next((entry.path for entry in search_path.get_path() if entry.provider == "main"), "")
        if not main or Path(main.removeprefix("file://")).resolve() != config_folder():
            return
        own = Path.cwd() / "conf"
        if own.is_dir() and own.resolve() != config_folder():
            search_path.append("ragsweep-own", f"file://{own}")
        for folder in dict.fromkeys([Path.cwd() / GROUP, config_folder().parent / GROUP]):
            if folder.is_dir():
                search_path.append("ragsweep-sweeps", f"{GROUP}://{folder}")
