"""Be a Dask scheduler or worker that only those reach who can read the contact file's directory.

They speak TLS with a certificate made for the run, which lies beside the contact file (CONTACT.dask.pem), readable
for its owner only. What stands after -- goes to 'dask scheduler' or 'dask worker'.

Example, a scheduler, and a worker on each host of a BB node:
  bbflow dask scheduler --contact contact.json --scheduler-file scheduler.json
  bbflow dask worker --contact contact.json --scheduler-file scheduler.json --threads 2
"""

import argparse
from pathlib import Path

from bbflow.cli.without_effect import refuse
from bbflow.net.certificate import ensure_certificate
from bbflow.transit.clusters.service import serve_scheduler, serve_worker


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "bbflow dask {scheduler,worker} [options] [-- options of Dask]"
    parser.add_argument("kind", choices=("scheduler", "worker"), help="what to be")
    parser.add_argument("--contact", type=Path, required=True, help="contact file of the BB nodes")
    parser.add_argument("--scheduler-file", type=Path, required=True, help="where the scheduler writes its address")
    parser.add_argument("--listen", metavar="ADDRESS", help="address of this host (default: all, or what Dask finds)")
    parser.add_argument("--threads", type=int, default=2, help="threads that fold (default: %(default)s)")
    parser.add_argument(
        "--dashboard", metavar="ADDRESS", help="HOST:PORT of the scheduler's dashboard, which needs no key"
    )
    parser.set_defaults(simulation=[])


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.kind == "worker":
        refuse(options, "for a worker", "dashboard")
    else:
        refuse(options, "for a scheduler", "threads")
    certificate = ensure_certificate(options.contact)
    listening = (certificate, options.scheduler_file, options.listen)
    if options.kind == "worker":
        serve_worker(*listening, options.threads, options.simulation)
    else:
        try:
            serve_scheduler(*listening, options.dashboard, options.simulation)
        finally:
            certificate.unlink(missing_ok=True)
    return 0
