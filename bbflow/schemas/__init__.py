"""Schemas: how programs write, turned into named fields with dimensions, units, fill values and time."""

from bbflow.schemas.cutting import Cut
from bbflow.schemas.schema import LandedStep, Schema, Stateless

__all__ = ["Cut", "LandedStep", "Schema", "Stateless"]
