"""A run may begin with the weights of any model, on other text and in another vocabulary."""

import json
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import nanogpt_files
from nanoscope.data.prepare import prepare
from nanoscope.interop.huggingface import TRANSPOSED
from nanoscope.interop.models import open_model
from nanoscope.model import GPT, ModelConfig
from small_runs import Folder

SHORT = ("--max_iters=2", "--eval_interval=1", "--eval_iters=full", "--device=cpu", "--out_dir=new")
CLASSIC = ("--recipe=classic", "--warmup_iters=2")


@pytest.fixture
def trained(folder: Folder) -> Folder:
    """With a modern run of 20 iterations in `run`, on a text of words."""
    folder.train()
    return folder


def text_of(folder: Folder) -> str:
    return (folder.path / "tiny.txt").read_text("utf-8")


def add_dataset(folder: Folder, text: str, name: str, tokenizer: str = "char") -> None:
    (folder.path / f"{name}.txt").write_text(text, "utf-8")
    prepare([folder.path / f"{name}.txt"], folder.path / "data" / name, tokenizer=tokenizer, vocab_size=None)


def settings(folder: Folder, run: str = "new") -> dict[str, object]:
    return tomllib.loads((folder.path / run / "config.toml").read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["laptop", "laptop-classic", "finetune"])
def test_the_weights_determine_recipe_and_shape_whatever_the_preset(preset: str, trained: Folder) -> None:
    out = trained.run("train", preset, "--init_from=run", "--dataset=data/tiny", *SHORT)
    assert "note: starting from run/checkpoints/step-000020 (20 iterations" in out
    assert "recipe=modern, block_size=16, n_layer=2, n_head=2, n_embd=32" in out
    found = settings(trained)
    assert (found["recipe"], found["n_layer"], found["n_embd"], found["block_size"]) == ("modern", 2, 32, 16)
    assert found["init_from"] == "run"


@pytest.mark.slow
def test_on_the_same_text_it_begins_where_the_run_ended(trained: Folder) -> None:
    trained.train("--out_dir=run", "--init_from=resume", "--eval_only=True", "--eval_iters=full", "--dtype=float32")
    trained.run("train", "laptop", "--init_from=run", "--dataset=data/tiny", *SHORT, "--dtype=float32")
    ended = trained.run("eval", "run", "--json")
    assert trained.evaluations("new")[0][1] == pytest.approx(json.loads(ended)["scores"][0]["loss"], abs=1e-5)


@pytest.mark.slow
def test_a_new_character_moves_all_ids_and_nothing_is_forgotten(trained: Folder) -> None:
    trained.train("--ngrams=1", "--overwrite=True")  # n-grams are found by the ids, and begin untrained
    add_dataset(trained, text_of(trained).replace("cat", "c!t"), "other")  # '!' comes before the letters
    out = trained.run("train", "laptop", "--init_from=run", "--dataset=data/other", *SHORT)
    old, new = (trained.run("eval", "run", "--json", f"--dataset=data/{name}") for name in ("tiny", "tiny"))
    assert old == new  # the run itself was not changed
    letters = len(set(text_of(trained)))
    assert f"{letters} of the {letters + 1} tokens of data/other are known to run; new ones begin untrained" in out
    before = json.loads(old)["scores"][0]["loss"]
    assert trained.evaluations("new")[0][1] < before + 0.5  # of 2.8 for a model that knows nothing


def test_the_rows_of_shared_tokens_are_kept(trained: Folder) -> None:
    add_dataset(trained, "!" + text_of(trained), "other")
    trained.run("train", "laptop", "--init_from=run", "--dataset=data/other", *SHORT, "--learning_rate=1e-30",
                "--matrix_lr=1e-30", "--table_lr=1e-30", "--weight_decay=0")  # fmt: skip
    old, new = open_model(trained.path / "run"), open_model(trained.path / "new")
    rows = [int(new.known_tokenizer().encode(character)[0]) for character in sorted(set(text_of(trained)))]
    assert rows != list(range(len(rows)))
    for table in ("embedding.weight", "head.weight"):
        assert torch.allclose(new.weights[table][rows], old.weights[table], atol=1e-6)
    added = int(new.known_tokenizer().encode("!")[0])
    assert new.weights["head.weight"][added].abs().max() < 1e-6  # 0, as in a new model
    assert torch.equal(new.weights["blocks.0.qkv.weight"], old.weights["blocks.0.qkv.weight"])


def test_bpe_of_another_text_shares_the_bytes(folder: Folder) -> None:
    add_dataset(folder, text_of(folder), "one", "bpe")
    add_dataset(folder, text_of(folder).replace("birds", "horses"), "two", "bpe")
    folder.train("--dataset=data/one", "--max_iters=2", "--eval_interval=2")
    out = folder.run("train", "laptop", "--init_from=run", "--dataset=data/two", *SHORT)
    assert "tokens of data/two are known to run" in out
    shared = int(out.partition(" of the ")[0].rpartition("note: ")[2])
    assert shared > 256


@pytest.mark.parametrize(
    ("flags", "messages"),
    [
        (["--n_layer=3"], ["n_layer=3 was typed, but run has n_layer=2"]),
        (["--recipe=classic"], ["recipe=classic was typed, but run has recipe=modern"]),
        (
            ["--n_embd=64", "--token_shift=2"],
            ["n_embd=64, token_shift=2 was typed, but run has n_embd=32, token_shift=0"],
        ),
    ],
)
def test_a_shape_that_contradicts_the_weights_is_refused(
    flags: list[str], messages: list[str], trained: Folder
) -> None:
    out = trained.run("train", "laptop", "--init_from=run", "--dataset=data/tiny", *SHORT, *flags, status=2)
    assert all(message in out for message in messages)
    assert not (trained.path / "new").exists()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["modern", "classic"])
def test_the_context_may_be_shorter(recipe: str, folder: Folder) -> None:
    folder.train(*(CLASSIC if recipe == "classic" else ()), "--max_iters=2", "--eval_interval=2")
    words = ["train", "laptop", "--init_from=run", "--dataset=data/tiny", *SHORT]
    folder.run(*words, "--block_size=8")
    assert settings(folder)["block_size"] == 8
    if recipe == "modern":  # its positions are rotary
        folder.run(*words, "--block_size=32", "--overwrite=True")
        assert settings(folder)["block_size"] == 32
    else:
        assert "block_size=32 exceeds the context length of run, 16" in folder.run(*words, "--block_size=32", status=2)


@pytest.mark.slow
def test_rates_for_another_recipe_are_not_used(folder: Folder) -> None:
    folder.train(*CLASSIC, "--max_iters=2", "--eval_interval=2")
    out = folder.run("train", "babygpt", "--init_from=run", "--dataset=data/tiny", *SHORT)
    assert "not used with recipe=classic: " in out
    assert "learning_rate=0.005" in out
    found = settings(folder)
    assert (found["recipe"], found["learning_rate"], found["table_lr"]) == ("classic", "auto", 0.3)


def test_nanogpts_checkpoint_is_a_beginning_too(tmp_path: Path) -> None:
    nanogpt_files.write_dataset(tmp_path / "data/hamlet")
    model = nanogpt_files.write_checkpoint(tmp_path / "out")
    folder = Folder(tmp_path)
    out = folder.run("train", "laptop", "--init_from=out/ckpt.pt", "--dataset=hamlet", *SHORT)
    assert "starting from out/ckpt.pt (20 iterations, val loss 2.5000): recipe=classic, block_size=" in out
    assert folder.evaluations("new")[0][1] == pytest.approx(nanogpt_files.loss_of(model), abs=1e-4)


@pytest.mark.parametrize("typed", [[], ["--tokenizer=char"]])
def test_gpt2_weights_need_gpt2_tokens(typed: list[str], folder: Folder) -> None:
    shape = ModelConfig(vocab_size=50257, block_size=8, n_layer=1, n_head=1, n_embd=2, bias=True)
    weights = {name.removeprefix("transformer."): tensor.detach() for name, tensor in GPT(shape).named_parameters()}
    layout = {name: w.t().contiguous() if name.endswith(TRANSPOSED) else w for name, w in weights.items()}
    (folder.path / "gpt2-small").mkdir()
    save_file(layout, folder.path / "gpt2-small/model.safetensors")
    described = {"n_layer": 1, "n_head": 1, "n_embd": 2, "n_positions": 8, "vocab_size": 50257}
    (folder.path / "gpt2-small/config.json").write_text(json.dumps(described), "utf-8")
    (folder.path / "eval_gpt2.py").write_text("init_from = 'gpt2-small'\neval_only = True\nblock_size = 4\n", "utf-8")
    out = folder.run("train", "eval_gpt2.py", "--dataset=data/tiny", "--device=cpu", *typed, status=2)
    assert "init_from=gpt2-small needs data in gpt2 tokens, but data/tiny has char tokens" in out
    assert "Use nanoscope prepare FILE --tokenizer=gpt2" in out


def test_a_source_that_is_no_model_is_one_message(folder: Folder) -> None:
    out = folder.run("train", "laptop", "--init_from=resum", "--dataset=data/tiny", status=2)
    assert "init_from=resum is not a model." in out
    assert "Did you mean resume?" in out
    assert "nanoGPT's ckpt.pt" in out
