"""The rooms of ragsweep_golden import downward, by the floors of its README."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "ragsweep_golden"
LINE = re.compile(r"^\| (\d) \| `(\w+)` \|", re.MULTILINE)


def test_a_room_imports_only_rooms_on_lower_floors() -> None:
    floors = {name: int(floor) for floor, name in LINE.findall((ROOT / "README.md").read_text())}
    assert floors.keys() == {path.parent.name for path in ROOT.glob("*/__init__.py")}
    wrong = []
    for path in ROOT.glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ragsweep_golden."):
                room, own = str(node.module).split(".")[1], path.parent.name
                wrong += [(path.name, room)] if room != own and floors[room] >= floors[own] else []
    assert wrong == []


def test_no_file_is_longer_than_300_lines() -> None:
    assert max(len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")) <= 300
