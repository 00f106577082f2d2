"""The confidence penalty λ KL(p‖U) = λ (Σ_c p_c log p_c + log K) (Table confpenalty).

It is the negative entropy of the predictions, shifted to be zero at the uniform distribution. The
gradient by the logits is λ p (log p − Σ p log p). It is not convex in the logits: its curvature is
negative where a prediction is confident.
"""

from __future__ import annotations

from firthshot.objective.penalties._family import PenaltyFamily

CONFIDENCE = PenaltyFamily("confidence", confidence=1.0, title="the confidence penalty")
