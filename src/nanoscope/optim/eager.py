"""torch.optim without torch._dynamo, which takes more than a second to import and only matters inside a compiler.

Some methods of torch's optimizers import it at their first call, to tell the compiler to leave them alone. nanoscope
compiles models, never optimizers. A version of torch that marks its methods in another way is slower to start, no more.
"""

import torch

MARK = "__dynamo_disable"  # where torch._compile keeps the version of a function that it leaves alone

for _method in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
    if _plain := getattr(getattr(torch.optim.Optimizer, _method), "__wrapped__", None):
        setattr(_plain, MARK, _plain)


class AdamW(torch.optim.AdamW):
    """torch's own; only the wrapper that imports torch._dynamo is left out."""

    step = torch.no_grad()(getattr(torch.optim.AdamW.step, "__wrapped__", torch.optim.AdamW.step))
