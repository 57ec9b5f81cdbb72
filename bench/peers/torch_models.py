"""The models of models.ts in PyTorch, in the way its users write them."""

import torch
import torch.nn.functional as F
import torch_wild
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        parts = self.project(self.norm1(x)).split(width, 2)
        q, k, v = (p.view(n, length, self.heads, -1).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(y.transpose(1, 2).reshape(n, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.blocks(self.tokens(ids) + self.positions(places))
        return self.head(self.norm(x)).flatten(0, 1)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(around, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, widths, blocks, classes=10, large=False):
        super().__init__()
        stem = (7, 2, 3) if large else (3, 1, 1)
        self.stem = nn.Conv2d(3, widths[0], *stem, bias=False)
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        self.norm = nn.BatchNorm2d(widths[0])
        layers, inputs = [], widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                layers.append(Residual(inputs, width, 2 if block == 0 and stage > 0 else 1))
                inputs = width
        self.blocks, self.head = nn.Sequential(*layers), nn.Linear(widths[-1], classes)

    def forward(self, x):
        y = self.blocks(self.pool(F.relu(self.norm(self.stem(x)))))
        return self.head(y.mean((2, 3)))


def step_of(model, optimizer, x, y, dtype, prepare, loss_of=F.cross_entropy):
    """A training step as users write it; float16 with a scaler."""
    model = prepare(model)
    device = x.device.type
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)

    def run():
        with torch.autocast(device, dtype or torch.float16, enabled=dtype is not None):
            loss = loss_of(model(x).float(), y)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return run


def makers(device, gpu, prepare=lambda model: model):
    """What is measured, by name; a GPU gets the large models, a processor the small ones.

    `prepare` makes of a module what is called: itself, or its compiled form.
    """

    def gpt(dtype=None):
        def make(batch):
            sizes = (65, 256, 384, 6, 6) if gpu else (65, 64, 128, 4, 4)
            model = GPT(*sizes).to(device)
            ids = torch.randint(0, 65, (2, batch, sizes[1]), device=device)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            return step_of(model, optimizer, ids[0], ids[1].flatten(), dtype, prepare)

        return make

    def resnet(dtype=None):
        def make(batch):
            model = ResNet((64, 128, 256, 512), 2) if gpu else ResNet((16, 32, 64), 3)
            optimizer = torch.optim.SGD(model.to(device).parameters(), 1e-2, 0.9)
            x = torch.rand(batch, 3, 32, 32, device=device) - 0.5
            y = torch.randint(0, 10, (batch,), device=device)
            return step_of(model, optimizer, x, y, dtype, prepare)

        return make

    def embedding(count):
        rows = 200_000 if gpu else 20_000
        table = nn.Embedding(rows, 128, device=device)
        optimizer = torch.optim.SGD(table.parameters(), 0.1)
        rows_of = prepare(table)
        ids = torch.randint(0, rows, (count,), device=device)

        def run():
            optimizer.zero_grad(set_to_none=True)
            rows_of(ids).sum().backward()
            optimizer.step()

        return run

    def lstm(batch):
        width = 512 if gpu else 128
        layer, x = nn.LSTM(width, width).to(device), torch.rand(32, batch, width, device=device) - 0.5
        optimizer = torch.optim.SGD(layer.parameters(), 0.01)
        called = prepare(layer)

        def run():
            optimizer.zero_grad(set_to_none=True)
            called(x)[0].sum().backward()
            optimizer.step()

        return run

    def resnet18(batch):
        model = ResNet((64, 128, 256, 512), 2, 1000, True).to(device).eval()
        called, x = prepare(model), torch.rand(batch, 3, 224, 224, device=device) - 0.5

        def run():
            with torch.no_grad():
                return called(x)

        return run

    def scatter_add(count):
        base, source = torch.rand(1000, device=device), torch.rand(count, device=device)
        indices = torch.randint(0, 1000, (count,), device=device)
        return lambda: base.scatter_add(0, indices, source)

    def sort(count):
        x = torch.rand(count, device=device) - 0.5
        return lambda: x.sort()

    def attention(dtype=torch.float32):
        def make(length):
            shape = (8, 12, length, 64) if gpu else (2, 4, length, 32)
            q, k, v = (
                (torch.rand(shape, device=device) - 0.5).to(dtype).requires_grad_()
                for _ in range(3)
            )
            gradient = torch.ones(shape, device=device, dtype=dtype)

            def run():
                y = F.scaled_dot_product_attention(q, k, v)
                torch.autograd.grad(y, (q, k, v), gradient)

            return run

        return make

    def half_matmul(n):
        a, b = ((torch.rand(n, n, device=device) - 0.5).half() for _ in range(2))
        return lambda: a @ b

    return {
        "gpt": gpt(),
        "gpt-bfloat16": gpt(torch.bfloat16),
        "gpt-float16": gpt(torch.float16),
        "resnet": resnet(),
        "resnet-bfloat16": resnet(torch.bfloat16),
        "resnet-float16": resnet(torch.float16),
        "embedding": embedding,
        "lstm": lstm,
        "resnet18-inference": resnet18,
        "scatter-add": scatter_add,
        "sort": sort,
        "attention": attention(),
        "attention-float16": attention(torch.float16),
        "matmul-float16": half_matmul,
        **torch_wild.makers(device, gpu, prepare, step_of),
    }
