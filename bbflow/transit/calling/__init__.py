"""Users' functions that are called with whole fields, beside the fold."""
