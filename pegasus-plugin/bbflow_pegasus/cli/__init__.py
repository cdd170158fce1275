"""The command line `bbflow-pegasus`: one module a subcommand, each with `add_arguments` and `run`."""

from collections.abc import Sequence

from bbflow.cli import Program

COMMANDS: dict[str, str] = {}
BBFLOW_PEGASUS = Program("bbflow-pegasus", __name__, "Burst-buffer staging for Pegasus workflows.", COMMANDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of bbflow-pegasus and give its exit code."""
    return BBFLOW_PEGASUS.main(arguments)
