"""Whether this worker is shutting down, told by its main process to its children through one shared byte.

The byte lies in anonymous shared memory made before the children are forked, so asking costs nothing and needs no
database: a run is handed back at the next step boundary.
"""

from __future__ import annotations

import mmap

_flag = mmap.mmap(-1, 1)


def begin() -> None:
    """Say that no run is claimed any more and that those under way are handed back at the next step."""
    _flag[0] = 1


def has_begun() -> bool:
    """Whether the worker shuts down."""
    return _flag[0] == 1
