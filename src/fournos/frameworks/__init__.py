"""Kinds that Kueue does not know, queued by configuration: PipelineRun, and any other custom resource."""
