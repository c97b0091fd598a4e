"""From a Run to findings: typed numbers, each with its sentence in English.

`analyse(run, options) -> Analysis`, `compare(runs, names) -> Comparison`; `schema` turns them into JSON.
"""
