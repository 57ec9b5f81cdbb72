"""The models of wild_models.ts in PyTorch, as their authors write them."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def rotate(x, cosine, sine):
    a, b = x.chunk(2, -1)
    return x * cosine + torch.cat((-b, a), -1) * sine


class LlamaBlock(nn.Module):
    def __init__(self, width, hidden, heads, groups):
        super().__init__()
        self.heads, self.groups = heads, groups
        shared = width // heads * groups
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, shared, bias=False), nn.Linear(width, shared, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        n, length, width = x.shape
        y = self.norm1(x)
        q = rotate(self.q(y).view(n, length, self.heads, -1).transpose(1, 2), cosine, sine)
        k = rotate(self.k(y).view(n, length, self.groups, -1).transpose(1, 2), cosine, sine)
        v = self.v(y).view(n, length, self.groups, -1).transpose(1, 2)
        # Rotation is in single precision under autocast; the three are of one type then.
        q, k = q.to(v.dtype), k.to(v.dtype)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(seen.transpose(1, 2).reshape(n, length, width))
        z = self.norm2(x)
        return x + self.down(F.silu(self.gate(z)) * self.up(z))


class Llama(nn.Module):
    def __init__(self, vocabulary, context, width, hidden, heads, groups, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, hidden, heads, groups) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        half = width // heads // 2
        rates = torch.exp(torch.arange(half) * (-math.log(1e4) / half))
        angles = torch.arange(context)[:, None] * rates
        both = torch.cat((angles, angles), 1)
        self.register_buffer("cosine", both.cos())
        self.register_buffer("sine", both.sin())

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return self.head(self.norm(x)).flatten(0, 1)


class ViT(nn.Module):
    def __init__(self, side, patch, width, heads, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        y = self.patches(x).flatten(2).transpose(1, 2)
        first = self.token.expand(len(x), 1, -1).to(y.dtype)
        z = self.encoder(torch.cat((first, y), 1) + self.positions)
        return self.head(self.norm(z[:, 0]))


def convolved(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.down = nn.ModuleList(map(convolved, (3, *widths[:-1]), widths))
        steps = list(zip(widths[1:], widths[:-1]))
        self.raised = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in steps)
        self.up = nn.ModuleList(convolved(2 * b, b) for _, b in steps)
        self.head = nn.Conv2d(widths[0], 4, 1)

    def forward(self, x):
        seen = []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            seen.append(x)
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat((seen[level], self.raised[level](x)), 1))
        return self.head(x).permute(0, 2, 3, 1).reshape(-1, 4)


class TimedBlock(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.around = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[..., None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.around(x)


class PixelAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.project, self.join = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        q, k, v = self.project(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, 2)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        return x + self.join(seen)


class Diffusion(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.width, time = w, 4 * w
        self.time = nn.Sequential(nn.Linear(w, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.last = nn.Conv2d(3, w, 3, padding=1), nn.Conv2d(w, 3, 3, padding=1)
        self.down1, self.half1 = TimedBlock(w, w, time), nn.Conv2d(w, w, 3, 2, 1)
        self.down2, self.half2 = TimedBlock(w, 2 * w, time), nn.Conv2d(2 * w, 2 * w, 3, 2, 1)
        self.middle1, self.middle2 = TimedBlock(2 * w, 4 * w, time), TimedBlock(4 * w, 2 * w, time)
        self.attention = PixelAttention(4 * w)
        self.up2, self.up1 = TimedBlock(4 * w, w, time), TimedBlock(2 * w, w, time)
        self.norm = nn.GroupNorm(8, w)

    def forward(self, x):
        half = self.width // 2
        rates = torch.exp(torch.arange(half, device=x.device) * (-math.log(1e4) / half))
        angles = torch.arange(len(x), device=x.device)[:, None] * rates
        time = self.time(torch.cat((angles.sin(), angles.cos()), 1))
        a = self.down1(self.first(x), time)
        b = self.down2(self.half1(a), time)
        c = self.middle1(self.half2(b), time)
        d = self.middle2(self.attention(c), time)
        e = self.up2(torch.cat((F.interpolate(d, scale_factor=2), b), 1), time)
        f = self.up1(torch.cat((F.interpolate(e, scale_factor=2), a), 1), time)
        return self.last(F.silu(self.norm(f)))


class GraphAttention(nn.Module):
    def __init__(self, inputs, heads, width):
        super().__init__()
        self.heads, self.width = heads, width
        self.project = nn.Linear(inputs, heads * width, bias=False)
        self.source = nn.Parameter(torch.randn(heads, width) * 0.1)
        self.target = nn.Parameter(torch.randn(heads, width) * 0.1)

    def forward(self, x, sources, targets):
        h = self.project(x).view(len(x), self.heads, self.width)
        of_source, of_target = (h * self.source).sum(-1), (h * self.target).sum(-1)
        scores = F.leaky_relu(of_source[sources] + of_target[targets], 0.2)
        e = (scores - scores.detach().max()).exp()
        sums = torch.zeros(len(x), self.heads, device=x.device).index_add(0, targets, e)
        share = e / (sums[targets] + 1e-9)
        sent = h[sources] * share[..., None]
        return torch.zeros_like(h).index_add(0, targets, sent).flatten(1)


class GAT(nn.Module):
    def __init__(self, features, nodes, edges):
        super().__init__()
        self.layer1, self.layer2 = GraphAttention(features, 4, 32), GraphAttention(128, 1, 10)
        self.register_buffer("sources", torch.randint(0, nodes, (edges,)))
        self.register_buffer("targets", torch.randint(0, nodes, (edges,)))

    def forward(self, x):
        y = F.elu(self.layer1(x, self.sources, self.targets))
        return self.layer2(y, self.sources, self.targets)


class CellLoop(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.cell = width, nn.LSTMCell(width, width)

    def forward(self, x):
        h = c = torch.zeros(x.shape[1], self.width, device=x.device)
        for now in x.unbind(0):
            h, c = self.cell(now, (h, c))
        return h


def makers(device, gpu, prepare, step_of):
    """What is measured, by name, as {name: {suffix: dtype}} of torch_models.makers."""
    bfloat16 = torch.bfloat16

    def ids(shape, most):
        return torch.randint(0, most, shape, device=device)

    def images(*shape):
        return torch.rand(*shape, device=device) - 0.5

    def llama(dtype=None):
        def make(batch):
            sizes = (32000, 512, 768, 2048, 12, 4, 12) if gpu else (1000, 64, 128, 384, 4, 2, 4)
            model = Llama(*sizes).to(device)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            x, y = (ids((batch, sizes[1]), sizes[0]) for _ in range(2))
            return step_of(model, optimizer, x, y.flatten(), dtype, prepare)

        return make

    def vit(dtype=None):
        def make(batch):
            sizes = (224, 16, 384, 6, 12) if gpu else (32, 4, 96, 3, 4)
            model = ViT(*sizes).to(device)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            x, y = images(batch, 3, sizes[0], sizes[0]), ids((batch,), 10)
            return step_of(model, optimizer, x, y, dtype, prepare)

        return make

    def unet(dtype=None):
        def make(batch):
            widths, side = ((32, 64, 128, 256), 128) if gpu else ((8, 16, 32), 64)
            model = UNet(widths).to(device)
            optimizer = torch.optim.Adam(model.parameters(), 1e-3)
            x, y = images(batch, 3, side, side), ids((batch * side * side,), 4)
            return step_of(model, optimizer, x, y, dtype, prepare)

        return make

    def diffusion(dtype=None):
        def make(batch):
            model = Diffusion(64 if gpu else 16).to(device)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            x, y = images(batch, 3, 32, 32), images(batch, 3, 32, 32)
            return step_of(model, optimizer, x, y, dtype, prepare, F.mse_loss)

        return make

    def gat(edges):
        nodes = edges // 10
        model = GAT(128 if gpu else 32, nodes, edges).to(device)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        x = images(nodes, 128 if gpu else 32)
        return step_of(model, optimizer, x, ids((nodes,), 10), None, prepare)

    def cells(batch):
        width = 512 if gpu else 128
        model = CellLoop(width).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        x, y = images(32, batch, width), images(batch, width)
        return step_of(model, optimizer, x, y, None, prepare, F.mse_loss)

    def written(dtype):
        def make(length):
            shape = (8, 12, length, 64) if gpu else (2, 4, length, 32)
            q, k, v = (images(*shape).to(dtype).requires_grad_() for _ in range(3))
            gradient = torch.ones(shape, device=device, dtype=dtype)
            attend = prepare(Written())

            def run():
                torch.autograd.grad(attend(q, k, v), (q, k, v), gradient)

            return run

        return make

    return {
        "llama": llama(),
        "llama-bfloat16": llama(bfloat16),
        "vit": vit(),
        "vit-bfloat16": vit(bfloat16),
        "unet": unet(),
        "unet-bfloat16": unet(bfloat16),
        "diffusion": diffusion(),
        "diffusion-bfloat16": diffusion(bfloat16),
        "gat": gat,
        "lstm-cells": cells,
        "attention-written": written(torch.float32),
        "attention-written-bfloat16": written(bfloat16),
    }


class Written(nn.Module):
    """Attention as people write it by hand."""

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return scores.softmax(-1) @ v
