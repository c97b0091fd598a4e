"""From findings to sentences, in the reader's language. The only room that holds prose."""
