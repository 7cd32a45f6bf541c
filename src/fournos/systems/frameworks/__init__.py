"""Kinds without a Kueue integration, queued by configuration: PipelineRun and any other custom resource."""
