"""The body of a step, on a real small model: micro-batches, clipping, too little memory, what is not finite, times."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.errors import JobError
from nanoscope.hardware.device import DeviceConfig
from nanoscope.messages import joined
from nanoscope.model import ModelConfig, Modern, build_model
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.machine import Machine

RECIPES = ["classic", "modern"]


def engine(recipe: str = "modern", *, compile: bool = False, **settings: Any) -> Engine:
    given = {"n_layer": 2, "n_head": 2, "n_embd": 16, "block_size": 8, "batch_size": 8, "recipe": recipe, **settings}
    config = TrainConfig(**{"gradient_accumulation_steps": 1, **given})
    torch.manual_seed(1)
    shape = ModelConfig(
        vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=16, recipe=config.recipe, dropout=config.dropout
    )
    model = build_model(shape)
    torch.nn.init.normal_(list(model.parameters())[-1])  # an output layer of zeros has gradients for itself alone
    machine = Machine(DeviceConfig("cpu", "a CPU", "float32", compile, joined("", ())), Processes())
    return Engine(config, model, machine)


def sequences(count: int = 8) -> Batch:
    tokens = torch.randint(11, (2, count, 8), generator=torch.Generator().manual_seed(5))
    return tokens[0], tokens[1]


def weights(trained: Engine) -> dict[str, Tensor]:
    return copy.deepcopy(trained.plain_model.state_dict())


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def memory_for(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that has memory for only `most` sequences at once."""
    original = Modern.forward

    def set_up(most: int) -> None:
        def forward(self: Modern, tokens: Tensor, *rest: Any) -> Tensor:
            if len(tokens) > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
            return original(self, tokens, *rest)

        monkeypatch.setattr(Modern, "forward", forward)

    return set_up


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_returns_the_mean_loss_of_all_sequences_before_it(recipe: str) -> None:
    trained = engine(recipe)
    with torch.no_grad():
        expected = trained.plain_model(*sequences()).item()
    done = trained.step([sequences()], 0, 1e-3)
    assert done is not None
    assert done.loss == pytest.approx(expected, rel=1e-5)
    assert done.finite
    assert done.seconds > 0
    assert done.passes == []  # only if they are to be timed


@pytest.mark.parametrize("recipe", RECIPES)
def test_several_micro_batches_are_one_large_batch(recipe: str) -> None:
    whole, parts = engine(recipe), engine(recipe)
    tokens, targets = sequences()
    split = list(zip(tokens.split([4, 3, 1]), targets.split([4, 3, 1]), strict=True))
    for step in range(3):
        one, many = whole.step([(tokens, targets)], step, 1e-3), parts.step(split, step, 1e-3)
        assert one is not None
        assert many is not None
        assert many.loss == pytest.approx(one.loss, rel=1e-5)
        assert many.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)


def test_gradients_are_clipped_and_their_norm_is_that_before() -> None:
    """Adam divides by the size of a gradient, so only a limit beside its epsilon shows in the weights."""
    free, clipped = engine("classic", grad_clip=0.0), engine("classic", grad_clip=1e-9)
    begin = weights(free)
    norms = [each.step([sequences()], 0, 1e-2) for each in (free, clipped)]
    assert norms[0] is not None
    assert norms[1] is not None
    assert norms[0].grad_norm == norms[1].grad_norm > 0.01
    name = next(name for name in begin if name.endswith("c_attn.weight"))
    moved = [(weights(each)[name] - begin[name]).abs().max().item() for each in (free, clipped)]
    assert moved[1] < 0.5 * moved[0]


def test_each_group_of_parameters_has_its_own_share_of_the_rate() -> None:
    trained = engine()
    trained.step([sequences()], 0, 1e-2)
    for group in trained.optimizer.param_groups:
        assert group["lr"] == 1e-2 * group.get("lr_scale", 1.0)


def test_dropout_depends_on_the_step_alone() -> None:
    first, again = engine("classic", dropout=0.3), engine("classic", dropout=0.3)
    torch.rand(3)  # whatever else draws random numbers in between
    for trained in (first, again):
        trained.step([sequences()], 7, 1e-3)
    assert same(weights(first), weights(again))
    again = engine("classic", dropout=0.3)
    again.step([sequences()], 8, 1e-3)
    assert not same(weights(first), weights(again))


def test_too_little_memory_halves_the_micro_batch_and_repeats_the_step_exactly(memory_for: Any) -> None:
    small = engine("modern", dropout=0.3)
    expected = engine("modern", dropout=0.3, batch_size=2, gradient_accumulation_steps=4)
    parts = list(zip(*(half.split(2) for half in sequences()), strict=True))
    done = expected.step(parts, 3, 1e-3)
    memory_for(3)
    found = small.step([sequences()], 3, 1e-3)
    assert small.micro_batch == 2
    assert found is not None
    assert done is not None
    assert found.loss.hex() == done.loss.hex()
    assert same(weights(small), weights(expected))


def test_a_sequence_that_does_not_fit_alone_is_an_error(memory_for: Any) -> None:
    memory_for(0)
    with pytest.raises(JobError, match="out of memory with one sequence"):
        engine().step([sequences()], 0, 1e-3)


def test_too_little_memory_for_the_optimizer_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = engine()

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    monkeypatch.setattr(trained.optimizer, "step", full)
    with pytest.raises(JobError, match="out of memory in the optimizer's step"):
        trained.step([sequences()], 0, 1e-3)
    assert trained.micro_batch == 8


def test_a_step_that_is_abandoned_has_changed_nothing() -> None:
    trained, asked = engine("modern", dropout=0.1), list[tuple[int, int]]()
    begin = weights(trained)
    parts = list(zip(*(half.split(2) for half in sequences()), strict=True))

    def abandoned(done: int, total: int) -> bool:
        asked.append((done, total))
        return done == 2

    assert trained.step(parts, 0, 1e-3, abandoned=abandoned) is None
    assert asked == [(0, 4), (1, 4), (2, 4)]
    assert same(weights(trained), begin)
    assert not trained.optimizer.state
    assert all(parameter.grad is None for parameter in trained.plain_model.parameters())
    repeated, straight = trained.step(parts, 0, 1e-3), engine("modern", dropout=0.1).step(parts, 0, 1e-3)
    assert repeated is not None
    assert straight is not None
    assert repeated.loss.hex() == straight.loss.hex()


def test_a_loss_or_a_norm_that_is_not_finite_is_noticed() -> None:
    trained = engine()
    with torch.no_grad():
        next(trained.plain_model.parameters())[sequences()[0][0, 0]] = math.nan
    done = trained.step([sequences()], 0, 1e-3)
    assert done is not None
    assert not done.finite


def test_passes_and_update_are_timed_singly_where_asked() -> None:
    parts = list(zip(*(half.split(2) for half in sequences()), strict=True))
    done = engine().step(parts, 0, 1e-3, timed=True)
    assert done is not None
    assert len(done.passes) == 4
    assert sum(done.passes) + done.update_seconds <= done.seconds


@pytest.mark.parametrize("recipe", RECIPES)
def test_passes_and_update_read_no_number_from_the_device(recipe: str) -> None:
    """Fake tensors have none. The memory of a model is counted that way."""
    with FakeTensorMode():
        trained = engine(recipe, gradient_accumulation_steps=2)
        batch = (torch.zeros(8, 8, dtype=torch.int64), torch.zeros(8, 8, dtype=torch.int64))
        for step in range(2):
            assert trained.passes([batch, batch], step) is not None
            trained.update(1e-3)
    assert trained.optimizer.state


@pytest.mark.parametrize("recipe", RECIPES)
def test_warming_up_changes_nothing_that_training_depends_on(recipe: str) -> None:
    trained = engine(recipe)
    begin, random = weights(trained), torch.get_rng_state()
    warmed_up = trained.warm_up()
    assert warmed_up.seconds > 0
    assert warmed_up.compile_problem is None
    assert trained.plain_model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert not trained.optimizer.state
    assert same(weights(trained), begin)
    assert all(parameter.grad is None for parameter in trained.plain_model.parameters())


def test_too_little_memory_for_the_compiled_model_halves_the_micro_batch(
    memory_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, object]] = []

    def compiled(model: torch.nn.Module, **options: object) -> torch.nn.Module:
        asked.append(options)
        return _Wrapped(model)

    monkeypatch.setattr(torch, "compile", compiled)
    trained = engine(compile=True)
    memory_for(2)
    assert trained.warm_up().compile_problem is None
    assert asked == [{"dynamic": False}]
    assert trained.micro_batch == 2
    assert isinstance(trained.model, _Wrapped)


class _Wrapped(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return self.model(tokens, targets)  # type: ignore[no-any-return]


def test_a_compiler_that_fails_leaves_training_in_eager_mode_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(_Wrapped):
        def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
            raise NotImplementedError("\nno C++ compiler\nand much more")

    monkeypatch.setattr(torch, "compile", lambda model, **_: Broken(model))
    trained = engine(compile=True)
    assert trained.warm_up().compile_problem == "no C++ compiler"
    assert trained.model is trained.plain_model
    assert trained.step([sequences()], 0, 1e-3) is not None
