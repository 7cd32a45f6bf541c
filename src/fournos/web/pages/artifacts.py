"""The files of a run: sent for a browser to save, never to show."""

from __future__ import annotations

from typing import Final

from fournos.history.artifacts.rules import ArtifactError, checked_path
from fournos.web.errors import PageError
from fournos.web.routes import Call, Content, Download
from fournos.web.runs.subject import subject


async def open_artifact(call: Call) -> Content:
    """Raises PageError for a path that is not plain."""
    try:
        path = checked_path(call.path["path"])
    except ArtifactError as error:
        raise PageError(404, "Not here", str(error), "See the artifacts on the page of the job.") from None
    about = await subject(call)
    pieces = call.viewer.client.history.artifact(about.uid, path, namespace=about.namespace)
    return Content(pieces, path.rpartition("/")[2])


DOWNLOADS: Final = (
    Download(name="artifact", path="/jobs/{namespace}/{name}/artifacts/{path:.+}", open=open_artifact),
)
