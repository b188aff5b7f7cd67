"""A folder of named sweeps as a source of configs: its files are the options of the group ``sweeps``.

A plain file source would need the folder above it on the search path, and everything beside ``sweeps`` would become a
config group.
"""

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult

GROUP = "sweeps"


class SweepsSource(FileConfigSource):
    """Read ``sweeps/<name>`` from the folder that the path names."""

    @staticmethod
    def scheme() -> str:
        """Name the scheme of the search path's entries."""
        return "sweeps"

    def load_config(self, config_path: str) -> ConfigResult:
        """Load a sweep."""
        return super().load_config(_inside(config_path))

    def is_group(self, config_path: str) -> bool:
        """Say whether the path is our one group, or the root that holds it."""
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        """Say whether there is a sweep of this name."""
        return config_path.startswith(f"{GROUP}/") and super().is_config(_inside(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """List the group, or the sweeps in it."""
        if config_path == "":
            return [GROUP] if results_filter in (None, ObjectType.GROUP) else []
        if config_path != GROUP or results_filter == ObjectType.GROUP:
            return []
        return sorted(path.stem for path in Path(self.path).glob("*.yaml"))


def _inside(config_path: str) -> str:
    return config_path.removeprefix(f"{GROUP}/")
