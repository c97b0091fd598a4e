"""What strangers type wrong: the words of a command, and part of what it says; and the files that they name."""

WRONG_USAGE = {
    "a wrong flag": (["train", "--max_itres=5"], "Did you mean --max_iters?"),
    "a wrong preset": (["train", "labtop"], "Did you mean laptop?"),
    "a wrong value": (["train", "--dtype=float23"], "Did you mean float32?"),
    "a missing config": (["train", "config/missing.py"], "'config/missing.py' is no preset"),
    "a config that is a program": (["train", "program.py"], "program.py, line 1"),
    "a config that is no TOML": (["train", "broken.toml"], "broken.toml is not valid TOML"),
    "a width that the heads do not divide": (["train", "--n_embd=130"], "use n_embd=128"),
    "no context": (["train", "--block_size=0"], "block_size must be positive"),
    "an infinite number": (["train", "--max_iters=inf"], "expected an integer"),
    "several": (["train", "labtop", "--max_itres=5", "--seed=x"], "3 mistakes in the configuration"),
    "a wrong flag of sample": (["sample", "--tempreature=1"], "--temperature"),
    "a wrong value of sample": (["sample", "--top_k=many"], "--top_k"),
    "nothing to prepare": (["prepare"], "nanoscope prepare shakespeare"),
    "a wrong tokenizer": (["prepare", "good.txt", "--tokenizer=chra"], "char"),
}

FAILED_JOB = {
    "a missing file": (["prepare", "missing.txt"], "missing.txt"),
    "an empty file": (["prepare", "empty.txt"], "empty.txt is empty"),
    "a file that is not UTF-8": (["prepare", "latin.txt"], "latin.txt is not UTF-8"),
    "a config that is not UTF-8": (["train", "latin.toml"], "cannot read config latin.toml"),
}

FILES = {
    "empty.txt": b"",
    "latin.txt": "caf\xe9 ".encode("latin-1") * 100,
    "latin.toml": b'dataset = "caf\xe9"',
    "broken.toml": b"max_iters = = 5",
    "program.py": b"import os; os.mkdir('pwned')",
    "good.txt": b"words and words " * 100,
}
