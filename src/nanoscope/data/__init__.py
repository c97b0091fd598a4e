"""Text in, tokens on disk out: corpora, readers, tokenizers, preparation, and opening what was prepared."""
