"""Made an index of the trigrams of names, which 0012 drops: databases that are newer never have it."""

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Changes nothing."""
