"""What is published: wheels and sources of both packages, and the library's wheel alone."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.metadata import Metadata

import ma_sbi

ROOT = Path(__file__).parents[1]
LIBRARY, BENCH = "ma-sbi", "ma-sbi-bench"
PACKAGES = {LIBRARY: ROOT, BENCH: ROOT / "bench"}
# Nothing of this process leads to the sources.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **options):
    options = {"capture_output": True, "text": True, "env": ENVIRONMENT} | options
    return subprocess.run([str(part) for part in command], **options)


def pip(*arguments):
    done = run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel_of(source, folder):
    """Build a wheel, with the hatchling of this environment."""
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    build = run(
        sys.executable, "-m", "pip", "wheel", *options, source, env=dict(os.environ)
    )
    assert build.returncode == 0, build.stdout + build.stderr
    (file,) = folder.glob("*.whl")
    return file


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel):
    """Read what a wheel says of itself, as strictly as the index does."""
    (text,) = (text for name, text in contents(wheel).items() if name.endswith("/METADATA"))
    return Metadata.from_email(text, validate=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return wheel_of(PACKAGES[LIBRARY], tmp_path_factory.mktemp(LIBRARY))


@pytest.fixture(scope="module")
def wheels(wheel, tmp_path_factory):
    """The wheels of both packages, by name."""
    bench = wheel_of(PACKAGES[BENCH], tmp_path_factory.mktemp(BENCH))
    return {LIBRARY: wheel, BENCH: bench}


def linked(folder, *wheels):
    """Install wheels beside links to the third-party packages of this environment."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(name).iterdir():
            ours = "ma_sbi" in entry.name
            if not ours and entry.suffix != ".pth" and entry.name != "__pycache__":
                (site / entry.name).symlink_to(entry)
    pip("--python", folder / "bin" / "python", "install", "--no-deps", *wheels)


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


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_holds_the_package_and_nothing_else(name, wheels):
    source = PACKAGES[name] / "src"
    files = {one for one in source.rglob("*") if one.is_file() and one.suffix != ".pyc"}
    held = {one for one in contents(wheels[name]) if ".dist-info/" not in one}
    assert held == {one.relative_to(source).as_posix() for one in files}
    assert f"{name.replace('-', '_')}/py.typed" in held


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_says_what_the_index_shows(name, wheels):
    said = metadata(wheels[name])
    assert (said.name, str(said.version)) == (name, ma_sbi.__version__)
    assert said.summary
    assert said.requires_python
    assert "Typing :: Typed" in said.classifiers
    assert said.description == (PACKAGES[name] / "README.md").read_text(encoding="utf-8")
    assert said.description_content_type == "text/markdown"
    assert (said.license_expression, said.license_files) == ("Apache-2.0", ["LICENSE"])
    (held,) = (one for at, one in contents(wheels[name]).items() if at.endswith("/LICENSE"))
    assert held == (ROOT / "LICENSE").read_bytes()


def test_both_wheels_suit_each_other(wheels):
    library, bench = (metadata(wheels[name]) for name in PACKAGES)
    assert library.requires_python == bench.requires_python
    assert library.classifiers == bench.classifiers
    assert f"{LIBRARY}=={library.version}" in map(str, bench.requires_dist)
    assert not any(one.name == BENCH for one in library.requires_dist)


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_the_published_sources_give_the_same_wheel(name, wheels, tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path]
    build = run(*command, cwd=PACKAGES[name])
    assert build.returncode == 0, build.stdout + build.stderr
    (source,) = tmp_path.glob("*.tar.gz")
    assert source.name == f"{name.replace('-', '_')}-{ma_sbi.__version__}.tar.gz"
    assert contents(wheel_of(source, tmp_path)) == contents(wheels[name])


@pytest.mark.slow
def test_the_bench_adds_its_commands_to_those_of_the_library(wheels, tmp_path):
    linked(tmp_path / "both", *wheels.values())
    installed = tmp_path / "both" / "bin"
    where = "import ma_sbi_bench; print(ma_sbi_bench.__file__)"
    found = run(installed / "python", "-c", where, cwd=tmp_path)
    assert Path(found.stdout).is_relative_to(installed.parent)
    done = run(installed / "ma-sbi", "methods", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"npe", "ma_sbi", "rnpe"} <= set(done.stdout.split())


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
