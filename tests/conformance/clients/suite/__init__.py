"""kazoo's own test suite as a judge: what it says of ZooKeeper 3.8.0 is the base line, and holdfast must match it."""
