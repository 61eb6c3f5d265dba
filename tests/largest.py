"""The tensors that a computation makes: a bound on memory without measuring it."""

from contextlib import contextmanager

from torch import Tensor
from torch._C import DisableTorchFunctionSubclass
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode
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


class NewTensors(TorchFunctionMode):
    """Adds up the sizes of all tensors that are made, but for views of others."""

    num_bytes = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        given = {_storage(one) for one in tree_leaves((args, kwargs)) if _is_stored(one)}
        for one in tree_leaves(found):
            if _is_stored(one) and _storage(one) not in given:
                self.num_bytes += one.numel() * one.element_size()
        return found


def _is_stored(value):
    return type(value) in (Tensor, Parameter)


def _storage(tensor):
    with DisableTorchFunctionSubclass():
        return tensor.untyped_storage().data_ptr()


@contextmanager
def watch_tensors():
    """Give the number of entries of the largest tensor, as ``.largest``."""
    with _Watch() as watch:
        yield watch
