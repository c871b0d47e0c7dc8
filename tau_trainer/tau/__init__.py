"""The Tau task: prompts as embeddings in, an answer's vector out."""
