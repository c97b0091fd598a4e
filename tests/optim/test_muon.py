import pytest
import torch

from fake_devices import SHAPES, forward_pass, gpu, on_fake_cuda, optimizer_step
from nanoscope.optim.muon import Muon, orthogonalized


def test_singular_values_become_about_one() -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalized(torch.randn(5, 64, 32)))
    assert values.min() > 0.5
    assert values.max() < 1.4


def test_tall_matrices_take_a_shorter_way_to_the_same_result() -> None:
    torch.manual_seed(0)
    tall = torch.randn(3, 48, 16) * torch.logspace(0, -3, 16)
    exact = orthogonalized(tall.double())  # the plain iteration: the shorter way is for float32 alone
    torch.testing.assert_close(orthogonalized(tall).double(), exact, rtol=1e-3, atol=1e-4)


def test_a_zero_gradient_changes_nothing() -> None:
    assert torch.equal(orthogonalized(torch.zeros(2, 8, 4)), torch.zeros(2, 8, 4))


def test_matrices_in_a_stack_are_updated_as_if_alone() -> None:
    torch.manual_seed(0)
    shapes = [(12, 4), (4, 12), (12, 4)]
    starts, gradients = [torch.randn(*shape) for shape in shapes], [torch.randn(*shape) for shape in shapes]

    def stepped(indices: list[int]) -> list[torch.Tensor]:
        parameters = [torch.nn.Parameter(starts[i].clone()) for i in indices]
        optimizer = Muon([{"params": parameters}], lr=0.1, momentum=0.9, weight_decay=0.01)
        for _ in range(3):
            for parameter, i in zip(parameters, indices, strict=True):
                parameter.grad = gradients[i].clone()
            optimizer.step()
        return [parameter.detach() for parameter in parameters]

    for together, alone in zip(stepped([0, 1, 2]), [stepped([i])[0] for i in range(3)], strict=True):
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_parts_of_a_tall_matrix_are_made_orthogonal_one_by_one() -> None:
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.zeros(12, 4))
    parameter.grad = torch.randn(12, 4)
    Muon([{"params": [parameter], "stacked": 3}], lr=1.0, momentum=0.0, weight_decay=0.0).step()
    for part in parameter.detach().view(3, 4, 4):
        assert torch.linalg.svdvals(part).max() < 1.4


def test_16_bits_give_the_same_matrices_but_for_their_rounding() -> None:
    torch.manual_seed(0)
    for rows in (16, 48):
        matrices = torch.randn(3, rows, 16) * torch.logspace(0, -1, 16)
        exact, rounded = orthogonalized(matrices), orthogonalized(matrices.bfloat16())
        assert rounded.dtype == torch.bfloat16
        assert (rounded.float() - exact).norm() < 0.05 * exact.norm()


def test_16_bits_do_not_blow_up_a_matrix_of_low_rank() -> None:
    torch.manual_seed(0)
    for rows in (128, 512):  # gradients of the first iterations are like this; the shorter way gave 40 times too much
        matrices = torch.randn(4, rows, 4) @ torch.randn(4, 4, 128)
        assert torch.linalg.svdvals(orthogonalized(matrices.bfloat16()).float()).max() < 1.4


@pytest.mark.usefixtures("fake_cuda")
@pytest.mark.parametrize(
    ("name", "capability", "dtype", "multiplied"),
    [
        ("Tesla T4", (7, 5), "float16", torch.float32),
        ("Tesla V100-SXM2-16GB", (7, 0), "float16", torch.float32),
        ("NVIDIA GeForce GTX 1080", (6, 1), "float32", torch.float32),
        ("NVIDIA A100-SXM4-40GB", (8, 0), "bfloat16", torch.bfloat16),
    ],
)
def test_a_gpu_multiplies_in_bfloat16_only_if_it_trains_in_it(
    name: str, capability: tuple[int, int], dtype: str, multiplied: torch.dtype
) -> None:
    choice = gpu(name, capability)
    assert choice.dtype == dtype
    with on_fake_cuda():
        model, _, _ = forward_pass(SHAPES["modern"], choice)
        matmuls = [op for op in optimizer_step(model, choice) if op.name in ("bmm", "baddbmm")]
    assert matmuls
    assert {dtype for op in matmuls for dtype in op.takes + op.gives} == {multiplied}
