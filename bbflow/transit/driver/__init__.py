"""The stages that a stream goes through, and what they decide."""
