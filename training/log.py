"""The log of a run: TensorBoard events and one JSON line an iteration."""

import contextlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from torch.utils.tensorboard import SummaryWriter

from briscola_env.checkpoint import replace_file
from training.config import TrainingConfig

METRICS = "metrics.jsonl"


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; OSError if it cannot be read, ValueError if it is not one.

    The last one may be half a line, if the run was killed or the disk was full: it does not count.
    """
    lines = path.read_text().splitlines()
    metrics = [json.loads(line) for line in lines[:-1]]
    with contextlib.suppress(json.JSONDecodeError):
        metrics += [json.loads(line) for line in lines[-1:]]
    return metrics


class Log:
    """Metrics of a run, in its folder; a log that is there is continued after `iteration`."""

    def __init__(
        self, run_dir: Path, config: TrainingConfig, iteration: int, decisions: int
    ) -> None:
        path = run_dir / METRICS
        # Lines written after the last save belong to iterations that are done again.
        done = read_metrics(path) if path.exists() else []
        kept = [json.dumps(line) + "\n" for line in done if line["iteration"] <= iteration]
        replace_file(path, "".join(kept).encode())
        self.file = path.open("a")
        # What stops TensorBoard's thread, like a full disk, is raised again where it is written to:
        # its traceback would say the same a second time.
        self.excepthook, threading.excepthook = threading.excepthook, self._hear_of_thread
        self.events = SummaryWriter(str(run_dir), purge_step=decisions + 1)
        settings = yaml.safe_dump(config.model_dump(), sort_keys=False)
        self.events.add_text("config", f"```yaml\n{settings}```", decisions)

    def write(self, iteration: int, decisions: int, metrics: Mapping[str, float]) -> None:
        """The numbers of an iteration, at the number of decisions so far."""
        for name, value in metrics.items():
            self.events.add_scalar(name, value, decisions)
        progress = {"iteration": iteration, "decisions": decisions}
        print(json.dumps({**progress, **metrics}), file=self.file, flush=True)

    def _hear_of_thread(self, failure: threading.ExceptHookArgs) -> None:
        if not issubclass(failure.exc_type, OSError):
            self.excepthook(failure)

    def close(self) -> None:
        """Flush everything."""
        try:
            self.file.close()
            self.events.close()
        finally:
            threading.excepthook = self.excepthook
