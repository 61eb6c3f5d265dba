"""Files that the bench reads with loaders of its own are refused as the library's are."""

from functools import lru_cache

import pytest
import torch
from sbi.utils import BoxUniform

from ma_sbi_bench.engine.models import fit_backbone, kinds
from tests.crafted_models import BYTES, MUTATIONS, open_model

PRIOR = BoxUniform(-torch.ones(2), torch.ones(2))
KINDS = ("embedded", "nnpe")  # the others have the loaders of the library


def _load(kind, path):
    return kinds()[kind][1](path, PRIOR)


@lru_cache
def _trained(kind):
    rng = torch.Generator().manual_seed(0)
    theta = 2 * torch.rand(100, 2, generator=rng) - 1
    x = theta + 0.1 * torch.randn(100, 2, generator=rng)
    fit = fit_backbone(kind, max_epochs=2, num_transforms=2, hidden=(9, 9))
    return fit(PRIOR, theta, x, seed=0)


def _write(kind, folder):
    path = folder / "model.posterior"
    _trained(kind).save(path)
    return path


# The prior is passed, and not read from the file.
MUTATED = [
    name for name, (of, _) in MUTATIONS.items() if "flow" in of and "prior" not in name
]
pytestmark = pytest.mark.filterwarnings("ignore:training stopped at max_epochs")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_nobody_touched_is_read(kind, tmp_path):
    path = _write(kind, tmp_path)
    open_model(path, "flow").write(path)
    assert _load(kind, path).sample(2, torch.zeros(1, 2), seed=0).shape == (2, 1, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MUTATED)
def test_a_crafted_model_is_refused_by_name(kind, name, tmp_path):
    path = _write(kind, tmp_path)
    model = open_model(path, "flow")
    MUTATIONS[name][1](model)
    model.write(path)
    with pytest.raises(ValueError, match="model.posterior"):
        _load(kind, path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_model_are_refused_by_name(kind, name, tmp_path):
    path = _write(kind, tmp_path)
    path.write_bytes(BYTES[name](path.read_bytes()))
    with pytest.raises(ValueError, match="model.posterior"):
        _load(kind, path)


@pytest.mark.parametrize("damage", [lambda one: one[:1], lambda one: one * torch.nan])
def test_the_scale_of_nnpe_is_checked(damage, tmp_path):
    path = _write("nnpe", tmp_path)
    model = open_model(path, "flow")
    model.tensors["standardise/scale"] = damage(model.tensors["standardise/scale"])
    model.write(path)
    with pytest.raises(ValueError, match="model.posterior"):
        _load("nnpe", path)
