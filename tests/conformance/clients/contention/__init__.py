"""Programs of four kinds in one queue: kazoo, Curator, the C client and HTTP callers on the lock `orders`.

`driver` starts and kills them, each writes what it does to one shared log (see `log`), and `judge` reads it.
"""
