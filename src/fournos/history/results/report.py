"""What `fournos results check` prints: the findings of each file, as text and as data.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.history.results.check import CheckedResults
from fournos.insight.values import count


def report_text(checked: Mapping[str, CheckedResults]) -> list[str]:
    """The lines for people: the problems and warnings of each file, then what it holds."""
    lines = []
    for name, results in checked.items():
        lines += [f"{name}: {problem}" for problem in results.problems]
        lines += [f"{name}: warning: {warning}" for warning in results.warnings]
        lines.append(f"{name}: {summary(results)}")
    return lines


def summary(results: CheckedResults) -> str:
    failed = sum(not record.success for record in results.records)
    parts = [
        count(len(results.records), "record"),
        count(results.kpis, "KPI"),
        *([f"{failed} of the tests failed"] if failed else []),
        *([count(len(results.problems), "problem")] if results.problems else []),
    ]
    return ", ".join(parts)


def report_data(checked: Mapping[str, CheckedResults]) -> dict[str, Any]:
    return {
        name: {
            "valid": not results.problems,
            "records": len(results.records),
            "kpis": results.kpis,
            "problems": [problem.as_data() for problem in results.problems],
            "warnings": [warning.as_data() for warning in results.warnings],
        }
        for name, results in checked.items()
    }


def all_valid(checked: Mapping[str, CheckedResults]) -> bool:
    """True if no file has a problem: decides the exit code."""
    return not any(found.problems for found in checked.values())
