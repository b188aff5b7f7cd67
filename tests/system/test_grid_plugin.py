"""The grid sweeper in a Hydra program that knows nothing of ragsweep."""

from pathlib import Path

from support.commands import call

APP = """
import hydra

@hydra.main(version_base="1.3", config_path=None, config_name="config")
def main(config):
    print("ran", config.x, config.y)
    if config.x == 13:
        raise ValueError("unlucky")

main()
"""


def test_cases_run_as_a_union_and_a_failed_job_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "config.yaml").write_text("x: 1\ny: 1\n")
    cases = ["hydra.sweeper.cases=[['x=5'],['x=13']]", "hydra.sweeper.max_batch_size=1"]
    done = call(tmp_path, "app.py", "--config-dir", ".", "-m", "hydra/sweeper=grid", *cases, "y=1,2")
    ran = [line for line in done.stdout.splitlines() if line.startswith("ran")]
    assert ran == ["ran 5 1", "ran 5 2", "ran 13 1", "ran 13 2"]
    assert done.returncode == 1
    assert "unlucky" in done.stderr
    assert (next((tmp_path / "multirun").glob("*/*")) / "multirun.yaml").exists()
