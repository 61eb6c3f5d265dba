"""The largest tensor that a computation makes: a bound on memory without measuring it."""

from contextlib import contextmanager

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Watch(TorchDispatchMode):
    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [
            one.untyped_storage().nbytes() // one.element_size()
            for one in tree_leaves(result)
            if isinstance(one, Tensor)
        ]
        self.largest = max(self.largest, *sizes, 0)
        return result


@contextmanager
def watch_tensors():
    """Give the number of entries of the largest tensor, as ``.largest``."""
    with _Watch() as watch:
        yield watch
