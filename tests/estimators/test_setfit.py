"""The estimators as the head of SetFit's own model class, around a stub encoder."""

import numpy as np
import pytest
import torch

from firthshot.estimators import (
    FewShotClassifier,
    FirthClassifier,
    FirthCosineClassifier,
    FirthMLPClassifier,
)

setfit = pytest.importorskip("setfit")

TEXTS = {
    "travel": ["book a flight to Rome", "a cheap flight to Oslo", "find a hotel in Rome"],
    "money": ["send money to my bank", "pay my bank bill", "how much money have I"],
    "food": ["a recipe for soup", "cook soup with rice", "how to cook pasta"],
}


class StubEncoder(torch.nn.Module):
    """A bag of words with fixed random word vectors: what SetFit asks of its body, no more."""

    device = torch.device("cpu")

    def encode(self, texts, normalize_embeddings=False, convert_to_tensor=False, **_):
        single = isinstance(texts, str)
        rows = [sum(map(self._vector, text.split())) for text in ([texts] if single else texts)]
        X = np.array(rows, np.float32)
        if normalize_embeddings:
            X /= np.linalg.norm(X, axis=1, keepdims=True)
        X = X[0] if single else X
        return torch.from_numpy(X) if convert_to_tensor else X

    def _vector(self, word):
        seed = list(word.encode())
        return np.random.default_rng(seed).normal(size=32)


def examples():
    texts = [text for group in TEXTS.values() for text in group]
    return texts, [name for name, group in TEXTS.items() for _ in group]


@pytest.mark.parametrize(
    "head", [FewShotClassifier, FirthClassifier, FirthCosineClassifier, FirthMLPClassifier]
)
@pytest.mark.parametrize("kind", ["names", "numbers"])
@pytest.mark.parametrize("normalize", [False, True])
def test_setfit_trains_and_asks_the_head(head, kind, normalize):
    texts, names = examples()
    labels = names if kind == "names" else [sorted(TEXTS).index(name) for name in names]
    model = setfit.SetFitModel(
        model_body=StubEncoder(), model_head=head(), normalize_embeddings=normalize
    )
    model.fit(texts, labels, num_epochs=1, show_progress_bar=False)
    assert [*model.predict(texts)] == labels
    new = ["a flight to a hotel", "pay the money"]
    want = ["travel", "money"]
    assert [*model.predict(new)] == (
        want if kind == "names" else [sorted(TEXTS).index(name) for name in want]
    )
    assert model.predict(new[0]) == model.predict(new)[0]
    probabilities = model.predict_proba(new)
    assert isinstance(probabilities, torch.Tensor)
    embeddings = StubEncoder().encode(new, normalize_embeddings=normalize)
    np.testing.assert_array_equal(probabilities, model.model_head.predict_proba(embeddings))
    if kind == "names":
        assert model.labels == sorted(TEXTS)


def test_several_labels_per_text_go_through_one_head_per_label():
    from sklearn.multiclass import OneVsRestClassifier

    texts, names = examples()
    targets = [[int(name == one) for one in TEXTS] for name in names]
    model = setfit.SetFitModel(
        model_body=StubEncoder(),
        model_head=OneVsRestClassifier(FirthClassifier(lam=0.1, l2=0.1)),
        multi_target_strategy="one-vs-rest",
    )
    model.fit(texts, targets, num_epochs=1, show_progress_bar=False)
    assert model.predict(texts).tolist() == targets
