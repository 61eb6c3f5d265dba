"""Stop a run of ``correct`` as Ctrl-C does."""

from contextlib import contextmanager

import pytest

from ma_sbi.applying import running


@contextmanager
def stopped_at_block(stop):
    """Inside, a run is interrupted before it corrects this block."""
    plain = running.correct_block

    def correct(job, number, *given):
        if number == stop:
            raise KeyboardInterrupt
        return plain(job, number, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "correct_block", correct)
        yield
