"""Firth's penalty λ KL(u‖p) = λ Σ_c u_c log(u_c / p_c), the paper's Eq. firth_penalty.

Beside cross-entropy it is Eq. klobj. The gradient by the logits is λ (p − u), the Hessian
λ (diag p − p pᵀ). With the uniform u it is −(λ/K) log det M_i up to a constant (Eq. milogde), so
that λ = K/2 is exact Firth for a linear head on independent samples: see `theory_coefficient`.

With the class-frequency prior it is unigram label smoothing up to scale: see `label_smoothing`.
"""

from __future__ import annotations

from firthshot.objective.penalties._family import PenaltyFamily

FIRTH = PenaltyFamily("firth", prior=1.0, title="Firth")
