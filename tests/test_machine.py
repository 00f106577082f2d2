"""BLAS is held at one thread, also the one that SciPy brings when a worker's thread loads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

LIMITED = """
import json, threading
import numpy
from firthshot.machine import one_blas_thread
from threadpoolctl import threadpool_info

found = []

def work():
    import scipy.linalg
    with one_blas_thread():
        found.extend(library["num_threads"] for library in threadpool_info())

with one_blas_thread():
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
print(json.dumps(found))
"""


def test_every_blas_has_one_thread_also_within_a_thread() -> None:
    many = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True, env=many
    )
    found = json.loads(done.stdout)
    assert found
    assert set(found) == {1}
