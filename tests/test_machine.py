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


OVERLAPPING = """
import threading
import numpy
from firthshot.machine import one_thread, one_thread_for_few_rows
from threadpoolctl import threadpool_info

counts = lambda: {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

def fit(X):
    with one_thread_for_few_rows(X):
        return counts()

import scipy.linalg
before = counts()
first = threading.Event(), threading.Event()

def overlap():
    with one_thread:
        first[0].set()
        first[1].wait()

other = threading.Thread(target=overlap)
other.start()
first[0].wait()
inside = fit(numpy.zeros((9, 2)))
first[1].set()
other.join()
assert inside == {1}, inside
assert counts() == before, (counts(), before)
assert fit(numpy.zeros((5000, 2))) == before
assert fit([[0.0]]) == before
"""


def test_small_fits_take_one_thread_and_give_the_others_back() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", OVERLAPPING], env=environment, check=True)
