"""Label smoothing CE((1−ε) y + ε u ‖ p) with ε = λ < 1 (Section firthvsls).

The gradient by the logits is p − (1−ε) y − ε u. (1+λ) times this loss with ε = λ/(1+λ) is
CE(y‖p) + λ CE(u‖p), Firth's objective up to the constant λ × entropy of u. The factor 1+λ changes
the step size of a gradient method and the balance with an L2 term.
"""

from __future__ import annotations

from firthshot.objective.penalties._family import PenaltyFamily

LABEL_SMOOTHING = PenaltyFamily("label-smoothing", label=-1.0, prior=1.0, title="label smoothing")
