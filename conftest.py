"""For all test folders: BB nodes, and hypothesis without a clock and with the same examples in every run.

`pytest --hypothesis-profile=default` looks for new examples.
"""

from hypothesis import HealthCheck, settings

pytest_plugins = ["testsupport.nodes"]

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("steady")
