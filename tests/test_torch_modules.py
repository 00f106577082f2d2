"""The PyTorch modules: the cosine head, L2, a learned λ, the binary loss, the sampler of trials."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional

from firthshot.banks import load_bank, make_bank
from firthshot.engine import Cosine, Penalty, Sgd, train
from firthshot.engine.sgd.cosine import unit_rows
from firthshot.episodes import sample_episodes
from firthshot.errors import FirthshotError
from firthshot.torch import (
    CosineHead,
    EpisodeSampler,
    FirthBCELoss,
    FirthLoss,
    firth_bce_loss,
    firth_loss,
    firth_penalty,
    l2_penalty,
)
from oracles.linear_optimum import l2_value
from test_torch import REDUCTIONS, K, draw


@pytest.mark.parametrize("parametrisation", ["mean-square", "ridge", "weight-decay"])
def test_l2_is_that_of_the_objective(parametrisation):
    layer = torch.nn.Linear(4, 3).double()
    W, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    got = l2_penalty(layer, parametrisation, n_samples=10)
    np.testing.assert_allclose(got.item(), l2_value(W, b, parametrisation, 10), rtol=1e-13)
    layer.bias.requires_grad_(False)
    alone = l2_value(W, np.empty(0), parametrisation, 10)
    got = l2_penalty(layer, parametrisation, n_samples=10)
    np.testing.assert_allclose(got.item(), alone, rtol=1e-13)


@pytest.mark.parametrize("classes", [3, 200, 201])
def test_the_cosine_head_is_the_engines(classes):
    head = CosineHead(6, classes, dtype=torch.float64)
    assert head.scale == Cosine().scale_for(classes)
    bound = 6**-0.5
    assert head.v.abs().max() <= bound
    torch.testing.assert_close(head.g, head.v.norm(dim=1))
    x = torch.randn(9, 6, dtype=torch.float64)
    x[0] = 0
    v, g = head.v.detach().numpy(), head.g.detach().numpy()
    want = head.scale * g * (unit_rows(x.numpy()) @ (v / np.linalg.norm(v, axis=1)[:, None]).T)
    np.testing.assert_allclose(head(x).detach().numpy(), want, rtol=1e-12, atol=1e-12)
    assert head(x[0]).shape == (classes,)
    assert repr(head) == f"CosineHead(in_features=6, classes={classes}, scale={head.scale:g})"


def test_the_cosine_head_trains_in_any_precision():
    head = CosineHead(6, 3, scale=5.0).double()
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(head, (x,))
    x16 = torch.randn(4, 6).bfloat16()
    loss = FirthLoss(1.0)(head.bfloat16()(x16), torch.tensor([0, 1, 2, 0]))
    loss.backward()
    assert head.v.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lengths_that_half_precision_cannot_hold(dtype):
    torch.manual_seed(0)
    head = CosineHead(400, 3).to(dtype)
    with torch.no_grad():
        head.v.mul_(1e5 if dtype == torch.bfloat16 else 2e5)
    x = (5e4 * torch.rand(4, 400)).to(dtype).requires_grad_()  # of length about 6e5
    wide = CosineHead(400, 3)
    wide.load_state_dict({name: value.float() for name, value in head.state_dict().items()})
    logits = head(x)
    assert logits.dtype == dtype
    torch.testing.assert_close(logits.float(), wide(x.float()), rtol=0.02, atol=0.01)
    FirthLoss(1.0)(logits, torch.tensor([0, 1, 2, 0])).backward()
    assert all(part.grad.isfinite().all() for part in (x, head.v, head.g))


def test_weights_trained_by_the_engine_give_its_probabilities_here():
    bank = load_bank("clinc150-minilm")
    episodes = sample_episodes(bank, "val", ways=4, shots=2, queries=3)
    solver = Sgd(epochs=5, batch_size=4, scale_partial=False)
    penalty = Penalty("firth", (0.0, 1.0))
    keep = ("weights", "probabilities")
    trained = train(bank.features, episodes, Cosine(), solver, penalty, dtype="float64", keep=keep)
    weights, probabilities = trained.kept["weights"][0], trained.kept["probabilities"][0]
    queries = torch.from_numpy(bank.features[episodes[0].query].astype(np.float64))
    for l in range(2):
        head = CosineHead(bank.features.shape[1], 4, dtype=torch.float64)
        head.load_state_dict({name: torch.from_numpy(weights[name][l]) for name in ("v", "g")})
        got = head(queries).softmax(1).detach().numpy()
        np.testing.assert_allclose(got, probabilities[l], rtol=1e-6)


def test_importing_firthshot_leaves_torch_alone_and_its_absence_is_a_sentence():
    code = (
        "import sys, firthshot; assert 'torch' not in sys.modules\n"
        "sys.modules['torch'] = None\n"
        "try:\n    import firthshot.torch\n"
        "except firthshot.FirthshotError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install '.[torch]'" in done.stdout


def test_a_class_without_direction_has_the_logit_zero():
    """A fitted class of norm 0 is loaded as v = 0, g = 0."""
    head = CosineHead(4, 3)
    head.load_state_dict({"v": torch.eye(3, 4) * 2, "g": torch.tensor([1.0, 0.0, 3.0])})
    with torch.no_grad():
        head.v[1] = 0
    logits = head(torch.ones(1, 4))
    assert logits[0, 1] == 0
    assert logits.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_class_weights_take_every_type_of_class_index(dtype):
    """Torch takes uint8 labels; as an index of a tensor they would be a mask."""
    logits, labels = torch.randn(3, 3), torch.tensor([1, 1, 2])
    weight = torch.tensor([1.0, 2.0, 3.0])
    loss = FirthLoss(1.0, weight=weight)
    torch.testing.assert_close(loss(logits, labels.to(dtype)), loss(logits, labels))
    torch.testing.assert_close(
        FirthLoss(0.0, weight=weight)(logits, labels.to(dtype)),
        torch.nn.functional.cross_entropy(logits, labels.to(dtype), weight=weight),
    )


def test_gradients_of_single_samples_with_class_weights():
    logits, labels = torch.randn(4, 3), torch.tensor([1, 1, 2, 0])
    loss = FirthLoss(1.0, weight=[1.0, 2.0, 3.0])
    together = torch.func.vmap(torch.func.grad(loss))(logits, labels)
    alone = [
        torch.func.grad(loss)(z[None], y[None])[0] for z, y in zip(logits, labels, strict=True)
    ]
    torch.testing.assert_close(together, torch.stack(alone))


def test_a_learnable_lam_is_a_parameter_of_the_module():
    """Optimisers, state dicts, devices and data-parallel training find it."""
    lam = torch.nn.Parameter(torch.tensor(0.5))
    loss = FirthLoss(lam)
    assert dict(loss.named_parameters()) == {"lam": lam}
    assert list(loss.state_dict()) == ["lam"]
    logits, labels = draw((6, K), "indices", dtype=torch.float32)
    loss(logits, labels).backward()
    assert lam.grad is not None
    assert loss.double().lam.dtype == torch.float64
    assert loss.lam.requires_grad
    loss.lam = 0.25
    assert float(loss.lam.detach()) == 0.25
    assert isinstance(loss.lam, torch.nn.Parameter)
    loss.lam = torch.tensor(1.0)
    assert dict(loss.named_parameters()) == {}
    assert list(dict(loss.named_buffers())) == ["lam"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", ["indices", "probabilities"])
@pytest.mark.parametrize("weight", [None, torch.linspace(0.2, 3.0, K).double()])
def test_label_smoothing_beside_the_penalty(reduction, kind, weight):
    logits, target = draw((6, K), kind)
    same = {"weight": weight, "reduction": reduction}
    ours = FirthLoss(0.7, label_smoothing=0.2, **same)(logits, target)
    plain = functional.cross_entropy(logits, target, label_smoothing=0.2, **same)
    penalty = firth_loss(logits, target, 0.7, **same) - firth_loss(logits, target, 0.0, **same)
    torch.testing.assert_close(ours, plain + penalty)
    assert torch.equal(
        firth_loss(logits, target, 0.0, label_smoothing=1.0, **same),
        firth_loss(logits, target, 0, label_smoothing=1.0, **same),
    )
    assert "label_smoothing=0.2" in repr(FirthLoss(0.7, label_smoothing=0.2))


@pytest.mark.parametrize("module", [FirthLoss(1.0), CosineHead(4, 3)])
def test_scripting_is_refused_in_a_sentence(module):
    with pytest.raises(FirthshotError, match=r"use torch\.compile, torch\.export"):
        module.__prepare_scriptable__()  # what torch.jit.script calls first


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("prior", [0.5, 0.2])
def test_the_binary_loss_is_that_of_two_logits(reduction, prior):
    z, _ = draw((9,), "indices")
    y = torch.arange(9) % 2
    two = torch.stack([torch.zeros_like(z), z], 1)
    expected = firth_loss(two, y, 0.6, [1 - prior, prior], reduction=reduction)
    torch.testing.assert_close(FirthBCELoss(0.6, prior=prior, reduction=reduction)(z, y), expected)
    with pytest.raises(FirthshotError, match=r"between 0 and 1, got 1\.0"):
        firth_bce_loss(z, y, 1.0, 1.0)


def test_batches_of_a_loader_are_the_trials_of_runs():
    bank = load_bank("clinc150-minilm")
    episodes = sample_episodes(bank, "novel", ways=3, shots=2, trials=4, queries=5)
    sampler = EpisodeSampler(episodes)
    data = torch.utils.data.TensorDataset(torch.tensor(bank.features, dtype=torch.float32))
    batches = list(torch.utils.data.DataLoader(data, batch_sampler=sampler))
    assert len(batches) == len(sampler) == 4
    (rows,) = batches[2]
    expected = np.concatenate([episodes[2].support, episodes[2].query])
    np.testing.assert_array_equal(rows.numpy(), bank.features[expected].astype(np.float32))
    assert sampler.support_size == 6
    assert sampler.labels(2)[:6].tolist() == episodes[2].support_labels.tolist()
    for number in (4, -1):
        with pytest.raises(FirthshotError, match=f"no trial {number}: give a number from 0 to 3"):
            sampler.labels(number)


def test_a_slice_of_trials_is_those_trials():
    bank = load_bank("clinc150-minilm")
    shots = {"ways": 3, "shots": 2, "trials": 5}
    episodes = sample_episodes(bank, "novel", queries="rest", **shots)
    some = EpisodeSampler(episodes[1:4:2])
    assert list(some) == [list(EpisodeSampler(episodes))[number] for number in (1, 3)]
    assert some.labels(1).tolist() == EpisodeSampler(episodes).labels(3).tolist()
    assert episodes[1:4:2].trials.tolist() == [1, 3]
    assert episodes[-1].trial == 4
    with pytest.raises(FirthshotError, match="holds none of the 5 trials"):
        episodes[5:]


@pytest.mark.parametrize("kind", [FirthLoss, FirthBCELoss])
def test_a_learned_coefficient_stops_at_zero(kind):
    loss = kind(torch.nn.Parameter(torch.tensor(0.2)))
    logits, target = torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 0.0]])
    optimizer = torch.optim.SGD(loss.parameters(), lr=1.0)
    for _ in range(5):
        optimizer.zero_grad()
        value = loss(logits, target)
        value.backward()
        optimizer.step()
    assert loss.lam <= 0
    assert value == kind(0.0)(logits, target)


def test_a_learned_coefficient_leaves_zero_and_comes_back_from_below():
    """Its gradient is the penalty everywhere; its value is never below 0."""
    logits, target = draw((6, K), "indices")
    plain = functional.cross_entropy(logits, target)
    penalty = firth_penalty(logits)
    for start in (0.0, -0.5):
        lam = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        loss = firth_loss(logits, target, lam)
        loss.backward()
        torch.testing.assert_close(loss.detach(), plain.detach())
        torch.testing.assert_close(lam.grad, penalty.detach())


def test_trials_of_own_rows():
    X, y = torch.randn(40, 3).numpy(), np.arange(40) % 4
    with pytest.raises(FirthshotError, match=r"not ndarray: make a bank of rows and labels"):
        sample_episodes(X, y, ways=2, shots=1)
    bank = make_bank(X, y)
    assert bank.classes("novel") == ("0", "1", "2", "3")
    assert len(sample_episodes(bank, "novel", ways=3, shots=2, trials=5)) == 5
