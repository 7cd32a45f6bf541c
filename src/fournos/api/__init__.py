"""The typed resources: the single source of CRDs, CEL rules and reference pages."""
