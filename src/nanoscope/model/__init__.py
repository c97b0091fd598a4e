"""The models, one file per recipe. `build_model` makes one from a ModelConfig."""

from nanoscope.model.classic import GPT
from nanoscope.model.config import ModelConfig
from nanoscope.model.modern import Modern

__all__ = ["GPT", "LanguageModel", "ModelConfig", "Modern", "build_model"]

LanguageModel = GPT | Modern


def build_model(config: ModelConfig) -> LanguageModel:
    """Build a model of this shape with initial weights."""
    return Modern(config) if config.recipe == "modern" else GPT(config)
