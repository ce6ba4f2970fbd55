"""How fast Curator's lock recipe runs through a ZooKeeper port: ours beside ZooKeeper's, with one client, in one run."""
