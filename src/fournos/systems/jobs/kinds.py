"""The resource types of the FournosJob controller: ours, and those of Tekton's v1 API."""

from __future__ import annotations

from fournos.engine.kube.resource import Resource

PIPELINE = Resource("tekton.dev", "v1", "Pipeline", "pipelines")
PIPELINE_RUN = Resource("tekton.dev", "v1", "PipelineRun", "pipelineruns")
TASK_RUN = Resource("tekton.dev", "v1", "TaskRun", "taskruns")
