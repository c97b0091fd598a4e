"""The models. `build_model` makes one from a ModelConfig; a recipe is one file."""

from nanoscope.model.classic import GPT, ModelConfig

__all__ = ["GPT", "ModelConfig"]
