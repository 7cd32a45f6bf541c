"""The resource types of this product, and those of Tekton that jobs are made of."""

from __future__ import annotations

from typing import Final

from fournos.engine.kube.resource import Resource as Resource

FOURNOS_JOB: Final = Resource("fournos.dev", "v1", "FournosJob", "fournosjobs")
FOURNOS_CLUSTER: Final = Resource("fournos.dev", "v1", "FournosCluster", "fournosclusters")
DISCOVER_ANNOTATION: Final = "fournos.dev/discover"
"""On a FournosCluster: a new value requests a discovery at once."""
FOURNOS_SCHEDULE: Final = Resource("fournos.dev", "v1", "FournosSchedule", "fournosschedules")
APPWRAPPER: Final = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
MINICLUSTER: Final = Resource("flux-framework.org", "v1alpha2", "MiniCluster", "miniclusters")

PIPELINE: Final = Resource("tekton.dev", "v1", "Pipeline", "pipelines")
PIPELINE_RUN: Final = Resource("tekton.dev", "v1", "PipelineRun", "pipelineruns")
RESOLVE_IMAGE_ANNOTATION: Final = "fournos.dev/resolve-image"
"""Annotation of a Pipeline: the image of the resolve Job."""
TASK_RUN: Final = Resource("tekton.dev", "v1", "TaskRun", "taskruns")
RUN_POD_TEMPLATE: Final = "spec.taskRunTemplate.podTemplate"
"""The path of nodeSelector and tolerations for all pods of a PipelineRun."""
