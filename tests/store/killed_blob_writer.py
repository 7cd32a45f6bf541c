"""Writes one blob again and again, with other bytes each time, until it is killed."""

from __future__ import annotations

import asyncio
import sys

from fournos.history.blobs import open_blobs

KEY, SIZE = "run/artifacts/0", 4 * 2**20


async def main(place: str) -> None:
    blobs = open_blobs(place)
    for number in range(1, 200):
        await blobs.write(KEY, bytes([number]) * SIZE)
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
