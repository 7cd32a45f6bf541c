"""Alembic's entry: runs the revisions in the transaction of the connection that `migrate` passes."""

from alembic import context

from fournos.history.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
