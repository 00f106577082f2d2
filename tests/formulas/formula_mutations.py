"""Good formulas with hostile pieces spliced in, under a hook that sees whatever they would run."""

from __future__ import annotations

import builtins
import random
import sys
import time
from collections import Counter
from typing import Any

from firthshot.errors import FirthshotError
from firthshot.formulas._model_data import make_model_data

CANARY = "firthshot_canary"
LONGEST_SECONDS = 60.0  # a bound on hanging, far above what any formula needs
TABLE: dict[str, list[Any]] = {
    "y": [0, 1, 0, 1, 1, 0],
    "x": [1.5, 2.5, 2.0, 0.5, 3.0, 1.0],
    "n": [3, 4, 5, 6, 7, 8],
    "r": [1, 0, 2, 3, 1, 4],
    "g": list("abcabc"),
    "the age": [31.0, 44.0, 52.0, 38.0, 61.0, 47.0],
    "petal.length": [1.4, 4.7, 6.0, 1.3, 4.5, 5.1],
    # the names of columns come with a table, and are no more to be trusted
    f"a` + I({CANARY}()) + `b": [1.0, 2.0, 4.0, 3.0, 6.0, 5.0],
    f"{CANARY}()": [2.0, 1.0, 1.0, 5.0, 3.0, 2.0],
    f"offset({CANARY}())": list("uvuvuv"),
    "{open('owned', 'w')}": [0.0, 1.0, 0.0, 0.0, 2.0, 1.0],
}
GOOD = [
    "y ~ x", "y ~ x + n", "y ~ x * g", "y ~ C(g)", "y ~ C(g, Treatment('b'))", "y ~ C(g, Sum)",
    "y ~ C(g, contr.helmert)", "y ~ C(g, levels=['c', 'b', 'a'])", "y ~ factor(g):x",
    "y ~ poly(x, 2)", "y ~ bs(x, df=4)", "y ~ cr(x, df=3) - 1", "y ~ scale(x) + center(n)",
    "y ~ standardize(`the age`, ddof=1)", "y ~ log(`the age`) + petal.length",
    "y ~ sqrt(n) + I(x ** 2)", "y ~ I((x > 1) & (g == 'a'))", "y ~ {x + 1}",
    "y ~ x + offset(log(n))", "y ~ .", "y ~ x - 1", "y ~ 1", "y ~ (x + n)**2",
    "y ~ np.log1p(x) + sin(n)", "cbind(r, n) ~ x", "cbind(r, n - r + 4) ~ C(g) + x",
]  # fmt: skip
HOSTILE = [
    f"{CANARY}()", f"{CANARY}", f"`{CANARY}`()", "open('owned', 'w').write('x')",
    "open('owned','w')", "__import__('os').system('touch owned')", "eval('1+1')",
    f"exec('{CANARY}()')", f"eval('{CANARY}()')", "compile('1', '', 'eval')", "x.to_csv('owned')",
    "x.map(print)", "np.savetxt('owned', x)", "np.load('owned', allow_pickle=True)", "np", "contr",
    "np.lib.npyio", "C.__globals__['__builtins__']", "I.__globals__", "log.__class__",
    "().__class__.__base__.__subclasses__()", "x.__class__.__mro__[1].__subclasses__()",
    f"[{CANARY}() for _ in x]", f"[c for c in ({CANARY}(),)]", f"(lambda: {CANARY}())()",
    f"(z := {CANARY}())", f"f'{{{CANARY}()}}'", "globals()", "locals()", "vars()",
    "getattr(x, 'a')",
    "__builtins__", "__loader__", "__FORMULAIC_CONTEXT__", "__FORMULAIC_SPEC__.formula",
    "Q('x')", f"Q({CANARY}())", f"hashed(g, levels=2, hash_func={CANARY})", "9**9**9",
    "'x' * 10**9", "x ** 10**9", "poly(x, 10**9)", "poly(x, degree=999999999)", "bs(x, df=1e9)",
    "(x + n)**999999999", "(x + n + g + petal.length)**9", "*".join(["x", "n", "g"] * 20),
    "x[0]", "x[:]", "*x", "**x", "x if n else g", f"x or {CANARY}()", f"not {CANARY}()",
    f"log(x, out={CANARY}())", f"log(x, where={CANARY}())", f"scale(x, _state={CANARY}())",
    f"C(g, {CANARY})", f"C(g, Treatment({CANARY}()))", f"C(g, levels={CANARY}())",
    f"C(g, contr.custom({CANARY}()))", f"C(g, contr.{CANARY})", f"I(x, {CANARY}())",
    f"I.{CANARY}(x)", f"I(x)({CANARY}())", f"I(x)[{CANARY}()]", "I(`lambda`: 1)", "I(`yield`)",
    f"`x` if {CANARY}() `else` n", "\uff4f\uff50\uff45\uff4e('owned', 'w')", "await x", "b'x'",
    "1j", "...", "1e999", "-" * 400 + "x", "(" * 150 + "x" + ")" * 150, "~" * 3000 + "x",
    "+".join(["x"] * 2000), ":".join(["g"] * 300), "x#", "x\n", "x\0", "\ud800", "\\", "`", "'",
    '"', "{", "}", "%", "|", "~", "''' '''",
]  # fmt: skip
WRAPPERS = ["{}", "I({})", "{{{}}}", "offset({})", "log({})", "poly({}, 2)", "C({})", "`{}`",
            "cbind({}, n)", "x + {}", "x:{}", "({})", "'{}'", "{}({})", "np.{}",
            "C(g, {})"]  # fmt: skip
FORBIDDEN = ("open", "exec", "import", "os.", "subprocess.", "socket.", "ctypes.", "shutil.",
             "marshal.", "pickle.", "tempfile.", "builtins.input", "code.", "gc.",
             "mmap.")  # fmt: skip
_seen: list[str] = []
_watching: list[bool] = []


def attack(count: int, seed: int) -> dict[str, int]:
    """Evaluate ``count`` mutated formulas and count those accepted and refused.

    Raises
    ------
    AssertionError
        Names the formula that ran something, or failed with another error than ours.
    """
    _install()
    rng = random.Random(seed)
    outcomes = Counter(accepted=0, refused=0)
    for formula in (*GOOD, *GOOD):  # whatever is imported late is imported now
        _outcome(formula)
    for _ in range(count):
        outcomes[_watched(mutated(rng))] += 1
    return dict(outcomes)


def mutated(rng: random.Random) -> str:
    """Return a good formula with one to three hostile changes."""
    formula = rng.choice(GOOD)
    for _ in range(rng.randint(1, 3)):
        formula = rng.choice([_spliced, _replaced, _crossed, _scratched])(formula, rng)
    return formula


def _piece(rng: random.Random) -> str:
    piece = rng.choice(HOSTILE)
    for _ in range(rng.randint(0, 2)):
        wrapper = rng.choice(WRAPPERS)
        piece = wrapper.format(*[piece] * wrapper.count("{}"))
    return piece


def _spliced(formula: str, rng: random.Random) -> str:
    place = rng.randint(0, len(formula))
    return formula[:place] + rng.choice(["", " + ", ", ", ":"]) + _piece(rng) + formula[place:]


def _replaced(formula: str, rng: random.Random) -> str:
    """Put a piece where a column stands."""
    column = rng.choice([name for name in ("x", "n", "g", "r", "y", "2") if name in formula] or "y")
    return formula.replace(column, _piece(rng), 1)


def _crossed(formula: str, rng: random.Random) -> str:
    other = rng.choice(GOOD)
    return formula[: rng.randint(0, len(formula))] + other[rng.randint(0, len(other)) :]


def _scratched(formula: str, rng: random.Random) -> str:
    start = rng.randint(0, len(formula))
    middle = formula[start : start + rng.randint(0, 4)]
    return formula[:start] + middle * rng.choice([0, 2]) + formula[start + len(middle) :]


def _watched(formula: str) -> str:
    _seen.clear()
    _watching.append(True)
    start = time.monotonic()
    try:
        outcome = _outcome(formula)
    finally:
        _watching.clear()
    assert not _seen, f"{formula!r} ran {_seen}"
    assert time.monotonic() - start < LONGEST_SECONDS, f"{formula!r} hung"
    return outcome


def _outcome(formula: str) -> str:
    try:
        make_model_data(TABLE, formula)
    except FirthshotError as error:
        words = str(error)
        assert "\n" not in words, f"{formula!r} is refused in several lines: {words}"
        assert words.endswith((".", "?")), f"{formula!r} is refused without a sentence: {words}"
        return "refused"
    except Exception as error:
        raise AssertionError(f"{formula!r} failed with {error!r}") from error
    return "accepted"


def _install() -> None:
    """Hook into Python's audit once a process, and plant a builtin that must not be called."""
    if hasattr(builtins, CANARY):
        return

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if _watching and event.startswith(FORBIDDEN):
            _seen.append(f"{event}{arguments!r}")

    sys.addaudithook(hook)
    setattr(builtins, CANARY, lambda *_, **__: _seen.append(CANARY) or 1.0)
