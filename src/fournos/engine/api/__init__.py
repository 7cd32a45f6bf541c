"""What all kinds of resources share: conditions, times, quantities, rules, and CRDs from models."""
