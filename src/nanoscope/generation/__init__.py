"""Writing text with a trained model."""
