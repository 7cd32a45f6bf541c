"""The resource types of the job system: ours, and Tekton's (the v1 API)."""

from __future__ import annotations

from fournos.kube.resource import Resource

FOURNOS_JOB = Resource("fournos.dev", "v1", "FournosJob", "fournosjobs")

PIPELINE = Resource("tekton.dev", "v1", "Pipeline", "pipelines")
PIPELINE_RUN = Resource("tekton.dev", "v1", "PipelineRun", "pipelineruns")
TASK_RUN = Resource("tekton.dev", "v1", "TaskRun", "taskruns")
