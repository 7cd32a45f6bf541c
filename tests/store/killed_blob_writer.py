"""Writes one blob again and again, with other bytes each time, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fournos.history.blobs import S3Location, open_blobs

KEY, SIZE = "run/artifacts/0", 4 * 2**20


async def main(place: Path | S3Location) -> None:
    blobs = open_blobs(place)
    for number in range(1, 200):
        await blobs.write(KEY, bytes([number]) * SIZE)
        print(number, flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        bucket, prefix, endpoint = sys.argv[1:]
        asyncio.run(main(S3Location(bucket, prefix, endpoint=endpoint)))
