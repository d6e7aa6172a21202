"""HunyuanVideo-1.5's processor without its mask of every pair of tokens, which is built in each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - what everybody calls it
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.transformers.transformer_hunyuan_video15 import HunyuanVideo15AttnProcessor2_0

from backends.masks import KeyPadding, Mask
from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from torch import Tensor

    from selector.integrations.diffusers.recognised import Recognised


class DescribedProcessor(HunyuanVideo15AttnProcessor2_0):  # type: ignore[misc] # diffusers has no types
    """The stock processor's mathematics, with a mask that is described and text cut to the longest valid length.

    Every valid row comes out as from the stock processor. What comes out for padded text differs; no valid token sees
    it and the model throws it away. With a backend that is not ours the stock processor runs.
    """

    def __init__(self, recognised: Recognised, member: Untyped) -> None:
        """Hold where the mask of the forward that runs is found, and the backend that takes descriptions."""
        super().__init__()
        self.recognised = recognised
        self.member = member

    def __call__(
        self,
        attn: Untyped,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: Untyped = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute attention of a layer: video `[batch, tokens, width]`, text `[batch, slots, width]` if it has one."""
        if encoder_hidden_states is None or attention_mask is None or self._attention_backend is not self.member:
            result: tuple[Tensor, Tensor | None] = super().__call__(
                attn, hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb
            )
            return result
        slots, video = encoder_hidden_states.shape[1], hidden_states.shape[1]
        mask, text = self._described(attention_mask, encoder_hidden_states, video)
        query, key, value = _projected(attn, hidden_states, image_rotary_emb)
        joint = [torch.cat(pair, dim=1) for pair in zip((query, key, value), _projected_text(attn, text), strict=True)]
        out = dispatch_attention_fn(
            *joint,
            attn_mask=mask,
            dropout_p=0.0,
            is_causal=False,
            backend=self._attention_backend,
            parallel_config=self._parallel_config,
        )
        out = out.flatten(2, 3).to(query.dtype)
        of_video, of_text = out[:, :video], out[:, video:]
        if getattr(attn, "to_out", None) is not None:
            of_video = attn.to_out[1](attn.to_out[0](of_video))
        if getattr(attn, "to_add_out", None) is not None:
            of_text = attn.to_add_out(of_text)
        return of_video, F.pad(of_text, (0, 0, 0, slots - of_text.shape[1]))

    def _described(self, padding: Tensor, text: Tensor, video: int) -> tuple[Mask, Tensor]:
        """Give the mask of a layer and the text that any query can see; no value of a tensor is read."""
        found = self.recognised.found
        length = text.shape[1] if found.text_len is None else found.text_len
        mask = self.recognised.mask("joint", text.shape[0], video + length)
        if mask is None:  # a block that is called by itself
            return KeyPadding(F.pad(padding.bool(), (video, 0), value=True)), text
        return mask, text[:, :length]


def _projected(attn: Untyped, video: Tensor, rotary: Untyped) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (
        projection(video).unflatten(2, (attn.heads, -1)) for projection in (attn.to_q, attn.to_k, attn.to_v)
    )
    query, key = attn.norm_q(query), attn.norm_k(key)
    if rotary is not None:
        query = apply_rotary_emb(query, rotary, sequence_dim=1)
        key = apply_rotary_emb(key, rotary, sequence_dim=1)
    return query, key, value


def _projected_text(attn: Untyped, text: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (
        projection(text).unflatten(2, (attn.heads, -1))
        for projection in (attn.add_q_proj, attn.add_k_proj, attn.add_v_proj)
    )
    query = query if attn.norm_added_q is None else attn.norm_added_q(query)
    key = key if attn.norm_added_k is None else attn.norm_added_k(key)
    return query, key, value
