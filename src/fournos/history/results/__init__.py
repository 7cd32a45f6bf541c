"""Results of benchmarks: test records and their KPIs, in the formats of Caliper (schema versions 1 and 2)."""
