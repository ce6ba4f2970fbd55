"""Software of others, unmodified, on a cluster of three: one file for each, with a function `run`. `runner` runs them, and
`case` and `coordination` help them.

`run(ensemble, quick)` returns the version that ran and a list of `Case`. An ensemble is of holdfast or of ZooKeeper.
"""
