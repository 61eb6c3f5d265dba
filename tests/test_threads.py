"""Threads share a global generator and the filters of warnings, and must not show it."""

import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import pytest
import torch

from ma_sbi import CorrectedPosterior, fit_corrector, fit_density, from_callable
from ma_sbi.one_at_a_time import local_filters, one_at_a_time, recorded_warnings
from ma_sbi.randomness import generator, numpy_seeded, seeded
from ma_sbi.simulation import simulate
from tests.some_posteriors import DENSE, POSTERIORS, simulations

NUM_THREADS = 8
X = torch.tensor([[0.5, -0.5, 0.0], [1.0, 1.0, -1.0], [0.0, 0.3, -0.8], [-1.2, 0, 1]])
NOTES = ["high", "calm", "high", "never seen"]


@lru_cache
def corrected(name="flow_maf"):
    _, x_sim = simulations(60, seed=1)
    x_obs = x_sim + torch.tensor([[0.4, 0.0, 0.0], [0.0] * 3]).repeat(30, 1)
    notes = ["high", "calm"] * 30
    corrector = fit_corrector(notes, x_obs, x_sim, seed=0)
    return CorrectedPosterior(POSTERIORS[name](), corrector)


def given_a_context(seed):
    with seeded(seed):  # sbi's interface takes no seed
        return corrected().given("high").sample((20,), x=X[:1])


SAMPLERS = {
    **{
        name: lambda seed, make=make: make().sample(20, X, seed=seed)
        for name, make in POSTERIORS.items()
    },
    "corrected flow": lambda seed: corrected().sample(20, X, NOTES, seed=seed),
    "corrected ddpm": lambda seed: corrected("ddpm").sample(20, X, NOTES, seed=seed),
    "given(context)": given_a_context,
    "density": lambda seed: density().sample(50, seed=seed),
    "simulator that draws with torch": lambda seed: simulate(
        lambda theta: theta + torch.randn(theta.shape), X, seed=seed
    ),
    "simulator that draws with numpy": lambda seed: simulate(
        lambda theta: theta.numpy() + np.random.normal(size=theta.shape),  # noqa: NPY002
        X,
        seed=seed,
    ),
}


@lru_cache
def density():
    return fit_density(simulations(200)[1], max_epochs=2, seed=0)


@pytest.fixture
def impatient_threads():
    """Let threads take turns as often as python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work, count=2 * NUM_THREADS):
    """Do work(0), ..., work(count - 1) in eight threads that start together."""
    start = threading.Barrier(NUM_THREADS)

    def run(thread):
        start.wait(timeout=600)
        return [(n, work(n)) for n in range(thread, count, NUM_THREADS)]

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        found = dict(pair for pairs in pool.map(run, range(NUM_THREADS)) for pair in pairs)
    return [found[number] for number in range(count)]


@pytest.mark.parametrize("name", SAMPLERS)
def test_eight_threads_draw_what_one_thread_draws(name, impatient_threads):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [SAMPLERS[name](seed) for seed in range(2 * NUM_THREADS)]
        state = torch.get_rng_state()
        numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
        filters = warnings.filters[:]
        found = in_threads(SAMPLERS[name])
        assert warnings.filters == filters
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


@pytest.mark.parametrize("name", ["flow_maf", "ddpm", "corrected flow"])
def test_draws_without_a_seed_do_not_disturb_those_with_one(name, impatient_threads):
    def work(number):
        return SAMPLERS[name](number if number % 2 else None)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = in_threads(work)[1::2]
        for number, one in enumerate(found):
            assert torch.equal(one, SAMPLERS[name](2 * number + 1))


def test_a_diffusion_does_not_depend_on_what_others_draw_globally(impatient_threads):
    posterior = POSTERIORS["ddpm"]()
    expected = posterior.sample(20, X, seed=3)
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            torch.rand(3)

    other = threading.Thread(target=disturb)
    other.start()
    try:
        assert all(torch.equal(posterior.sample(20, X, seed=3), expected) for _ in range(5))
    finally:
        stop.set()
        other.join()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DENSE if "deterministic" not in name])
def test_densities_at_different_x_do_not_mix(name, impatient_threads):
    posterior = DENSE[name]()
    rows = X.repeat(4, 1)

    def work(number):
        return posterior.log_prob(rows[number, None, None], rows[[number]] + 0.1 * number)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [work(number) for number in range(len(rows))]
        assert all(map(torch.equal, in_threads(work), expected))


def test_densities_given_a_context_do_not_mix(impatient_threads):
    posterior = corrected().given("high")

    def work(number):
        return posterior.log_prob(X, x=X[[number % 4]] + 0.01 * number)

    expected = [work(number) for number in range(2 * NUM_THREADS)]
    assert all(map(torch.equal, in_threads(work), expected))


def test_a_thread_waits_until_another_has_put_the_generator_back(monkeypatch, caplog):
    monkeypatch.setattr("ma_sbi.one_at_a_time.PATIENCE", 0.01)
    inside, drawn = threading.Event(), []

    def other():
        inside.wait()
        with seeded(None):
            drawn.append(torch.rand(1))

    thread = threading.Thread(target=other)
    thread.start()
    with seeded(0):
        inside.set()
        while not caplog.records:  # it says so when it waits
            time.sleep(0.01)
        with seeded(1), numpy_seeded(1), local_filters(), recorded_warnings():
            assert not drawn  # nested in one thread, and closed to the other
    thread.join(timeout=600)
    assert drawn


def test_a_thread_that_waits_long_says_for_whom(monkeypatch, caplog):
    """A function of the user that waits for a thread of its own, which waits for it."""
    monkeypatch.setattr("ma_sbi.one_at_a_time.PATIENCE", 0.01)
    inner = threading.Thread(target=_enter, name="inner")

    def sample(num_samples, x):
        inner.start()
        while not caplog.records:  # a user's function would wait for ever
            time.sleep(0.01)
        return x.expand(num_samples, -1, -1)

    from_callable(sample, batched=True).sample(2, X, seed=0)
    inner.join(timeout=600)
    (record,) = caplog.records
    own = threading.current_thread().name
    assert f"inner has waited 0.01 s for {own}" in record.getMessage()


def test_no_seed_makes_generators_that_differ():
    first, second = (torch.rand(4, generator=generator(None)) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_a_thread_it_does_not_have():
    import multiprocessing

    held, done = threading.Event(), threading.Event()

    def hold():
        with one_at_a_time():
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=_enter)
    child.start()
    child.join(timeout=60)
    ended = child.exitcode
    if ended is None:
        child.kill()
    done.set()
    thread.join()
    assert ended == 0


def _enter():
    with one_at_a_time():
        pass
