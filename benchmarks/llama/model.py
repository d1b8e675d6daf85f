# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A small language model with random weights, in llama.cpp's format. What it says is noise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np

_WIDTH: Final = 512
_LAYERS: Final = 8
_HEADS: Final = 8
_FEED_FORWARD: Final = 1408
_CONTEXT: Final = 4096
_BYTES: Final = 256
_SPECIAL: Final = ("<unk>", "<s>", "</s>")
_WORDS: Final = 253


def write(path: Path) -> None:
    """Write the model: 26 million parameters in 16 bits, 512 tokens, seeded."""
    import gguf

    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float16)

    kinds = gguf.TokenType
    tokens = [*_SPECIAL, *(f"<0x{each:02X}>" for each in range(_BYTES))]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * _BYTES]
    tokens += [f"▁w{each}" for each in range(_WORDS)]
    types += [kinds.NORMAL] * _WORDS
    out = weights(len(tokens), _WIDTH)
    # Bytes would make texts that are not UTF-8, which the server holds back.
    out[: len(_SPECIAL) + _BYTES] = 0

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_tensor("token_embd.weight", weights(len(tokens), _WIDTH))
    writer.add_tensor("output.weight", out)
    writer.add_tensor("output_norm.weight", np.ones(_WIDTH, np.float32))
    for layer in range(_LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(_WIDTH, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(_WIDTH, _WIDTH))
        for name in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(_FEED_FORWARD, _WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(_WIDTH, _FEED_FORWARD))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
