"""The sources of a configuration, the values it accepts, and the messages about invalid ones."""

import dataclasses
import math
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoscope.config import (
    KEYS,
    OPTIONS,
    TYPES,
    TrainConfig,
    alternatives,
    build,
    to_toml,
    without_options,
)
from nanoscope.config_sources import resolve
from nanoscope.errors import JobError, UsageError


def mistakes_of(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(words)
    return str(caught.value)


def nanogpt_file(folder: Path, text: str, name: str = "train_mine.py") -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def toml_file(folder: Path, text: str, name: str = "mine.toml") -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


# --- sources and their order -------------------------------------------------------------------------------------


def test_the_default_source_is_the_laptop_preset() -> None:
    assert resolve([]).config == resolve(["laptop"]).config
    assert resolve([]).name == "laptop"


def test_a_preset_wins_over_defaults_a_file_over_the_preset_and_a_flag_over_all(tmp_path: Path) -> None:
    file = toml_file(tmp_path, "n_head = 2\nmax_iters = 7\n")
    config = resolve(["laptop", file, "--max_iters=9"]).config
    assert config.weight_decay == KEYS["weight_decay"].default
    assert (config.n_layer, config.n_head, config.max_iters) == (4, 2, 9)


def test_flags_win_at_any_position(tmp_path: Path) -> None:
    file = toml_file(tmp_path, "max_iters = 7\n")
    assert resolve(["--max_iters=9", file]).config.max_iters == 9


def test_the_last_of_two_flags_wins() -> None:
    assert resolve(["--max_iters=8", "--max_iters=9"]).config.max_iters == 9


def test_a_recipe_brings_its_own_rates_over_those_of_a_preset_and_a_note_says_so() -> None:
    resolved = resolve(["gpt2-124m", "--recipe=modern"])
    config = resolved.config
    assert (config.peak_lr, config.warmup, config.lowest_lr) == (1e-2, 0, 0.0)
    assert list(map(str, resolved.changes)) == [
        "not used with recipe=modern: learning_rate=0.0006, warmup_iters=2000, min_lr=6e-05"
    ]
    assert list(map(str, resolve(["quick", "--recipe=classic"]).changes)) == [
        "not used with recipe=classic: ngrams=6, learning_rate=0.02"
    ]


def test_a_typed_rate_wins_over_the_recipes_own_and_is_not_noted() -> None:
    resolved = resolve(["gpt2-124m", "--recipe=modern", "--learning_rate=3e-3", "--min_lr=6e-5"])
    assert (resolved.config.peak_lr, resolved.config.warmup, resolved.config.lowest_lr) == (3e-3, 0, 6e-5)
    assert list(map(str, resolved.changes)) == ["not used with recipe=modern: warmup_iters=2000"]


@pytest.mark.parametrize("words", [["gpt2-124m", "--recipe=classic"], ["laptop", "--recipe=modern"], ["gpt2-124m"]])
def test_a_recipe_that_a_preset_has_anyway_changes_nothing(words: list[str]) -> None:
    assert resolve(words).config == resolve(words[:1]).config
    assert resolve(words).changes == []


def test_a_file_that_changes_the_recipe_of_its_preset_keeps_only_its_own_rates(tmp_path: Path) -> None:
    resolved = resolve(["gpt2-124m", toml_file(tmp_path, 'learning_rate = 5e-3\nrecipe = "modern"\n')])
    assert (resolved.config.n_layer, resolved.config.peak_lr, resolved.config.warmup) == (12, 5e-3, 0)
    assert str(resolved.changes[0]).endswith("warmup_iters=2000, min_lr=6e-05")


def test_the_schedule_of_nanogpts_train_py_is_not_for_another_recipe(tmp_path: Path) -> None:
    for words in ([nanogpt_file(tmp_path, "recipe = 'modern'\nmax_iters = 50")],
                  [nanogpt_file(tmp_path, "max_iters = 50", "train_other.py"), "--recipe=modern"]):  # fmt: skip
        config = resolve(words).config
        assert (config.decay_iters, config.lowest_lr) == (50, 0.0)


def test_a_file_that_changes_the_dataset_of_its_preset_has_that_datasets_tokenizer(tmp_path: Path) -> None:
    config = resolve(["quick", toml_file(tmp_path, 'dataset = "data/poems"\n')]).config
    assert (config.dataset, config.tokenizer) == ("data/poems", "auto")


def test_flags_are_kept_separate_from_the_values_of_sources() -> None:
    resolved = resolve(["laptop", "--max_iters=9"])
    assert resolved.typed == {"max_iters": 9}
    assert resolved.given["n_layer"] == 4
    assert "bias" not in resolved.given


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["babygpt"], "babygpt"),
        (["laptop", "--dataset=data/poems"], "laptop-poems"),
        (["laptop", "--dataset=shakespeare"], "laptop-shakespeare"),
    ],
)
def test_a_run_is_named_after_its_source_and_a_typed_dataset(words: list[str], name: str) -> None:
    assert resolve(words).name == name


def test_a_run_is_named_after_its_config_file_without_nanogpts_prefix(tmp_path: Path) -> None:
    assert resolve([nanogpt_file(tmp_path, "n_layer = 2", "train_poems.py")]).name == "poems"


# --- flags -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--batch_size=5"],
        ["--batch_size", "5"],
        ["--batch-size=5"],
        ["--batch-size", "5"],
        ["--batch_size=5.0"],
        ["--batch_size=0_5"],
        ["--batch_size=5e0"],
        ["--batch_size= 5 "],
    ],
)
def test_a_number_can_be_written_in_several_ways(words: list[str]) -> None:
    assert resolve(words).config.batch_size == 5


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--compile"], True),
        (["--compile=False"], False),
        (["--compile=false"], False),
        (["--compile", "False"], False),
        (["--compile", "--eval_only"], True),
        (["--compile=auto"], "auto"),
    ],
)
def test_a_boolean_flag_can_omit_its_value(words: list[str], value: bool | str) -> None:
    assert resolve(words).config.compile == value


def test_a_negative_number_after_a_space_is_a_value_not_a_flag() -> None:
    assert mistakes_of("--seed", "-1") == "seed must be 0 or greater, got -1"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--max_itres=5", "--max_iters"),
        ("--batchsize=5", "--batch_size"),
        ("--learning-rat=1", "--learning_rate"),
        ("--nlayer", "--n_layer"),
    ],
)
def test_a_mistyped_flag_gets_a_suggestion(typed: str, meant: str) -> None:
    assert mistakes_of(typed).endswith(f"Did you mean {meant}?")


def test_the_value_of_an_unknown_flag_is_not_taken_for_a_source() -> None:
    assert mistakes_of("--max_itres", "5") == "unknown flag --max_itres. Did you mean --max_iters?"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("max_iters=5", "--max_iters"), ("batchsize=5", "--batch_size"), ("n-layer=2", "--n_layer")],
)
def test_a_setting_without_its_dashes_gets_them_in_the_suggestion(typed: str, meant: str) -> None:
    assert f"Did you mean {meant}?" in mistakes_of("laptop", typed)


def test_a_word_with_an_equals_sign_that_is_like_no_setting_gets_no_suggestion() -> None:
    assert "Did you mean" not in mistakes_of("laptop", "zzz=1")
    assert "Did you mean --max_iters?" in mistakes_of("laptop", "max_iter={}")


def test_a_config_file_may_have_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    assert resolve([toml_file(tmp_path, "n_layer = 3", "lr=1.toml")]).config.n_layer == 3


def test_a_text_given_to_train_gets_the_command_that_prepares_it(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("text", "utf-8")
    assert "A text: nanoscope prepare FILE" in mistakes_of(f"{tmp_path}/book.txt")


def test_a_flag_without_its_value_is_refused() -> None:
    assert mistakes_of("--max_iters") == "invalid value '' for --max_iters: expected an integer."


@pytest.mark.parametrize(
    ("typed", "meant"), [("--dtype=bfloat", "bfloat16"), ("--order=rendom", "random"), ("--eval_iters=ful", "full")]
)
def test_a_mistyped_word_gets_a_suggestion(typed: str, meant: str) -> None:
    assert mistakes_of(typed).endswith(f"Did you mean {meant}?")


def test_a_mistyped_preset_gets_a_suggestion_and_the_list() -> None:
    message = mistakes_of("labtop")
    assert "Did you mean laptop?" in message
    assert "Presets: babygpt, babygpt-classic, finetune, gpt2-124m, laptop, laptop-classic, quick" in message


# --- values ------------------------------------------------------------------------------------------------------

NUMBERS = [key for key in KEYS if {int, float} & set(alternatives(TYPES[key]))]
WHOLE = [key for key in NUMBERS if float not in alternatives(TYPES[key])]


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "-1", "", "one", "True", "0x10", "9" * 5000])
def test_no_number_takes_what_is_not_a_finite_number_of_its_kind(key: str, value: str) -> None:
    message = mistakes_of(f"--{key}={value}")
    assert key in message
    assert len(message) < 250


@pytest.mark.parametrize("key", WHOLE)
@pytest.mark.parametrize("value", ["2.5", str(2**63), "1e30"])
def test_an_integer_has_no_fraction_and_fits_into_64_bits(key: str, value: str) -> None:
    assert f"invalid value '{value}' for --{key}: expected an integer" in mistakes_of(f"--{key}={value}")


ZERO_MEANS_SOMETHING = {
    "seed", "max_minutes", "patience", "keep_checkpoints", "sample_interval", "token_shift", "dropout", "ngram_dropout",
    "weight_decay", "beta1", "beta2", "muon_momentum", "grad_clip", "warmup_iters", "min_lr", "output_lr",
}  # fmt: skip


@pytest.mark.parametrize("key", NUMBERS)
def test_zero_is_accepted_only_where_it_has_a_meaning(key: str) -> None:
    if key in ZERO_MEANS_SOMETHING:
        assert getattr(resolve([f"--{key}=0"]).config, key) == 0
    else:
        assert f"{key} must be positive" in mistakes_of(f"--{key}=0")


SHARES = ("dropout", "ngram_dropout", "beta1", "beta2", "muon_momentum")


@pytest.mark.parametrize("key", SHARES)
def test_a_fraction_of_one_is_refused(key: str) -> None:
    assert f"{key} must be at least 0 and less than 1" in mistakes_of(f"--{key}=1")


def example_of(key: str) -> Any:
    """A value that differs from the preset's and is allowed."""
    kinds = alternatives(TYPES[key])
    special: dict[str, Any] = {
        "n_embd": 256, "n_head": 8, "min_lr": 1e-5, "dropout": 0.5, "beta1": 0.5, "beta2": 0.5, "muon_momentum": 0.5,
        "device": "cpu",
    }  # fmt: skip
    if key in special:
        return special[key]
    current = getattr(resolve([]).config, key)
    if bool in kinds:
        return not current if isinstance(current, bool) else True
    if int in kinds:
        return 3
    if float in kinds:
        return 0.25
    return "elsewhere" if str in kinds else kinds[-1]


@pytest.mark.parametrize("key", [key for key in KEYS if key != "overwrite"])
def test_every_key_can_be_set_by_flag_by_toml_and_by_nanogpts_file(key: str, tmp_path: Path) -> None:
    value = example_of(key)
    literal = str(value).lower() if isinstance(value, bool) else repr(value)
    recipe = "classic" if key == "bias" else "modern"
    beside = "" if key == "recipe" else f"recipe = '{recipe}'\n"
    flags = [] if key == "recipe" else [f"--recipe={recipe}"]
    assert getattr(resolve([f"--{key}={value}", *flags]).config, key) == value
    assert getattr(resolve(["laptop", toml_file(tmp_path, f"{beside}{key} = {literal}")]).config, key) == value
    assert getattr(resolve(["laptop", nanogpt_file(tmp_path, f"{beside}{key} = {value!r}")]).config, key) == value


@pytest.mark.parametrize("key", [key for key, item in KEYS.items() if item.metadata["recipe"] == "modern"])
def test_settings_of_the_modern_recipe_are_refused_for_a_classic_run(key: str) -> None:
    assert f"{key} has no effect with recipe=classic" in mistakes_of("laptop-classic", f"--{key}={example_of(key)}")


def test_settings_of_the_classic_recipe_are_refused_for_a_modern_run() -> None:
    assert "bias has no effect with recipe=modern" in mistakes_of("laptop", "--bias=True")
    assert "n_embd / n_head must be even" in mistakes_of("laptop", "--n_embd=36")
    assert "cooldown must be positive and at most 1, got 2.0" in mistakes_of("laptop", "--cooldown=2")
    assert "ngrams must be positive and at most 8, got 9" in mistakes_of("laptop", "--ngrams=9")
    assert "token_shift must be between 0 and 8, got 9" in mistakes_of("laptop", "--token_shift=9")
    assert "threads must be positive and at most 1024 or auto, got 5000" in mistakes_of("laptop", "--threads=5000")


def test_a_config_file_of_nanogpt_selects_the_classic_recipe(tmp_path: Path) -> None:
    assert resolve([nanogpt_file(tmp_path, "n_layer = 3")]).config.recipe == "classic"
    assert resolve(["laptop"]).config.recipe == "modern"


def test_the_default_rates_depend_on_the_recipe() -> None:
    modern, classic = build({}), build({"recipe": "classic"})
    assert (modern.peak_lr, modern.lowest_lr, modern.warmup) == (1e-2, 0.0, 0)
    assert (classic.peak_lr, classic.lowest_lr, classic.warmup) == (6e-4, pytest.approx(6e-5), 2000)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["[1]", "{a = 1}", "1979-05-27"])
def test_no_key_takes_a_list_a_table_or_a_date(key: str, value: str, tmp_path: Path) -> None:
    assert f" for {key}: " in mistakes_of(toml_file(tmp_path, f"{key} = {value}"))


@pytest.mark.parametrize("key", [key for key in KEYS if str in alternatives(TYPES[key])])
@pytest.mark.parametrize("value", ['"a\\u0000b"', '"a\\nb"', '"\\u001b[31m"', "5", "true"])
def test_no_text_takes_control_characters_or_other_types(key: str, value: str, tmp_path: Path) -> None:
    assert f" for {key}: " in mistakes_of(toml_file(tmp_path, f"{key} = {value}"))


def test_a_name_with_joiners_marks_and_spaces_is_a_name() -> None:
    for name in ("क्‍ष हिन्दी", "می‌خواهم", "a b", "C:\\runs\\x"):
        assert resolve([f"--out_dir={name}"]).config.out_dir == name


def test_a_required_text_must_not_be_empty() -> None:
    assert mistakes_of("--dataset=") == "invalid value '' for --dataset: must not be empty"
    assert resolve(["--out_dir="]).config.out_dir == ""


def test_an_n_embd_not_divisible_by_n_head_gets_a_suggestion() -> None:
    assert mistakes_of("--n_embd=130", "--n_head=4") == "n_embd=130 is not divisible by n_head=4; use n_embd=128"


def test_min_lr_above_the_learning_rate_is_refused_unless_the_rate_is_constant() -> None:
    assert "min_lr must be between 0 and learning_rate=0.01" in mistakes_of("--min_lr=0.1")
    assert resolve(["--min_lr=0.1", "--decay_lr=False"]).config.min_lr == 0.1


def test_auto_follows_the_keys_it_stands_for() -> None:
    config = build({"recipe": "classic", "max_iters": 500, "learning_rate": 0.5})
    assert config.decay_iters == 500
    assert math.isclose(config.lowest_lr, 0.05)


# --- all mistakes at once ----------------------------------------------------------------------------------------


def test_all_mistakes_of_all_sources_come_in_one_message(tmp_path: Path) -> None:
    toml = toml_file(tmp_path, 'n_layers = 4\ndtype = "int8"\n')
    script = nanogpt_file(tmp_path, "max_iters = compute()\n")
    message = mistakes_of(toml, script, "labtop", "--batchsize=1", "--seed=x", "--dropout=2", "--n_head=-1")
    assert message.startswith("8 mistakes in the configuration:\n- ")
    for part in ("n_layers", "dtype", "line 1", "labtop", "--batchsize", "for --seed", "dropout must", "n_head must"):
        assert part in message


def test_a_setting_that_could_not_be_read_is_not_compared_with_others(tmp_path: Path) -> None:
    assert mistakes_of("--n_embd=wide", "--n_head=5") == "invalid value 'wide' for --n_embd: expected an integer."
    assert "divisible" not in mistakes_of("babygtp", "--n_head=8", "--n_embd=20")


# --- TOML files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["max_iters = ", "max_iters 5", "a = 1\na = 2", "x = " + "[" * 5000, "max_iters = " + "9" * 5000, "= 1", "\x00"],
)
def test_a_file_that_is_not_toml_is_named_in_a_short_message(text: str, tmp_path: Path) -> None:
    message = mistakes_of(toml_file(tmp_path, text))
    assert "mine.toml is not valid TOML: " in message
    assert len(message) < 150 + len(str(tmp_path))


def test_a_syntax_error_says_where(tmp_path: Path) -> None:
    assert "line 2" in mistakes_of(toml_file(tmp_path, "n_layer = 1\nn_head = = 2\n"))


def test_keys_in_a_table_are_refused_rather_than_ignored(tmp_path: Path) -> None:
    message = mistakes_of(toml_file(tmp_path, "[model]\nn_layer = 3\n"))
    assert message.endswith("mine.toml: unknown key model. Settings belong at the top level, not in a [table].")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert resolve([toml_file(tmp_path, "\ufeffn_layer = 3")]).config.n_layer == 3


def test_an_empty_file_leaves_everything_at_its_default(tmp_path: Path) -> None:
    assert resolve([toml_file(tmp_path, "")]).config == TrainConfig()


def test_a_file_that_is_not_utf8_is_a_failed_job(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JobError, match=r"cannot read config .*mine\.toml"):
        resolve([str(tmp_path / "mine.toml")])


@pytest.mark.parametrize("name", ["missing.toml", "missing.py", "folder/missing", "no\0name", "x" * 300])
def test_a_missing_source_is_named(name: str, tmp_path: Path) -> None:
    assert repr(name)[1:-1] in mistakes_of(str(tmp_path / name))


def test_a_folder_without_a_run_and_a_file_of_another_type_are_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("n_layer = 1", "utf-8")
    for source in (tmp_path, tmp_path / "notes.txt"):
        assert f"{str(source)!r} is no preset, config file (.toml or nanoGPT's .py) or run." in mistakes_of(str(source))


# --- nanoGPT's files ---------------------------------------------------------------------------------------------


def test_nanogpts_file_is_read_with_its_literals_and_arithmetic(tmp_path: Path) -> None:
    text = '''"""A docstring."""
import time
# a comment
out_dir = 'out-mine'
gradient_accumulation_steps = 5 * 8
batch_size = (10 + 2) // 1
max_iters = 6_000 - 1000
learning_rate = 1 / 1000
dropout = +0.0
bias = False; compile = True
dtype = "float32"
wandb_run_name = 'run-' + str(time.time())
'''
    config = resolve([nanogpt_file(tmp_path, text)]).config
    assert (config.out_dir, config.dtype, config.wandb_run_name) == ("out-mine", "float32", "")
    assert (config.gradient_accumulation_steps, config.batch_size) == (40, 12)
    assert (config.max_iters, config.learning_rate) == (5000, 1e-3)
    assert (config.bias, config.compile) == (False, True)


def test_settings_missing_from_nanogpts_file_have_nanogpts_defaults(tmp_path: Path) -> None:
    config = resolve([nanogpt_file(tmp_path, "max_iters = 100")]).config
    assert (config.recipe, config.decay_iters, config.lowest_lr) == ("classic", 600_000, 6e-5)
    assert (config.n_layer, config.n_embd, config.block_size, config.tokens_per_step) == (12, 768, 1024, 491_520)


REFUSED = [
    "import os",
    "from os import system",
    "import time, os",
    "max_iters = int('5')",
    "max_iters = __import__('os').system('echo > pwned')",
    "max_iters = time.time()",
    "device = os.environ",
    "dataset = f'{1}'",
    "max_iters = 2 ** 10",
    "max_iters = 9 ** 9 ** 9",
    "max_iters = 1 << 10**9",
    "dataset = 'a' * 10**10",
    "dataset = 'a' * 10",
    "max_iters = [1][0]",
    "max_iters = [1]",
    "max_iters = 1 if True else 2",
    "max_iters = lambda: 1",
    "max_iters = undefined",
    "max_iters = n_layer",
    "my_note = 'x'",
    "max_iters = " + "*".join(["9" * 4000] * 6),
    "max_iters = not True",
    "max_iters = True + 1",
    "max_iters = 1 / 0",
    "max_iters = 'a' + 1",
    "max_iters = 3j",
    "max_iters = None",
    "dataset = b'x'",
    "max_iters += 1",
    "max_iters: int = 1",
    "max_iters = n_layer = 1",
    "max_iters, n_layer = 1, 2",
    "for i in range(3): max_iters = i",
    "while True: pass",
    "if True: max_iters = 1",
    "def f(): pass",
    "print('hello')",
    "exec('max_iters = 1')",
    "del max_iters",
    "(max_iters := 5)",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_anything_but_an_assignment_of_a_plain_value_is_refused_by_line(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = mistakes_of(nanogpt_file(tmp_path, f"n_layer = 2\n\n{statement}\n"))
    assert "train_mine.py, line 3: " in message
    assert "mistakes in" not in message
    assert [path.name for path in tmp_path.iterdir()] == ["train_mine.py"]


def test_a_long_sum_is_read(tmp_path: Path) -> None:
    assert resolve([nanogpt_file(tmp_path, "max_iters = " + " + ".join(["1"] * 100))]).config.max_iters == 100


@pytest.mark.parametrize(
    "expression",
    [
        "-" * 1500 + "1",
        "+".join(["1"] * 2000),
        "(" * 5000,
        "-" * 20_000 + "1",
        "9" * 5000,
    ],
    ids=["signs", "sum", "open brackets", "many signs", "digits"],
)
def test_a_deeply_nested_or_endless_expression_is_refused_in_a_short_message(expression: str, tmp_path: Path) -> None:
    message = mistakes_of(nanogpt_file(tmp_path, f"max_iters = {expression}"))
    assert len(message) < 300 + len(str(tmp_path))


@pytest.mark.parametrize("text", ["max_iters = ", "n_layer = 1\n  n_head = 2", "max_iters = 'x", "\x00"])
def test_a_file_that_is_not_python_is_named(text: str, tmp_path: Path) -> None:
    assert "train_mine.py is not valid Python: " in mistakes_of(nanogpt_file(tmp_path, text))


@pytest.mark.parametrize("line", ["learning_rte = 1e-3", "max_iter = 5", "n_layers = 2", "blocksize = 8"])
def test_a_misspelt_setting_in_nanogpts_file_is_refused_not_ignored(line: str, tmp_path: Path) -> None:
    assert "Did you mean" in mistakes_of(nanogpt_file(tmp_path, line))


@pytest.mark.parametrize("line", ["if True: pass", "x = len('abc')", "print(1)", "for i in range(3): pass"])
def test_code_in_nanogpts_file_stays_refused(line: str, tmp_path: Path) -> None:
    assert "train_mine.py, line 1" in mistakes_of(nanogpt_file(tmp_path, line))


def test_a_file_with_very_many_helpers_is_the_wrong_file(tmp_path: Path) -> None:
    assert "too many" in mistakes_of(nanogpt_file(tmp_path, "\n".join(f"zz{n} = 1" for n in range(2000))))


def test_an_unknown_key_of_nanogpts_file_gets_its_line_and_a_suggestion(tmp_path: Path) -> None:
    message = mistakes_of(nanogpt_file(tmp_path, "\nbatchsize = 2"))
    assert message.endswith("line 2: unknown key batchsize. Did you mean batch_size?")


# --- writing and reading back ------------------------------------------------------------------------------------


def values_of(key: str) -> st.SearchStrategy[Any]:
    special: dict[str, st.SearchStrategy[Any]] = {
        "n_head": st.sampled_from([1, 2, 3, 4, 6, 12]),
        "n_embd": st.integers(1, 1000).map(lambda times: 24 * times),
        "learning_rate": st.floats(1e-3, 1.0),
        "min_lr": st.floats(0.0, 1e-4) | st.just("auto"),
        "recipe": st.just("modern"),
        "init_from": st.sampled_from(["scratch", "resume"]),
        "bias": st.just(False),
        "ngrams": st.integers(1, 8),
        "token_shift": st.integers(0, 8),
        "threads": st.integers(1, 1024) | st.just("auto"),
        "cooldown": st.floats(0, 1, exclude_min=True),
        **dict.fromkeys(SHARES, st.floats(0, 1, exclude_max=True)),
    }
    if key in special:
        return special[key]
    options: list[st.SearchStrategy[Any]] = []
    for kind in alternatives(TYPES[key]):
        if kind is bool:
            options.append(st.booleans())
        elif kind is int:
            options.append(st.integers(1, 2**63 - 1))
        elif kind is float:
            options.append(st.floats(1e-300, 1e300))
        elif kind is str:
            names = st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from("\"'\\#=[]" + string.ascii_letters)
            options.append(st.text(names, min_size=1))
        else:
            options.append(st.just(kind))
    return st.one_of(options)


@settings(max_examples=60, deadline=None)
@given(values=st.fixed_dictionaries({}, optional={key: values_of(key) for key in KEYS if key not in OPTIONS}))
def test_a_written_configuration_is_read_back_unchanged(
    values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = build(values)
    folder = tmp_path_factory.mktemp("run")
    notes = {"device": 'A "quoted" \\ name\x7f', "peak": 1e12, "nothing": None, "compiled": True}
    saved = without_options(dataclasses.asdict(config)) | {"environment": notes}
    source = toml_file(folder, to_toml(saved), "config.toml")
    assert resolve([source]).config == config
    assert dataclasses.asdict(resolve([str(folder)]).config) == {**dataclasses.asdict(config), "out_dir": str(folder)}


def test_overwrite_is_accepted_only_on_the_command_line(tmp_path: Path) -> None:
    """A file that somebody sends must not be able to delete a run."""
    message = mistakes_of(toml_file(tmp_path, 'overwrite = true\nout_dir = "precious"\n'))
    assert "only the command line may set it, because it deletes a run" in message


def test_a_run_of_an_earlier_version_does_not_pass_on_what_held_for_one_invocation(tmp_path: Path) -> None:
    toml_file(tmp_path, "eval_only = true\nmax_minutes = 5.0\nmax_iters = 7\n", "config.toml")
    config = resolve([str(tmp_path)]).config
    assert (config.eval_only, config.max_minutes, config.max_iters) == (False, 0.0, 7)


def test_a_config_file_may_limit_the_time_of_each_invocation(tmp_path: Path) -> None:
    assert resolve([toml_file(tmp_path, "max_minutes = 5.0\n")]).config.max_minutes == 5


@pytest.mark.parametrize("init_from", ["resume", "auto"])
def test_a_run_cannot_be_resumed_and_deleted_at_once(init_from: str) -> None:
    message = mistakes_of(f"--init_from={init_from}", "--overwrite=True")
    assert f"overwrite=True would delete the run that init_from={init_from} resumes" in message
