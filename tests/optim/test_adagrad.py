import torch

from nanoscope.optim.adagrad import Adagrad


def test_adagrad_computes_what_torchs_computes() -> None:
    torch.manual_seed(0)
    start = torch.randn(10, 3)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    mine, other = Adagrad([{"params": [ours]}], lr=0.1), torch.optim.Adagrad([theirs], lr=0.1, eps=Adagrad.EPS)
    for _ in range(4):
        ours.grad = torch.randn(10, 3)
        theirs.grad = ours.grad.clone()
        mine.step()
        other.step()
    torch.testing.assert_close(ours, theirs)


def test_a_sparse_gradient_moves_the_rows_it_names_as_a_dense_one_would() -> None:
    torch.manual_seed(0)
    start, gradient = torch.randn(10, 3), torch.randn(10, 3)
    gradient[[0, 2, 5]] = 0
    dense, sparse = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimizers = [Adagrad([{"params": [parameter]}], lr=0.1) for parameter in (dense, sparse)]
    for _ in range(3):
        dense.grad = gradient.clone()
        sparse.grad = gradient.to_sparse(1)
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(dense, sparse)
    assert torch.equal(sparse[[0, 2, 5]], start[[0, 2, 5]])
