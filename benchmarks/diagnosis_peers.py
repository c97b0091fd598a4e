"""Runs a diagnosis tool that is a library, in the Python that has it: prints its findings as JSON.

python diagnosis_peers.py training-doctor|sk-autod CURVES.csv

Called by diagnosis.py; needs nothing but that library.
"""

import csv
import json
import sys
from pathlib import Path


def training_doctor(path: str) -> list[dict[str, object]]:
    from training_doctor import Doctor

    doctor = Doctor()
    doctor.set_auto_print(False)
    doctor.load(path)
    return [{"code": found.problem, "severity": found.severity.value} for found in doctor.analyze()]


def sk_autod(path: str) -> list[dict[str, object]]:
    """It compares losses by epoch: here, by evaluation."""
    from sk_autod import diagnose

    with Path(path).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["loss"] and row["eval_loss"]]
    report = diagnose([float(row["loss"]) for row in rows], [float(row["eval_loss"]) for row in rows])
    return [
        {"code": finding["detector_name"], "severity": finding["severity"].lower()}
        for finding in report.to_dict()["findings"]
    ]


TOOLS = {"training-doctor": training_doctor, "sk-autod": sk_autod}

if __name__ == "__main__":
    print(json.dumps(TOOLS[sys.argv[1]](sys.argv[2])))
