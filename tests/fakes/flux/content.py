"""The content of the store as an archive has it, and the scripts that rc1 and rc3 run beside it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .jobs import Job

if TYPE_CHECKING:
    from .leader import Leader

_ENTRY = "stand-in/state.json"


def dump(leader: Leader, path: str) -> None:
    """Writes a tar archive, compressed according to its name."""
    mode: Literal["w:gz", "w"] = "w:gz" if path.endswith((".gz", ".tgz")) else "w"
    jobs = [job.dump() for job in leader.queues[""].jobs]
    state = {"jobs": jobs, "numbers": leader.numbers}
    body = json.dumps(state).encode()
    with tarfile.open(name=path, mode=mode) as archive:
        entry = tarfile.TarInfo(_ENTRY)
        entry.size = len(body)
        archive.addfile(entry, io.BytesIO(body))
    leader.log(6, f"content: dumped {len(jobs)} jobs to {path}")


def restore(leader: Leader, path: str) -> None:
    """A file that is not there restores nothing."""
    if not path or not Path(path).is_file():
        return
    with tarfile.open(path) as archive:
        member = archive.extractfile(_ENTRY)
        assert member is not None
        state = json.loads(member.read())
    leader.queues[""].jobs = [Job.restored(found) for found in state["jobs"]]
    leader.numbers = state["numbers"]
    leader.log(6, f"content: restored {len(state['jobs'])} jobs from {path}")


async def scripts(name: str, uri: str) -> bool:
    """Runs the executable files of this name in the folders of FLUX_RC_EXTRA; False: one of them failed."""
    env = {**os.environ, "FLUX_URI": uri}
    for folder in filter(None, os.environ.get("FLUX_RC_EXTRA", "").split(":")):
        for script in sorted(Path(folder, name).glob("*")):
            if os.access(script, os.X_OK):
                process = await asyncio.create_subprocess_exec(str(script), env=env)
                if await process.wait():
                    return False
    return True
