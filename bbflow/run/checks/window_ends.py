"""What the ends of windows cost, said before a run: with small fields that is more than to fold them."""

from bbflow.configuring.settings import Config
from bbflow.models.rates import ENDING, ENDING_TOGETHER
from bbflow.run.checks.finding import FINE, Finding
from bbflow.transit.states.footprint import MOST_SPANS
from bbflow.transit.states.state_layouts import ends_within


def check_ends(config: Config) -> list[Finding]:
    """Estimate what CPU time the end takes of the windows that end most often, however small the fields are."""
    items = [item for item in config.diagnostics.values() if ends_within(item)]
    windows = {window.name: window for item in items for window in item.windows if window.keeps is not None}
    if not windows:
        return []
    level = max(window.level for window in windows.values())
    names = [name for name, window in windows.items() if window.level == level]
    results = sum(len(item.operators) for item in items for window in item.windows if window.name in names)
    alone, together = (1e3 * rate.ending_s(results) for rate in (ENDING, ENDING_TOGETHER))
    text = f"each end of {' and '.join(names)} takes {alone:.1f} ms of the analysis' CPU to publish {results} results, "
    text += "however small: steps as far apart are each a batch of their own"
    if not any(own.is_users for item in items for own in item.operators):
        text += f"; {together:.1f} ms where small fields' steps come faster, up to {MOST_SPANS} ends at once"
    return [Finding(FINE, "ends", text)]
