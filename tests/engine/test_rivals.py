"""The rivals against their papers written out plainly, scikit-learn, and easy-few-shot-learning."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from benchmarks.easy_loop import easy_loop, easy_method, is_installed
from firthshot import load_bank, sample_episodes
from firthshot.engine import (
    BaseFacts,
    BaseGaussian,
    BdCspn,
    ClassWeights,
    Converged,
    LaplacianShot,
    LogitAdjustment,
    NearestNeighbour,
    Penalty,
    PtMap,
    RidgeLogistic,
    SharedGaussian,
    SimpleShot,
    SimpleShotL2N,
    Tim,
    TimGd,
    registered_heads,
    train,
)
from firthshot.engine.heads.block import Block, BlockHead
from firthshot.engine.heads.gaussian import ledoit_wolf
from firthshot.engine.rows import nearest_others
from firthshot.episodes import DirichletShots
from firthshot.errors import FirthshotError
from firthshot.kernels.narrow import dots, gram, mixtures
from oracles.rivals import (
    laplacian_assignments,
    nearest_means,
    rectified_prototypes,
    tim_by_adam,
    tim_by_turns,
    tim_objective,
    transported,
    unit,
)

TRIALS, WAYS = 8, 5


@pytest.fixture(scope="module")
def features():
    return load_bank("clinc150-minilm").features.astype(np.float32)


@pytest.fixture(scope="module", params=[1, 4])
def episodes(request):
    bank = load_bank("clinc150-minilm")
    return sample_episodes(bank, "novel", ways=WAYS, shots=request.param, trials=TRIALS, queries=9)


def noisy(features):
    """Return rows that are hard to classify, so that methods differ."""
    random = np.random.default_rng(0)
    return (features + 0.09 * random.normal(size=features.shape)).astype(np.float32)


def predicted(features, episodes, head, penalty=None):
    """Return the predictions of every trial, (Q,) each, at the last coefficient."""
    found = train(features, episodes, head, Converged(), penalty or Penalty(), keep="predictions")
    assert not found.problems()
    return [one[-1] for one in found.kept["predictions"]]


def parts(features, episode):
    rows = (features[of].astype(float) for of in (episode.support, episode.query))
    return (*rows, episode.support_labels)


def assert_same(features, episodes, head, expected, least=0.995):
    ours = predicted(features, episodes, head)
    same = [
        np.mean(mine == expected(*parts(features, e)))
        for mine, e in zip(ours, episodes, strict=True)
    ]
    assert np.mean(same) >= least


def test_simpleshot(features, episodes):
    features = noisy(features)
    base = BaseFacts.of([features[:40], features[40:90]])
    assert_same(features, episodes, SimpleShotL2N(),
                lambda S, Q, y: nearest_means(unit(S), y, unit(Q)))  # fmt: skip
    centre = np.concatenate([features[:40], features[40:90]]).mean(0)
    assert_same(features, episodes, SimpleShot(base),
                lambda S, Q, y: nearest_means(unit(S - centre), y, unit(Q - centre)))  # fmt: skip


def test_nearest_neighbour(features, episodes):
    assert_same(noisy(features), episodes, NearestNeighbour(),
                lambda S, Q, y: y[(unit(Q) @ unit(S).T).argmax(1)])  # fmt: skip


def test_bd_cspn_and_laplacian_shot(features, episodes):
    features = noisy(features)

    def bd_cspn(S, Q, y):
        prototypes = rectified_prototypes(unit(S), y, unit(Q))
        return (unit(Q) @ unit(prototypes).T).argmax(1)

    def laplacian(S, Q, y):
        prototypes = rectified_prototypes(unit(S), y, unit(Q))
        return laplacian_assignments(unit(Q), prototypes, 3, 0.7, 20).argmax(1)

    assert_same(features, episodes, BdCspn(), bd_cspn)
    assert_same(features, episodes, LaplacianShot(), laplacian)


def test_pt_map(features, episodes):
    features = np.abs(noisy(features))  # as after a ReLU
    assert_same(features, episodes, PtMap(),
                lambda S, Q, y: transported(unit(np.sqrt(S)), y, unit(np.sqrt(Q)), 10, 0.2, 10.0)
                .argmax(1))  # fmt: skip


@pytest.mark.parametrize("shrinkage", [0.1, 0.7])
def test_the_gaussian_head_is_scikit_learns(features, episodes, shrinkage):
    """Fixed shrinkage, classes of equal weight; also with more rows than dimensions."""
    if episodes.support.shape[1] == WAYS:
        pytest.skip("one shot leaves scikit-learn no covariance")
    for width in (384, 12):
        few = noisy(features)[:, :width]
        priors = np.full(WAYS, 1 / WAYS)
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=priors)
        assert_same(few, episodes, SharedGaussian(shrinkage, unit=False),
                    lambda S, Q, y, lda=lda: lda.fit(S, y).predict(Q), least=1.0)  # fmt: skip


def test_the_share_of_the_sphere_is_ledoit_and_wolfs():
    from sklearn.covariance import ledoit_wolf as theirs

    rows = np.random.default_rng(0).normal(size=(30, 12)) * np.arange(1, 13)
    variance = float((rows**2).mean())
    assert ledoit_wolf(rows, variance) == pytest.approx(theirs(rows, assume_centered=True)[1])


def test_the_base_covariance_takes_the_spheres_place(features, episodes):
    """At one shot it alone decides: the nearest mean after whitening by it."""
    features = noisy(features)
    classes = [features[at : at + 30].astype(float) for at in range(0, 300, 30)]
    base = BaseFacts.of(classes)
    inside = np.concatenate([unit(each) - unit(each).mean(0) for each in classes])
    covariance = inside.T @ inside / (len(inside) - len(classes))
    mixed = 0.5 * covariance + 0.5 * np.trace(covariance) / 384 * np.eye(384)
    np.testing.assert_allclose(base.whitening @ mixed @ base.whitening, np.eye(384), atol=1e-8)
    if episodes.support.shape[1] > WAYS:
        return
    assert_same(features, episodes, BaseGaussian(base=base), lambda S, Q, y: nearest_means(
        unit(S) @ base.whitening, y, unit(Q) @ base.whitening))  # fmt: skip
    with pytest.raises(FirthshotError, match=r"shrinkage = 2.* must lie in"):
        SharedGaussian(2.0)


def test_ridge_heads_are_scikit_learns(features):
    bank = load_bank("clinc150-minilm")
    shots = [1, 2, 4, 8]
    episodes = sample_episodes(bank, "novel", ways=4, shots=shots, trials=4, queries=9)
    penalty = Penalty("l2", (0.0, 2.0), l2_kind="ridge")
    features = noisy(features)
    logits = {}
    for head, weight in ((RidgeLogistic(), None), (ClassWeights(), "balanced")):
        found = train(features, episodes, head, Converged(), penalty, dtype="float64",
                      keep=("predictions", "weights"))  # fmt: skip
        for at, episode in enumerate(episodes):
            S, Q, y = parts(features, episode)
            model = LogisticRegression(C=0.5, class_weight=weight, tol=1e-8, max_iter=2000)
            theirs = model.fit(S, y)
            assert (found.kept["predictions"][at][1] == theirs.predict(Q)).all()
            logits[head.name, at] = found.kept["weights"][at]["intercept"][1]
    adjusted = train(features, episodes, LogitAdjustment(), Converged(), penalty, dtype="float64",
                     keep="weights")  # fmt: skip
    for at, episode in enumerate(episodes):
        counts = np.bincount(episode.support_labels)
        moved = logits["ridge-logistic", at] - adjusted.kept["weights"][at]["intercept"][1]
        np.testing.assert_allclose(moved, np.log(counts / counts.sum()), atol=1e-12)


def prototypes_of(head, features, episode, lams):
    """Return the prototypes (L, K, d) of an episode in float64, and the support's targets."""
    S, Q, y = parts(features, episode)
    form = Penalty("firth", lams).tables(y, WAYS, 1)
    both = np.concatenate([S, Q])
    rows = head.compared().of(both, np.arange(len(both))[None])
    found = head.classify(Block(WAYS, S.shape[1], rows, y[None], (form,)))
    targets = form.label[:, None, None] * np.eye(WAYS)[y] + form.target.T[:, None]
    return found.weights["prototypes"][0], targets


@pytest.mark.parametrize("cosine", [False, True])
def test_tim_descends_its_objective(features, episodes, cosine):
    """Adam's path is that of torch's own gradients and Adam, with Firth too."""
    few = noisy(features)[:, :9]
    S, Q, y = parts(few, episodes[0])
    settings = {"temperature": 12.0, "ce": 0.4, "alpha": 0.2, "steps": 7, "rate": 1e-2}
    head = TimGd(**settings, cosine=cosine)
    found, _ = prototypes_of(head, few, episodes[0], (0.0, 1.5))
    for at, lam in enumerate((0.0, 1.5)):
        expected, _ = tim_by_adam(unit(S), y, unit(Q), **settings, cosine=cosine, lam=lam)
        np.testing.assert_allclose(found[at], expected, atol=1e-9)


def test_tims_alternating_steps_descend(features, episodes):
    few = noisy(features)[:, :9]
    S, Q, y = parts(few, episodes[0])
    end, targets = prototypes_of(Tim(), few, episodes[0], (0.0, 1.5))
    start = np.stack([unit(S)[y == c].mean(0) for c in range(WAYS)])
    for at in range(2):
        values = [
            tim_objective(w, unit(S), targets[at], unit(Q), 15.0, 0.1, 0.1)
            for w in (start, end[at])
        ]
        assert values[1] < values[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("weights", "n", "d"), [(1, 1, 16), (5, 8, 32), (13, 21, 48)])
def test_products_of_few_weights_are_numpys(weights, n, d, dtype):
    random = np.random.default_rng(0)
    w, rows = (random.normal(size=(m, d)).astype(dtype) for m in (weights, n))
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype is np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    found = np.full((weights, n), 7, dtype)
    dots(w, rows, 0, n, found)
    np.testing.assert_allclose(found, w @ rows.T, **close)
    dots(w, 2 * rows, n // 2, n, found)
    np.testing.assert_allclose(found[:, : n // 2], (w @ rows.T)[:, : n // 2], **close)
    mixed = np.empty_like(w)
    mixtures(found, rows, mixed)
    np.testing.assert_allclose(mixed, found @ rows, **close)
    pairs = np.empty((n, n), dtype)
    gram(rows, pairs)
    np.testing.assert_allclose(pairs, rows @ rows.T, **close)


@pytest.mark.parametrize("count", [0, 1, 2, 6])
def test_nearest_others_are_those_of_a_full_sort(count):
    random = np.random.default_rng(0)
    rows = unit(random.integers(0, 2, size=(23, 8)) + 0.5)  # many ties
    found = np.empty((23, count), np.int64)
    nearest_others(rows, found)
    cosines = np.empty((23, 23))
    gram(rows, cosines)
    np.fill_diagonal(cosines, -np.inf)
    np.testing.assert_array_equal(found, np.argsort(-cosines, axis=1, kind="stable")[:, :count])


EASY_TIM = {"temperature": 10.0, "ce": 1.0, "alpha": 0.1, "steps": 50, "rate": 1e-4, "cosine": True}


def test_tim_predicts_what_plain_loops_do(features, episodes):
    """Loops in float64 against float32 here, with the settings of the paper and of others."""
    features, two = noisy(features), episodes_of(episodes, 2)
    assert_same(features, two, Tim(steps=10),
                lambda S, Q, y: tim_by_turns(unit(S), y, unit(Q), 15.0, 0.1, 0.1, 10))  # fmt: skip
    paper = {"temperature": 15.0, "ce": 0.1, "alpha": 0.1, "steps": 100, "rate": 1e-3}
    for settings in (paper | {"cosine": False}, EASY_TIM):
        assert_same(features, episodes, TimGd(**settings), lambda S, Q, y, s=settings: tim_by_adam(
            unit(S), y, unit(Q), **s)[1])  # fmt: skip


def episodes_of(episodes, count):
    """Return the first trials alone."""
    bank = load_bank("clinc150-minilm")
    shots = episodes.support.shape[1] // WAYS
    return sample_episodes(bank, "novel", ways=WAYS, shots=shots, trials=count, queries=9)


@pytest.mark.parametrize(
    "name", [n for n, k in registered_heads().items() if issubclass(k, BlockHead)]
)
def test_a_trial_is_the_same_alone_and_in_a_block(features, name):
    """To the last bit, also with shots that differ between trials, and beside a broken trial."""
    bank, shots = load_bank("clinc150-minilm"), DirichletShots(3)
    features, head = noisy(features), registered_heads()[name]()
    penalty = Penalty("firth", (0.0, 1.0), "class-frequency") if head.penalised else Penalty()
    rest = {"ways": 4, "shots": shots, "queries": 5}
    together = sample_episodes(bank, "novel", trials=5, **rest)
    keep = ("predictions", "probabilities", "weights")
    many = train(features, together, head, Converged(), penalty, keep=keep)
    for t in (0, 4):
        alone = sample_episodes(bank, "novel", trials=[t], **rest)
        one = train(features, alone, head, Converged(), penalty, keep=keep)
        np.testing.assert_array_equal(one.nll[0], many.nll[t])
        np.testing.assert_array_equal(one.norm[0], many.norm[t])
        np.testing.assert_array_equal(one.kept["probabilities"][0], many.kept["probabilities"][t])
        for key, weights in one.kept["weights"][0].items():
            np.testing.assert_array_equal(weights, many.kept["weights"][t][key])
    broken = features.copy()
    broken[together.support[2, 0]] = np.nan
    spoilt = train(broken, together, head, Converged(), penalty)
    assert list(spoilt.notes) == [2]
    np.testing.assert_array_equal(spoilt.nll[[0, 1, 3, 4]], many.nll[[0, 1, 3, 4]])


@pytest.mark.parametrize("name", [n for n, kind in registered_heads().items() if kind.transductive])
def test_transductive_heads_see_the_queries_and_nothing_else(features, episodes, name):
    """Rows between the queries that are read along change nothing; other queries do."""
    head = registered_heads()[name]()
    features = noisy(features)
    alone = predicted(features, episodes, head)
    changed = features.copy()
    asked = np.unique(np.concatenate([np.concatenate([e.support, e.query]) for e in episodes]))
    changed[np.setdiff1d(np.arange(len(features)), asked)] = 1.0
    assert all(
        (a == b).all() for a, b in zip(alone, predicted(changed, episodes, head), strict=True)
    )
    assert "transductive" in head.words


def test_what_heads_say_of_themselves():
    kinds = registered_heads()
    assert {name for name, kind in kinds.items() if kind.transductive} == {
        "bd-cspn", "laplacian-shot", "pt-map", "tim", "tim-gd"
    }  # fmt: skip
    assert {name for name, kind in kinds.items() if kind.needs_base} == {
        "simpleshot",
        "gaussian-base",
    }
    for kind in kinds.values():
        if kind.needs_base:
            assert "base" in {field.name for field in dataclasses.fields(kind)}


# `make test` installs it without its dependencies: its torchvision would replace a CPU build.
needs_easyfsl = pytest.mark.skipif(
    not is_installed(), reason="easyfsl is missing: pip install --no-deps easyfsl"
)


@needs_easyfsl
def test_their_loop_draws_tasks_and_counts_hits():
    for name in ("pandas", "tqdm"):
        pytest.importorskip(name)
    random = np.random.default_rng(0)
    rows = {str(c): (np.eye(6)[c] + 0.01 * random.random((9, 6))).astype("f4") for c in range(4)}
    method = easy_method("prototypical_networks", "PrototypicalNetworks")
    assert easy_loop(method, rows, (3, 2, 4, 5))() == 1.0


@needs_easyfsl
def test_easy_few_shot_learning_predicts_the_same(features, episodes):
    import torch

    prototypes = easy_method("prototypical_networks", "PrototypicalNetworks")
    bd_cspn, pt_map = easy_method("bd_cspn", "BDCSPN"), easy_method("pt_map", "PTMAP")
    laplacian, tim = easy_method("laplacian_shot", "LaplacianShot"), easy_method("tim", "TIM")

    features = np.abs(noisy(features))

    def by(make, prepare=lambda rows: rows):
        def expected(S, Q, y):
            theirs = make()
            rows = (torch.as_tensor(prepare(each), dtype=torch.float32) for each in (S, Q))
            support, asked = rows
            theirs.process_support_set(support, torch.as_tensor(y))
            return theirs(asked).argmax(1).numpy()

        return expected

    pairs = (
        (SimpleShotL2N(), by(lambda: prototypes(feature_normalization=2.0))),
        (BdCspn(), by(lambda: bd_cspn(feature_normalization=2.0))),
        (LaplacianShot(), by(lambda: laplacian(feature_normalization=2.0))),
        # Their power transform of squared unit roots gives our unit roots.
        (PtMap(), by(pt_map, lambda rows: unit(np.sqrt(rows)) ** 2)),
        (TimGd(**EASY_TIM), by(lambda: tim(feature_normalization=2.0))),
    )
    for head, expected in pairs:
        assert_same(features, episodes, head, expected)
