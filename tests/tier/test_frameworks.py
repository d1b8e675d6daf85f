# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Frameworks, unmodified, through the tier: what they load is what they load without it.

Each loads its data twice on one node (while it is copied, then the copy), then on another one
(from the first one's copies).
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.support.tiers import TierNode, nodes, read_until, run_through, settle

pytestmark = pytest.mark.slow

MAKE = {
    "numpy": """
import numpy as np
data = np.random.default_rng(1).integers(0, 256, 3_000_000, np.uint8)
np.save(f"{folder}/a.npy", data)
data.tofile(f"{folder}/raw")
np.savez(f"{folder}/b.npz", x=data[:100_000], y=data[5:5000])
""",
    "PIL": """
import numpy as np
from PIL import Image
for n in range(6):
    data = np.random.default_rng(n).integers(0, 256, (200 + n, 300, 3), np.uint8)
    Image.fromarray(data).save(f"{folder}/{n}.{'png' if n % 2 else 'jpg'}")
""",
    "h5py": """
import h5py, numpy as np
rng = np.random.default_rng(1)
with h5py.File(f"{folder}/data.h5", "w") as file:
    file["x"] = rng.random((1000, 300))
    file.create_dataset("y", data=rng.random((500, 100)), chunks=(50, 10), compression="gzip")
""",
    "pyarrow": """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
rng = np.random.default_rng(1)
for n in range(3):
    table = pa.table({"x": rng.random(40_000), "y": rng.integers(0, 9, 40_000)})
    pq.write_table(table, f"{folder}/{n}.parquet", row_group_size=10_000)
""",
    "zarr": """
import numpy as np, zarr
array = zarr.open(f"{folder}/data.zarr", mode="w", shape=(500, 400), chunks=(100, 100), dtype="f8")
array[:] = np.random.default_rng(1).random((500, 400))
""",
    "torch": """
import numpy as np
for n in range(8):
    np.random.default_rng(n).random(5_000 * (n + 1)).tofile(f"{folder}/{n}.bin")
""",
    "tensorflow": """
import numpy as np, os, tensorflow as tf
rng = np.random.default_rng(1)
os.mkdir(f"{folder}/records")
for n in range(3):
    with tf.io.TFRecordWriter(f"{folder}/records/{n}.tfrecord") as writer:
        for _ in range(50):
            writer.write(rng.bytes(20_000))
for label in "ab":
    os.makedirs(f"{folder}/images/{label}")
    for n in range(4):
        image = tf.constant(rng.integers(0, 256, (40, 50, 3), np.uint8))
        tf.io.write_file(f"{folder}/images/{label}/{n}.png", tf.io.encode_png(image))
""",
}
LOAD = {
    "numpy": """
import numpy as np
show(np.load(f"{folder}/a.npy"))
mapped = np.load(f"{folder}/a.npy", mmap_mode="r")
show(mapped[1_000_000:1_500_000])
show(mapped[::4097])
show(np.memmap(f"{folder}/raw", np.uint8, "r"))
show(np.fromfile(f"{folder}/raw", np.uint8, 1000, offset=5000))
with np.load(f"{folder}/b.npz") as file:
    show(file["x"])
    show(file["y"])
""",
    "PIL": """
import numpy as np
from PIL import Image
for n in range(6):
    with Image.open(f"{folder}/{n}.{'png' if n % 2 else 'jpg'}") as image:
        show(np.asarray(image))
""",
    "h5py": """
import h5py
with h5py.File(f"{folder}/data.h5", "r") as file:
    show(file["y"][100:200, 5:17])
    show(file["x"][::7])
    show(file["x"][:])
""",
    "pyarrow": """
import pyarrow.dataset as ds, pyarrow.parquet as pq
for n in range(3):
    show(pq.read_table(f"{folder}/{n}.parquet").column("x").to_numpy())
    show(pq.read_table(f"{folder}/{n}.parquet", memory_map=True).column("y").to_numpy())
show(ds.dataset(folder).to_table(columns=["y"]).column("y").to_numpy())
""",
    "zarr": """
import zarr
array = zarr.open(f"{folder}/data.zarr", mode="r")
show(array[150:260, 10:30])
show(array[:])
""",
    "torch": """
import numpy as np, torch
class Files(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, n):
        return torch.from_numpy(np.fromfile(f"{folder}/{n}.bin")[:5_000])
for batch in torch.utils.data.DataLoader(Files(), batch_size=2, num_workers=2):
    show(batch.numpy())
""",
    "tensorflow": """
import tensorflow as tf
files = tf.data.Dataset.list_files(f"{folder}/records/*", shuffle=False)
records = files.interleave(tf.data.TFRecordDataset, cycle_length=3, num_parallel_calls=2)
for record in records:
    show(record.numpy())
images = tf.keras.utils.image_dataset_from_directory(
    f"{folder}/images", image_size=(32, 32), batch_size=4, shuffle=True, seed=3, verbose=0)
for batch, labels in images:
    show(batch.numpy())
    show(labels.numpy())
""",
}
BEGIN = """
import hashlib, sys, time
folder = sys.argv[1]
code = hashlib.sha256()
def show(data):
    code.update(bytes(data) if isinstance(data, bytes) else data.tobytes())
"""
# In the first epoch what is loaded is copied.
TWICE = """
for epoch in range(2):
    load()
    print(code.hexdigest(), flush=True)
    time.sleep(pause)
"""


def program(kind: str, first: str = "pause = 0.5") -> str:
    body = "\n".join("    " + line for line in LOAD[kind].splitlines())
    return f"{BEGIN}\n{first}\ndef load():\n{body}\n{TWICE}"


@pytest.mark.parametrize("kind", MAKE)
def test_what_it_loads(tmp_path, kind):
    if kind == "torch" and importlib.util.find_spec(kind) is None:
        pytest.skip(f"needs {kind}, which make coexistence installs")
    source = tmp_path / "source"
    source.mkdir()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    # In one process, as most of the time is spent on imports.
    made = subprocess.run(
        [sys.executable, "-c", program(kind, f"pause = 0\n{MAKE[kind]}"), str(source)],
        env=environment,
        timeout=300,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    plain = made.stdout
    assert len(set(plain.split())) == 2
    files = [path for path in source.rglob("*") if path.is_file()]
    for path in files:
        settle(path)
    words = [sys.executable, "-c", program(kind), str(source)]
    with nodes(tmp_path, source, 2) as (a, b):

        def load(node: TierNode) -> None:
            done = run_through(node, *words)
            assert (done.returncode, done.stdout) == (0, plain), done.stderr

        read_until(lambda: a.status()["copies"] == len(files), lambda: load(a))
        before = 0.0

        def load_anew() -> None:
            # Of what a reader has read from the source, as a daemon was late, there are copies.
            nonlocal before
            assert b.tfm("drop").returncode == 0
            before = b.counted("peer_bytes")
            load(b)

        size = sum(path.stat().st_size for path in files)
        read_until(lambda: b.counted("peer_bytes") - before == size, load_anew)
