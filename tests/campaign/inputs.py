"""Give mutated inputs to every reader, in blocks: documented errors are all that may come out."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from campaign import kept
from campaign.formulas import try_formulas
from mutations import READERS, try_reader, usable

FORMULA = "formula"
BLOCK = 250  # inputs of one reader in a row
# Readers that start a process or a run for every input get fewer.
_SLOW = {"run folder": 0.05, "parquet": 0.1, "hdf5": 0.1, "pickle": 0.1}
Block = tuple[str, int, int]  # reader, number, inputs


def attack(folder: Path, count: int, seed: int) -> list[str]:
    """Try ``count`` inputs over all readers, go on from earlier; return the faults."""
    results = folder / "inputs.jsonl"
    done = {(record["kind"], record["block"]) for record in kept.read(results)}
    todo = [block for block in blocks(count) if block[:2] not in done]
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_try, folder, block, seed) for block in todo]
        for future in as_completed(futures):
            record = future.result()
            kept.append(results, record)
            print(_words(record), flush=True)
    return kept.faults(kept.read(results))


def blocks(count: int) -> Iterator[Block]:
    """Yield what is to be tried, a block of every reader before the second of any."""
    weights = {name: weight(name) for name in (*usable(READERS), FORMULA)}
    shares = {name: math.ceil(count * own / sum(weights.values())) for name, own in weights.items()}
    for number in range(math.ceil(max(shares.values()) / BLOCK)):
        for name, share in shares.items():
            if (left := share - number * BLOCK) > 0:
                yield name, number, min(left, BLOCK)


def weight(name: str) -> float:
    """Return how many inputs a reader gets beside the others."""
    return next((own for part, own in _SLOW.items() if part in name), 1.0)


def _try(folder: Path, block: Block, seed: int) -> kept.Record:
    name, number, inputs = block
    own = 1_000 * seed + number
    if name == FORMULA:
        sound, refused, faults = try_formulas(inputs, own)
    else:
        counts = try_reader(name, inputs, own, folder / "violations")
        sound, refused, faults = counts.sound, counts.refused, counts.violations
    return {
        "kind": name,
        "block": number,
        "seed": seed,
        "tried": inputs,
        "sound": sound,
        "refused": refused,
        "faults": faults,
    }


def _words(record: kept.Record) -> str:
    end = "".join(f"\n    {fault}" for fault in record["faults"])
    return f"{record['kind']}, block {record['block']}: {record['tried']} inputs.{end}"
