# ruff: noqa: E501 (a log line is as long as it is)
"""One log of each trainer that people paste from, with lines as that trainer prints them; all numbers are made up."""

import math

import pytest

from nanoscope.runs.scan import cells

BAR = "━" * 20


def keras_with_bars() -> str:
    text = ""
    for epoch in range(1, 6):
        text += f"Epoch {epoch}/8\n"
        for batch in (1, 100, 199):
            text += f"\r{batch:4d}/200 [=>............................] - ETA: 9s - loss: 3.0000 - accuracy: 0.2000"
        text += f"\r 200/200 [==============================] - {30 + epoch}s 150ms/step - loss: {3 - epoch / 10:.4f} - accuracy: 0.2500 - val_loss: {3.1 - epoch / 10:.4f} - val_accuracy: 0.2400\n"
    return text


def keras_3() -> str:
    text = ""
    for epoch in range(1, 6):
        text += f"Epoch {epoch}/8\n"
        text += (
            f"\r\x1b[1m  1/200\x1b[0m \x1b[37m{BAR}\x1b[0m \x1b[1m4:59\x1b[0m 2s/step - accuracy: 0.1 - loss: 3.9000"
        )
        text += f"\r\x1b[1m200/200\x1b[0m \x1b[32m{BAR}\x1b[0m\x1b[37m\x1b[0m \x1b[1m{30 + epoch}s\x1b[0m 150ms/step - accuracy: 0.25 - loss: {3 - epoch / 10:.4f} - val_accuracy: 0.24 - val_loss: {3.1 - epoch / 10:.4f}\n"
    return text


KERAS = {
    "bars": keras_with_bars(),
    "Keras 3": keras_3(),
    "no bars": "".join(f"Epoch {e}/8\n{30 + e}s - loss: {3 - e / 10:.4f} - val_loss: {3.1 - e / 10:.4f}\n" for e in range(1, 6)),
    "no bars, with a dash": "".join(f"Epoch {e}/8\n - {30 + e}s - loss: {3 - e / 10:.4f} - val_loss: {3.1 - e / 10:.4f}\n" for e in range(1, 6)),
    "verbose=2": "".join(f"Epoch {e}/8\n200/200 - {30 + e}s - loss: {3 - e / 10:.4f} - val_loss: {3.1 - e / 10:.4f} - {30 + e}s/epoch - 150ms/step\n" for e in range(1, 6)),
    "home-made": "".join(f"Epoch {e}/8\n  Train loss: {3 - e / 10:.4f} | Train ppl: 9.1\n  Valid loss: {3.1 - e / 10:.4f}\n  Time: {30 + e}.0s\n" for e in range(1, 6)),
    "home-made, one line": "".join(f"Epoch {e}/8 | train loss {3 - e / 10:.4f} | valid loss {3.1 - e / 10:.4f} | time {30 + e}.00s\n" for e in range(1, 6)),
    "home-made, epochs of batches in bars": "".join(
        f"Epoch {e}/8: 100%|##########| 200/200 [00:{30 + e}<00:00, 6.50it/s, loss=2.1]\nValidation: 100%|####| 19/19 [00:01<00:00, 19.1it/s]\n"
        f"Epoch {e}/8 - train_loss: {3 - e / 10:.4f} - val_loss: {3.1 - e / 10:.4f} - time: {30 + e}s\n" for e in range(1, 6)),
    "minutes and seconds": "".join(f"Epoch: 0{e} | Time: 0m {30 + e}s\n\tTrain Loss: {3 - e / 10:.3f} | Train PPL: 12.1\n\t Val. Loss: {3.1 - e / 10:.3f} |  Val. PPL: 13.0\n" for e in range(1, 6)),
    "skorch": "  epoch    train_loss    valid_acc    valid_loss      dur\n-------  ------------  -----------  ------------  -------\n" + "".join(f"      {e}        {3 - e / 10:.4f}       0.2500        {3.1 - e / 10:.4f}  {30 + e}.0000\n" for e in range(1, 6)),
    "fastai": "epoch     train_loss  valid_loss  accuracy  time    \n" + "".join(f"{e}         {3 - e / 10:.6f}    {3.1 - e / 10:.6f}    0.271000  00:{30 + e}\n" for e in range(1, 6)),
}  # fmt: skip


@pytest.mark.parametrize("style", KERAS)
def test_epochs_with_their_values_below_are_counted_as_epochs(read, style) -> None:
    (run,) = read(KERAS[style]).runs

    assert run.unit == "epoch"
    assert list(run.steps.step) == [1, 2, 3, 4, 5]
    assert list(run.steps.loss) == pytest.approx([2.9, 2.8, 2.7, 2.6, 2.5])
    assert list(run.steps.time_s) == pytest.approx([31, 32, 33, 34, 35])
    assert [e.step for e in run.evals] == [1, 2, 3, 4, 5]
    assert [e.val for e in run.evals] == pytest.approx([3.0, 2.9, 2.8, 2.7, 2.6])
    assert run.total_steps in (8, None)


def lines(template: str, steps: range = range(10, 60, 10), **more: object) -> str:
    return "".join(template.format(s=s, loss=4 - s / 100, n=s, **more) + "\n" for s in steps)


STEPS = {
    "MLX": "Starting training..., iters: 600\nIter 1: Val loss 4.100, Val took 9.1s\n" + lines("Iter {s}: Train loss {loss:.3f}, Learning Rate 1.000e-05, It/sec 2.000, Tokens/sec 900.1, Trained Tokens 9000, Peak mem 8.1 GB"),
    "Megatron": lines(" [2031-01-01 10:00:00] iteration {s:8d}/     600 | consumed samples:  99 | elapsed time per iteration (ms): 500.0 | learning rate: 1.365E-05 | global batch size:  64 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.227 | number of skipped iterations:   0 | number of nan iterations:   0 |"),
    "DeepSpeed": lines("steps: {s} loss: {loss:.4f} iter time (s): 0.500 samples/sec: 128.000"),
    "MaxText": lines("completed step: {s}, seconds: 0.500, TFLOP/s/device: 134.9, Tokens/s/device: 2500.5, total_weights: 65536, loss: {loss:.3f}"),
    "RWKV": lines("Epoch 0:  10%|#         | {s}/600 [00:{s}<09:00,  2.00it/s, loss={loss:.3f}, lr=6e-4, REAL it/s=2.000, Kt/s=32.70]"),
    "tinygrad": lines("{s:3d}  500.00 ms run,  490.00 ms python,   10.00 ms CL, {loss:7.2f} loss, 0.000043 LR, 0.81 GB used,    239.04 GFLOPS"),
    "autoresearch": lines("step {s:05d} (10.0%) | loss: {loss:.6f} | lrm: 1.00 | dt: 500ms | tok/sec: 65,536 | mfu: 30.1% | epoch: 1 | remaining: 250s"),
    "JoeyNMT": lines("2031-01-01 10:00:{s},000 - INFO - joeynmt.training - Epoch   1, Step: {s:8d}, Batch Loss: {loss:12.6f}, Batch Acc: 0.1, Tokens per Sec:     9000, Lr: 0.000300"),
    "fairseq": lines("2031-01-01 10:00:{s} | INFO | train_inner | epoch 001:     {s} / 600 loss={loss:.3f}, ppl=16.0, wps=9000.1, ups=2.00, wpb=4500.1, bsz=64, num_updates={s}, lr=1e-05, gnorm=2.1, train_wall=30, wall=40"),
    "fairseq, JSON": lines('2031-01-01 10:00:{s} | INFO | train_inner | {{"epoch": 1, "update": 0.05, "loss": "{loss:.3f}", "ppl": "16.0", "wps": "9000.1", "ups": "2.00", "wpb": "4500", "bsz": "64", "num_updates": "{s}", "lr": "1e-05", "gnorm": "2.1", "train_wall": "30", "wall": "40"}}'),
    "levanter": lines("Progress on:train {s}.0it/600it rate:2.0it/s remaining:04:50 elapsed:00:{s} postfix:loss={loss:.3f}"),
    "detectron2": lines("[01/01 10:00:{s} d2.utils.events]:  eta: 0:04:50  iter: {s}  total_loss: {loss:.3f}  loss_cls: 0.7  loss_box_reg: 0.4  time: 0.5000  data_time: 0.0100  lr: 1.6e-05  max_mem: 2400M"),
    "mmcv, by iteration": lines("2031-01-01 10:00:{s},000 - mmseg - INFO - Iter [{s}/600]\tlr: 9.9e-03, eta: 0:04:50, time: 0.500, data_time: 0.010, memory: 3800, decode.loss_ce: 2.1, decode.acc_seg: 30.1, loss: {loss:.4f}"),
    "JSON lines": lines('{{"step": {s}, "train_loss": {loss:.4f}, "lr": 0.001, "step_time": 0.5}}'),
    "a Markdown table": "| step | train loss | time (s) |\n|---|---|---|\n" + lines("| {s} | {loss:.4f} | 0.5 |"),
    "an HTML table": "<table>\n<tr><th>Step</th><th>Training Loss</th><th>step time</th></tr>\n" + lines("<tr><td>{s}</td><td>{loss:.4f}</td><td>0.5</td></tr>"),
    "NeMo": lines("Epoch 0: :   1%|1 | {s}/600 [00:{s}<09:00, v_num=, reduced_train_loss={loss:.2f}, global_step=9.000, consumed_samples=2560.0, train_step_timing in s=0.500]"),
    "values before their names": lines("step {s}: {loss:.2f} loss, 0.50 s, 1e-4 lr"),
    "a bracketed step": lines("2031-01-01 10:00:{s} | [{s}]: loss={loss:.4f}, time=500ms, mfu=3.10%"),
    "rich": lines("Epoch 0/4 ━━━╸━━━━━ {s}/600 0:00:05 • 0:04:50 2.00it/s v_num: 0 train_loss: {loss:.3f}"),
    "colon": lines("{s}: loss {loss:.4f} (500.0 ms)"),
}  # fmt: skip


@pytest.mark.parametrize("trainer", STEPS)
def test_the_steps_of_a_trainer_are_read(read, trainer) -> None:
    (run,) = read(STEPS[trainer]).runs

    assert run.unit == "step"
    assert list(run.steps.step) == [10, 20, 30, 40, 50]
    assert list(run.steps.loss) == pytest.approx([3.9, 3.8, 3.7, 3.6, 3.5])
    assert run.total_steps in (600, 5 * 600, None)
    times = [time for time in run.steps.time_s if not math.isnan(time)]
    assert times, "no times were read"
    assert times[-1] == pytest.approx(1.0 if trainer in ("JoeyNMT",) else 0.5)


BATCHES = {
    "torchvision": "Epoch: [{e0}]  [{b:3d}/200]  eta: 0:00:11  lr: 0.005000  loss: {loss:.4f} (2.0)  loss_classifier: 0.7 (0.7)  loss_box_reg: 0.4 (0.4)  time: 0.5000  data: 0.0100  max mem: 2648",
    "imagenet": "Epoch: [{e0}][{b:4d}/200]\tTime  0.500 ( 0.600)\tData  0.010 ( 0.020)\tLoss {loss:.4e} (7.0100e+00)\tAcc@1   0.00 (  0.10)\tAcc@5   1.00 (  1.10)",
    "timm": "Train: {e0} [{b:4d}/200 ( 50%)]  Loss: {loss:.3f} (6.94)  Time: 0.500s,  512.00/s  (0.600s,  426.67/s)  LR: 1.000e-06  Data: 0.010 (0.020)",
    "mmcv": "2031-01-01 10:00:00,000 - mmdet - INFO - Epoch [{e1}][{b}/200]\tlr: 1.978e-03, eta: 1 day, 2:03:04, time: 0.500, data_time: 0.010, memory: 3800, loss_rpn_cls: 0.5, loss: {loss:.4f}, grad_norm: 4.1",
    "mmengine": "2031/01/01 10:00:00 - mmengine - INFO - Epoch(train)  [{e1}][{b:4d}/200]  lr: 1.0e-03  eta: 1 day, 2:03:04  time: 0.5000  data_time: 0.0100  memory: 3800  grad_norm: 4.5  loss: {loss:.4f}  loss_cls: 0.5",
    "tutorial": "Epoch [{e1}/3], Step [{b}/200], Loss: {loss:.4f}, Time: 0.5s",
    "Epoch:[e](b)": "Epoch:[{e0}/3]({b}/200) loss:{loss:.4f} lr:0.0001 step_time:0.5s",
    "batch": "Epoch {e1} | Batch {b}/200 | Loss {loss:.4f} | 500 ms/batch",
    "Lightning": "Epoch {e0}:  50%|#####     | {b}/200 [00:50<00:50,  2.00it/s, loss={loss:.4f}, v_num=3]",
}  # fmt: skip


@pytest.mark.parametrize("trainer", BATCHES)
def test_batches_of_epochs_become_one_count_and_one_epoch_is_not_the_whole_run(read, trainer) -> None:
    text = "".join(
        BATCHES[trainer].format(e0=e, e1=e + 1, b=b, loss=4 - e / 2 - b / 1000) + "\n"
        for e in range(2)
        for b in range(50, 201, 50)
    )
    (run,) = read(text).runs

    assert list(run.steps.step) == [50, 100, 150, 200, 250, 300, 350, 400]
    assert run.steps.loss[0] == pytest.approx(3.95)
    assert run.steps.loss[-1] == pytest.approx(3.3)
    assert run.total_steps in (600, None)
    assert run.steps.time_s[3] == pytest.approx(0.5)


@pytest.mark.parametrize("trainer", ["torchvision", "mmcv", "mmengine", "imagenet"])
def test_a_detector_is_no_language_model(read, trainer) -> None:
    (run,) = read("".join(BATCHES[trainer].format(e0=0, e1=1, b=b, loss=2.0) + "\n" for b in range(10, 60, 10))).runs

    assert run.is_language_model is False


@pytest.mark.parametrize("trainer", ["MLX", "Megatron", "fairseq", "JoeyNMT", "autoresearch", "RWKV"])
def test_a_trainer_of_language_models_is_known_as_one(read, trainer) -> None:
    assert read(STEPS[trainer]).runs[0].is_language_model is True


def test_what_a_line_says_besides_is_kept_as_series(read) -> None:
    (run,) = read("".join(BATCHES["mmcv"].format(e1=1, b=b, loss=2.0) + "\n" for b in range(10, 60, 10))).runs

    assert list(run.series["eta_s"].values) == [93784.0] * 5
    assert list(run.series["data_s"].steps) == [10, 20, 30, 40, 50]
    assert run.series["memory_gb"].values[0] == pytest.approx(3.8)
    assert read(STEPS["Megatron"]).runs[0].series["loss_scale"].values[0] == 1.0


def test_tokens_per_second_of_one_device_are_marked(read) -> None:
    assert read(STEPS["MaxText"]).runs[0].tok_s_per_device
    assert not read(STEPS["MLX"]).runs[0].tok_s_per_device


def test_a_base_2_loss_is_known_by_its_perplexity(read) -> None:
    (run,) = read(STEPS["fairseq"].replace("loss=3.900", "loss=4.000")).runs

    assert run.loss_in_bits


def test_mlx_says_how_long_it_will_train_and_what_it_saved(read) -> None:
    text = (
        STEPS["MLX"]
        + "Iter 50: Saved adapter weights to adapters/0000050_adapters.safetensors.\nIter 60: Val loss 3.400, Val took 9.0s\n"
    )
    (run,) = read(text).runs

    assert run.config["max_iters"] == 600
    assert [c.step for c in run.checkpoints] == [50]
    assert [(e.step, e.val) for e in run.evals] == [(1, 4.1), (60, 3.4)]


def test_validations_of_other_trainers_are_evaluations(read) -> None:
    fairseq = (
        STEPS["fairseq"]
        + "2031-01-01 10:01:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 3.3 | ppl 9.8 | wps 9000 | num_updates 50 | best_loss 3.2\n"
    )
    megatron = (
        STEPS["Megatron"]
        + " validation loss at iteration 50 | lm loss value: 3.300000E+00 | lm loss PPL: 2.71E+01 | \n"
    )
    joey = (
        STEPS["JoeyNMT"]
        + "2031-01-01 10:01:00,000 - INFO - joeynmt.training - Validation result (greedy) at epoch   1, step       50: bleu:   9.10, loss: 3.3000, ppl:  27.1, duration: 10.2345s\n"
    )
    for text in (fairseq, megatron, joey):
        (run,) = read(text).runs
        assert [(e.step, e.val) for e in run.evals] == [(50, 3.3)]
        assert len(run.steps) == 5


HF_LOG = "{{'loss': {loss:.4f}, 'grad_norm': 1.5, 'learning_rate': 2e-05, 'epoch': {e:.2f}}}"


def test_llama_factory_prints_json_lines_with_its_own_clock(read) -> None:
    line = '{{"current_steps": {s}, "total_steps": 100, "loss": {loss}, "eval_loss": null, "lr": 1e-05, "epoch": 0.5, "percentage": 9.1, "elapsed_time": "0:01:{s}", "remaining_time": "0:00:{s}"}}\n'
    text = "".join(line.format(s=s, loss=3 - s / 100) for s in range(10, 60, 10))
    text += '{"current_steps": 50, "total_steps": 100, "loss": null, "eval_loss": 2.25, "epoch": 0.5, "elapsed_time": "0:01:55", "remaining_time": "0:00:50"}\n'
    (run,) = read(text).runs

    assert list(run.steps.step) == [10, 20, 30, 40, 50]
    assert run.total_steps == 100
    assert run.steps.time_s[1] == pytest.approx(1.0)
    assert [(e.step, e.val) for e in run.evals] == [(50, 2.25)]
    assert list(run.series["eta_s"].values) == [10, 20, 30, 40, 50]


def test_a_callback_that_prints_each_record_again_adds_none(read) -> None:
    text = "  Total optimization steps = 90\n"
    for s in range(1, 6):
        text += f"01/02/2031 10:00:0{s} - INFO - app.callbacks - {{'loss': {3 - s / 10:.4f}, 'learning_rate': {5 - s / 9:.4e}, 'epoch': 0.0{s}}}\n"
        text += f"{{'loss': {3 - s / 10:.4f}, 'grad_norm': nan, 'learning_rate': {5 - s / 9:.16f}, 'epoch': 0.0{s}}}\n"
    (run,) = read(text).runs

    assert len(run.steps) == 5
    assert run.total_steps == 90


def test_the_banner_and_the_table_of_a_notebook_are_one_run(read) -> None:
    text = "==((====))==  Unsloth - 2x faster free finetuning | Num GPUs = 1\n\\        /    Total batch size = 8 | Total steps = 60\n"
    text += "[60/60 08:00, Epoch 0/1]\nStep\tTraining Loss\tValidation Loss\n" + "".join(
        f"{s}\t{2 - s / 100:.6f}\t{'No log' if s < 30 else '1.900000'}\n" for s in range(10, 70, 10)
    )
    (run,) = read(text).runs

    assert list(run.steps.step) == [10, 20, 30, 40, 50, 60]
    assert run.is_language_model
    assert run.config["max_iters"] == 60
    assert run.evals[-1].val == 1.9


@pytest.mark.parametrize("prefix", ["", "[axolotl] ", "(trainer pid=77) "])
def test_dict_lines_of_the_hugging_face_family_are_read(read, prefix) -> None:
    text = "".join(prefix + HF_LOG.format(loss=3 - e / 10, e=e / 10) + "\n" for e in range(1, 8))
    text += (
        prefix
        + "{'train_runtime': 41.0, 'train_samples_per_second': 9.1, 'train_steps_per_second': 1.0, 'train_loss': 2.8, 'epoch': 0.7}\n"
    )
    log = read(text)

    (run,) = log.runs
    assert log.format == "hf-trainer"
    assert len(run.steps) == 7
    assert run.said_finished


def test_trl_counts_tokens_and_is_about_language(read) -> None:
    line = "{{'loss': {loss}, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'entropy': 1.1, 'num_tokens': {n}.0, 'mean_token_accuracy': 0.61, 'epoch': 0.1}}\n"
    (run,) = read("".join(line.format(loss=2 - s / 10, n=s * 4096) for s in range(1, 6))).runs

    assert run.is_language_model
    assert run.config["tokens_per_step"] == 4096


def test_lightnings_metrics_csv_has_training_and_validation_in_rows_of_their_own(read) -> None:
    text = "epoch,lr-Adam,step,train_loss,val_loss\n"
    for epoch in range(3):
        text += "".join(f"{epoch},0.001,{epoch * 30 + s},{3 - epoch / 10:.4f},\n" for s in (9, 19, 29))
        text += f"{epoch},,{epoch * 30 + 29},,{3.1 - epoch / 10:.4f}\n"
    (run,) = read(text).runs

    assert list(run.steps.step) == [9, 19, 29, 39, 49, 59, 69, 79, 89]
    assert [(e.step, e.val) for e in run.evals] == [(29, 3.1), (59, 3.0), (89, pytest.approx(2.9))]


def test_lightnings_bar_corrects_its_values_and_shows_its_validation(read) -> None:
    text = "Epoch 0:   0%|          | 0/3 [00:00<?, ?it/s]\n"
    loss = 9.0
    for epoch in range(2):
        for batch in (1, 2, 3):
            text += f"Epoch {epoch}:  33%|###  | {batch}/3 [00:0{2 * batch}<00:09,  2.00s/it, loss={loss:.3f}]\n"
            loss -= 0.25
            text += f"Epoch {epoch}:  33%|###  | {batch}/3 [00:0{2 * batch}<00:09,  2.00s/it, loss={loss:.3f}]\n"
        text += "Validation: 100%|####| 5/5 [00:01<00:00, 5.00it/s]\n"
        text += f"Epoch {epoch}: 100%|#####| 3/3 [00:07<00:00,  2.00s/it, loss={loss:.3f}, val_loss={loss + 0.1:.3f}]\n"
    (run,) = read(text + "`Trainer.fit` stopped: `max_epochs=2` reached.\n").runs

    assert list(run.steps.step) == [1, 2, 3, 4, 5, 6]
    assert list(run.steps.loss) == pytest.approx([8.75, 8.5, 8.25, 8.0, 7.75, 7.5])
    assert [(e.step, e.val) for e in run.evals] == [(3, 8.35), (6, 7.6)]
    assert run.said_finished


def test_a_bar_alone_gives_position_total_and_time_left(read) -> None:
    text = "".join(f"\rTraining:  1%|#   | {s}/500 [00:{s}<08:10,  1.00s/it]" for s in range(1, 30))
    (run,) = read(text).runs

    assert run.last_step == 29
    assert run.total_steps == 500
    assert run.steps.time_s[5] == pytest.approx(1.0)
    assert run.series["eta_s"].values[-1] == 490


def test_lines_with_a_time_and_no_loss_are_steps(read) -> None:
    (run,) = read(
        "iter 0: time 12543.49ms\niter 100: time 168.10ms\niter 200: time 168.30ms\niter 500: time 5985.31ms\n"
    ).runs

    assert list(run.steps.step) == [0, 100, 200, 500]
    assert all(math.isnan(loss) for loss in run.steps.loss)
    assert run.steps.time_s[1] == pytest.approx(0.1681)


def test_lines_with_an_epoch_a_step_and_a_time_but_no_loss_are_steps(read) -> None:
    lines = "".join(
        f"(epoch: 3, iters: {i}, time: 0.51{i // 100}, data: 0.002) D: 0.3 G: 1.9\n" for i in range(100, 600, 100)
    )
    (run,) = read(lines).runs

    assert list(run.steps.step) == [100, 200, 300, 400, 500]
    assert run.steps.time_s[0] == pytest.approx(0.511)


def test_what_is_printed_below_a_step_is_no_step(read) -> None:
    text = ""
    for i in range(50, 90, 10):
        text += f"I0102 03:0{i // 10}:00.000001 77 solver.cpp:219] Iteration {i} (0.2 iter/s, 60.00s/10 iters), loss = 0.{i}\n"
        for output, name in enumerate(("loss_a", "loss_b")):
            text += f"I0102 03:0{i // 10}:00.000002 77 solver.cpp:238]     Train net output #{output}: {name} = 0.1 (* 1 = 0.1 loss)\n"
    (run,) = read(text).runs

    assert list(run.steps.step) == [50, 60, 70, 80]
    assert list(run.steps.loss) == pytest.approx([0.50, 0.60, 0.70, 0.80])
    assert run.steps.time_s[1] == pytest.approx(6.0)


def test_the_averages_below_an_epoch_are_no_steps(read) -> None:
    text = ""
    for epoch in range(4, 7):
        text += f"Averaged stats: lr: 0.00{epoch}  loss: 9.0 (9.0)\n"
        text += "".join(
            f"Epoch: [{epoch}]  [{b:2d}/30]  eta: 0:00:09  loss: 2.{epoch} (2.5)  time: 0.30\n" for b in (0, 10, 20)
        )
    (run,) = read(text).runs

    assert list(run.steps.loss) == pytest.approx([2.4] * 3 + [2.5] * 3 + [2.6] * 3)


def test_an_epoch_that_is_validated_too_is_still_an_epoch_of_training(read) -> None:
    text = "".join(
        f'{{"train_loss": 3.{9 - e}, {"" if e != 3 else chr(34) + "test_loss" + chr(34) + ": 1.5, "}"epoch": {e}}}\n'
        for e in range(1, 7)
    )
    (run,) = read(text).runs

    assert list(run.steps.step) == [1, 2, 3, 4, 5, 6]
    assert [(e.step, e.val) for e in run.evals] == [(3, 1.5)]


def test_a_log_that_was_emptied_while_it_was_written_loses_no_line(read) -> None:
    (run,) = read("\0" * 9000 + "".join(f"step {s} | loss 4.{s}\n" for s in range(10, 60, 10))).runs

    assert list(run.steps.step) == [10, 20, 30, 40, 50]


@pytest.mark.parametrize(
    "logger", ["10:00:01 net.train INFO:", f"2031-01-01 10:00:01 - {'package.' * 12}trainer - INFO -"]
)
def test_the_level_of_a_logger_is_not_infinite_and_its_name_is_no_label(logger) -> None:
    found = [(cell.label, cell.text) for cell in cells(f"{logger} Step 3 | Loss: 2.5") if cell.part != "stamp"]

    assert [text for _, text in found] == ["3", "2.5"]
    assert len(found[0][0].split()) < 5


def test_the_running_time_is_known_in_the_middle_of_a_run(read) -> None:
    lines = "".join(
        f"[2031-01-01 10:0{i}:20,000 INFO] Step {5000 + 50 * i}/90000; xent: 2.{i}; 1320/1445 tok/s;  {15000 + 60 * i} sec\n"
        for i in range(6)
    )
    (run,) = read(lines).runs

    assert run.steps.time_s[1] == pytest.approx(1.2)


def test_a_bar_without_an_end_counts_steps_only_with_a_loss(read) -> None:
    bar = "".join(f"{i}it [0{i}:20,  6.00s/it]\n" for i in range(1, 7))

    assert not read(bar).runs
    (run,) = read(bar.replace("/it]", "/it, loss=2.5]")).runs
    assert list(run.steps.step) == [1, 2, 3, 4, 5, 6]
    assert run.total_steps is None


def test_the_share_of_right_answers_is_no_step_of_an_evaluation(read) -> None:
    text = "".join(f"Batch[{b}/900] - loss: 0.7{b}  acc: 56.2500%(9/16)\n" for b in range(10, 60, 10))
    (run,) = read(text + "Dev Accuracy:  Evaluation - loss: 0.655496  acc: 62.3853%(544/872)\n").runs

    assert [(e.step, e.val) for e in run.evals] == [(50, 0.655496)]


def test_an_epoch_is_no_step(read) -> None:
    text = "".join(f"{e}epoch:train:{b}batch: loss=1.{b}, train_time=0.5\n" for e in (7, 8) for b in (100, 200, 300))
    (run,) = read(text + "8epoch results: [train] loss=1.4, [valid] loss=1.7\n").runs

    assert [e.step for e in run.evals] in ([], [run.steps.step[-1]])


def test_the_progress_of_an_evaluation_is_no_training(read) -> None:
    text = "| epoch 004 | valid on 'valid' subset  500 / 700 loss=3.24\n"
    text += "".join(f"| epoch 005  {i}00 / 900 loss=2.{i} (2.95), wps=900, lr=0.001\n" for i in range(1, 9))
    (run,) = read(text + "| epoch 005 | valid on 'valid' subset  500 / 700 loss=3.22\n").runs

    assert list(run.steps.loss) == pytest.approx([2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8])


def test_a_nameless_bar_among_other_text_is_no_training(read) -> None:
    bar = "".join(f"{10 * i}%|#| {i}/10 [0{i}:00<0{10 - i}:00, 60.00s/it]\n" for i in range(1, 11))
    other = "".join(f"[INFO] Uploaded asset {name}\n" for name in "abcdefgh" * 6)

    assert read(bar).runs[0].total_steps == 10
    assert not read(bar + other).runs


def test_a_perplexity_alone_gives_the_loss(read) -> None:
    (run,) = read(
        "".join(f"Epoch[0] Batch [{b}] 1960 tokens/sec perplexity={10 - b / 100}\n" for b in range(50, 300, 50))
    ).runs

    assert run.steps.loss[0] == pytest.approx(math.log(9.5))


def test_training_and_held_out_losses_are_known_by_their_short_names(read) -> None:
    (run,) = read(
        "".join(f"[pretrain] epoch {e}/9  train=3.{9 - e}  heldout=4.{9 - e}  lr=1e-4\n" for e in range(1, 6))
    ).runs

    assert list(run.steps.loss) == pytest.approx([3.8, 3.7, 3.6, 3.5, 3.4])
    assert [e.val for e in run.evals] == pytest.approx([4.8, 4.7, 4.6, 4.5, 4.4])


def test_a_checkpoint_at_the_head_of_a_later_part_is_not_from_step_0(read) -> None:
    lines = "".join(f"global step = {s}, loss = 1.{s}\n" for s in range(500, 560, 10))
    (run,) = read("INFO: Saving checkpoints for 501 into /tmp/model.ckpt.\n" + lines).runs

    assert [c.step for c in run.checkpoints] == [500]


def test_what_stands_behind_valid_in_brackets_is_of_the_validation(read) -> None:
    (run,) = read(
        "".join(
            f"{e}epoch results: [train] loss_a=17.{e}, loss=15.{e}, time=3 hours, 11 minutes and 16.5 seconds, [valid] loss_a=9.{e}, loss=8.{e}, time=3 minutes and 2.5 seconds\n"
            for e in (7, 8)
        )
    ).runs

    assert list(run.steps.loss) == pytest.approx([15.7, 15.8])
    assert [e.val for e in run.evals] == pytest.approx([8.7, 8.8])
    assert run.steps.time_s[1] == pytest.approx(3 * 3600 + 11 * 60 + 16.5)


def test_a_model_saved_after_an_epoch_is_not_saved_at_that_step(read) -> None:
    lines = "".join(f"10:00:{s:02d} iter {s}: loss 2.{s}\n" for s in range(10, 50))
    (run,) = read(lines + "New best model saved: checkpoint-epoch-2\n").runs

    assert [c.step for c in run.checkpoints] == [49]


def test_a_record_that_is_cut_off_begins_no_run(read) -> None:
    text = "".join(
        f"{{'loss': 1.{i}, 'grad_norm': 0.{i}, 'learning_rate': 1e-06, 'kl': 0.1, 'epoch': 0.{i}}}\n"
        for i in range(1, 6)
    )

    assert [
        len(run.steps) for run in read(text + "{'loss': 1.6, 'grad_norm': 0.6, 'learning_rate': 1e-06, 'k").runs
    ] == [5]


def test_a_batch_id_counts_inside_its_epoch(read) -> None:
    (run,) = read(
        "".join(f"epoch: {e}, batch_id: {b}, loss:0.{9 - e}\n" for e in range(3) for b in (0, 500, 1000))
    ).runs

    assert list(run.steps.step) == [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000]


def test_evaluations_without_a_step_that_come_before_the_step_belong_to_it(read) -> None:
    text = "eval: train loss 3.5, val loss 3.6\niter 0: loss 3.4, time 9.0s\niter 1: loss 3.3, time 3.0s\neval: train loss 3.2, val loss 3.3\nSnapshot saved at 2 iteration\niter 2: loss 3.1, time 9.0s\n"
    (run,) = read(text).runs

    assert [(e.step, e.val, e.train_loss) for e in run.evals] == [(0, 3.6, 3.5), (2, 3.3, 3.2)]
    assert [c.step for c in run.checkpoints] == [2]


@pytest.mark.parametrize("stamped", [True, False])
def test_a_time_that_covers_all_steps_since_the_last_line_is_divided(read, stamped) -> None:
    text = "" if stamped else "iter 0: loss 9.0, time 900.00ms\n"
    for s in range(50, 400, 50):
        text += f"2031-01-01 10:0{s // 60}:{s % 60:02d} " if stamped else ""
        text += (
            f"iter {s}: loss {9 - s / 100:.4f}, time 25000.00ms\n"
            if not stamped
            else f"iter {s}: loss {9 - s / 100:.4f}, time 50000.00ms\n"
        )
    (run,) = read(text).runs

    assert run.time_spans_steps
    assert run.steps.time_s[3] == pytest.approx(1.0 if stamped else 0.5)


def test_a_time_of_one_step_is_left_alone(read) -> None:
    text = "iter 0: loss 9.0, time 9000.00ms\n" + "".join(
        f"iter {s}: loss {9 - s / 100:.4f}, time 500.00ms\n" for s in range(50, 400, 50)
    )
    (run,) = read(text).runs

    assert not run.time_spans_steps
    assert run.steps.time_s[1] == 0.5


def test_two_runs_in_one_log_are_told_apart_by_their_totals(read) -> None:
    step = "step {s:05d}/{total:05d} (1.00%) | loss: {loss:.6f} | lrm: 1.00 | dt: {ms}.00ms | tok/sec: 1,000 | mfu: 1.0 | total time: 0.1m\n"
    text = "".join(step.format(s=s, total=900, loss=10 - s / 50, ms=400) for s in (0, 20, 40))
    for s in range(0, 200, 20):
        text += step.format(s=s, total=300, loss=9 - s / 50, ms=150)
        if s % 40 == 0:
            text += step.format(s=60 + s // 2, total=900, loss=8 - s / 100, ms=400)
    log = read(text)

    assert [(run.total_steps, run.first_step, run.last_step, len(run.steps)) for run in log.runs] == [
        (900, 0, 140, 8),
        (300, 0, 180, 10),
    ]


def test_evaluations_with_a_running_clock_are_enough_to_tell_the_speed(read) -> None:
    text = "".join(
        f"step:{s}/500 val_loss:{9 - s / 100:.4f} train_time:{s * 0.2:.3f}s step_avg:200.0ms\n"
        for s in range(0, 501, 100)
    )
    (run,) = read(text).runs

    assert run.total_steps == 500
    assert len(run.evals) == 6
    assert list(run.steps.time_s) == pytest.approx([0.2] * 5)


def test_logs_without_a_bar_get_their_steps_from_the_share_of_an_epoch(read) -> None:
    text = "  Num Epochs = 3\n  Total optimization steps = 1,500\n"
    text += "".join(
        f"{{'loss': {3 - s / 99:.4f}, 'learning_rate': {1e-5 - s * 1e-8:.4e}, 'epoch': {s / 500:.2f}}}\n"
        for s in range(10, 60, 10)
    )

    assert list(read(text).runs[0].steps.step) == [10, 20, 30, 40, 50]


def test_a_bar_that_lost_its_carriage_returns_or_was_taken_back_letter_by_letter_is_read(read) -> None:
    text = ""
    for epoch in (1, 2, 3):
        text += f"Epoch {epoch}/3\n"
        for batch in (1, 5, 10):
            bar = f"{batch:2d}/10 {BAR} {10 - batch}s 100ms/step - loss: {3 - epoch / 10:.4f}"
            text += bar + "\b" * len(bar)
        text += f"10/10 {BAR} 1s 100ms/step - loss: {3 - epoch / 10:.4f} - val_loss: 3.0\n"
    (run,) = read(text).runs

    assert list(run.steps.loss) == pytest.approx([2.9, 2.8, 2.7])
    assert list(run.steps.time_s) == [1, 1, 1]


def test_steps_of_an_epoch_below_its_heading_are_one_count_and_its_evaluation_belongs_to_its_last_step(read) -> None:
    text = ""
    for epoch in (1, 2):
        text += f"Epoch {epoch}/4\n" + "".join(
            f"step {s}/300 - loss: {3 - epoch / 10:.2f} - 0.5s/step\n" for s in (100, 200, 300)
        )
        text += f"Epoch {epoch} val_loss: 2.{epoch}\n"
    (run,) = read(text).runs

    assert list(run.steps.step) == [100, 200, 300, 400, 500, 600]
    assert run.total_steps == 1200
    assert [(e.step, e.val) for e in run.evals] == [(300, 2.1), (600, 2.2)]


def test_records_of_any_trainer_that_were_joined_into_one_line_are_all_read(read) -> None:
    (steps,) = read(" ".join(f"step {s} loss {4 - s / 100:.2f} time 0.5s" for s in range(10, 60, 10))).runs
    (logs,) = read(
        "".join(f"{{'loss': {3 - s / 10:.1f}, 'learning_rate': 1e-05, 'epoch': 0.{s}}}" for s in range(1, 6))
    ).runs

    assert list(steps.steps.step) == [10, 20, 30, 40, 50]
    assert len(logs.steps) == 5


def test_a_log_behind_its_bar_belongs_to_the_step_of_the_bar(read) -> None:
    text = "".join(
        f" 10%|#  | {s}/100 [00:{s}<01:30,  1.00s/it]{{'loss': {3 - s / 100:.2f}, 'learning_rate': 1e-05, 'epoch': 0.{s}}}\n"
        for s in (10, 20, 30)
    )

    assert list(read(text).runs[0].steps.step) == [10, 20, 30]


def test_lightning_says_what_it_reached_and_what_it_saved(read) -> None:
    text = "".join(f"Epoch 0:  50%|##  | {s}/20 [00:0{s}<00:09,  1.00s/it, train_loss=2.{s}]\n" for s in (1, 2, 3))
    (run,) = read(
        text + "Epoch 0, global step 3: 'val_loss' reached 2.31000 (best 2.31000), saving model to 'x.ckpt' as top 1\n"
    ).runs

    assert [(e.step, e.val) for e in run.evals] == [(3, 2.31)]
    assert len(run.checkpoints) == 1


def test_a_loss_that_is_a_running_mean_is_known_as_one(read) -> None:
    assert read(KERAS["bars"]).runs[0].loss_is_average
    assert read(2 * (BATCHES["torchvision"].format(e0=0, b=1, loss=2.0) + "\n")).runs[0].loss_is_average
    assert not read(STEPS["Megatron"]).runs[0].loss_is_average
