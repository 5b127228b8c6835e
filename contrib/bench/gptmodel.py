"""gptmodel.py - the reference trainer's GPT in PyTorch: pre-norm blocks, tanh GELU, tied head; its parameters have the
names of ours, but linear weights are turned round: ours are stored [in, out]. And the AdamW that PyTorch's users would
take. o has layers, width, heads, context, vocab, lr, weight_decay."""
import torch
import torch.nn.functional as F
from torch import nn

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")


class Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads = o.heads
        self.c_attn = nn.Linear(o.width, 3 * o.width)
        self.c_proj = nn.Linear(o.width, o.width)
        if not HAS_SDPA:
            # No bools: DDP sends buffers round at the start, and gloo under PyTorch 1.13 takes none.
            hidden = torch.full((o.context, o.context), float("-inf")).triu(1)
            self.register_buffer("hidden", hidden, persistent=False)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2) for y in self.c_attn(x).split(w, dim=2))
        if HAS_SDPA:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (w // self.heads) ** -0.5
            y = F.softmax(scores + self.hidden, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, t, w))


class Mlp(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.c_fc = nn.Linear(o.width, 4 * o.width)
        self.c_proj = nn.Linear(4 * o.width, o.width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.ln_1 = nn.LayerNorm(o.width)
        self.attn = Attention(o)
        self.ln_2 = nn.LayerNorm(o.width)
        self.mlp = Mlp(o)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """Gives the mean loss, so that DDP sees one module from tokens to loss."""

    def __init__(self, o):
        super().__init__()
        self.wte = nn.Embedding(o.vocab, o.width)
        self.wpe = nn.Embedding(o.context, o.width)
        self.h = nn.ModuleList(Block(o) for _ in range(o.layers))
        self.ln_f = nn.LayerNorm(o.width)
        self.register_buffer("position", torch.arange(o.context), persistent=False)

    def forward(self, tokens):
        x = self.wte(tokens[:, :-1]) + self.wpe(self.position)
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), tokens[:, 1:].reshape(-1))

    def linears(self):
        return [m for m in self.modules() if isinstance(m, nn.Linear)]

    def turned(self):
        """The weights that are stored the other way round."""
        return {id(m.weight) for m in self.linears()}


def make_adamw(model, o):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": o.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    failure = None
    for kind in "fused", "foreach":
        try:
            return torch.optim.AdamW(groups, lr=o.lr, betas=(0.9, 0.95), eps=1e-8, **{kind: True}), kind
        except (TypeError, RuntimeError, ValueError) as e:
            failure = e
    raise failure
