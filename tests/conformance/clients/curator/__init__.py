"""Curator's recipes beyond the mutex, as Debian has them: one Java program with a check for each."""
