# ruff: noqa: E501 (a log line is as long as it is)
"""Texts that are no training log: no run may be claimed in them. All are made up."""

import pytest

TEXTS = {
    "a web server": '10.0.0.7 - - [03/Mar/2031:10:00:01 +0000] "GET /step/3 HTTP/1.1" 200 512 0.031\n' * 40,
    "a development server": "Watching for file changes\nStarting development server at http://127.0.0.1:8000/\n[03/Mar/2031 10:00:01] \"GET / HTTP/1.1\" 200 4109\n" * 9,
    "pip": "Collecting torch\n  Downloading torch-2.9.0-cp312.whl (780.1 MB)\n     |████████████████████████████████| 780.1 MB 5.1 kB/s eta 0:00:01\nInstalling collected packages: torch\nSuccessfully installed torch-2.9.0\n",
    "downloads": "".join(f"\rDownloading shards: {s * 10}%|#   | {s}/10 [00:0{s}<00:09,  1.00s/it]" for s in range(10)) + "\nmodel.safetensors: 100%|####| 523M/523M [00:05<00:00, 99.1MB/s]\n",
    "tokenizing": "".join(f"Map: {s}%|#  | {s * 1000}/100000 [00:0{s}<01:00, 3000.00 examples/s]\n" for s in range(9)),
    "a C build": "[1/120] Building CXX object src/a.cpp.o\n[2/120] Building CXX object src/b.cpp.o\n[3/120] Linking target loss_test\n" * 5,
    "make": "gcc -O2 -c step.c -o step.o\nstep.c:120: warning: unused variable 'loss'\nmake: *** [Makefile:12: all] Error 1\n",
    "docker": "Step 1/12 : FROM python:3.12\n ---> 0a1b2c3d\nStep 2/12 : RUN pip install torch\n ---> Running in 77aa\nStep 3/12 : COPY . /app\nSuccessfully built 0a1b2c3d\n",
    "buildkit": "#5 [2/7] RUN apt-get update\n#5 0.412 Get:1 http://archive jammy InRelease [270 kB]\n#5 DONE 12.3s\n#6 [3/7] COPY . .\n#6 DONE 0.1s\n",
    "a test run": "tests/test_loss.py::test_step PASSED [ 10%]\ntests/test_loss.py::test_epoch PASSED [ 20%]\n===== 120 passed in 3.21s =====\n",
    "a recipe": "Step 1: Boil 2 litres of water for 10 minutes.\nStep 2: Add 500 g of pasta; it takes 8 min.\nStep 3: Drain, no loss of starch.\n",
    "prose": "In epoch 3 of the empire the loss of 5000 men in 12 days was felt. The validation of the treaty took 30 years.\n" * 3,
    "a README": "# Trainer\n\nRun `python train.py --max_iters=5000 --batch_size 12`. The loss after 100 steps is about 2.5.\n\n| option | default |\n|---|---|\n| lr | 3e-4 |\n",
    "a config": "max_iters: 5000\nbatch_size: 64\nlearning_rate: 0.001\nloss: cross_entropy\neval_interval: 250\ndevice: cuda\n",
    "source": "for step in range(100):\n    loss = model(x, y)\n    if step % 10 == 0:\n        print(f'step {step}: loss {loss.item():.4f}')\n",
    "a diff": "--- a/train.py\n+++ b/train.py\n@@ -10,7 +10,7 @@\n-learning_rate = 3e-4\n+learning_rate = 1e-3\n",
    "git": "commit 0a1b2c3d\nAuthor: A <a@b.c>\nDate:   Mon Mar 3 10:00:00 2031\n\n    Fix the loss at step 0, 12 ms faster\n",
    "a traceback": 'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    import torch\nModuleNotFoundError: No module named \'torch\'\n',
    "argparse": "usage: train.py [-h] [--epochs EPOCHS] [--lr LR]\ntrain.py: error: unrecognized arguments: --loss 3\n",
    "nvidia-smi": "+-----------------------------+\n| NVIDIA-SMI 560.1    Driver Version: 560.1 |\n|   0  NVIDIA A100   On | 00000000:43:00.0 Off |\n| N/A   33C    P0    79W / 700W |  100MiB / 81920MiB |   0%  Default |\n",
    "ping": "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.031 ms\n64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=0.041 ms\n3 packets transmitted, 3 received, 0% packet loss, time 2003ms\n",
    "ping with losses": "host 1 loss 0% time 12 ms\nhost 2 loss 100% time 0 ms\nhost 3 loss 0% time 14 ms\n",
    "system log": "Mar  3 10:00:01 box kernel: [ 1234.567890] usb 1-1: new device number 5\nMar  3 10:00:02 box sshd[77]: Accepted publickey\n" * 5,
    "a CSV of something else": "date,store,sales,loss\n2031-01-01,3,120.5,2.1\n2031-01-02,3,110.1,1.9\n",
    "JSON": '{"name": "loss", "version": 3, "steps": ["a", "b"]}\n{"name": "epoch", "version": 4}\n',
    "ffmpeg": "frame=  120 fps= 30 q=28.0 size=     512kB time=00:00:04.00 bitrate=1048.6kbits/s speed=1.00x\nframe=  150 fps= 30 q=28.0 size=     640kB time=00:00:05.00 bitrate=1048.6kbits/s speed=1.00x\n" * 3,
    "rsync": "sending incremental file list\n          1,238,099 100%  146.38kB/s    0:00:08  (xfr#5, to-chk=169/396)\n" * 4,
    "benchmark": "matmul 1024: 3.21 ms, 670 GFLOPS\nmatmul 2048: 24.1 ms, 712 GFLOPS\nmatmul 4096: 190.2 ms, 722 GFLOPS\n",
    "numbers": "".join(f"{i} {i * 1.5} {i * 2}\n" for i in range(50)),
    "a chess game": "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 {a loss of 0.31} 4. Ba4 Nf6\n",
    "an evaluation of a finished model": "Loaded best model with validation loss: 2.31\nTest results:\nAccuracy: 0.81\n",
    "a loading bar": "Loading checkpoint shards: 100%|##########| 4/4 [00:08<00:00,  2.11s/it]\nGenerating: 12%|#  | 12/100 [00:10<01:00, 1.2it/s]\n",
    "a Kubernetes list": "NAME      READY   STATUS    RESTARTS   AGE\ntrain-0   1/1     Running   0          12m\ntrain-1   0/1     OOMKilled 3          12m\n",
    "an SQL shell": " step | loss \n------+------\n(0 rows)\n\nTime: 12.301 ms\n",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_no_run_is_claimed_in(read, name) -> None:
    log = read(TEXTS[name])

    assert [(run.first_step, len(run.steps), len(run.evals)) for run in log.runs] == []
    assert log.format == "none"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a traceback", "ModuleNotFoundError: No module named 'torch'"),
        ("argparse", "train.py: error: unrecognized arguments: --loss 3"),
    ],
)
def test_what_went_wrong_is_said_where_nothing_was_trained(read, name, message) -> None:
    assert [error.message for error in read(TEXTS[name]).errors] == [message]
