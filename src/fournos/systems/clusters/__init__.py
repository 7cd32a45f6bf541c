"""The FournosCluster operator: it discovers clusters and keeps Kueue's quotas in line with their GPUs."""
