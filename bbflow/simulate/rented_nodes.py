"""Nodes that are rented before cloud storage: what the Time x Cost model gives for one choice of them."""

from dataclasses import dataclass

from bbflow.models.cloud import CloudProfile, cloud_choices


@dataclass(frozen=True, slots=True)
class Rent:
    """Which nodes are rented."""

    compute_nodes: int = 1
    """For the application."""
    io_nodes: int = 1
    """For its files."""
    masters: int = 1
    """For metadata."""


@dataclass(frozen=True, slots=True)
class CloudScenario:
    """An application on rented nodes."""

    profile: CloudProfile
    """What it does."""
    rent: Rent
    """Where it runs."""


@dataclass(frozen=True, slots=True)
class CloudOutcome:
    """What renting these nodes comes to."""

    total_s: float
    """How long the application takes."""
    cost: float
    """Of all nodes for that time, in the profile's currency."""
    time_cost: float
    """The product, which the paper makes least."""


def run_cloud(scenario: CloudScenario) -> CloudOutcome:
    """Return what the model says; nothing in it is random."""
    rent = scenario.rent
    (choice,) = cloud_choices(scenario.profile, [rent.compute_nodes], [rent.io_nodes], rent.masters)
    return CloudOutcome(choice.time_s, choice.cost, choice.time_cost)
