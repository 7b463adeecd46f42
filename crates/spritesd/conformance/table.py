"""The tables of docs/spritesd.md: written from results, and compared with them."""

from __future__ import annotations

import difflib
import pathlib

# Names of the tables: what stands where one begins and ends.
SDKS = "conformance"
AGENTS = "conformance of agents' tools"


def sections(path: pathlib.Path) -> dict[str, list[str]]:
    """The operations by section, in their order."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            found[line[2:]] = []
        elif line:
            found[list(found)[-1]].append(line)
    return found


def rendered(parts: dict[str, list[str]], results: dict[str, list[dict]]) -> str:
    """Operation × SDK or tool: `pass`, `–` for what one does not have, or the number of a sentence below the table."""
    told = {suite: {result["operation"]: result for result in cases} for suite, cases in results.items()}
    sentences: list[str] = []

    def cell(result: dict) -> str:
        if result["result"] == "pass":
            return "pass"
        if result["result"] == "absent":
            return "–"
        kind = "not run" if result["result"] == "not run" else "deviates"
        if result["detail"] not in sentences:
            sentences.append(result["detail"])
        return f"{kind} ({sentences.index(result['detail']) + 1})"

    lines = ["| operation | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for section, operations in parts.items():
        lines.append(f"| **{section}** |" + " |" * len(results))
        lines += [
            f"| {operation} | " + " | ".join(cell(told[suite][operation]) for suite in results) + " |"
            for operation in operations
        ]
    lines.append("")
    lines += [f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
    return "\n".join(lines)


def compare(path: pathlib.Path, name: str, text: str, bless: bool) -> list[str]:
    """What is wrong with the table of that name in `path`; with `bless`, it is written instead."""
    begins = f"<!-- {name}: written by `BLESS=1 crates/spritesd/conformance/run` -->"
    ends = f"<!-- end of {name} -->"
    document = path.read_text()
    before, begin, rest = document.partition(begins)
    _, end, after = rest.partition(ends)
    if not begin or not end:
        return [f"{path.name} has no place for the table ({begins} … {ends})"]
    wanted = f"{before}{begins}\n\n{text}\n\n{ends}{after}"
    if document == wanted:
        return []
    if bless:
        path.write_text(wanted)
        print(f"written: {path.name}: {name}")
        return []
    difference = difflib.unified_diff(document.splitlines(), wanted.splitlines(), "written", "seen", lineterm="", n=0)
    return [f"{path.name}: {name} is not what was seen; BLESS=1 writes it anew:\n" + "\n".join(difference)]
