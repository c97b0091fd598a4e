"""The classic model is GPT-2: its names, its size, its first loss, and what each position may see."""

import math

import pytest
import torch

from nanoscope.model import GPT, ModelConfig
from nanoscope.model.flops import flops_per_token, mfu
from nanoscope.model.kvcache import KVCache

TINY = ModelConfig(vocab_size=65, block_size=16, n_layer=2, n_head=2, n_embd=32)


def tiny_model(**changes: object) -> GPT:
    torch.manual_seed(0)
    return GPT(ModelConfig(**{**vars(TINY), **changes})).eval()  # type: ignore[arg-type]


def shape_only(**shape: object) -> GPT:
    """A model without memory: only its shapes."""
    with torch.device("meta"):
        return GPT(ModelConfig(**shape))  # type: ignore[arg-type]


GPT2 = {"block_size": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768}

ONE_LAYER = {
    "transformer.wte.weight": (65, 32),
    "transformer.wpe.weight": (16, 32),
    "transformer.h.0.ln_1.weight": (32,),
    "transformer.h.0.ln_1.bias": (32,),
    "transformer.h.0.attn.c_attn.weight": (96, 32),
    "transformer.h.0.attn.c_attn.bias": (96,),
    "transformer.h.0.attn.c_proj.weight": (32, 32),
    "transformer.h.0.attn.c_proj.bias": (32,),
    "transformer.h.0.ln_2.weight": (32,),
    "transformer.h.0.ln_2.bias": (32,),
    "transformer.h.0.mlp.c_fc.weight": (128, 32),
    "transformer.h.0.mlp.c_fc.bias": (128,),
    "transformer.h.0.mlp.c_proj.weight": (32, 128),
    "transformer.h.0.mlp.c_proj.bias": (32,),
    "transformer.ln_f.weight": (32,),
    "transformer.ln_f.bias": (32,),
    "lm_head.weight": (65, 32),
}


def test_parameters_have_the_names_and_shapes_of_nanogpt() -> None:
    state = tiny_model(n_layer=1, bias=True).state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == ONE_LAYER


def test_without_bias_only_the_biases_are_gone() -> None:
    expected = {name for name in ONE_LAYER if not name.endswith("bias")}
    assert set(tiny_model(n_layer=1).state_dict()) == expected


def test_the_output_layer_is_the_token_table() -> None:
    model = tiny_model()
    assert model.lm_head.weight is model.get_parameter("transformer.wte.weight")


def test_the_size_of_gpt2_is_what_nanogpt_prints() -> None:
    model = shape_only(vocab_size=50304, bias=False, **GPT2)
    assert model.parameter_count() == 123_587_328  # "number of parameters: 123.59M"
    assert sum(p.numel() for p in model.parameters()) == 124_373_760


def test_the_size_of_openais_weights_is_124_million() -> None:
    model = shape_only(vocab_size=50257, bias=True, **GPT2)
    assert sum(p.numel() for p in model.parameters()) == 124_439_808


def test_the_laptop_preset_has_the_size_that_nanogpt_prints_for_it() -> None:
    model = shape_only(vocab_size=65, block_size=64, n_layer=4, n_head=4, n_embd=128)
    assert f"{model.parameter_count() / 1e6:.2f}M" == "0.80M"


def test_the_first_loss_is_close_to_that_of_guessing() -> None:
    model = tiny_model(n_embd=64)
    tokens = torch.randint(65, (8, 17), generator=torch.Generator().manual_seed(1))
    loss = model(tokens[:, :-1], tokens[:, 1:]).item()
    assert abs(loss - math.log(65)) < 0.1


def test_initial_weights_have_gpt2s_spread() -> None:
    model = tiny_model(n_layer=8, n_embd=128, bias=True)
    parameters = dict(model.named_parameters())
    assert parameters["transformer.h.3.mlp.c_fc.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert parameters["transformer.h.3.mlp.c_proj.weight"].std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert parameters["transformer.h.3.attn.c_proj.weight"].std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert parameters["transformer.wte.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert parameters["transformer.h.3.ln_1.weight"].eq(1).all()
    assert parameters["transformer.h.3.mlp.c_fc.bias"].eq(0).all()


def test_a_loss_is_the_mean_cross_entropy_of_the_logits() -> None:
    model = tiny_model()
    tokens = torch.randint(65, (3, 9))
    shares = model(tokens[:, :-1]).log_softmax(-1)
    by_hand = -shares.gather(-1, tokens[:, 1:, None]).mean()
    assert model(tokens[:, :-1], tokens[:, 1:]).item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_a_later_token_does_not_change_earlier_logits() -> None:
    model = tiny_model()
    tokens = torch.randint(65, (1, 16))
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % 65
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :10], after[:, :10])
    assert not torch.allclose(before[:, 10:], after[:, 10:])


def test_every_earlier_token_is_seen() -> None:
    model = tiny_model()
    tokens = torch.randint(65, (1, 16))
    changed = tokens.clone()
    changed[0, 0] = (changed[0, 0] + 1) % 65
    assert not torch.allclose(model(tokens)[:, -1], model(changed)[:, -1], atol=1e-6)


def test_dropout_acts_in_training_only() -> None:
    model = tiny_model(dropout=0.5)
    tokens = torch.randint(65, (1, 16))
    torch.testing.assert_close(model(tokens), model(tokens), rtol=0, atol=0)
    model.train()
    assert not torch.allclose(model(tokens), model(tokens))


def test_a_model_of_one_token_of_context_works() -> None:
    assert tiny_model(block_size=1)(torch.zeros(2, 1, dtype=torch.int64)).shape == (2, 1, 65)


@pytest.mark.parametrize("pieces", [[16], [1] * 16, [5, 1, 1, 4, 5], [15, 1]])
def test_a_cache_gives_the_logits_of_reading_all_at_once(pieces: list[int]) -> None:
    model = tiny_model()
    tokens = torch.randint(65, (3, 16))
    whole = model(tokens)
    cache = KVCache(TINY.block_size)
    for piece in tokens.split(pieces, dim=1):
        logits = model(piece, cache=cache)
        torch.testing.assert_close(logits, whole[:, cache.length - 1], rtol=1e-4, atol=1e-5)
    assert cache.length == 16


def test_flops_per_token_of_gpt2_are_those_of_the_palm_formula() -> None:
    config = ModelConfig(vocab_size=50304, **GPT2)
    assert flops_per_token(config, 123_587_328) == 6 * 123_587_328 + 12 * 12 * 768 * 1024 == 854_770_176


def test_mfu_is_a_fraction_of_the_peak_and_none_if_the_peak_is_unknown() -> None:
    assert mfu(tokens_per_second=1000, flops_per_token=50, peak_flops=100_000) == 0.5
    assert mfu(1000, 50, None) is None
