# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pools of worker processes inside one program: each worker is malleable."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.support.commands import tfm

pytestmark = pytest.mark.slow

LIMIT = """
import os, sys

def limit(_=None):
    import tensorflow as tf
    tf.constant(1.0) + 1
    malleable = sys.modules.get("tf_malleable")
    return os.getpid(), None if malleable is None else malleable.get_threads().intra
"""
PROGRAMS = {
    "joblib with loky": """
from joblib import Parallel, delayed
from limits import limit
if __name__ == "__main__":
    print(Parallel(n_jobs=2)(delayed(limit)() for _ in range(4)))
""",
    "joblib with threads": """
from joblib import Parallel, delayed
from limits import limit
print(Parallel(n_jobs=2, prefer="threads")(delayed(limit)() for _ in range(4)))
""",
    "concurrent.futures": """
from concurrent.futures import ProcessPoolExecutor
from limits import limit
if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print(list(pool.map(limit, range(4))))
""",
    "a launcher like torchrun": """
import os, subprocess, sys
code = "from limits import limit; print([limit()])"
for rank in range(2):
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "PYTHONPATH": os.getcwd()}
    subprocess.run([sys.executable, "-u", "-c", code], env=env, check=True)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_worker_has_the_limit(tmp_path, name):
    (tmp_path / "limits.py").write_text(LIMIT)
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    done = tfm("run", "--threads", "1", "--", sys.executable, "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [each for line in done.stdout.splitlines() for each in eval(line)]
    assert {threads for _, threads in found} == {1}


def test_workers_of_xdist_have_the_limit(tmp_path):
    (tmp_path / "limits.py").write_text(LIMIT)
    (tmp_path / "test_limit.py").write_text(
        "import json, os, pytest\n"
        "from limits import limit\n"
        "@pytest.mark.parametrize('number', range(2))\n"
        "def test_limit(number):\n"
        "    open(f'{number}.json', 'w').write(json.dumps(limit()))\n"
    )
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = tfm("run", "--threads", "1", "--", *pytest_, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout
    found = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2)]
    assert [threads for _, threads in found] == [1, 1]
