"""FournosCluster: clusters find themselves, and quotas follow the hardware."""
