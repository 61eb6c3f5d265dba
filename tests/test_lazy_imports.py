"""What takes seconds to import is imported where it is used."""

import subprocess
import sys

import pytest

SHIFT = """
import torch
from ma_sbi import CorrectedPosterior, HashEncoder, ShiftCorrector, from_callable
x_sim = torch.randn(40, 2)
notes = ["reads high", "all is well"] * 20
x_obs = x_sim + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(20, 1)
corrector = ShiftCorrector(HashEncoder()).fit(notes, x_obs, x_sim)
assert torch.allclose(corrector.correct(x_obs, notes), x_sim, atol=1e-4)
"""
CORRECTED = """
from torch.distributions import Independent, Uniform
prior = Independent(Uniform(-9 * torch.ones(2), 9 * torch.ones(2)), 1)
posterior = from_callable(
    lambda n, x: x + torch.randn(n, 2), lambda theta, x: -theta.norm(dim=1), prior=prior
)
corrected = CorrectedPosterior(posterior, corrector)
assert corrected.sample(5, x_obs, notes, seed=0).shape == (5, 40, 2)
assert corrected.log_prob(torch.zeros(1, 40, 2), x_obs, notes).shape == (1, 40)
"""
HELP = """
from typer.testing import CliRunner
from ma_sbi.cli import app
for command in ("demo", "check", "reproduce"):
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
"""
REFUSED = """
import pathlib, tempfile
from typer.testing import CliRunner
from ma_sbi.cli import app
with tempfile.TemporaryDirectory() as folder:
    for content in ("", "x_obs,context\\n", "x_obs,context\\nhigh,a\\n"):
        path = pathlib.Path(folder) / "rows.csv"
        path.write_text(content)
        assert CliRunner().invoke(app, ["check", str(path)]).exit_code == 2
"""
CODE = {
    "import": ("import ma_sbi", {"torch", "sbi", "matplotlib", "sklearn"}),
    "help": (HELP, {"torch", "sbi", "matplotlib", "sklearn"}),
    "a bad file": (REFUSED, {"torch", "sbi", "matplotlib", "sklearn"}),
    "ShiftCorrector": (SHIFT, {"sbi", "zuko", "matplotlib"}),
    "CorrectedPosterior": (SHIFT + CORRECTED, {"sbi", "zuko", "matplotlib"}),
    "metrics": (
        "import ma_sbi.metrics, ma_sbi.conformal_regions",
        {"sbi", "zuko", "matplotlib"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_what_is_not_used_is_not_imported(name):
    code, unused = CODE[name]
    code = f"{code}\nimport sys\nprint(sorted({unused!r} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"
