"""A small run of Keras on torch, trained in seconds. Its argument is `verbose` of fit()."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

rng = np.random.default_rng(0)
tokens = rng.integers(0, 16, (640, 8))
model = keras.Sequential(
    [keras.layers.Embedding(16, 8), keras.layers.Flatten(), keras.layers.Dense(16, activation="softmax")]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(tokens, tokens[:, 0], epochs=4, batch_size=32, validation_split=0.2, verbose=int(sys.argv[1]))
