"""Tests of the Helm chart: what it is made of, what its values do, and how it is published."""
