"""When there are enough members."""

from bbflow.functions import Answer

STANDARD_ERROR = 0.3


def enough(ensemble):
    """Stop when the mean of the last time that half of all have passed is known well enough."""
    members = ensemble.members_step
    passed = members >= members.max() / 2
    error = ensemble.x_step_standard_error.where(passed, drop=True)[-1].max().item()
    if error < STANDARD_ERROR:
        return Answer(stop=f"the standard error of the mean is {error:.2f}, below {STANDARD_ERROR}")
    return None
