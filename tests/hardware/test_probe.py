"""Testing 16-bit matmuls, with children that crash, hang, are slow or fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanoscope.hardware import probe
from nanoscope.hardware.device import DeviceConfig, DeviceInfo, choose, with_fallbacks
from nanoscope.hardware.peaks import find_device
from nanoscope.hardware.probe import SAFE_ISA, ProbeResult, cpu_name, fast_bfloat16, make_cpu_ready, probe_cpu_dtype

DIES = "os.kill(os.getpid(), signal.SIGILL)"
DIES_WITHOUT_WORKAROUND = f"'ONEDNN_MAX_CPU_ISA' in os.environ or {DIES}; yield 1.5"
no_signals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")


class Child:
    """Decides what the child process of a probe runs, and records the questions of each."""

    def __init__(self, folder: Path) -> None:
        self.log, self.module = folder / "starts", folder / "made_up_child.py"

    def runs(self, code: str) -> None:
        self.module.write_text(
            "import os, signal, sys, time\n"
            "def time_matmuls(dtypes):\n"
            f"    open({str(self.log)!r}, 'a').write(next(dtypes) + '\\n')\n"
            f"    {code}\n"
            "    yield\n",
            "utf-8",
        )

    @property
    def starts(self) -> list[str]:
        return self.log.read_text("utf-8").splitlines() if self.log.exists() else []


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(probe, "CHILD", "made_up_child:time_matmuls")
    return Child(tmp_path)


def answers(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache/probes").iterdir())


def test_a_dtype_that_works_needs_no_environment(child: Child) -> None:
    child.runs("yield 0.5")
    assert probe_cpu_dtype("bfloat16") == ProbeResult("", {}, 0.5)
    assert child.starts == ["bfloat16"]


@no_signals
def test_a_child_that_dies_leads_to_the_workaround(child: Child) -> None:
    child.runs(DIES_WITHOUT_WORKAROUND)
    assert probe_cpu_dtype("bfloat16") == ProbeResult("", SAFE_ISA, 1.5)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        pytest.param(DIES, "it crashes the process: SIGILL", marks=no_signals),
        ("raise RuntimeError('x' * 9000)", "x" * 120),
    ],
)
def test_a_dtype_that_never_works_is_reported_with_the_reason(code: str, problem: str, child: Child) -> None:
    child.runs(code)
    assert probe_cpu_dtype("bfloat16") == ProbeResult(problem, {}, None)
    assert len(child.starts) == 2


@pytest.mark.slow
def test_a_child_that_hangs_is_given_up(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "TIMEOUT_SECONDS", 4)
    child.runs("time.sleep(600)")
    assert probe_cpu_dtype("bfloat16").problem.startswith("it does not finish within 4")


def test_results_are_cached_per_dtype(child: Child) -> None:
    child.runs("yield 3.0")
    first = probe_cpu_dtype("bfloat16")
    child.runs("raise RuntimeError('broken')")
    assert probe_cpu_dtype("bfloat16") == first
    assert probe_cpu_dtype("float16").problem
    assert child.starts == ["bfloat16", "float16", "float16"]


def test_a_problem_is_tested_again_after_a_day_and_a_success_is_not(child: Child, tmp_path: Path) -> None:
    child.runs("raise RuntimeError('a busy moment')")
    probe_cpu_dtype("bfloat16")
    child.runs("yield 1.0")
    assert probe_cpu_dtype("bfloat16").problem
    os.utime(answers(tmp_path)[0], (1, 1))
    assert not probe_cpu_dtype("bfloat16").problem
    os.utime(answers(tmp_path)[0], (1, 1))
    assert not probe_cpu_dtype("bfloat16").problem
    assert len(child.starts) == 3


KEPT = {"problem": "", "environment": {}, "times_float32": 1.0}


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "\x00",
        "[" * 100_000,
        *map(json.dumps, ([], None, "yes", 5, {}, {"problem": ""}, KEPT | {"problem": 0})),
        *map(json.dumps, (KEPT | {"times_float32": "1"}, KEPT | {"environment": None}, KEPT | {"environment": []})),
        json.dumps(KEPT | {"environment": {"LD_PRELOAD": "evil.so"}}),
    ],
)
def test_a_damaged_result_is_tested_again_and_replaced(damage: str, child: Child, tmp_path: Path) -> None:
    child.runs("yield 1.0")
    probe_cpu_dtype("bfloat16")
    (file,) = answers(tmp_path)
    file.write_text(damage, "utf-8")
    assert probe_cpu_dtype("bfloat16") == ProbeResult("", {}, 1.0)
    assert len(child.starts) == 2
    assert json.loads(file.read_text("utf-8")) == KEPT


def test_a_cache_that_cannot_be_written_is_no_problem(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "file/cache"))
    child.runs("yield 1.0")
    assert not probe_cpu_dtype("bfloat16").problem


@pytest.fixture
def before_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not loaded torch yet."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))


@no_signals
@pytest.mark.usefixtures("before_torch")
def test_the_workaround_is_in_the_environment_before_torch_loads(child: Child) -> None:
    child.runs(DIES_WITHOUT_WORKAROUND)
    make_cpu_ready("cpu", "bfloat16")
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"
    assert with_fallbacks(choice("bfloat16")) == (choice("bfloat16"), [])


@pytest.mark.usefixtures("before_torch")
@pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", "float32"), ("auto", "auto"), ("cuda", "bfloat16"), ("mps", "float16")]
)
def test_only_16_bit_matmuls_on_the_cpu_are_tested_before_torch_loads(device: str, dtype: str, child: Child) -> None:
    child.runs("raise RuntimeError('broken')")
    make_cpu_ready(device, dtype)
    assert child.starts == []


def choice(dtype: str, device: str = "cpu") -> DeviceConfig:
    return DeviceConfig(device, "a CPU", dtype, False, (device, dtype, "eager"))


def test_a_dtype_that_does_not_work_becomes_float32_with_a_note(child: Child) -> None:
    child.runs("raise RuntimeError('not implemented')")
    used, notes = with_fallbacks(choice("float16"))
    assert (used.dtype, list(map(str, used.reasons))) == ("float32", ["cpu", "float32 instead of float16", "eager"])
    assert list(map(str, notes)) == ["float16 does not work on this CPU (not implemented); using float32"]


@no_signals
def test_a_dtype_whose_workaround_comes_too_late_is_not_used(child: Child) -> None:
    child.runs(DIES_WITHOUT_WORKAROUND)
    used, notes = with_fallbacks(choice("bfloat16"))
    assert used.dtype == "float32"
    assert "it needs ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 to be set before the start" in str(notes[0])


def test_a_slow_dtype_is_used_and_reported(child: Child) -> None:
    child.runs("yield 40.0")
    used, notes = with_fallbacks(choice("float16"))
    assert used == choice("float16")
    assert list(map(str, notes)) == ["float16 takes 40 times as long as float32 on this CPU"]


@pytest.mark.parametrize(
    "asked", [choice("float32"), choice("bfloat16", device="cuda:0"), choice("float16", device="mps")]
)
def test_choices_that_need_no_test_start_no_child(asked: DeviceConfig, child: Child) -> None:
    child.runs("raise RuntimeError('broken')")
    assert with_fallbacks(asked) == (asked, [])
    assert child.starts == []


@pytest.mark.slow
def test_the_real_child_finds_that_float32_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))
    found = probe_cpu_dtype("float32")
    assert (found.problem, found.environment) == ("", {})
    assert found.times_float32 is not None


def test_a_test_says_what_it_does(child: Child, capsys: pytest.CaptureFixture[str]) -> None:
    child.runs("yield 0.5")
    assert not probe_cpu_dtype("bfloat16").problem
    assert capsys.readouterr().err == "testing once whether this works here, and how fast: bfloat16, cpu\n"


@pytest.mark.parametrize(
    ("flags", "code", "fast"),
    [
        ("avx512f avx512_bf16", "yield 0.5", True),
        ("avx512f amx_bf16", "yield 0.3", True),
        ("avx512f avx512_bf16", "yield 0.9", False),
        ("avx512f avx512_bf16", "raise RuntimeError('no')", False),
    ],
    ids=["AVX512_BF16", "AMX", "hardly faster", "broken"],
)
def test_bfloat16_is_fast_where_it_works_and_saves_much_time(
    child: Child, monkeypatch: pytest.MonkeyPatch, flags: str, code: str, fast: bool
) -> None:
    monkeypatch.setattr(probe, "_cpu_flags", lambda: set(flags.split()))
    child.runs(code)
    assert fast_bfloat16() == fast


@pytest.mark.parametrize(
    ("before", "code", "fast"),
    [("bfloat16", "yield 0.9", True), ("bfloat16", "raise RuntimeError('no')", False), ("float32", "yield 0.5", False)],
    ids=["bfloat16, now on a busy machine", "bfloat16, which is broken here", "float32"],
)
def test_a_resumed_run_goes_on_in_its_dtype_where_it_works(
    child: Child, monkeypatch: pytest.MonkeyPatch, before: str, code: str, fast: bool
) -> None:
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"avx512_bf16"})
    child.runs(code)
    assert fast_bfloat16(before) == fast


def test_a_cpu_without_the_instructions_is_not_even_tested(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"avx2"})
    child.runs("yield 0.5")
    assert not fast_bfloat16()
    assert not child.starts


@no_signals
def test_bfloat16_that_needs_a_variable_is_not_chosen_once_torch_is_loaded(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"avx512_bf16"})
    child.runs(DIES_WITHOUT_WORKAROUND.replace("1.5", "0.5"))
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert not fast_bfloat16()
    monkeypatch.delitem(sys.modules, "torch")
    make_cpu_ready("auto", "auto", training=True)
    assert os.environ.pop("ONEDNN_MAX_CPU_ISA") == SAFE_ISA["ONEDNN_MAX_CPU_ISA"]


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_training_on_a_gpu_does_not_test_the_cpu(child: Child, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(probe, "_cpu_flags", lambda: {"avx512_bf16"})
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    child.runs("yield 0.5")
    make_cpu_ready(device, "auto", training=True)
    assert not child.starts


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Mac, as far as the name of its chip is concerned: the script that it has as sysctl."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.processor", lambda: "arm")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "sysctl"


@no_signals
def test_a_mac_is_named_by_its_chip_and_found_in_the_table(mac: Path) -> None:
    mac.write_text("#!/bin/sh\necho Apple M2 Pro: $*\n", "utf-8")
    mac.chmod(0o700)
    assert cpu_name() == "Apple M2 Pro: -n machdep.cpu.brand_string"
    mac.write_text("#!/bin/sh\necho Apple M2 Pro\n", "utf-8")
    choice = choose("auto", "auto", "auto", DeviceInfo(mps=True, cpu_name=cpu_name()))
    known = find_device(choice.device_name)
    assert known is not None
    assert (choice.device_name, known.name) == ("Apple M2 Pro GPU", "Apple M2 Pro")


@no_signals
@pytest.mark.parametrize("script", [None, "exit 1", "exec sleep 600", "printf '\\377'"])
def test_a_mac_whose_sysctl_is_missing_fails_or_hangs_has_a_name_too(
    script: str | None, mac: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", str(mac.parent))
    else:
        mac.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        mac.chmod(0o700)
    assert cpu_name() == "arm"


# --- how threads wait --------------------------------------------------------------------------------------------

# Between two operations of two threads there is a pause. Prints how often the second thread fell asleep meanwhile.
PAUSES = """
import os, time
from nanoscope.hardware.probe import make_cpu_ready
make_cpu_ready("cpu", "float32")
import torch
torch.set_num_threads(2)
x = torch.ones(1 << 20)
x.add(1)
second = max(map(int, os.listdir("/proc/self/task")))
def naps():
    with open(f"/proc/self/task/{second}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary"))
start = naps()
for _ in range(100):
    x.add(1)
    time.sleep(0.0005)
print(naps() - start)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_sleep_while_there_is_nothing_to_do() -> None:
    left_out = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    command = [sys.executable, "-c", PAUSES]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
    assert int(found.stdout) >= 90


@pytest.mark.usefixtures("before_torch")
@pytest.mark.parametrize("variable", ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_a_variable_of_the_user_decides_how_threads_wait(variable: str) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        os.environ.pop(name, None)
    os.environ[variable] = "7"
    make_cpu_ready("cpu", "float32")
    assert [os.environ.get(name) for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")].count(None) == 1
