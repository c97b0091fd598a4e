"""The probe of 16-bit matmuls, with children that die, are slow, or talk nonsense."""

import json
import os
import sys
from pathlib import Path

import pytest

from nanoscope.errors import JobError
from nanoscope.hardware import probe
from nanoscope.hardware.probe import SAFE_ISA, ProbeResult, make_cpu_ready, probe_cpu_dtype

DIES = "import os; os.abort()"
DIES_WITHOUT_WORKAROUND = "import os; os.environ.get('ONEDNN_MAX_CPU_ISA') or os.abort(); print(1.5)"


class Child:
    """Decides what the probe's child process runs, and remembers each of its starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log, self.monkeypatch = folder / "starts", monkeypatch

    def runs(self, code: str) -> None:
        self.monkeypatch.setattr(probe, "CHILD", f"open({str(self.log)!r}, 'a').write('DTYPE\\n')\n{code}")

    @property
    def starts(self) -> list[str]:
        return self.log.read_text("utf-8").split() if self.log.exists() else []


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    return Child(tmp_path, monkeypatch)


def test_a_format_that_works_needs_nothing(child: Child) -> None:
    child.runs("print(0.5)")
    assert probe_cpu_dtype("bfloat16") == ProbeResult(True, {}, 0.5)
    assert child.starts == ["bfloat16"]


def test_a_child_that_dies_leads_to_the_workaround(child: Child) -> None:
    child.runs(DIES_WITHOUT_WORKAROUND)
    assert probe_cpu_dtype("bfloat16") == ProbeResult(True, SAFE_ISA, 1.5)


@pytest.mark.parametrize("code", [DIES, "raise SystemExit(3)", "print('nonsense')", "pass"])
def test_a_format_that_never_works_is_said_not_to(code: str, child: Child) -> None:
    child.runs(code)
    assert probe_cpu_dtype("bfloat16") == ProbeResult(False, {}, None)
    assert len(child.starts) == 2


def test_an_answer_is_kept_for_each_format(child: Child) -> None:
    child.runs("print(3.0)")
    first = probe_cpu_dtype("bfloat16")
    child.runs(DIES)
    assert probe_cpu_dtype("bfloat16") == first
    assert child.starts == ["bfloat16"]
    assert not probe_cpu_dtype("float16").works
    assert child.starts == ["bfloat16", "float16", "float16"]


@pytest.mark.parametrize("damage", ["", "[]", "{", "null", "\x00"])
def test_a_damaged_file_of_answers_is_asked_anew_and_replaced(damage: str, child: Child, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/cpu-probe.json").write_text(damage, "utf-8")
    child.runs("print(1.0)")
    assert probe_cpu_dtype("bfloat16").works
    assert len(json.loads((tmp_path / "cache/cpu-probe.json").read_text("utf-8"))) == 1


def test_a_kept_answer_of_another_shape_is_asked_anew(child: Child, tmp_path: Path) -> None:
    child.runs("print(1.0)")
    probe_cpu_dtype("bfloat16")
    file = tmp_path / "cache/cpu-probe.json"
    for odd in ({"works": True}, [], None, "yes"):
        file.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text("utf-8")), odd)), "utf-8")
        assert probe_cpu_dtype("bfloat16") == ProbeResult(True, {}, 1.0)


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "file/cache"))
    child.runs("print(1.0)")
    assert probe_cpu_dtype("bfloat16").works


@pytest.fixture
def before_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not loaded torch yet."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))


@pytest.mark.usefixtures("before_torch")
def test_the_workaround_is_in_the_environment_before_torch_loads(child: Child) -> None:
    child.runs(DIES_WITHOUT_WORKAROUND)
    make_cpu_ready("cpu", "bfloat16")
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"


@pytest.mark.usefixtures("before_torch")
def test_a_format_that_kills_the_process_is_refused_with_the_way_out(child: Child) -> None:
    child.runs(DIES)
    with pytest.raises(JobError, match=r"bfloat16 matmuls do not work on this CPU[^\0]*--dtype=float32"):
        make_cpu_ready("cpu", "bfloat16")


@pytest.mark.usefixtures("before_torch")
def test_a_slow_format_is_reported(child: Child, capsys: pytest.CaptureFixture[str]) -> None:
    child.runs("print(40.0)")
    make_cpu_ready("cpu", "float16")
    assert capsys.readouterr().err == "note: float16 takes 40 times as long as float32 on this CPU\n"


@pytest.mark.usefixtures("before_torch")
@pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", "float32"), ("auto", "auto"), ("cuda", "bfloat16"), ("mps", "float16")]
)
def test_nothing_is_probed_where_no_16_bit_matmul_on_the_cpu_was_asked_for(
    device: str, dtype: str, child: Child
) -> None:
    child.runs(DIES)
    make_cpu_ready(device, dtype)
    assert child.starts == []


def test_the_real_child_answers_on_this_machine(child: Child) -> None:
    found = probe_cpu_dtype("bfloat16")
    assert found.works == (found.times_float32 is not None)
