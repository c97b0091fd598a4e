"""From text to batches of tokens: corpora, readers, tokenizers, preparation, prepared datasets and the loader."""
