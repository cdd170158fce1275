"""Configuration for the tools that bbflow plugs into: data only."""
