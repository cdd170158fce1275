"""What a run through a burst buffer did: one page, from Pegasus's records and the transfers' own."""
