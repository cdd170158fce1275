"""Names that people know from CDO, xarray and ETCCDI, and the list of all that the configuration may name."""
