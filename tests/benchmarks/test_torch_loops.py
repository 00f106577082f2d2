"""Both sides of the engine bench do the same work: from the same start they end the same."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.engine_cases import Case
from firthshot.banks import make_bank
from firthshot.engine import Cosine, Linear, Mlp, Penalty, Sgd, train
from firthshot.engine.sgd.momentum import draw_order
from firthshot.episodes import sample_episodes
from firthshot.kernels.streams import START, fill_uniform

torch = pytest.importorskip("torch")
from benchmarks.torch_loops import (  # noqa: E402
    StackedLoop,
    prepare_features,
    shares_queries,
)

WAYS, SHOTS, D, TRIALS, PASSES = 5, 3, 24, 3, 6


@pytest.fixture(scope="module")
def bank():
    generator = np.random.default_rng(3)
    means = generator.standard_normal((WAYS + 2, 1, D))
    features = (means + generator.standard_normal((WAYS + 2, 12, D))).reshape(-1, D)
    labels = np.repeat(np.arange(WAYS + 2), 12)
    names = [f"c{i}" for i in range(WAYS + 2)]
    return make_bank(
        features, labels, name="small", classes=names, class_splits=["novel"] * len(names)
    )


def _episodes(bank, **how):
    return sample_episodes(bank, "novel", ways=WAYS, shots=SHOTS, trials=TRIALS, **how)


def _uniform(episodes, layer, bound, *shape):
    """Draw each trial's start from its stream, as the engine does."""
    out = np.empty((len(episodes), *shape), np.float32)
    for t, part in enumerate(out):
        fill_uniform(np.uint64(episodes.key), layer, t, START, bound, part.reshape(-1))
    return out


def _engine_start(episodes, head):
    if isinstance(head, Cosine):
        v = _uniform(episodes, 0, D**-0.5, D, WAYS).transpose(0, 2, 1)
        return [v, np.linalg.norm(v, axis=2, keepdims=True)]
    widths = (D, *head.hidden, WAYS) if isinstance(head, Mlp) else (D, WAYS)
    start = []
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        bound = np.sqrt(6 / (rows + columns))
        start.append(_uniform(episodes, layer, bound, rows, columns))
        start.append(np.zeros((len(episodes), 1, columns), np.float32))
    return start


def _engine_order(episodes, passes):
    n = episodes.support.shape[1]
    order, words = np.empty((passes, len(episodes), n), np.int64), np.empty(n + 4, np.uint64)
    for epoch in range(passes):
        for t in range(len(episodes)):
            draw_order(np.uint64(episodes.key), t, epoch, True, order[epoch, t], words)
    return torch.from_numpy(order)


def _both(bank, head, sgd, coefficient, decay=0.0, as_published=False, **how):
    """Return the probabilities of the queries (T, Q, C) and the accuracies, theirs and ours."""
    episodes = _episodes(bank, **how)
    loop = StackedLoop(
        prepare_features(bank.features, head),
        episodes,
        TRIALS,
        head,
        sgd,
        coefficient,
        decay,
        start=_engine_start(episodes, head),
        as_published=as_published,
    )
    loop.run(_engine_order(episodes, sgd.epochs))
    queries = torch.stack([loop.features[episodes[t].query] for t in range(TRIALS)])
    theirs = loop.logits(loop.parameters, queries).softmax(-1).detach().numpy()
    penalty = Penalty("firth", (coefficient,), l2=decay, l2_kind="weight-decay")
    ours = train(bank.features, episodes, head, sgd, penalty, threads=1, keep=("probabilities",))
    assert not ours.problems()
    probabilities = np.stack([kept[0] for kept in ours.kept["probabilities"]])
    return theirs, probabilities, loop.accuracy().numpy(), ours.accuracy[:, 0]


LOGISTIC = Sgd(epochs=PASSES, learning_rate=0.05, batch_size=4)  # 15 rows: a smaller last batch
COSINE = Sgd(0.1, 0.9, 0.9, batch_size=4, epochs=PASSES, scale_partial=False)
FIXED = {"queries": 4, "fixed_query": True, "first_classes": True}


@pytest.mark.parametrize("coefficient", [0.0, 1.0])
@pytest.mark.parametrize("how", [FIXED, {"queries": "rest"}])
@pytest.mark.parametrize(
    ("head", "sgd", "decay"),
    [(Linear(), LOGISTIC, 0.0), (Mlp((7, 6)), LOGISTIC, 0.0), (Cosine(), COSINE, 0.01)],
    ids=["linear", "mlp", "cosine"],
)
def test_the_plain_way_ends_where_the_engine_ends(bank, head, sgd, decay, coefficient, how):
    theirs, ours, their_accuracy, our_accuracy = _both(bank, head, sgd, coefficient, decay, **how)
    np.testing.assert_allclose(theirs, ours, atol=2e-5)
    np.testing.assert_allclose(their_accuracy, our_accuracy, atol=1e-6)
    assert theirs.std() > 0.01


def test_all_four_published_terms_change_nothing_but_the_cost(bank):
    theirs, ours, _, _ = _both(bank, Linear(), LOGISTIC, 1.0, as_published=True, **FIXED)
    np.testing.assert_allclose(theirs, ours, atol=2e-5)


def test_only_fixed_queries_of_fixed_classes_are_shared(bank):
    assert shares_queries(_episodes(bank, **FIXED))
    assert not shares_queries(_episodes(bank, queries="rest"))


def test_scoring_in_pieces_is_scoring(bank, monkeypatch):
    head, episodes = Linear(), _episodes(bank, queries="rest")
    features = prepare_features(bank.features, head)
    loop = StackedLoop(features, episodes, TRIALS, head, LOGISTIC, 0.0)
    whole = loop.accuracy()
    monkeypatch.setattr("benchmarks.torch_loops._GATHER_BYTES", 1.0)
    assert torch.equal(loop.accuracy(), whole)
    assert torch.equal(loop.accuracy(2), whole[:2])


def test_flop_and_steps_of_a_case():
    case = Case(Linear(), 16, 1, 512)
    assert case.steps == 400 * 2
    assert case.useful_flop == 400 * (2 * 10 * 16 * 16 + 2 * 6 * 16 * 16)
    assert Case(Cosine(), 20, 1, 640).steps == 301 * 5
    first = 2 * 80 * 100
    dense = 6 * (100 * 50 + 50 * 16)
    assert Case(Mlp(), 16, 5, 512).useful_flop == 100 * 80 * (first + dense)
