# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tells the OpenMP hook what threadpoolctl sets, as that calls the libraries directly.

The hook would have to compare numbers: a limit that equals the number of the moment would go
unnoticed, and what is restored later would look like another limit.
"""

import ctypes


class _Told(int):
    """A number of threads that was told; threadpoolctl passes this very object to restore it.

    Attributes:
        bound: The upper bound when it was told; 0 if there was none.
    """

    bound = 0

    def __reduce__(self):
        return int, (int(self),)


def install(threadpoolctl):
    """Wrap the controllers of libraries that the hook follows, if it is in this process."""
    hook = ctypes.CDLL(None)
    if not hasattr(hook, "tfm_openmp_bound"):
        return
    for kind, names in {
        "openmp": ("OpenMPController",),
        "blas": ("OpenBLASController", "BLISController"),
    }.items():
        bound = getattr(hook, "tfm_{0}_bound".format(kind))
        set_bound = getattr(hook, "tfm_{0}_set_bound".format(kind))
        bound.argtypes = (ctypes.c_void_p,)
        set_bound.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
        for name in names:
            if hasattr(threadpoolctl, name):  # An old one lacks some.
                _wrap(getattr(threadpoolctl, name), bound, set_bound)


def _wrap(controller, bound, set_bound):
    # Since 3.7 set_num_threads() has no effect in some threads; this is what it calls in others.
    setter = "_real_set_num_threads"
    setter = setter if hasattr(controller, setter) else "set_num_threads"
    get, set_ = controller.get_num_threads, getattr(controller, setter)

    def get_num_threads(self):
        number = get(self)
        now = bound(self.dynlib._handle)
        if number is None or now < 0:
            return number
        told = _Told(number)
        told.bound = now
        return told

    def set_num_threads(self, num_threads):
        result = set_(self, num_threads)
        its = num_threads.bound if isinstance(num_threads, _Told) else int(num_threads)
        set_bound(self.dynlib._handle, int(num_threads), its)
        return result

    controller.get_num_threads = get_num_threads
    setattr(controller, setter, set_num_threads)
