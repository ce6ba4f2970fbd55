"""Helpers for frameworks. Each module needs its framework, which the package does not install."""
