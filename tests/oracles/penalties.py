"""Every registered penalty at coefficients that it takes, for tests that run over all of them."""

from __future__ import annotations

from dataclasses import dataclass

from firthshot.errors import FirthshotError
from firthshot.objective import PENALTIES


@dataclass(frozen=True)
class Case:
    """A registered penalty at a coefficient, with a class prior or with the uniform one."""

    name: str
    lam: float
    prior: bool

    def loss(self, prior):
        return PENALTIES[self.name].loss(self.lam, prior if self.prior else None)

    def __str__(self):
        return f"{self.name}-{self.lam:g}{'-prior' if self.prior else ''}"


def takes(family, lam):
    """Tell whether a penalty takes this coefficient."""
    try:
        family.check(lam)
    except FirthshotError:
        return False
    return True


def registered_cases():
    return [
        Case(name, lam, prior)
        for name, family in PENALTIES.items()
        for lam in (0.0, 0.3, 2.5)
        if takes(family, lam)
        for prior in ([False, True] if family.takes_prior else [False])
    ]
