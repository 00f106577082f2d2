"""The trials of a run as batches of a torch ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, as_tensor
from torch.utils.data import Sampler

from firthshot.episodes import Episodes
from firthshot.errors import FirthshotError


class EpisodeSampler(Sampler):  # type: ignore[misc]
    """Yield the rows of one trial after another: its support, then its queries.

    For ``DataLoader(dataset, batch_sampler=EpisodeSampler(episodes))``, where the data set has the
    rows of the bank that the episodes were sampled from. The trials are those of
    `firthshot.sample_episodes`, so that a loop in torch sees what runs see.

    Parameters
    ----------
    episodes : Episodes
    """

    def __init__(self, episodes: Episodes) -> None:
        if not isinstance(episodes, Episodes):
            raise FirthshotError(
                f"EpisodeSampler takes trials of sample_episodes, not {type(episodes).__name__}."
            )
        self.episodes = episodes

    def __len__(self) -> int:
        return len(self.episodes)

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(len(self.episodes)):
            trial = self.episodes[number]
            yield [*trial.support.tolist(), *trial.query.tolist()]

    @property
    def support_size(self) -> int:
        """Return how many rows of a batch are its support: the first ones."""
        return int(self.episodes.support.shape[1])

    def labels(self, number: int) -> Tensor:
        """Return the labels 0 … ways − 1 of a batch by its place, support first."""
        if not 0 <= number < len(self):
            raise FirthshotError(
                f"There is no trial {number}: give a number from 0 to {len(self) - 1}."
            )
        trial = self.episodes[number]
        return as_tensor([*trial.support_labels.tolist(), *trial.query_labels.tolist()])
