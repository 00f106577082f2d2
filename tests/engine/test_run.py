"""Many trials at once: nothing depends on threads, order or neighbours; bad input is named."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.engine import (
    Centroid,
    Converged,
    Cosine,
    LeastSquares,
    Linear,
    Mlp,
    Penalty,
    Sgd,
    Status,
    paper_sgd,
    train,
)
from firthshot.engine.sgd import training
from firthshot.episodes import DirichletShots, sample_episodes
from firthshot.errors import FirthshotError
from oracles.banks import PlainBank

BANK = PlainBank(n_classes=6, rows=40, d=10)
FEATURES = BANK.features.astype(np.float32)
SGD = Sgd(learning_rate=0.05, batch_size=4, epochs=5)
FIRTH = Penalty("firth", (0.0, 0.1, 1.0), l2=0.1)
HEADS = [Linear(), Cosine(), Mlp((7, 5))]
REFERENCES = [Centroid(), LeastSquares()]
SCORES = ("accuracy", "nll", "brier", "ece", "norm", "status", "bins")


def episodes(trials=8, **options):
    return sample_episodes(
        BANK, "novel", **{"ways": 4, "shots": 2, "queries": 9, **options}, trials=trials
    )


def assert_same_bits(left, right):
    for name in SCORES:
        assert np.array_equal(getattr(left, name), getattr(right, name)), name


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_threads_and_memory_change_no_bit(head):
    reference = train(FEATURES, episodes(), head, SGD, FIRTH, threads=1)
    assert (reference.status == Status.OK).all()
    assert_same_bits(reference, train(FEATURES, episodes(), head, SGD, FIRTH, threads=4))
    assert_same_bits(reference, train(FEATURES, episodes(), head, SGD, FIRTH, memory=2e5))


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_groups_of_coefficients_change_no_score(head, monkeypatch):
    """On some CPUs the BLAS rounds products of fewer columns otherwise: no bits are promised."""
    reference = train(FEATURES, episodes(), head, SGD, FIRTH, dtype="float64")
    monkeypatch.setattr(training, "_GROUP_BYTES", 1)
    apart = train(FEATURES, episodes(), head, SGD, FIRTH, dtype="float64")
    for name in SCORES:
        np.testing.assert_allclose(getattr(apart, name), getattr(reference, name), rtol=1e-12)


@pytest.mark.parametrize("solver", [SGD, Converged()], ids=lambda solver: solver.name)
@pytest.mark.parametrize("head", REFERENCES, ids=lambda head: head.name)
def test_reference_heads_run_beside_the_others(head, solver):
    results = train(FEATURES, episodes(), head, solver, Penalty(), threads=2)
    assert_same_bits(results, train(FEATURES, episodes(), head, solver, Penalty(), threads=1))
    assert (results.status == Status.OK).all()
    assert results.accuracy.mean() > 0.5


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_a_trial_depends_on_itself_alone(head):
    together = train(FEATURES, episodes(), head, SGD, FIRTH)
    again = train(FEATURES, episodes([5, 3, 5]), head, SGD, FIRTH)
    for name in SCORES:
        assert np.array_equal(getattr(together, name)[[5, 3, 5]], getattr(again, name)), name


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_a_coefficient_depends_on_itself_alone(head):
    """Matched by construction: the other coefficients of the pass change nothing, to rounding."""
    together = train(FEATURES, episodes(), head, SGD, FIRTH, dtype="float64")
    for l, coefficient in enumerate(FIRTH.coefficients):
        alone = dataclasses.replace(FIRTH, coefficients=(coefficient,))
        single = train(FEATURES, episodes(), head, SGD, alone, dtype="float64")
        assert np.allclose(single.nll[:, 0], together.nll[:, l], rtol=1e-12)


@settings(max_examples=10)
@given(
    head=st.sampled_from(HEADS),
    ways=st.integers(2, 6),
    shots=st.one_of(st.integers(1, 6), st.just(DirichletShots(3, 0.5))),
    queries=st.one_of(st.integers(1, 8), st.just("rest")),
    batch=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_shapes_of_all_kinds_give_sound_scores(head, ways, shots, queries, batch, seed):
    block = sample_episodes(
        BANK, "novel", ways=ways, shots=shots, queries=queries, trials=[seed, 1]
    )
    sgd = dataclasses.replace(SGD, batch_size=batch, epochs=2)
    results = train(FEATURES, block, head, sgd, FIRTH, keep=("predictions", "probabilities"))
    assert (results.status == Status.OK).all()
    for t in range(2):
        probabilities, labels = results.kept["probabilities"][t], block[t].query_labels
        assert probabilities.shape == (3, len(labels), ways)
        assert np.allclose(probabilities.sum(-1), 1, atol=1e-5)
        assert np.array_equal(probabilities.argmax(-1), results.kept["predictions"][t])
        right = probabilities[:, np.arange(len(labels)), labels]
        assert np.allclose(results.nll[t], -np.log(right).mean(1), rtol=1e-4)
        hits = results.kept["predictions"][t] == labels
        assert np.allclose(results.accuracy[t], hits.mean(1))


@pytest.mark.parametrize("head", [Linear(start="zero")], ids=lambda head: head.name)
def test_permuting_the_labels_permutes_the_predictions(head):
    """From a zero start nothing tells the classes apart but their labels."""
    block = episodes(4)
    permutation = np.array([2, 0, 3, 1])
    swapped = dataclasses.replace(
        block,
        support_labels=permutation[block.support_labels],
        query_labels=permutation[block.query_labels],
    )
    left = train(FEATURES, block, head, SGD, FIRTH, dtype="float64", keep=("probabilities",))
    right = train(FEATURES, swapped, head, SGD, FIRTH, dtype="float64", keep=("probabilities",))
    for p, q in zip(left.kept["probabilities"], right.kept["probabilities"], strict=True):
        assert np.allclose(p, q[:, :, permutation], atol=1e-12)


def test_half_precision_banks_and_banks_beyond_the_budget_give_the_same_numbers():
    half = FEATURES.astype(np.float16)
    whole = train(half, episodes(), Linear(), SGD, FIRTH)
    assert_same_bits(whole, train(half.astype(np.float32), episodes(), Linear(), SGD, FIRTH))
    # Too large to convert at once: rows are converted trial by trial (other products).
    piecewise = train(half, episodes(), Linear(), SGD, FIRTH, memory=19_000, threads=1)
    assert np.allclose(piecewise.nll, whole.nll, rtol=1e-5)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_divergence_is_an_outcome_and_costs_no_other_coefficient(head):
    wild = Penalty("l2", (0.0, 1e8), l2_kind="weight-decay")
    results = train(FEATURES, episodes(), head, dataclasses.replace(SGD, epochs=30), wild)
    assert (results.status[:, 0] == Status.OK).all()
    assert (results.status[:, 1] == Status.DIVERGED).all()
    assert np.isnan(results.accuracy[:, 1]).all()
    assert np.isfinite(results.accuracy[:, 0]).all()
    assert "Trial 0 with coefficient 1e+08 diverged" in results.problems()[0]


def test_a_trial_with_features_that_are_not_finite_is_named_and_alone():
    block = episodes()
    features = FEATURES.copy()
    features[block[3].support[0]] = np.nan
    results = train(features, block, Linear(), SGD, FIRTH)
    assert 3 in results.notes
    assert "not finite" in results.notes[3]
    spoilt = [t for t in range(8) if results.trials[t] in results.notes]
    assert (results.status[spoilt] == Status.INVALID).all()
    healthy = [t for t in range(8) if t not in spoilt]
    clean = train(FEATURES, block, Linear(), SGD, FIRTH)
    assert np.array_equal(results.nll[healthy], clean.nll[healthy])
    assert any(sentence.startswith("Trial 3: ") for sentence in results.problems())


def test_labels_out_of_range_are_named():
    block = episodes(2)
    labels = block.support_labels.copy()
    labels[1, 0] = 4
    results = train(
        FEATURES, dataclasses.replace(block, support_labels=labels), Linear(), SGD, FIRTH
    )
    assert results.notes == {1: "It has labels outside 0 … 3."}
    assert (results.status[0] == Status.OK).all()


def test_earlier_passes_are_scored_on_request():
    sgd = dataclasses.replace(SGD, score_after=(2, 5))
    results = train(FEATURES, episodes(), Cosine(), sgd, FIRTH)
    assert set(results.earlier) == {2}
    two = train(FEATURES, episodes(), Cosine(), dataclasses.replace(SGD, epochs=2), FIRTH)
    assert_same_bits(results.earlier[2], two)


def test_published_settings():
    assert paper_sgd(Linear()) == Sgd(0.005, 0.9, 0.0, 10, 400, True, True)
    assert paper_sgd(Mlp()).epochs == 100
    assert paper_sgd(Cosine(), 5) == Sgd(0.01, 0.9, 0.9, 4, 101, True, False)
    assert paper_sgd(Cosine(), 1).epochs == 301


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Penalty("firth", (-1.0,)), "coefficient = -1.0 must be"),
        (lambda: Penalty("firth", (np.inf,)), "coefficient = inf must be"),
        (lambda: Penalty("firth", ()), "coefficients is empty"),
        (lambda: Penalty("label-smoothing", (1.0,)), "must be below 1"),
        (lambda: Penalty("none", (1.0,)), "takes no coefficient"),
        (lambda: Penalty("ridge"), "Penalty 'ridge' is unknown"),
        (lambda: Penalty(prior="flat"), "prior = 'flat' must be"),
        (lambda: Penalty(l2_kind="square"), "L2 'square' is unknown"),
        (lambda: Sgd(epochs=0), "epochs = 0 must be at least 1"),
        (lambda: Sgd(learning_rate=float("nan")), "learning_rate = nan"),
        (lambda: Sgd(momentum=1.0), "momentum = 1.0 must lie in"),
        (lambda: Sgd(batch_size=0), "batch_size = 0"),
        (lambda: Sgd(epochs=3, score_after=(4,)), "lies outside the 3 passes"),
        (lambda: Linear(start="ones"), "start = 'ones'"),
        (lambda: Cosine(scale=0.0), "scale = 0.0"),
        (lambda: Mlp((0, 5)), "two positive widths"),
        (
            lambda: train(FEATURES, episodes(), Cosine(), Converged(), FIRTH),
            "has no solver 'converged'",
        ),
        (lambda: train(FEATURES, episodes(), Centroid(), None, Penalty()), "solver = None"),
        (lambda: Penalty("firth", 1.0), "must be a tuple of numbers"),
        (lambda: train(FEATURES, episodes(), Linear(), SGD, FIRTH, dtype="float16"), "dtype ="),
        (lambda: train(FEATURES[:9], episodes(), Linear(), SGD, FIRTH), "another bank"),
        (
            lambda: train(
                FEATURES, episodes(), Linear(), SGD, Penalty("firth", (1.0,), (0.5, 0.5))
            ),
            "4 probabilities that sum to 1",
        ),
        (
            lambda: train(
                FEATURES, episodes(), Linear(), SGD, Penalty("firth", (1.0,), (0.5,) * 4)
            ),
            "sums to 2",
        ),
        (lambda: train(FEATURES[0], episodes(), Linear(), SGD, FIRTH), "must be a floating-point"),
        (lambda: train(FEATURES, episodes(), Linear(), SGD, FIRTH, keep=("loss",)), "keep ="),
        (lambda: train(FEATURES, episodes(), Linear(), SGD, FIRTH, threads=0), "threads = 0"),
        (lambda: train(FEATURES, episodes(), Linear(), SGD, FIRTH, memory=10), "raise memory"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(make, sentence):
    with pytest.raises(FirthshotError, match=sentence):
        make()


def test_a_large_learning_rate_is_recorded_without_a_word_from_numpy():
    sgd = dataclasses.replace(SGD, learning_rate=1e30)
    results = train(FEATURES, episodes(2), Linear(), sgd, FIRTH)
    assert (results.status == Status.DIVERGED).all()
    assert np.isnan(results.accuracy).all()
    assert results.bins.sum() == 0


def test_one_thing_to_keep_may_be_named_alone():
    results = train(FEATURES, episodes(1), Linear(), SGD, FIRTH, keep="weights")
    assert results.kept["weights"][0]["coef"].shape == (3, 4, 10)


def test_many_ways_work():
    bank = PlainBank(n_classes=150, rows=14, d=32)
    block = sample_episodes(bank, "novel", ways=150, shots=10, trials=1)
    sgd = dataclasses.replace(paper_sgd(Cosine()), epochs=3)
    results = train(
        bank.features.astype(np.float32), block, Cosine(), sgd, Penalty("firth", (0.0, 10.0))
    )
    assert (results.status == Status.OK).all()
    assert results.accuracy.min() > 3 / 150
