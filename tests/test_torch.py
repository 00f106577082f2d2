"""The PyTorch losses against torch's own, the NumPy objective, and autograd's checks."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from firthshot.errors import FirthshotError
from firthshot.objective import PENALTIES, SampleLoss
from firthshot.torch import (
    CosineHead,
    EpisodeSampler,
    FirthBCELoss,
    FirthLoss,
    confidence_penalty,
    firth_loss,
    firth_penalty,
    l2_penalty,
    label_smoothing_loss,
)

K = 5
SHAPES = [(K,), (6, K), (6, K, 3), (2, K, 3, 4), (2, K, 2, 1, 3)]
REDUCTIONS = ("none", "sum", "mean")
PRIOR = torch.tensor([0.1, 0.4, 0.0, 0.2, 0.3], dtype=torch.float64)
WEIGHT = torch.tensor([0.5, 2.0, 1.0, 0.0, 3.0], dtype=torch.float64)


def draw(shape, kind, seed=0, dtype=torch.float64):
    """Return logits and a target of one kind: class indices or probabilities."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(shape, generator=generator, dtype=dtype)
    axis = 0 if len(shape) == 1 else 1
    if kind == "probabilities":
        return logits, torch.rand(shape, generator=generator, dtype=dtype).softmax(axis)
    return logits, torch.randint(0, K, shape[:axis] + shape[axis + 1 :], generator=generator)


def one_hot(target, shape):
    axis = 0 if len(shape) == 1 else 1
    return functional.one_hot(target, K).to(torch.float64).movedim(-1, axis)


def expected(logits, target, lam, prior, weight, ignored, reduction):
    """Compute the loss sample by sample in plain Python, from the definition."""
    axis = 0 if logits.ndim == 1 else 1
    rows = logits.movedim(axis, -1).reshape(-1, K)
    hard = target.shape != logits.shape
    labels = target.reshape(-1) if hard else target.movedim(axis, -1).reshape(-1, K)
    u = torch.full((K,), 1 / K, dtype=torch.float64) if prior is None else prior
    w = torch.ones(K, dtype=torch.float64) if weight is None else weight
    losses, omegas = [], []
    for z, y in zip(rows, labels, strict=True):
        log_p = z - z.logsumexp(0)
        penalty = sum(float(u[k] * (u[k].log() - log_p[k])) for k in range(K) if u[k] > 0)
        if hard and int(y) == ignored:
            losses.append(0.0)
            omegas.append(0.0)
            continue
        omega = float(w[y]) if hard else float((w * y).sum())
        data = -float(w[y] * log_p[y]) if hard else -float((w * y * log_p).sum())
        losses.append(data + lam * omega * penalty)
        omegas.append(omega)
    if reduction == "none":
        return torch.tensor(losses, dtype=torch.float64).reshape(
            target.shape if hard else target.movedim(axis, -1).shape[:-1]
        )
    return sum(losses) / (1 if reduction == "sum" else sum(omegas) if hard else len(losses))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["indices", "probabilities"])
@pytest.mark.parametrize("prior", [None, PRIOR], ids=["uniform", "prior"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_the_loss_is_its_definition(reduction, shape, kind, prior, weight):
    logits, target = draw(shape, kind)
    if kind == "indices" and len(shape) > 1:
        target.view(-1)[::3] = -100
    got = FirthLoss(0.7, prior=prior, weight=weight, reduction=reduction)(logits, target)
    want = expected(logits, target, 0.7, prior, weight, -100, reduction)
    if kind == "indices" and len(shape) == 1 and reduction == "mean" and WEIGHT[target] == 0:
        pytest.skip("the only sample has no weight")
    torch.testing.assert_close(got, torch.as_tensor(want, dtype=torch.float64))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lam_zero_is_torch_bit_for_bit_with_class_indices(reduction, shape, weight, dtype):
    logits, target = draw(shape, "indices", dtype=dtype)
    weight = None if weight is None else weight.to(dtype)
    ignored = int(target.view(-1)[0]) if len(shape) > 1 else -100
    settings = {"weight": weight, "ignore_index": ignored, "reduction": reduction}
    mine, theirs = FirthLoss(0.0, **settings), torch.nn.CrossEntropyLoss(**settings)
    assert torch.equal(mine(logits, target), theirs(logits, target))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_lam_zero_is_torch_with_probabilities(reduction, shape, weight):
    logits, target = draw(shape, "probabilities")
    mine = FirthLoss(0.0, weight=weight, reduction=reduction)(logits, target)
    theirs = torch.nn.CrossEntropyLoss(weight=weight, reduction=reduction)(logits, target)
    torch.testing.assert_close(mine, theirs, rtol=1e-14, atol=1e-14)


def test_indices_and_one_hot_probabilities_agree_in_sum():
    logits, target = draw((6, K, 3), "indices")
    loss = FirthLoss(1.3, prior=PRIOR, weight=WEIGHT, reduction="sum")
    torch.testing.assert_close(
        loss(logits, target), loss(logits, one_hot(target, logits.shape)), rtol=1e-14, atol=1e-14
    )


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["uniform", "prior"])
def test_values_and_gradients_are_those_of_the_numpy_objective(prior):
    logits, target = draw((20, K), "indices")
    logits.requires_grad_()
    u = None if prior is None else prior.numpy()
    entropy = np.log(K) if u is None else -(u[u > 0] * np.log(u[u > 0])).sum()
    z, y = logits.detach().numpy(), target.numpy()
    cases = [  # torch has λ KL(u‖p) for Firth, the objective λ CE(u‖p), which adds λ × entropy
        (firth_penalty(logits, prior, reduction="none"), SampleLoss(0.0, 1.0, u=u), 1.0),
        (confidence_penalty(logits, reduction="none"), SampleLoss(0.0, 0.0, 1.0), 0.0),
        (
            FirthLoss(2.5, prior=prior, reduction="none")(logits, target),
            PENALTIES["firth"].loss(2.5, u),
            2.5,
        ),
        (
            label_smoothing_loss(logits, target, 0.3, prior, reduction="none"),
            PENALTIES["label-smoothing"].loss(0.3, u),
            0.0,
        ),
    ]
    for got, loss, lam in cases:
        want = loss.value(z, y) - lam * entropy
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-13, atol=1e-13)
        (by_logits,) = torch.autograd.grad(got.sum(), logits, retain_graph=True)
        np.testing.assert_allclose(by_logits.numpy(), loss.gradient(z, y), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(K,), (3, K), (2, K, 2)])
@pytest.mark.parametrize("kind", ["indices", "probabilities"])
def test_autograd_checks(shape, kind):
    logits, target = draw(shape, kind, seed=3)
    logits.requires_grad_()
    functions = [
        lambda z: firth_loss(z, target, 0.8, PRIOR, weight=WEIGHT + 0.1),
        lambda z: label_smoothing_loss(z, target, 0.2, PRIOR, weight=WEIGHT + 0.1),
        firth_penalty,
        lambda z: confidence_penalty(z, reduction="sum"),
    ]
    for function in functions:
        assert torch.autograd.gradcheck(function, (logits,))
        assert torch.autograd.gradgradcheck(function, (logits,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    logits, target = draw((40, K), "indices", dtype=torch.float32)
    half = logits.to(dtype).requires_grad_()
    got = FirthLoss(1.0, prior=PRIOR, weight=WEIGHT)(half, target)
    want = FirthLoss(1.0, prior=PRIOR, weight=WEIGHT)(half.detach().float(), target)
    assert got.dtype == torch.float32
    assert torch.equal(got, want)
    got.backward()
    assert half.grad.dtype == dtype
    assert half.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [60000.0, 1e4, 0.0])
def test_extreme_logits_stay_finite(dtype, size):
    logits = (size * torch.tensor([[1.0, -1.0, 0.0, 1.0, -1.0]])).to(dtype).requires_grad_()
    target = torch.tensor([1])
    for value in (
        FirthLoss(3.0)(logits, target),
        FirthLoss(3.0, weight=WEIGHT)(logits, target),
        label_smoothing_loss(logits, target, 0.5),
        confidence_penalty(logits),
        firth_penalty(logits),
    ):
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.isfinite()
        assert gradient.isfinite().all()


def test_a_sum_that_float16_cannot_hold():
    logits = torch.zeros(30_000, K, dtype=torch.float16)
    logits[:, 0] = 10
    target = torch.ones(30_000, dtype=torch.long)
    assert FirthLoss(1.0, reduction="sum")(logits, target).isfinite()


def test_masked_classes_behave_as_in_torch():
    logits, target = draw((4, K), "indices")
    logits[:, 2], target[:] = -torch.inf, torch.tensor([0, 1, 3, 4])
    cross_entropy = torch.nn.CrossEntropyLoss()(logits, target)
    assert torch.equal(FirthLoss(0.0)(logits, target), cross_entropy)
    zero = torch.tensor(0.0, dtype=torch.float64)
    assert torch.equal(FirthLoss(zero)(logits, target), cross_entropy)
    smooth = torch.nn.CrossEntropyLoss(label_smoothing=0.1)(logits, target)
    assert smooth == FirthLoss(0.1)(logits, target) == torch.inf
    # the prior 0 of PRIOR at class 2 takes the masked class out
    logits.requires_grad_()
    masked = FirthLoss(0.5, prior=PRIOR)(logits, target)
    kept = [0, 1, 3, 4]
    plain = FirthLoss(0.5, prior=PRIOR[kept])(logits[:, kept], torch.arange(4))
    torch.testing.assert_close(masked, plain)
    for value in (masked, confidence_penalty(logits)):
        (gradient,) = torch.autograd.grad(value, logits)
        assert gradient.isfinite().all()


def test_ignored_samples_count_for_nothing():
    logits, target = draw((6, K), "indices")
    target[[1, 4]] = 2
    logits[1, 0] = -torch.inf
    for reduction in ("sum", "mean"):
        loss = FirthLoss(2.0, ignore_index=2, reduction=reduction)
        kept = target != 2
        plain = FirthLoss(2.0, reduction=reduction)(logits[kept], target[kept])
        torch.testing.assert_close(loss(logits, target), plain)
    everything = torch.full_like(target, -100)
    assert FirthLoss(1.0)(logits, everything).isnan()  # as torch: the mean of nothing
    assert torch.nn.CrossEntropyLoss()(logits, everything).isnan()


def test_label_smoothing_is_that_of_torch_and_the_firth_loss_scaled():
    logits, target = draw((6, K, 2), "indices")
    got = label_smoothing_loss(logits, target, 0.25)
    torch.testing.assert_close(got, functional.cross_entropy(logits, target, label_smoothing=0.25))
    lam, entropy = 1 / 3, float(torch.log(torch.tensor(float(K), dtype=torch.float64)))
    firth = firth_loss(logits, target, lam)
    torch.testing.assert_close((1 + lam) * got, firth + lam * entropy)


@pytest.mark.parametrize("kind", ["indices", "probabilities"])
@pytest.mark.parametrize("lam", [0.7, torch.tensor(0.7)], ids=["number", "tensor"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_compiles_to_one_graph(kind, lam):
    torch._dynamo.reset()
    logits, target = draw((6, K, 2), kind)
    loss = FirthLoss(lam, prior=PRIOR, weight=WEIGHT)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    logits.requires_grad_()
    (want,) = torch.autograd.grad(loss(logits, target), logits)
    (got,) = torch.autograd.grad(compiled(logits, target), logits)
    torch.testing.assert_close(compiled(logits, target), loss(logits, target))
    torch.testing.assert_close(got, want)
    if isinstance(lam, torch.Tensor):
        before = compiled(logits, target).item()
        loss.lam.fill_(0.0)  # scheduled without a new compilation
        assert compiled(logits, target) < before
        loss.lam.fill_(0.7)
    torch._dynamo.reset()


def test_vmap_and_grad_of_functions():
    logits, target = draw((7, K), "indices")

    def loss(z, y):
        return firth_loss(z[None], y[None], 0.4, PRIOR, weight=WEIGHT + 0.1)

    single = torch.stack([loss(z, y) for z, y in zip(logits, target, strict=True)])
    torch.testing.assert_close(torch.func.vmap(loss)(logits, target), single)
    gradients = torch.func.vmap(torch.func.grad(loss))(logits, target)
    want = [torch.func.grad(loss)(z, y) for z, y in zip(logits, target, strict=True)]
    torch.testing.assert_close(gradients, torch.stack(want))
    lams = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    path = torch.func.vmap(lambda lam: firth_loss(logits, target, lam))(lams)
    each = [firth_loss(logits, target, float(lam)) for lam in lams]
    torch.testing.assert_close(path, torch.stack(each))


def test_the_module_is_a_good_module():
    loss = FirthLoss(0.5, prior=[0.25, 0.75], weight=torch.ones(2), reduction="sum")
    assert repr(loss) == (
        "FirthLoss(lam=0.5, prior=<2 classes>, weight=<2 classes>, reduction='sum')"
    )
    assert (
        repr(FirthLoss(1, ignore_index=3)) == "FirthLoss(lam=1, ignore_index=3, reduction='mean')"
    )
    assert set(loss.state_dict()) == {"prior", "weight"}
    other = FirthLoss(0.5, prior=[0.5, 0.5], weight=torch.zeros(2))
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.prior, loss.prior)
    assert torch.equal(other.weight, loss.weight)
    assert loss.double().prior.dtype == torch.float64
    scheduled = FirthLoss(torch.tensor(2.0))
    assert set(scheduled.state_dict()) == {"lam"}
    loss.lam = 0.0
    logits, target = torch.zeros(3, 2), torch.tensor([0, 1, 1])
    assert torch.equal(
        loss(logits, target), functional.cross_entropy(logits, target, reduction="sum")
    )


def test_lam_may_be_assigned_whatever_it_was_before():
    logits, target = draw((6, K), "indices")
    loss = FirthLoss(torch.tensor(1.0))
    buffer = loss.lam
    loss.lam = 2.0
    assert loss.lam is buffer, "what was compiled with the tensor must see the new value"
    assert torch.equal(loss(logits, target), FirthLoss(torch.tensor(2.0))(logits, target))
    number = FirthLoss(1.0)
    number.lam = torch.tensor(2.0)
    assert number.state_dict() == {"lam": torch.tensor(2.0)}
    assert number.double().lam.dtype == torch.float64
    number.lam = torch.tensor(3.0)
    assert number.state_dict() == {"lam": torch.tensor(3.0)}
    for bad, sentence in ((-1.0, "must be a finite number"), (torch.ones(2), "has shape")):
        with pytest.raises(FirthshotError, match=sentence):
            number.lam = bad
    assert number.lam == 3, "a refused value changes nothing"


def test_lam_is_a_floating_copy_of_the_tensor_given():
    counted = FirthLoss(torch.tensor(1))
    counted.lam = 0.5
    assert counted.lam == 0.5
    given = torch.tensor(1.0)
    a, b = FirthLoss(given), FirthLoss(given)
    a.lam = 0.25
    assert (float(a.lam), float(b.lam), float(given)) == (0.25, 1.0, 1.0)
    a.lam = given
    a.lam = 0.5
    assert given == 1


def test_loading_a_state_leaves_the_callers_prior_and_weight_alone():
    prior, weight = np.array([0.25, 0.75]), torch.ones(2)
    loss = FirthLoss(1.0, prior=prior, weight=weight)
    loss.load_state_dict(FirthLoss(1.0, prior=[0.5, 0.5], weight=[2.0, 3.0]).state_dict())
    assert torch.equal(loss.weight, torch.tensor([2.0, 3.0]))
    assert prior.tolist() == [0.25, 0.75]
    assert weight.tolist() == [1.0, 1.0]


def test_gradients_reach_a_lam_that_requires_them():
    logits, target = draw((6, K), "indices", dtype=torch.float32)
    for given in (torch.tensor(2.0, dtype=torch.float64), torch.tensor(2.0)):
        given.requires_grad_()
        loss = FirthLoss(given)
        loss(logits, target).backward()
        torch.testing.assert_close(given.grad, firth_penalty(logits).to(given.dtype))
        with torch.no_grad():
            given.sub_(given.grad)  # a step of an optimiser
        assert loss.lam == given


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "lam",
    [
        torch.tensor(2, dtype=torch.float64),
        torch.tensor(2),
        torch.tensor(2, dtype=torch.float16),
        np.float64(2),
    ],
    ids=["float64", "integer", "float16", "numpy"],
)
def test_the_loss_has_the_type_of_the_logits(reduction, dtype, lam):
    logits, target = draw((6, K), "indices", dtype=dtype)
    want = FirthLoss(2.0, reduction=reduction)(logits, target)
    assert want.dtype == dtype
    for got in (
        FirthLoss(lam, reduction=reduction)(logits, target),
        firth_loss(logits, target, lam, reduction=reduction),
    ):
        assert got.dtype == dtype
        assert torch.equal(got, want)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["indices", "probabilities"])
@pytest.mark.parametrize("convert", [torch.Tensor.tolist, torch.Tensor.numpy])
def test_functions_take_prior_and_weight_as_lists_and_arrays(shape, kind, convert):
    logits, target = draw(shape, kind)
    weight = WEIGHT + 1
    prior_like, weight_like = convert(PRIOR), convert(weight)
    for function, coefficient in ((firth_loss, 1.5), (label_smoothing_loss, 0.3)):
        want = function(logits, target, coefficient, PRIOR, weight=weight)
        got = function(logits, target, coefficient, prior_like, weight=weight_like)
        assert torch.equal(got, want)
    assert torch.equal(firth_penalty(logits, prior_like), firth_penalty(logits, PRIOR))
    # not checked in functions: what does not sum to one is used as it is
    assert firth_penalty(logits, [1] * K).isfinite()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_functions_compile_with_lists():
    torch._dynamo.reset()
    logits, target = draw((6, K), "indices")

    def loss(z):
        return firth_loss(z, target, 1.0, [0.2] * K, weight=[1.0, 2.0, 3.0, 4.0, 5.0])

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits), loss(logits))
    torch._dynamo.reset()


def test_class_weights_may_be_a_list():
    logits, target = draw((6, K), "indices")
    weight = [1, 2, 3, 4, 5]
    listed = FirthLoss(1.0, weight=weight)
    tensor = FirthLoss(1.0, weight=torch.tensor(weight).float())
    assert torch.equal(listed(logits, target), tensor(logits, target))
    assert set(listed.state_dict()) == {"weight"}


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: FirthLoss(1, weight=[[1.0, 2.0]]), r"weight has shape \(1, 2\)"),
        (lambda: FirthLoss(1, weight=["a"]), "not a list of numbers"),
        (lambda: FirthLoss(-1), "lam must be a finite number ≥ 0, got -1"),
        (lambda: FirthLoss(float("nan")), "lam must be a finite number ≥ 0, got nan"),
        (lambda: FirthLoss("1"), "lam must be a finite number ≥ 0, got '1'"),
        (lambda: FirthLoss(None), "lam must be a finite number ≥ 0, got None"),
        (lambda: FirthLoss([1.0]), "lam must be a finite number ≥ 0, got .1.0."),
        (lambda: FirthLoss(torch.ones(2)), "lam has shape"),
        (lambda: FirthLoss(torch.nn.Parameter(torch.tensor(-1.0))), "got -1"),
        (lambda: EpisodeSampler([]), "takes trials of sample_episodes, not list"),
        (lambda: FirthLoss(1, prior=[0.5, 0.6]), "sums to 1.1"),
        (lambda: FirthLoss(1, prior=[[0.5, 0.5]]), r"shape \(1, 2\)"),
        (
            lambda: FirthLoss(1, reduction="max"),
            "reduction is 'max'; choose one of 'none', 'mean', 'sum'",
        ),
        (lambda: FirthLoss(1, prior=[0.5, 0.5])(torch.zeros(1, 3), torch.tensor([0])), "3 classes"),
        (lambda: firth_loss(torch.zeros(1, 3), torch.zeros(1, 3).long(), 1.0), "floating"),
        (lambda: firth_penalty(torch.zeros(1, 3), ["a"]), "prior = .'a'. is not a list"),
        (
            lambda: firth_loss(torch.zeros(1, 3), torch.tensor([0]), 1.0, weight=[1.0, 2.0]),
            r"weight has shape \(2,\) but the logits have 3 classes",
        ),
        (
            lambda: firth_loss(torch.zeros(1, 3), torch.ones(1, 3) / 3, 1.0, ignore_index=0),
            "no meaning",
        ),
        (lambda: label_smoothing_loss(torch.zeros(1, 3), torch.tensor([0]), 1.1), r"in \[0, 1\]"),
        (lambda: FirthBCELoss(1, prior=2), "between 0 and 1, got 2"),
        (lambda: FirthBCELoss(1, prior=[0.5]), "between 0 and 1, got .0.5."),
        (lambda: FirthLoss(1, ignore_index="a"), "must be an integer, got 'a'"),
        (lambda: firth_penalty(torch.zeros(8, 0)), "there is no class"),
        (lambda: firth_penalty(np.zeros((8, 2))), "must be a torch tensor, got ndarray"),
        (lambda: l2_penalty(torch.nn.Linear(2, 2), "ridge"), "number of training samples"),
        (lambda: l2_penalty(torch.nn.Linear(2, 2), "lasso"), "choose from"),
        (lambda: l2_penalty(torch.nn.ReLU()), "no trained parameter"),
        (lambda: CosineHead(0, 2), "one feature"),
        (lambda: CosineHead(2, 2, scale=0), "above 0"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(build, sentence):
    with pytest.raises(FirthshotError, match=sentence):
        build()
