"""Ensembles while they run: members are a dimension of one analysis.

Each member has an analysis of its own, an ordinary one: its `results.zarr` grows by one field per time, or per window
of `each`. What follows here knows members by these stores alone. A *moment* is one time (or one span of a window) of
the ensemble; it has one file with the states of all fields across members, and the *ledger* that says of each member
up to which of its times it is in them.

Why kills are right:

1. A member's analysis folds each of its steps once (`transit`), whatever is killed; a time that a restarted member
   writes again is left out there, since the restarted one continues the same store.
2. A moment's file is replaced by one rename, states and ledger together. Whoever dies before it has changed nothing;
   after it, the ledger leaves out what would be folded again.
3. A field of a member goes only after the moments that it is in have been renamed.
4. A moment is shown by one commit of ``ensemble.zarr``, made of its file alone; showing it again gives the same row.

So there is no order of events to get right but "rename, then let go".
"""
