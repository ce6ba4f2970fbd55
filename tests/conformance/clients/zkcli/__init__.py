"""ZooKeeper's own command line against an ensemble: what is typed, and what must be read."""
