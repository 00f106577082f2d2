import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.episodes import DirichletShots, layout_key, sample_episodes
from firthshot.errors import EpisodeError
from oracles.banks import PlainBank

BANK = PlainBank(n_classes=8, rows=30)
PINNED_KEY = 8842506452649389095
PINNED_CLASSES = [2, 0, 7, 3]
PINNED_SUPPORT = [80, 65, 15, 2, 232, 233, 100, 109]
PINNED_QUERY = [68, 85, 8, 1, 239, 210, 114, 97]
PINNED_SHOTS = [2, 6, 4, 2, 3, 8, 1, 6]


@settings(max_examples=60, deadline=None)
@given(
    ways=st.integers(2, 8),
    shots=st.integers(1, 10),
    queries=st.one_of(st.integers(1, 15), st.just("rest")),
    fixed=st.booleans(),
    first=st.booleans(),
    trial=st.integers(0, 2**32 - 1),
)
def test_every_episode_is_well_formed(ways, shots, queries, fixed, first, trial):
    fixed = fixed and queries != "rest"
    episodes = sample_episodes(
        BANK, "novel", ways=ways, shots=shots, trials=[trial], queries=queries,
        fixed_query=fixed, first_classes=first,
    )  # fmt: skip
    episode = episodes[0]
    assert len(set(episode.classes)) == ways
    assert list(episode.support_labels) == sorted(episode.support_labels)
    assert not set(episode.support) & set(episode.query)
    assert len(set(episode.support)) == ways * shots
    assert len(set(episode.query)) == len(episode.query)
    for rows, labels in (
        (episode.support, episode.support_labels),
        (episode.query, episode.query_labels),
    ):
        assert (BANK.labels[rows] == episode.classes[labels]).all()
    per_class = 30 - shots if queries == "rest" else queries
    assert (np.bincount(episode.query_labels) == per_class).all()
    if first:
        assert list(episode.classes) == list(range(ways))
    if fixed:
        last = [rows[-queries:] for rows in BANK.class_rows("novel")]
        assert set(episode.query) == set(np.concatenate([last[c] for c in episode.classes]))


def test_a_trial_does_not_depend_on_its_neighbours():
    together = sample_episodes(BANK, "novel", ways=5, shots=3, trials=20)
    alone = sample_episodes(BANK, "novel", ways=5, shots=3, trials=[13])[0]
    assert (together[13].support == alone.support).all()
    assert (together[13].query == alone.query).all()


def test_support_does_not_depend_on_the_query_rule():
    few = sample_episodes(BANK, "novel", ways=5, shots=3, trials=20, queries=2)
    rest = sample_episodes(BANK, "novel", ways=5, shots=3, trials=20, queries="rest")
    assert (few.support == rest.support).all()
    assert (few.classes == rest.classes).all()


def test_trials_depend_on_the_layout_and_on_nothing_else():
    other_features = PlainBank(n_classes=8, rows=30, d=99, seed=5)
    assert layout_key(BANK, "novel", 5, 3) == layout_key(other_features, "novel", 5, 3)
    other_counts = PlainBank(n_classes=8, rows=31)
    other_order = PlainBank(n_classes=8, rows=30, order=np.arange(240)[::-1])
    keys = {
        layout_key(bank, "novel", ways, shots)
        for bank, ways, shots in [
            (BANK, 5, 3), (other_counts, 5, 3), (other_order, 5, 3), (BANK, 6, 3), (BANK, 5, 4),
            (BANK, 5, DirichletShots(3)), (BANK, 5, [3] * 5),
        ]
    }  # fmt: skip
    assert len(keys) == 7


def test_pinned_draws():
    """These numbers may never change: published results rest on them."""
    episode = sample_episodes(BANK, "novel", ways=4, shots=2, trials=[0, 7], queries=2)[1]
    assert layout_key(BANK, "novel", 4, 2) == PINNED_KEY
    assert episode.classes.tolist() == PINNED_CLASSES
    assert episode.support.tolist() == PINNED_SUPPORT
    assert episode.query.tolist() == PINNED_QUERY
    shots = sample_episodes(BANK, "novel", ways=8, shots=DirichletShots(4, 0.7), trials=1)
    assert np.bincount(shots[0].support_labels).tolist() == PINNED_SHOTS


def test_shots_per_class_keep_their_slot_while_classes_are_permuted():
    counts = [2, 4, 8, 16]
    episodes = sample_episodes(BANK, "novel", ways=4, shots=counts, trials=10, queries=5)
    for t in range(10):
        assert np.bincount(episodes[t].support_labels).tolist() == counts
    assert len({tuple(classes) for classes in episodes.classes}) > 1


def test_dirichlet_shots_keep_the_total_and_are_as_unequal_as_asked():
    spread = []
    for concentration in (0.2, 1.0, 50.0):
        shots = DirichletShots(8, concentration)
        bank = PlainBank(n_classes=8, rows=80)
        episodes = sample_episodes(bank, "novel", ways=8, shots=shots, trials=400)
        counts = np.stack([np.bincount(labels, minlength=8) for labels in episodes.support_labels])
        assert (counts.sum(1) == 64).all()
        assert counts.min() >= 1
        # Means over trials are equal for all classes: within five standard errors of 8.
        assert np.abs(counts.mean(0) - 8).max() < 5 * counts.std() / 20
        spread.append(counts.std())
    # Variance of a symmetric Dirichlet share: (K-1) / (K² (K a + 1)); rounding adds about 1/6.
    expected = [56 * np.sqrt(7 / (64 * (8 * a + 1))) for a in (0.2, 1.0, 50.0)]
    assert np.allclose(spread, expected, rtol=0.15)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ways": 9}, "ways = 9 is more than the 8 classes of split 'novel'"),
        ({"ways": 1}, "ways = 1 must be at least 2"),
        ({"ways": 5.0}, "ways = 5.0 must be a whole number"),
        ({"shots": "unbalanced-8"}, "shots = 'unbalanced-8' must be a number"),
        ({"queries": None}, "queries = None must be"),
        ({"shots": 0}, "shots = 0 must be positive"),
        ({"shots": [1, 2]}, "shots has 2 entries for 5 ways"),
        ({"shots": [1, 2, 0, 1, 1]}, "must be positive"),
        ({"shots": 20, "queries": 15}, "has 30 rows, fewer than 20 shots + 15 queries"),
        ({"shots": 30}, "has 30 rows, fewer than 30 shots + at least one query"),
        ({"shots": DirichletShots(3, 0.0)}, "positive concentration"),
        ({"queries": 0}, "queries = 0 must be a positive number"),
        ({"fixed_query": True}, "needs a number of queries"),
        ({"trials": 0}, "trials must be"),
        ({"trials": [-1]}, "trials must be"),
        ({"split": "val"}, "Bank 'plain' has no split 'val'; it has novel."),
    ],
)
def test_impossible_requests_are_refused_in_one_sentence(options, sentence):
    request = {"split": "novel", "ways": 5, "shots": 3, **options}
    with pytest.raises(EpisodeError, match=re.escape(sentence)) as caught:
        sample_episodes(BANK, request.pop("split"), **request)
    assert str(caught.value).count(". ") == 0


def test_the_short_class_is_named():
    bank = PlainBank(n_classes=3, rows=[30, 7, 30])
    with pytest.raises(EpisodeError, match="Class 'class-1' has 7 rows"):
        sample_episodes(bank, "novel", ways=3, shots=5, queries=5)


def test_a_thousand_episodes_are_quick():
    """Nothing here depends on the clock but this print: see it with pytest -s."""
    bank = PlainBank(n_classes=20, rows=600, d=1)
    sample_episodes(bank, "novel", ways=16, shots=25, trials=1, queries=15)
    begin = time.perf_counter()
    episodes = sample_episodes(bank, "novel", ways=16, shots=25, trials=1000, queries=15)
    print(f"1,000 16-way 25-shot episodes in {time.perf_counter() - begin:.3f} s")
    assert episodes.support.shape == (1000, 400)
