"""Memory that is counted on fake tensors."""

from dataclasses import replace

import pytest
import torch

from fake_devices import SHAPES, forward_pass, gpu, on_fake_cuda
from nanoscope.config_sources import resolve
from nanoscope.hardware.device import DeviceConfig, autocast
from nanoscope.messages import joined
from nanoscope.model import Modern, build_model
from nanoscope.planning.memory import _faked, _Live, training_memory
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.initial_model import new_shape
from nanoscope.training.machine import Machine
from nanoscope.training.memory import PROCESS_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("words", [["laptop"], ["laptop-classic", "--dropout=0.1"], ["babygpt-classic"]])
def test_the_warm_ups_pass_of_one_sequence_and_fake_tensors_agree(words: list[str], dtype: str) -> None:
    machine = Machine(DeviceConfig("cpu", "CPU", dtype, False, joined(", ", ())), Processes())
    config = resolve([*words, "--block_size=64"]).config
    shape = new_shape(config, 65)
    model = build_model(shape)
    if isinstance(model, Modern) and model.ngrams is not None:
        model.ngrams.sparse = True  # as training does on a CPU
    warm = Engine(config, model, machine).warm_up().memory
    for sequences in (config.batch_size, 4 * config.batch_size):
        counted = training_memory(shape, config, sequences, "cpu", dtype)
        assert counted.parameters == model.parameter_count()
        assert counted.peak == pytest.approx(warm.total(sequences) - PROCESS_BYTES, rel=0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize("recipe", SHAPES)
@pytest.mark.parametrize(("dtype", "rel"), [("bfloat16", 0.001), ("float16", 0.001), ("float32", 0.02)])
def test_a_forward_pass_keeps_on_a_gpu_what_is_counted_for_it(recipe: str, dtype: str, rel: float) -> None:
    shape, choice = replace(SHAPES[recipe], n_layer=2, vocab_size=2048, dropout=0.1), gpu(dtype=dtype)

    def kept(live: _Live, model: torch.nn.Module) -> int:
        return live.bytes - sum(each.nbytes for each in (*model.parameters(), *model.buffers()))

    with on_fake_cuda(), _Live() as live:
        model, loss, _ = forward_pass(shape, choice)
        on_gpu = kept(live, model)
        assert loss.requires_grad
    with _faked("cuda") as live:
        model = build_model(shape)
        tokens = torch.zeros(2, shape.block_size, dtype=torch.int64)
        with autocast(replace(choice, device="cpu")):
            loss = model(tokens, tokens)
        counted = kept(live, model)
        assert loss.requires_grad
    assert counted == pytest.approx(on_gpu, rel=rel)  # in float32 attention is another kernel, which saves a copy
