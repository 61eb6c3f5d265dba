"""Where cells are run: posteriors that are trained once and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.store import written_whole

__all__ = ["Laboratory", "fit_backbone"]


def fit_backbone(kind: str, **options: Any) -> Callable[..., Any]:
    """Return the function that trains a kind of posterior with these options."""
    from ma_sbi_bench.engine import training

    return training.fit_backbone(kind, **options)


class Laboratory:
    """Keeps trained posteriors in a folder; the same definition is trained once.

    Args:
        folder: Folder of the posteriors; made when the first one is trained.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def has(self, backbone: Backbone) -> bool:
        """Tell whether a posterior is trained already."""
        return self._file(backbone).exists()

    def posterior(self, backbone: Backbone) -> Any:
        """Read a posterior, after training it if need be."""
        # A process whose cells need no posterior starts in half the time.
        from ma_sbi_bench.engine.training import load_trained, train

        file = self._file(backbone)
        if not file.exists():
            posterior = train(backbone)
            with written_whole(file) as unfinished:
                posterior.save(unfinished)
        return load_trained(backbone, file)

    def _file(self, backbone: Backbone) -> Path:
        return self.folder / f"{backbone.key}.posterior"
