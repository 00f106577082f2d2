"""Rivals of Firth's heads, row by row as their papers write them; slow and plain."""

from __future__ import annotations

import numpy as np


def unit(rows):
    return np.array([row / np.linalg.norm(row) for row in rows])


def nearest_means(support, labels, asked):
    """Return the class of the nearest class mean for every row."""
    classes = range(labels.max() + 1)
    means = [
        np.mean([x for x, y in zip(support, labels, strict=True) if y == c], 0) for c in classes
    ]
    return np.array([np.argmin([np.linalg.norm(x - m) for m in means]) for x in asked])


def rectified_prototypes(support, labels, asked):
    """Return BD-CSPN's prototypes: each row counts by exp(cosine) for its class (Liu et al.)."""
    classes = range(labels.max() + 1)
    means = [np.mean(support[labels == c], 0) for c in classes]
    moved = asked + support.mean(0) - asked.mean(0)
    cosine = lambda x, m: x @ m / np.linalg.norm(x) / np.linalg.norm(m)  # noqa: E731
    guessed = [int(np.argmax([cosine(x, m) for m in means])) for x in moved]
    found = []
    for c in classes:
        rows = [*support[labels == c], *(x for x, g in zip(moved, guessed, strict=True) if g == c)]
        weights = np.array([np.exp(cosine(x, means[c])) for x in rows])
        found.append(weights @ np.array(rows) / weights.sum())
    return np.array(found)


def laplacian_assignments(asked, prototypes, neighbours, weight, steps):
    """Return LaplacianShot's soft assignments after some bound updates (Ziko et al., Alg. 1)."""
    costs = np.array([[np.sum((x - m) ** 2) for m in prototypes] for x in asked])
    graph = np.zeros((len(asked), len(asked)))
    for i, x in enumerate(asked):
        others = [(np.sum((x - z) ** 2), j) for j, z in enumerate(asked) if j != i]
        for _, j in sorted(others)[: neighbours - 1]:
            graph[i, j] = 1
    y = np.array([np.exp(-row) / np.exp(-row).sum() for row in costs])
    for _ in range(steps):
        scores = weight * graph @ y - costs
        y = np.array([np.exp(row) / np.exp(row).sum() for row in scores])
    return y


def transported(support, labels, asked, steps, rate, sharpness):
    """Return PT-MAP's last plan, by many plain Sinkhorn steps (Hu et al., Alg. 1)."""
    classes = labels.max() + 1
    prototypes = np.array([support[labels == c].mean(0) for c in range(classes)])

    def plan():
        costs = np.array([[np.sum((x - m) ** 2) for m in prototypes] for x in asked])
        found = np.exp(-sharpness * costs)
        for _ in range(3000):
            found /= found.sum(1, keepdims=True)
            found *= len(asked) / classes / found.sum(0)
        return found

    known = np.eye(classes)[labels]
    for _ in range(steps):
        both = np.concatenate([known, plan()])
        means = (both.T @ np.concatenate([support, asked])) / both.sum(0)[:, None]
        prototypes = prototypes + rate * (means - prototypes)
    return plan()


def tim_by_adam(support, labels, asked, *, temperature, ce, alpha, steps, rate, cosine, lam=0.0):
    """Return TIM's prototypes after Adam's steps, by torch's gradients and torch's Adam.

    Float64 throughout. ``cosine``: logits are τ · cosine, else −τ/2 ‖w − x‖² (Boudiaf et al.).
    """
    import torch

    classes = int(labels.max()) + 1
    S, Q = torch.tensor(support), torch.tensor(asked)
    start = [support[labels == c].mean(0) for c in range(classes)]
    w = torch.tensor(np.array(start), requires_grad=True)
    adam = torch.optim.Adam([w], lr=rate)

    def log_p(rows):
        near = torch.stack([torch.cosine_similarity(rows, one[None]) for one in w], 1)
        far = torch.stack([((rows - one) ** 2).sum(1) for one in w], 1)
        return torch.log_softmax(temperature * (near if cosine else -far / 2), 1)

    for _ in range(steps):
        held, guessed = log_p(S), log_p(Q)
        loss = -held[torch.arange(len(S)), torch.tensor(labels)].mean() - lam * held.mean()
        mean = guessed.exp().mean(0)
        conditional = -(guessed.exp() * guessed).sum(1).mean()
        objective = ce * loss + (mean * mean.log()).sum() + alpha * conditional
        adam.zero_grad()
        objective.backward()
        adam.step()
    return w.detach().numpy(), log_p(Q).argmax(1).numpy()


def tim_by_turns(support, labels, asked, temperature, ce, alpha, steps):
    """Return TIM's predictions after alternating steps (Boudiaf et al., Prop. 1 and 2)."""
    classes = int(labels.max()) + 1
    w = np.array([support[labels == c].mean(0) for c in range(classes)])
    known = np.eye(classes)[labels]
    share, per_query = ce / (1 + alpha), len(support) / len(asked)

    def predictions(rows):
        z = np.array([[-temperature / 2 * np.sum((x - m) ** 2) for m in w] for x in rows])
        p = np.exp(z - z.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    for _ in range(steps):
        p, held = predictions(asked), predictions(support)
        q = p ** (1 + alpha) / np.sqrt((p ** (1 + alpha)).sum(0))
        q /= q.sum(1, keepdims=True)
        moved = []
        for c in range(classes):
            pull = share * sum(
                y[c] * x + h[c] * (w[c] - x) for x, y, h in zip(support, known, held, strict=True)
            ) + per_query * sum(
                a[c] * x + b[c] * (w[c] - x) for x, a, b in zip(asked, q, p, strict=True)
            )
            moved.append(pull / (share * known[:, c].sum() + per_query * q[:, c].sum()))
        w = np.array(moved)
    return predictions(asked).argmax(1)


def tim_objective(w, support, targets, asked, temperature, ce, alpha):
    """Return TIM's objective for prototypes w (K, d); targets (N, K) as the penalty makes them."""

    def log_p(rows):
        z = -temperature / 2 * np.array([[np.sum((x - m) ** 2) for m in w] for x in rows])
        return (
            z
            - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True))
            - z.max(1, keepdims=True)
        )

    log_q = log_p(asked)
    q = np.exp(log_q)
    mean = q.mean(0)
    support_loss = -(targets * log_p(support)).sum(1).mean()
    conditional = -(q * log_q).sum(1).mean()
    return ce * support_loss + (mean * np.log(mean)).sum() + alpha * conditional
