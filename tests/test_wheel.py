"""The library's wheel works alone: without the repository and without the bench."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
# Nothing of this process leads to the sources.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **options):
    options = {"capture_output": True, "text": True, "env": ENVIRONMENT} | options
    return subprocess.run([str(part) for part in command], **options)


def pip(*arguments):
    done = run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel, with the hatchling of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    build = run(sys.executable, "-m", "pip", "wheel", *options, ROOT, env=dict(os.environ))
    assert build.returncode == 0, build.stdout + build.stderr
    (file,) = folder.glob("ma_sbi-*.whl")
    return file


def linked(folder, wheel):
    """Install the wheel beside links to the third-party packages of this environment."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(name).iterdir():
            ours = "ma_sbi" in entry.name
            if not ours and entry.suffix != ".pth" and entry.name != "__pycache__":
                (site / entry.name).symlink_to(entry)
    pip("--python", folder / "bin" / "python", "install", "--no-deps", wheel)


def fresh(folder, wheel):
    """Install the wheel and its dependencies into an empty environment."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    into = ["--python", folder / "bin" / "python", "install"]
    pinned = ["--constraint", ROOT / "constraints.txt"]
    # torch comes first and pinned: an open range would pass by a CPU build.
    pip(*into, *pinned, "torch")
    pip(*into, *pinned, wheel)


@pytest.fixture(
    scope="module", params=[linked, pytest.param(fresh, marks=pytest.mark.slow)]
)
def installed(request, wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.__name__)
    request.param(folder, wheel)
    return folder / "bin"


@pytest.mark.slow
def test_the_wheel_is_what_is_imported_and_the_bench_is_not_there(installed, tmp_path):
    found = run(
        installed / "python", "-c", "import ma_sbi; print(ma_sbi.__file__)", cwd=tmp_path
    )
    assert Path(found.stdout).is_relative_to(installed.parent)
    bench = run(installed / "python", "-c", "import ma_sbi_bench", cwd=tmp_path)
    assert "No module named 'ma_sbi_bench'" in bench.stderr


@pytest.mark.slow
def test_the_demo_runs(installed, tmp_path):
    small = ["--simulations=1000", "--max-epochs=2", "--draws=200", "--out=out"]
    done = run(installed / "ma-sbi", "demo", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "MA-SBI" in done.stdout
    assert (tmp_path / "out" / "posteriors.png").exists()


@pytest.mark.slow
def test_check_runs_and_writes_its_page(installed, tmp_path):
    rng = np.random.default_rng(0)
    x_sim, regime = rng.normal(size=(200, 2)), rng.integers(2, size=200)
    x_obs = x_sim + np.array([[0.0, 0.0], [1.0, -1.0]])[regime]
    context = np.array(["calm", "storm"])[regime]
    np.savez(tmp_path / "rows.npz", x_obs=x_obs, x_sim=x_sim, context=context)
    options = ("--html=page.html", "--require=use", "--require=use with care")
    done = run(installed / "ma-sbi", "check", "rows.npz", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize("command", ["methods", "report", "reproduce"])
def test_the_commands_of_the_bench_say_how_to_get_it(installed, command, tmp_path):
    done = run(installed / "ma-sbi", command, "all", "--quick", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install ma-sbi-bench" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("installed", [fresh], indirect=True)
def test_the_wheel_brings_what_it_needs_and_nothing_of_the_bench(installed):
    pip("--python", installed / "python", "check")
    listed = pip("--python", installed / "python", "list", "--format=freeze")
    names = {line.split("==")[0].lower() for line in listed.splitlines()}
    assert {"torch", "sbi", "zuko", "matplotlib"} <= names
    assert not {"pooch", "dask", "distributed", "pot", "pytest"} & names
