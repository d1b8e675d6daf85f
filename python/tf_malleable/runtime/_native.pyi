from typing import Literal

SUCCESS: int
NO_CHANGE: int
TIMED_OUT: int
ERR_RANGE: int
ERR_NO_POOL: int
KEEP: int
UNSET: int

class Threads:
    intra: int
    inter: int
    intra_set: int
    inter_set: int
    intra_max: int
    inter_max: int

class Pool:
    id: int
    name: str
    kind: int
    capacity: int
    limit: int
    active: int
    queued: int
    tasks: int
    stand_ins: int
    busy_seconds: float

def locate(library: str) -> tuple[int, str] | None: ...
def exports(library: str) -> bool: ...
def load(library: str, *, in_front: bool) -> None: ...
def backend() -> Literal["overlay", "patched"]: ...
def tensorflow_version() -> str: ...
def set_threads(intra: int, inter: int) -> int: ...
def get_threads() -> Threads: ...
def set_pool_threads(pool: int, limit: int) -> int: ...
def get_pools() -> list[Pool]: ...
def wait_settled(timeout: float, /) -> int: ...
