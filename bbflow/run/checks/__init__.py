"""What can be known of a run before its simulation starts."""
