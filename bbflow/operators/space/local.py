"""What one writer rank's block has of a result."""

from dataclasses import dataclass

from bbflow.operators.family import Array, Steps


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """Takes the points of one block, and reduces them; small when pickled."""

    start: tuple[int, ...]
    """First index of the result's region to which the block contributes."""
    count: tuple[int, ...]
    """Shape of that region; () if the result is one number. Parts that the block lacks are missing in the partials."""
    complete: bool
    """Whether every result of the region depends on this block alone."""

    def values(self, steps: Steps) -> list[Array]:
        """Give the results of a complete region.

        Parameters
        ----------
        steps
            The block's values, each of shape (points of the block,).

        Returns
        -------
        list
            For each step an array of shape (prod(count),) and type `Placement.dtype`; NaN where nothing is valid.
        """
        raise NotImplementedError

    def partial(self, steps: Steps) -> Array:
        """Give mergeable components, float64 of shape (steps, k, prod(count)); see `Placement.merge`."""
        raise NotImplementedError
