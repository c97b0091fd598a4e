"""From a Run to findings: numbers and codes, no prose.

`analyse(run, options) -> Analysis`, `compare(runs, names) -> Comparison`; `schema` turns them into JSON.
"""
