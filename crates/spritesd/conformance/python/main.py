"""The cases of one half of the Python SDK: `main.py sync` or `main.py async`, then parts of names to run only those."""

import asyncio
import importlib
import sys

import harness

# In the order in which they run.
PARTS = (
    "lifecycle",
    "errors",
    "commands",
    "terminal",
    "sessions",
    "control",
    "files",
    "policies",
    "checkpoints",
    "services",
    "ports",
    "completeness",
)


async def main(half: str, only: list[str]) -> None:
    trace = harness.Trace()
    trace.start()
    suite = harness.Suite(half)
    suite.trace = trace
    last = [importlib.import_module(f"cases.{part}") for part in PARTS][-1].NAME
    try:
        await harness.run_all(suite, last, only)
    finally:
        await suite.close()


asyncio.run(main(sys.argv[1], sys.argv[2:]))
