/**
 * Kernels that are written for GPUs, run on whatever device there is. The file is long because all of them are
 * held against the built-in backend by the same few lines.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { backendOf } from "../../../../backend/internal.ts";
import { type DType, manager, nn, noGrad, profiler, Tensor, withDevice } from "../../../../mod.ts";
import { isPoCL } from "../../../opencl.ts";
import { testGPU } from "../fixture.ts";

/** Compares what a device makes with what the built-in backend makes. */
async function compare(name: string, make: () => Tensor, limit = 1e-6): Promise<void> {
  const wanted = await withDevice("cpu", () => make().toNumbers());
  const found = await make().toNumbers();
  assertEquals(found.length, wanted.length, name);
  const scale = wanted.reduce((most, v) => Math.max(most, Math.abs(Number(v))), 1);
  const wrong = wanted.findIndex((v, k) =>
    !(Math.abs(Number(found[k]) - Number(v)) <= limit * scale)
  );
  assertEquals(wrong, -1, `${name}: element ${wrong} is ${found[wrong]}, not ${wanted[wrong]}`);
}

/** Those of some types that the device has: not every one has doubles. */
function supported(types: readonly DType[]): DType[] {
  return types.filter((dtype) => backendOf(manager.active).capabilities.dtypes.has(dtype));
}

/** Keeps what was made of the same two numbers: large inputs take longer to make than to compare. */
function kept<T>(make: (n: number, parameter: number) => T): (n: number, parameter: number) => T {
  const made = new Map<string, T>();
  return (n, parameter) => {
    const key = `${n} ${parameter}`;
    if (!made.has(key)) made.set(key, make(n, parameter));
    return made.get(key)!;
  };
}

const waves = kept((n, step) => new Float32Array(n).map((_, i) => Math.sin(i * step)));
const wave = (n: number, step = 0.37) => waves(n, step);
const waved = (shape: readonly number[], step?: number) =>
  Tensor.fromHost(wave(shape.reduce((a, b) => a * b), step), { shape });
const ids = kept((n, bound) => new Int32Array(n).map((_, i) => (i * 7919 + (i >> 3)) % bound));

testGPU("a GPU's scatter of shared indices adds the rows of an index in order", async () => {
  for (const [rows, columns, count] of [[50, 3, 7], [2500, 130, 5], [3000, 5, 4000], [1, 1, 1]]) {
    const make = (mode: "scatterAdd" | "indexSelect") => () => {
      const index = Tensor.fromHost(ids(rows!, count!));
      const source = waved([rows!, columns!]);
      const base = waved([count!, columns!], 0.1);
      if (mode === "scatterAdd") {
        return base.scatterAdd(0, index.unsqueeze(1).expand([rows!, columns!]), source);
      }
      const table = waved([count!, columns!]);
      table.requiresGrad = true;
      table.indexSelect(0, index).mul(source).sum().backward();
      return table.grad!;
    };
    await compare(`indexSelect's gradient, ${rows} into ${count}`, make("indexSelect"));
    await compare(`scatterAdd, ${rows} into ${count}`, make("scatterAdd"));
  }
});

testGPU("work-items of a GPU share long columns, of any number", async () => {
  const x = (rows: number, columns: number) => waved([rows, columns]).add(0.1);
  for (const [rows, columns] of [[33, 1], [3000, 37], [5000, 64], [129, 500]] as const) {
    const name = `${rows} x ${columns}`;
    await compare(`sum, ${name}`, () => x(rows, columns).mul(2).sum(0), 4e-6);
    await compare(`maximum, ${name}`, () => x(rows, columns).max(0));
    await compare(
      `of halves, ${name}`,
      () => x(rows, columns).cast("bfloat16").cast("float32").sum(0).mul(1e-3).exp().add(1),
      4e-6,
    );
    await compare(`stored as well, ${name}`, () => {
      const value = x(rows, columns).tanh();
      return Tensor.concat([value.sum(0, { keepDims: true }).mul(0.01), value]);
    }, 4e-6);
    await compare(`normalized, ${name}`, () => {
      const value = x(rows, columns);
      return value.sub(value.mean(0)).div(value.variance(0, { correction: 0 }).add(1).sqrt());
    }, 1e-5);
  }
});

testGPU("a GPU reduces few long rows in parts, along any of the loops", async () => {
  const x = () => waved([4, 3, 6000]).add(0.5);
  await compare("over the outer and the inner axis", () => x().mul(2).sum([0, 2]), 2e-6);
  await compare("a few long rows", () => x().sum([2]), 2e-6);
  await compare("the whole", () => x().sum(), 2e-6);
  await compare("variance", () => x().variance([0, 2]), 1e-5);
  await compare("normalized", () => {
    const t = x();
    return t.sub(t.mean([0, 2], { keepDims: true }))
      .div(t.variance([0, 2], { keepDims: true }).add(1e-5).sqrt());
  }, 1e-5);
  await compare("short rows", () => x().reshape([-1, 100]).softmax(1), 2e-6);
  await compare("the greatest", () => x().reshape([40, -1]).argmax(1));
});

testGPU("maps have eight neighbours of 16 bits an item, and shared rows and masks", async () => {
  const x = (dtype: DType) => waved([512, 512]).cast(dtype).realize();
  const bias = () => Tensor.fromHost(wave(512, 0.1)).realize();
  for (const dtype of ["float16", "bfloat16"] as const) {
    const limit = dtype === "float16" ? 1e-3 : 8e-3;
    await compare(`${dtype}, whole`, () => x(dtype).mul(3).tanh().add(x(dtype)), limit);
    await compare(`${dtype}, rows`, () => x(dtype).mul(bias().cast(dtype)), limit);
    const halves = () => [x(dtype).slice(null, [256, 512]).neg(), x(dtype).slice(null, [0, 256])];
    const turned = () => Tensor.concat(halves(), 1).add(x(dtype));
    await compare(`${dtype}, halves that change places`, turned, limit);
    await compare(`${dtype}, columns`, () => x(dtype).gt(bias().unsqueeze(1).cast(dtype)));
  }
});

testGPU("pairs of rows are reduced in tiles, masked, strided, of any length and type", async () => {
  const of = (shape: number[], step: number) => waved(shape, step).realize();
  const distances = (x: Tensor, y: Tensor) =>
    x.unsqueeze(-2).sub(y.unsqueeze(-3)).square().sum(-1).add(1).sqrt();
  for (const [rows, columns, terms] of [[300, 131, 36], [129, 320, 37], [64, 600, 200]] as const) {
    const x = () => of([rows, terms], 0.1), y = () => of([columns, terms], 0.7);
    assertMatch(distances(x(), y()).explain(), /\bs3_3 = /);
    await compare(`${rows} ${columns} ${terms}`, () => distances(x(), y()), 2e-6);
    if (terms !== 36) continue;
    await compare("largest", () => x().unsqueeze(1).sub(y().unsqueeze(0)).abs().max(-1));
    await compare("gradient", () => {
      const at = x().detach();
      at.requiresGrad = true;
      distances(at, y()).mul(of([rows, columns], 0.3)).sum().backward();
      return at.grad!;
    }, 4e-6);
    await compare("columns of a wider matrix", () => {
      const part = (t: Tensor) => t.slice(null, [1, terms - 2]);
      return distances(part(x()), part(y()));
    }, 2e-6);
    await compare("padded", () => {
      const padded = Tensor.concat([Tensor.zeros([rows, 4]), x().slice(null, [0, terms - 4])], 1);
      return distances(padded, y());
    }, 2e-6);
    const halves = () => [x().cast("float16"), y().cast("float16")] as const;
    await compare("halves", () => distances(...halves()).cast("float32"), 2e-3);
  }
  await compare("in a batch", () => distances(of([3, 70, 16], 0.1), of([3, 260, 16], 0.7)), 2e-6);
});

testGPU("short sums read each element once, pad in no copy, are stored in vectors", async () => {
  const geometries = [
    { image: [4, 24, 28, 28], weight: [24, 1, 3, 3], options: { padding: 1 } },
    { image: [4, 24, 14, 14], weight: [24, 1, 3, 3], options: { padding: 1, stride: 2 } },
    { image: [2, 24, 13, 7], weight: [24, 1, 5, 3], options: { padding: [2, 1] } },
    { image: [2, 24, 16, 16], weight: [24, 1, 3, 3], options: { padding: 2, dilation: 2 } },
    { image: [1, 3, 5, 5], weight: [3, 1, 7, 7], options: { padding: 3 } },
  ];
  for (const dtype of ["float32", "bfloat16"] as const) {
    const limit = dtype === "float32" ? 1e-6 : 1e-2;
    const of = (shape: number[], step: number) => waved(shape, step).cast(dtype);
    const some = dtype === "float32" ? geometries : geometries.slice(0, 1);
    for (const { image, weight, options } of some) {
      const convolved = (x: Tensor, w = of(weight, 0.7)) =>
        x.conv2d(w, { ...options, groups: weight[0]! }).mul(2).relu();
      const text = convolved(of(image, 0.1).realize()).explain();
      assertMatch(text, /sum0 \+= a_\d+ \* b_\d+;/);
      assertEquals(/o0\[.*\] = v\d+;[^]*sum0/.test(text), false, "the image is copied");
      await compare(`${dtype} ${image}`, () => convolved(of(image, 0.1)), limit);
      await compare(`gradients, ${dtype} ${image}`, () => {
        const both = [of(image, 0.1), of(weight, 0.7)].map((x) => x.detach());
        for (const x of both) x.requiresGrad = true;
        convolved(both[0]!, both[1]).sum().backward();
        return Tensor.concat(both.map((x) => x.grad!.flatten().div(x.grad!.abs().max())));
      }, limit);
    }
    const sequence = () => of([2, 24, 2048], 0.1);
    const line = () => sequence().conv1d(of([24, 1, 4], 0.7), { padding: 3, groups: 24 });
    await compare(`along one axis, ${dtype}`, line, limit);
  }
});

testGPU("a product less its row's largest is taken rounded, in one kernel or several", async () => {
  for (const [rows, columns, axis] of [[64, 1000, 1], [2, 70_001, 1], [300, 200, 0]] as const) {
    const x = () => waved([rows, columns]).realize();
    const texts = noGrad(() => [x().mul(0.3).softmax(axis), x().mul(0.3).logSoftmax(axis)])
      .map((y) => y.explain());
    // A compiler that joins the product by 0.3 with the difference would not round it.
    for (const text of texts) assertMatch(text, /\(\([uv]\d+(\[.*\])? \* p\d+\) - [ruv]\d+\)/);
    await compare("softmax", () => x().mul(3e10).softmax(axis));
    await compare("of few", () => x().mul(0.3).softmax(axis), 2e-6);
  }
  const heads = (scale: number) => waved([4, 50, 24]).mul(scale).realize();
  const made = (scale: number) =>
    nn.scaledDotProductAttention(heads(scale), heads(scale), heads(1));
  // Other devices multiply in a kernel of its own.
  if (isPoCL) {
    assertMatch(noGrad(() => made(1).explain()), /exp\(\(\(h\d+\[.*\] - u\d+\) \* p\d+\)\)/);
  }
  await compare("attention", () => made(1), 4e-6);
  const large = await noGrad(() => made(1e6)).toHost("float32");
  assert(large.every(Number.isFinite));
});

testGPU("the first of the best of few long rows is found in parts, NaN before all", async () => {
  const coarse = (n: number) => wave(n).map((v) => Math.round(v * 50) + 60);
  for (const shape of [[70_001], [2, 65_539], [3, 300, 100]]) {
    for (const dtype of ["float32", "float16", "bfloat16", "uint8", "int64"] as const) {
      const n = shape.reduce((a, b) => a * b, 1);
      const x = () => Tensor.fromHost(coarse(n), { shape }).cast(dtype);
      const axis = shape.length - 1;
      await compare(`argmax of ${dtype} ${shape}`, () => x().argmax(axis));
      await compare(`argmin of ${dtype} ${shape}`, () => x().argmin(axis));
      await compare(`argmax of all of ${dtype} ${shape}`, () => x().argmax());
    }
  }
  for (const spots of [[5], [5, 60_000], [69_999, 69_998]]) {
    const values = coarse(70_001);
    for (const at of spots) values[at] = NaN;
    await compare(`argmax with NaN at ${spots}`, () => Tensor.fromHost(values).argmax(0));
    await compare(`argmin with NaN at ${spots}`, () => Tensor.fromHost(values).argmin(0));
  }
  const none = () => Tensor.full([70_001], -Infinity).contiguous();
  await compare("argmax where all are equal", () => none().argmax(0));
});

testGPU("a work-item computes four neighbours of a large map, of every type and view", async () => {
  const shape = [300, 1024], n = 300 * 1024;
  const x = () => waved(shape).realize();
  const row = () => Tensor.fromHost(wave(1024, 0.11)).realize();
  const column = () => waved([300, 1], 0.19).realize();
  await compare("gelu", () => x().gelu(), 2e-6);
  await compare("rows and columns", () => x().mul(row()).add(column()), 2e-6);
  await compare("one value", () => Tensor.full([n], 3).mul(Tensor.fromHost([2]).realize()));
  const all = ["float16", "bfloat16", "uint8", "int32", "int64", "float64"] as const;
  for (const dtype of supported(all)) {
    const both = () => Tensor.fromHost(ids(n, 100), { shape }).cast(dtype).realize();
    await compare(dtype, () => both().add(both().mul(2)).cast("float32"));
    await compare(`${dtype} stored`, () => both().add(1).realize().cast("float32"));
    await compare(`${dtype} where`, () => both().gt(50).where(both(), 7).cast("float32"));
  }
  const index = () => Tensor.fromHost(ids(300, 40)).realize();
  const table = () => waved([40, 1024]).realize();
  await compare("gathered rows", () => table().indexSelect(0, index()).add(1), 2e-6);
  const places = () => Tensor.fromHost(ids(n, 1024), { shape }).realize();
  await compare("gathered elements", () => x().gather(1, places()).add(row()), 2e-6);
  await compare("padded rows", () => x().pad([[2, 1], [0, 0]]).add(1), 2e-6);
  await compare("padded columns", () => x().pad([[0, 0], [2, 2]]).add(1), 2e-6);
  await compare("an odd offset", () => x().flatten().slice([3, n - 1]).exp(), 2e-6);
  await compare("an even offset", () => x().flatten().slice([4, n]).exp(), 2e-6);
  await compare("a view of rows", () => x().slice([0, 300], [4, 904]).exp(), 2e-6);
  await compare("transposed", () => x().transpose(0, 1).add(x().reshape([1024, 300])), 2e-6);
  await compare("positions", () => Tensor.arange(0, n, 1).mul(x().flatten()), 2e-6);
});

testGPU("rows of any length are in registers: softmax, norms, losses, gradients", async () => {
  const sizes = [[1, 64], [3, 65], [130, 128], [7, 1000], [5, 1023], [4, 1025], [2, 5000]];
  for (const [rows, length] of sizes as [number, number][]) {
    const name = `${rows}x${length}`, shape = [rows, length];
    const x = (step = 0.37) => {
      const made = waved(shape, step).realize();
      made.requiresGrad = true;
      return made;
    };
    const gradient = (fn: (x: Tensor) => Tensor) => () => {
      const made = x(), y = fn(made);
      y.backward(y.ndim === 0 ? undefined : x(0.21).detach());
      return made.grad!;
    };
    await compare(`softmax ${name}`, () => x().softmax(1), 2e-6);
    await compare(
      `layer norm's gradient ${name}`,
      gradient((t) => new nn.LayerNorm(length).forward(t)),
      2e-5,
    );
    // A CPU's driver takes its time to build kernels with barriers: few sizes stand for all.
    if (length !== 65 && length !== 128) continue;
    const labels = () => Tensor.fromHost(ids(rows, length));
    await compare(`loss ${name}`, gradient((t) => t.crossEntropy(labels())), 2e-6);
    await compare(`padded ${name}`, () => x().pad([[1, 0], [3, 2]]).add(1).softmax(1), 2e-6);
    await compare(`a view ${name}`, () => x().slice(null, [1, length]).softmax(1), 2e-6);
  }
  const rows = () => {
    const table = waved([40, 64]).realize();
    const index = Tensor.fromHost(ids(9, 40)).mul(1), found = table.indexSelect(0, index);
    return found.sin().sub(found.sum());
  };
  await compare("read rows less the sum of all", rows, 2e-5);
  for (const dtype of supported(["float16", "bfloat16", "float64", "uint8"])) {
    const x = () => Tensor.fromHost(ids(70 * 260, 50), { shape: [70, 260] }).cast(dtype);
    const centred = () => {
      const t = x();
      return t.sub(t.max(1, { keepDims: true })).cast("float32");
    };
    await compare(`${dtype} less its greatest`, centred);
  }
});

testGPU("channels of a batch are walked once for mean and variance of any size", async () => {
  for (const shape of [[9, 7, 33, 33], [70, 3, 20, 16], [5, 2, 9001]]) {
    const axes = shape.length === 4 ? [0, 2, 3] : [0, 2];
    const x = (above: number) => waved(shape).add(above).realize();
    for (const above of [0, 5, 1000]) {
      const name = `of ${shape} around ${above}`;
      await compare(`variance ${name}`, () => x(above).variance(axes), above < 10 ? 2e-6 : 1e-4);
      const channels = shape[1]!;
      const layer = () =>
        shape.length === 4 ? new nn.BatchNorm2d(channels) : new nn.BatchNorm1d(channels);
      const limit = above < 10 ? 1e-5 : 3e-4;
      await compare(`batch norm ${name}`, () => layer().forward(x(above)), limit);
      await compare(`running mean ${name}`, () => {
        const norm = layer();
        norm.forward(x(above)).realize();
        return norm.runningMean!;
      });
      await compare(`gradient ${name}`, () => {
        const t = x(above);
        t.requiresGrad = true;
        layer().forward(t).backward(waved(shape, 0.21));
        return t.grad!;
      }, limit);
    }
    const constant = await Tensor.full(shape, 0.1).contiguous().variance(axes).toHost();
    assert(constant.every((v) => Number(v) >= 0 && Number(v) < 1e-12), `${constant}`);
  }
  // A first pixel far from the others costs no digits.
  const bright = wave(4 * 3 * 2 ** 14).map((v, k) => k % 2 ** 14 === 0 ? 100 : v);
  const images = () => Tensor.fromHost(bright, { shape: [4, 3, 128, 128] }).realize();
  await compare("variance beside a bright pixel", () => images().variance([0, 2, 3]), 2e-6);
  const image = waved([8, 16, 32, 32]).realize();
  profiler.reset();
  image.variance([0, 2, 3]).realize();
  assertEquals(profiler.counters().kernels, 2);
});

testGPU("a GPU's tiles multiply elements of every type", async () => {
  for (const dtype of ["float16", "bfloat16", "int32", "int64"] as const) {
    const make = () => {
      const a = Tensor.fromHost(ids(70 * 33, 9), { shape: [70, 33] }).cast(dtype);
      const b = Tensor.fromHost(ids(33 * 40, 7), { shape: [33, 40] }).cast(dtype);
      return a.matmul(b).cast("float32");
    };
    await compare(dtype, make, 1e-2);
  }
});

testGPU("tiles read convolutions of any geometry, masked, strided, in groups", async () => {
  const cases = [
    { image: [3, 5, 13, 17], weight: [7, 5, 3, 3], options: { padding: 1 } },
    { image: [2, 6, 11, 9], weight: [8, 3, 5, 3], options: { groups: 2, padding: [2, 0] } },
    { image: [2, 4, 19, 15], weight: [4, 1, 3, 3], options: { groups: 4, stride: 2 } },
    { image: [1, 3, 33, 20], weight: [65, 3, 7, 7], options: { stride: 2, padding: 3 } },
    { image: [2, 9, 12, 12], weight: [10, 9, 3, 3], options: { dilation: 2, padding: 2 } },
    { image: [5, 37, 7, 7], weight: [33, 37, 1, 1], options: { stride: 2 } },
  ] as const;
  for (const c of cases) {
    const { image, weight, options } = c;
    // A CPU's driver takes seconds to build such a kernel: few of the combinations stand for all.
    const isFirst = cases.indexOf(c) === 0;
    for (const dtype of isFirst ? ["float32", "bfloat16"] as const : ["float32"] as const) {
      const name = `${dtype} ${image} by ${weight}, ${JSON.stringify(options)}`;
      const run = (part: "value" | "image" | "weight") => () => {
        const of = (shape: readonly number[], step: number) =>
          waved(shape, step).cast(dtype).realize();
        const x = of(image, 0.37), w = of(weight, 0.21);
        x.requiresGrad = w.requiresGrad = true;
        const y = x.conv2d(w, options).relu();
        if (part !== "value") y.backward(of(y.shape, 0.53));
        const found = part === "value" ? y : part === "image" ? x.grad! : w.grad!;
        return found.cast("float32");
      };
      const limit = dtype === "float32" ? 2e-6 : 2e-2;
      for (const part of isFirst ? ["value", "image", "weight"] as const : ["value"] as const) {
        await compare(`${part} of ${name}`, run(part), limit);
      }
    }
  }
});
