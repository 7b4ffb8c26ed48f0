"""An input of a graph in; how a plan reads it out: dense tensors with their dimensions in any order, and slices of
such, are read where they lie."""

import torch


class Reading:
    """shape: what the plan's input has, the dimensions from the outermost in memory to the innermost, and each as long
    as the memory around a slice is."""

    def __init__(self, tensor):
        self._size, self._stride, self._dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
        found = _rooms(tensor)
        self._order, self.shape, self._first = found or (range(tensor.dim()), self._size, [0] * tensor.dim())
        self._has_order = found is not None
        step, self._before = 1, 0  # elements of the plan's input before the first that is read
        for room, first in zip(reversed(self.shape), reversed(self._first)):
            self._before += first * step
            step *= room
        self.nbytes = step * tensor.element_size()
        self._cut = step != tensor.numel()
        self._in_order = not self._cut and list(self._order) == sorted(self._order)

    def tensor(self, c, x):
        """The tensor itself, of the plan's input x."""
        low, order = list(self._first), list(self._order)
        size = [self._size[d] for d in order]
        if self._cut:
            x = c.slice(x, low, [a + n for a, n in zip(low, size)])
        if order != sorted(order):
            x = c.transpose(x, [order.index(d) for d in sorted(order)])
        return x if tuple(x.shape) == self._size else c.reshape(x, list(self._size))

    def memory(self, tensor):
        """(the memory's owner, its address): of a tensor of this size where it lies, or of a copy.  What PyTorch
        computed in another element type than it foretold is cast."""
        tensor = tensor if tensor.dtype == self._dtype else tensor.detach().to(self._dtype)
        if self._lies_so(tensor):
            return tensor, tensor.data_ptr() - self._before * tensor.element_size()
        if not self._has_order:
            copy = tensor.detach().contiguous()
            return copy, copy.data_ptr()
        copy = torch.empty(self.shape, dtype=tensor.dtype)
        copy.as_strided(self._size, self._stride, self._before).copy_(tensor.detach())
        return copy, copy.data_ptr()

    def _lies_so(self, tensor):
        if not self._has_order or tensor.stride() != self._stride:
            return self._in_order and tensor.is_contiguous()
        if not self._cut:
            return True
        begin = tensor.storage_offset() - self._before
        return begin >= 0 and begin * tensor.element_size() + self.nbytes <= tensor.untyped_storage().nbytes()


def _rooms(tensor):
    """(dimensions of more than one element from the outermost in memory to the innermost, how many elements there are
    along each, at which the tensor begins); None: it is no slice of a dense tensor that its memory holds."""
    order = sorted((d for d in range(tensor.dim()) if tensor.shape[d] > 1), key=lambda d: -tensor.stride(d))
    steps, offset = [tensor.stride(d) for d in order], tensor.storage_offset()
    if not order or steps[-1] != 1:
        return None
    rooms, first = [tensor.shape[order[0]]], [0]
    for d, step, outer in zip(order[1:], steps[1:], steps):
        room, rest = divmod(outer, step)
        rooms.append(room)
        first.append(offset % outer // step)
        if rest or first[-1] + tensor.shape[d] > room:
            return None
    end = offset - offset % steps[0] + rooms[0] * steps[0]
    whole = end * tensor.element_size() <= tensor.untyped_storage().nbytes()
    return (order, tuple(rooms), first) if whole else None
