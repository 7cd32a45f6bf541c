"""Settings of the job system, read from FOURNOS_… environment variables (the Fournos README's table)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import yaml
from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

import fournos
from fournos.api.fournosjob_values import MAX_REPEATS
from fournos.api.pod_rights import operator_account
from fournos.engine.api.values import parse_duration, with_placeholder
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.controller import matcher
from fournos.engine.runtime.part import Seconds

SecretPolicy = Literal["open", "listed"]


def _duration(text: str) -> str:
    parse_duration(text)
    return text


class JobSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_", extra="ignore", populate_by_name=True)

    namespace: str = Field(
        min_length=1,
        validation_alias=AliasChoices("FOURNOS_NAMESPACE", "FOURNOS_WORKLOAD_NAMESPACE"),
        description="Kubernetes namespace of the jobs (required). FOURNOS_WORKLOAD_NAMESPACE is the same.",
    )
    secrets_namespace: str = Field(
        "psap-secrets", description="Namespace where kubeconfig and vault-synced secrets are stored"
    )
    tekton_dashboard_url: str = Field("", description="Tekton Dashboard base URL")
    kubeconfig_secret_pattern: str = Field(
        "kubeconfig-{cluster}", description="Pattern for resolving cluster names to Secret names"
    )
    vault_secret_pattern: str = Field("vault-{entry}", description="Pattern for naming vault-synced Secrets")
    kueue_local_queue_name: str = Field("fournos-queue", description="Kueue LocalQueue name")
    gpu_resource_prefix: str = Field("fournos/gpu-", description="Resource name prefix for GPU types")
    gc_interval_sec: Seconds = Field(300.0, description="Resource GC interval (seconds)")
    resolve_deadline_sec: Annotated[int, Field(gt=0)] = Field(
        300, description="Deadline for the resolve Job (seconds)"
    )
    resolve_job_template: str = Field(
        "config/forge/resolve_job.yaml",
        description="Path (relative to project root) to the Job YAML template for the resolve step. "
        "Override with dev/mock-resolve/resolve_job.yaml for local development.",
    )
    artifact_pvc_size: str = Field(
        "1Gi",
        description="Size of the per-PipelineRun PVC used for shared artifact storage across tasks",
    )
    pipeline_timeout: str = Field("25h0m0s", description="Timeout of a whole PipelineRun")
    pipeline_tasks_timeout: str = Field("24h0m0s", description="Timeout of a PipelineRun's tasks")
    pipeline_finally_timeout: str = Field("1h0m0s", description="Timeout of a PipelineRun's finally tasks")
    stop_grace_sec: Seconds = Field(
        3900.0,
        description="How long a graceful stop may run finally tasks before it is made immediate (seconds)",
    )
    eviction_grace_sec: ClassVar[float] = 300.0
    """The same for a run that Kueue evicted: another job waits for its quota."""
    deletion_grace_sec: ClassVar[float] = 300.0
    """The same for a run whose FournosJob is deleted."""
    terminate_grace_sec: ClassVar[float] = 120.0
    """Seconds that an immediate stop may take before the PipelineRun and its pods are deleted by force."""
    retry_backoff_sec: Annotated[float, Field(ge=0)] = Field(
        10.0, description="Wait before the first retry of a failed run; doubles each time (seconds)"
    )
    validation_image: str = Field(
        "",
        description="An image with kubectl for the connectivity check; Pipelines get it as the parameter "
        "`validation-image`. Empty: the one that config/fournos-validation names",
    )
    hardware_required: bool = Field(
        True,
        description="Whether a job with exclusive: false fails when neither its author nor its resolver "
        "names GPUs; false: it runs without GPUs, on one slot of a cluster",
    )
    secrets_kept: Literal["job", "run"] = Field(
        "job",
        description="How long copies of secrets stay: until the job is deleted, or until its run ends",
    )
    history_enabled: bool = Field(
        False,
        description="Whether a history records the jobs (`fournos run --enable history`): the deletion after "
        "spec.ttl then waits until the end of the job is recorded",
    )
    archive_deadline_sec: ClassVar[float] = 600.0
    """How long that deletion waits at most, counted from the end of spec.ttl (seconds)."""
    confirm_repeats: Annotated[int, Field(ge=0, le=MAX_REPEATS)] = Field(
        0,
        description="How many reruns a job without spec.confirm is worth whose results the history suspects "
        "to be a regression; 0: none. Needs FOURNOS_HISTORY_ENABLED",
    )
    confirm_priority: str = Field(
        "",
        description="WorkloadPriorityClass of those reruns; empty: none, so that they come after all jobs "
        "that have one",
    )
    secret_policy: SecretPolicy = Field(
        "open",
        description="Which jobs may use a Secret of the secrets namespace that has no list of its own "
        "(annotations fournos.dev/allowed-namespaces, -owners, -labels): all (open), or none (listed)",
    )

    @field_validator("pipeline_timeout", "pipeline_tasks_timeout", "pipeline_finally_timeout")
    @classmethod
    def _is_duration(cls, value: str) -> str:
        return _duration(value)

    @field_validator("kubeconfig_secret_pattern")
    @classmethod
    def _names_cluster(cls, value: str) -> str:
        return with_placeholder(value, "cluster")

    @field_validator("vault_secret_pattern")
    @classmethod
    def _names_entry(cls, value: str) -> str:
        return with_placeholder(value, "entry")

    def kubeconfig_secret(self, cluster: str) -> str:
        return self.kubeconfig_secret_pattern.replace("{cluster}", cluster)

    def vault_secret(self, ref: str) -> str:
        """Returns the Secret's name for a `secretRefs` entry; `my-creds` and `vault-my-creds` are equal."""
        prefix, _, suffix = self.vault_secret_pattern.partition("{entry}")
        if ref.startswith(prefix) and ref.endswith(suffix) and len(ref) > len(prefix) + len(suffix) > 0:
            return ref
        return self.vault_secret_pattern.replace("{entry}", ref)


# --- who may use a Secret ------------------------------------------------------------------------------
# Access control of Secrets by annotations on the Secret.
#
# The annotations are read from the Secret at every copy.  A list holds allowed names, separated by commas.
# If a Secret has several lists, each must allow the job.  A list that cannot be parsed allows no job.

NAMESPACES: Final = "fournos.dev/allowed-namespaces"
OWNERS: Final = "fournos.dev/allowed-owners"
LABELS: Final = "fournos.dev/allowed-labels"
"""The annotation key of a label selector that matches the labels of allowed jobs."""


@dataclass(frozen=True, slots=True)
class SecretConsumer:
    """A job that requests a Secret, and the policy for Secrets without a list.

    Instances are the predicate of a CopySecret step: it is called with the Secret's name and annotations.
    """

    policy: SecretPolicy
    namespace: str
    owner: str
    labels: tuple[tuple[str, str], ...]

    def __call__(self, name: str, annotations: Mapping[str, str]) -> str:
        """Returns why the Secret refuses the job, or "" if the job may use it."""
        lists = {key: annotations[key] for key in (NAMESPACES, OWNERS, LABELS) if key in annotations}
        if not lists and self.policy == "listed":
            return (
                f"Secret '{name}' lets no job in: FOURNOS_SECRET_POLICY=listed asks for an annotation, "
                f"such as {NAMESPACES}: {self.namespace}"
            )
        for key, text in lists.items():
            if not self._is_in(key, text):
                return f"Secret '{name}' does not let this job in: its annotation {key} is '{text}'"
        return ""

    def _is_in(self, key: str, text: str) -> bool:
        if key == LABELS:
            try:
                return bool(text.strip()) and matcher(text)(dict(self.labels))
            except ValueError:
                return False
        wanted = self.namespace if key == NAMESPACES else self.owner
        return bool(wanted) and wanted in (one.strip() for one in text.split(","))


def secret_consumer(job: Obj, policy: SecretPolicy) -> SecretConsumer:
    """Returns the Asker for a FournosJob under this policy."""
    meta = job["metadata"]
    labels = tuple(sorted((meta.get("labels") or {}).items()))
    return SecretConsumer(policy, meta["namespace"], str((job.get("spec") or {}).get("owner") or ""), labels)


# --- the template of the resolve Job -------------------------------------------------------------------
# The template of the resolve Job: a YAML file that the settings name.

_PACKAGE = Path(fournos.__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Template:
    """The parsed Job, or the reason why it cannot be used."""

    path: str
    body: Obj | None
    error: str = ""


def template_roots() -> tuple[Path, ...]:
    """Returns the directories in which a relative path of a template is searched.

    They are the working directory, a checkout, and the installed data.
    """
    return (Path.cwd(), _PACKAGE.parents[1], _PACKAGE / "_data")


def load_template(path: str, *, roots: tuple[Path, ...]) -> Template:
    """Reads the template from the first root that contains it; an absolute path is used as it is.

    The operator keeps running with an invalid template.  Each job then reports the error in its condition.
    """
    for root in roots:
        candidate = root / path
        if not candidate.is_file():
            continue
        try:
            body = yaml.safe_load(candidate.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            return Template(path, None, f"cannot be read: {error}")
        problem = _problem(body)
        return Template(path, None if problem else body, problem)
    return Template(path, None, "no such file")


def _problem(body: object) -> str:
    if not isinstance(body, dict) or body.get("kind") != "Job":
        return "is not a batch/v1 Job"
    pod = ((body.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = pod.get("containers")
    if not isinstance(containers, list) or not containers:
        return "has no container in spec.template.spec.containers"
    # The image is the choice of a job's author.
    account = operator_account(pod.get("serviceAccountName") or pod.get("serviceAccount"))
    return f"cannot be used: {account}" if account else ""
