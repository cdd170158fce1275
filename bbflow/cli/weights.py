"""Make the weights of a remap from one grid to another, as a file for 'remap:' in the configuration, or for CDO.

A grid is a NetCDF file with its latitudes and longitudes, or a name: r360x180, n32 (Gaussian), hp512 or hpz9 (HEALPix,
nested). Analyses make the same weights themselves for 'remapnn: r360x180' and the like.

Example:
  bbflow weights ocean.nc r360x180 --method nn --output weights.nc
  cdo remap,r360x180,weights.nc ocean.nc ocean_1deg.nc
"""

import argparse
from pathlib import Path

from bbflow.host.log import tell
from bbflow.operators.space.making import MADE, MADE_OF_WHOLE, make_weights
from bbflow.operators.space.targets import target_of
from bbflow.operators.space.weights import write_weights


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("source", metavar="SOURCE", help="the grid that fields have")
    parser.add_argument("target", metavar="TARGET", help="the grid that they are to be put on")
    parser.add_argument(
        "--method",
        choices=[*MADE, *MADE_OF_WHOLE],
        default="nn",
        help="nn: the nearest neighbour; dis: four by distance; bil and bic: bilinear and bicubic, of latitudes and "
        "longitudes; con: first-order conservative; laf: the largest part (default: nn)",
    )
    parser.add_argument("--output", type=Path, default=Path("weights.nc"), help="the file (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    weights = make_weights(options.method, target_of(options.source), target_of(options.target))
    write_weights(weights, options.output)
    told = f"{len(weights.values)} links from {len(weights.starts) - 1} to {len(weights.cover)} points"
    tell(f"{options.output} has {told}")
    return 0
