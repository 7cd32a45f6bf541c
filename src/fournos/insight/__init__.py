"""Reads objects and their dependents, and explains why they wait, what they do and how they ended."""
