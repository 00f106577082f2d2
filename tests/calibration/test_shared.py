"""The published stopping rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibration.made_up import statistics
from firthshot.calibration import CalibratedLinear, SharedLbfgs, train_shared
from firthshot.calibration._shared import check_tens, lbfgs
from firthshot.engine import Converged, Penalty, train
from firthshot.episodes import sample_episodes
from firthshot.errors import FirthshotError


@pytest.mark.parametrize("seed", [0, 1])
def test_the_iterates_are_those_of_torch_with_its_own_gradients(seed: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    n, d, K = 60, 30, 4
    X, y = rng.normal(size=(n, d)) * np.logspace(0, 1, d), rng.integers(0, K, n)

    def objective(theta: Any) -> tuple[float, Any]:
        W = theta.reshape(K, d)
        z = X @ W.T
        p = np.exp(z - z.max(1, keepdims=True))
        total = p.sum(1)
        value = (np.log(total) + z.max(1) - z[np.arange(n), y]).mean() + 0.5 * (W**2).sum() / n
        g = p / total[:, None]
        g[np.arange(n), y] -= 1
        return value, (g.T @ X / n + W / n).ravel()

    ours = lbfgs(objective, np.zeros(K * d), SharedLbfgs())
    W = torch.zeros(K, d, dtype=torch.float64, requires_grad=True)
    theirs = torch.optim.LBFGS(
        [W], lr=1, max_iter=10, history_size=20, tolerance_grad=1e-5, tolerance_change=1e-9,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Any:
        theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(torch.tensor(X) @ W.T, torch.tensor(y))
        loss = loss + 0.5 * (W**2).sum() / n
        loss.backward()
        return loss

    for _ in range(10):
        theirs.step(closure)
    np.testing.assert_allclose(ours, W.detach().numpy().ravel(), atol=1e-7)


@pytest.mark.parametrize("trials", [np.arange(5), np.arange(5, 15), np.arange(20)[::-1]])
def test_only_whole_tens(trials: Any) -> None:
    with pytest.raises(FirthshotError, match="whole tens"):
        check_tens(trials)


def test_a_task_ends_near_its_own_optimum_whatever_its_block() -> None:
    from firthshot.banks import make_bank

    rng = np.random.default_rng(5)
    X = np.maximum(rng.normal(size=(6, 24)).repeat(40, axis=0) + rng.normal(size=(240, 24)), 0)
    labels, names = np.repeat(np.arange(6), 40), [f"c{i}" for i in range(6)]
    bank = make_bank(X, labels, name="t", classes=names, class_splits=["novel"] * 6)
    head = CalibratedLinear(statistics(), artificial=20)
    penalty = Penalty("firth", (0.0, 0.3), l2=1.0, l2_kind="ridge")

    def shared(trials: Any) -> Any:
        episodes = sample_episodes(bank, "novel", ways=3, shots=1, trials=trials, queries=10)
        return episodes, train_shared(bank.features, episodes, head, SharedLbfgs(), penalty)

    episodes, both = shared(list(range(20)))
    _, second = shared(list(range(10, 20)))
    assert both.nll[10:].tobytes() == second.nll.tobytes()
    apart = train(bank.features, episodes, head, Converged(), penalty)
    np.testing.assert_allclose(both.nll, apart.nll, rtol=0.05)
