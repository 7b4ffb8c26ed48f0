"""Python's garbage collector waits while graphs are made: of the many objects that are new then few are garbage, and it
looks at all that PyTorch has, again and again."""

import contextlib
import gc


@contextlib.contextmanager
def uncollected():
    """Within it, or a function that it decorates, there are no automatic collections; what is new then counts as
    old."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()
