"""The peak of a real training step, storage by storage."""

import contextlib
import copy
import gc
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from remat_algos.interop.torch.storages import tensors


def step_peak(model, inputs, context=contextlib.nullcontext):
    """Peak bytes of storages in a step of a copy of a model, beyond parameters, buffers and inputs.

    The forward part runs in a context such as autocast. Checkpoints and hooks of the model take effect.
    """
    model = copy.deepcopy(model)
    model.zero_grad(set_to_none=True)
    inputs = inputs if isinstance(inputs, dict) else tuple(inputs)
    known = [*model.parameters(), *model.buffers(), *tensors(inputs)]
    gc.collect()
    with _Storages(known) as storages:
        with context():
            result = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
            loss = result["loss"] if isinstance(result, dict) else result
            del result
        storages.watch(loss.grad_fn)
        loss.backward()
        storages.close()
    return storages.peak


class _Storages(TorchDispatchMode):
    """Counts the bytes of storages during each operator.

    The engine adds gradients in place if it alone owns the first one. Under a dispatch mode it adds out of place, so
    the sum is counted in place if the first gradient is no view and is freed at once.
    """

    def __init__(self, known):
        super().__init__()
        self.seen = {id(each.untyped_storage()) for each in known}
        self.live = self.peak = self.during = 0
        self.adding, self.first = False, None

    def watch(self, node):
        """Note when no node of autograd runs: the engine adds gradients."""
        seen, pending = set(), [node]
        while pending:
            node = pending.pop()
            if node is not None and node not in seen:
                seen.add(node)
                node.register_prehook(lambda *_: setattr(self, "adding", False))
                node.register_hook(lambda *_: setattr(self, "adding", True))
                pending += [each for each, _ in node.next_functions]

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.close()
        result = operator(*args, **(kwargs or {}))
        given = {id(each.untyped_storage()) for each in tensors((args, kwargs))}
        for tensor in tensors(result):
            storage = tensor.untyped_storage()
            if id(storage) not in self.seen and id(storage) not in given:
                self.seen.add(id(storage))
                self.live += storage.nbytes()
                weakref.finalize(storage, self.freed, id(storage), storage.nbytes())
        self.during = self.live
        sums = self.adding and operator is torch.ops.aten.add.Tensor and not args[0]._is_view()
        self.first = id(args[0].untyped_storage()) if sums else None
        return result

    def close(self):
        """Count the last operator, now that it is known whether it was in place."""
        self.peak = max(self.peak, self.during)
        self.during = 0

    def freed(self, storage, size):
        self.seen.discard(storage)
        self.live -= size
        if storage == self.first:
            self.first = None
            self.during -= size
