"""Keeps sbi from writing TensorBoard files into the working directory."""

from typing import Any


class NoTracker:
    """Takes what sbi logs, and forgets it."""

    log_dir = None

    def log_metric(self, name: str, value: float, step: int | None = None) -> None: ...

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None: ...

    def log_params(self, params: dict[str, Any]) -> None: ...

    def add_figure(self, name: str, figure: Any, step: int | None = None) -> None: ...

    def flush(self) -> None: ...
