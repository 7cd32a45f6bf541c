"""The typed resources of this product: the source of their CRDs, rules and reference pages."""
