"""The bench of extraction on a few small pictures and a small network."""

import pytest

from backbones.pictures import write_folder
from benchmarks.__main__ import main

pytest.importorskip("torch")


def small():
    from transformers import ResNetConfig, ResNetModel

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1]}
    return ResNetModel(ResNetConfig(**sizes, layer_type="basic"))


def test_both_sides_give_the_same_features(tmp_path, monkeypatch, capsys):
    from benchmarks import extract

    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(extract, "NETWORKS", {"small": small})
    monkeypatch.setattr(extract, "QUICK", {"small": 5})
    pictures = write_folder(tmp_path / "zoo", {"ant": 3, "bee": 3}, side=40)
    main(["extract", "--quick", "--pictures", str(pictures), "--json", str(tmp_path / "b.json")])
    assert "small" in capsys.readouterr().out
    import json

    (record,) = json.loads((tmp_path / "b.json").read_text())["records"]
    assert record["pictures"] == 5
    assert record["difference"] < 1e-4


def test_too_few_pictures_are_refused(tmp_path):
    pictures = write_folder(tmp_path / "zoo", {"ant": 3}, side=40)
    with pytest.raises(SystemExit, match="zoo has 3 pictures; give a folder of 100"):
        main(["extract", "--quick", "--pictures", str(pictures)])
