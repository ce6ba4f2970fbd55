"""What every part of the conformance kit needs: members that start and stop, tools, the table at the end.

Refuses to know what is judged: kazoo's suite, the lock contention and Curator's recipes are folders beside this one.
"""
