"""The models. `build_model` makes one from a ModelConfig; a recipe is one file."""

from nanoscope.model.classic import GPT, ModelConfig

__all__ = ["GPT", "ModelConfig", "build_model"]


def build_model(config: ModelConfig) -> GPT:
    """A model of this shape with its first weights."""
    return GPT(config)
