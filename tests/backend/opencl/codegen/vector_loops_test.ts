/** Vector kernels against the plain evaluator: every length, offset, step and element type. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { type BackendName, device, type DType, manager, noGrad, Tensor } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";

/** Lengths about those at which loops end, and any. */
const length = fc.oneof(
  fc.constantFrom(1, 3, 4, 15, 16, 17, 63, 64, 65, 100, 2047, 2048, 2049, 8191, 8192, 8200),
  fc.integer({ min: 1, max: 300 }),
);
const short = fc.oneof(fc.constantFrom(1, 2, 4, 15, 16, 17, 64, 80, 129), fc.nat({ max: 90 }));

/** Numbers that are the same in each run: none is 0, a few are not finite where that is asked for. */
function numbers(count: number, odd = false): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, k) => {
    if (odd && k % 97 === 5) return [NaN, Infinity, -Infinity, 0][k % 4]!;
    return ((k * 7919 + 13) % 2003 - 1001.5) / 250;
  });
}

interface Made {
  readonly shape: readonly number[];
  readonly dtype?: DType;
  readonly odd?: boolean;
}

/** The result of a function of tensors on a device. */
function on(
  where: BackendName,
  inputs: readonly Made[],
  fn: (...tensors: Tensor[]) => Tensor,
): number[] {
  using _device = device(where);
  return noGrad(() => {
    const tensors = inputs.map(({ shape, dtype = "float32", odd = false }) => {
      const count = shape.reduce((a, b) => a * b, 1);
      const plain = Tensor.fromHost(numbers(count, odd)).reshape(shape);
      const scaled = dtype === "uint8"
        ? plain.abs().mul(9)
        : dtype === "int32"
        ? plain.mul(50)
        : plain;
      return scaled.cast(dtype).realize();
    });
    const out = fn(...tensors);
    const values = [...out.cast("float32").toHostSync("float32")];
    for (const tensor of tensors) tensor.dispose();
    out.dispose();
    return values;
  });
}

function agree(inputs: readonly Made[], fn: (...tensors: Tensor[]) => Tensor, slack = 4e-6): void {
  const [wanted, got] = [on("cpu", inputs, fn), on("cl", inputs, fn)];
  assertEquals(got.length, wanted.length);
  got.forEach((value, k) => {
    const expected = wanted[k]!;
    const near = Object.is(value, expected) || value === expected ||
      Math.abs(value - expected) <= slack * (1 + Math.abs(expected));
    assert(near, `${value} instead of ${expected} at ${k} of ${got.length}`);
  });
}

/** Each length is another kernel: few a run, other ones each time. */
const run = { numRuns: 10 };

testOpenCL("maps of every length and offset have the reference's values", () => {
  fc.assert(
    fc.property(length, fc.nat({ max: 20 }), (n, start) => {
      const shape = [n + start];
      agree([{ shape, odd: true }, { shape }], (a, b) => {
        const [x, y] = [a.slice([start, n + start]), b.slice([start, n + start])];
        return x.mul(y).add(0.5).relu().sub(x.div(y).minimum(y));
      });
    }),
    run,
  );
});

testOpenCL("maps over rows with broadcast rows and columns have the reference's values", () => {
  fc.assert(
    fc.property(short, length, (rows, columns) => {
      if (rows === 0 || rows * columns > 100_000) return;
      const inputs = [[rows, columns], [columns], [rows, 1]].map((shape) => ({ shape }));
      agree(inputs, (x, bias, scale) => x.add(bias).mul(scale).tanh());
    }),
    run,
  );
});

testOpenCL("columns are summed several vectors at a time, whatever is done with the sums", () => {
  using _device = device("cl");
  const text = noGrad(() => Tensor.ones([99, 128]).realize().sum(0).sqrt().add(1).log().explain());
  // A GPU's sums have work-items side by side instead.
  if (manager.default("cl").deviceType === "cpu") assertStringIncludes(text, "float16 z0_3");
  fc.assert(
    fc.property(short, length, (rows, columns) => {
      if (rows * columns > 100_000) return;
      const inputs = [[rows, columns], [columns]].map((shape) => ({ shape }));
      agree(inputs, (x, y) => x.square().sum(0).add(1e-3).sqrt().div(y), 2e-5);
      agree(inputs, (x, y) => x.cast("float16").cast("float32").mean(0).add(y).tanh(), 2e-5);
    }),
    run,
  );
});

testOpenCL("steps, flips and transposed views have the reference's values", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 70 }), fc.integer({ min: 16, max: 70 }), (r, c) => {
      agree([{ shape: [r, c] }, { shape: [c, r] }], (a, b) => a.add(b.transpose(0, 1)).exp());
      agree([{ shape: [r, c] }], (a) => a.flip(1).add(a).sum(1), 2e-5);
    }),
    run,
  );
});

const types: readonly DType[] = ["float32", "float16", "bfloat16", "int32", "uint8", "bool"];

testOpenCL("element types are read, converted and stored as the reference does", () => {
  for (const dtype of types) {
    for (const n of [5, 37]) {
      const input = { shape: [n], dtype };
      for (const to of types) {
        if (dtype !== "float32" && to === "uint8") continue;
        const positive = (x: Tensor): Tensor => to === "uint8" ? x.abs() : x;
        agree([input], (x) => positive(x).cast(to));
      }
      agree([input, { shape: [n] }], (x, y) => y.mul(x.cast("float32")).add(1));
      agree([input, { shape: [n] }], (x, y) => x.ne(0).logicalAnd(y.gt(0)).where(y, 2));
    }
  }
});

testOpenCL("half types are computed in float and rounded once", () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    for (const n of [16, 33, 300]) {
      const inputs = [{ shape: [n], dtype, odd: true }, { shape: [n], dtype }];
      agree(inputs, (x, y) => x.mul(y).add(y));
      agree([{ shape: [7, n], dtype }], (x) => x.sum(1), 1e-2);
      agree([{ shape: [n, 40], dtype }], (x) => x.max(0));
    }
  }
});

testOpenCL("whole numbers add, compare and reduce in vectors", () => {
  for (const n of [4, 16, 19, 100]) {
    const inputs = [{ shape: [9, n], dtype: "int32" as const }, {
      shape: [n],
      dtype: "int32" as const,
    }];
    agree(inputs, (x, y) => x.mul(y).sub(x.maximum(y)).add(x.lt(y).cast("int32")));
    agree(inputs, (x) => x.sum(1));
    agree(inputs, (x) => x.max(1).add(x.min(1)));
    agree([{ shape: [n, 33], dtype: "int32" }], (x) => x.sum(0));
    agree(inputs, (x, y) => x.gt(y).sum(1));
  }
});

const reductions: Record<string, (x: Tensor, axis: number) => Tensor> = {
  sum: (x, axis) => x.sum(axis),
  "sum of exp": (x, axis) => x.exp().sum(axis),
  prod: (x, axis) => x.mul(0.3).prod(axis),
  max: (x, axis) => x.max(axis),
  min: (x, axis) => x.min(axis),
  "sum of squares": (x, axis) => x.sub(x.mean(axis, { keepDims: true })).square().sum(axis),
  softmax: (x, axis) => x.softmax(axis),
  logSoftmax: (x, axis) => x.logSoftmax(axis),
  "with its input": (x, axis) => x.sub(x.mean(axis, { keepDims: true })).mul(x),
};

for (const [name, fn] of Object.entries(reductions)) {
  testOpenCL(`rows and columns of every length: ${name}`, () => {
    fc.assert(
      fc.property(short, short, (rows, columns) => {
        if (rows === 0 || columns === 0) return;
        for (const axis of [0, 1]) agree([{ shape: [rows, columns] }], (x) => fn(x, axis), 2e-5);
      }),
      run,
    );
  });
}

testOpenCL("NaN wins a maximum wherever it stands", () => {
  for (const n of [5, 16, 64, 70, 129]) {
    for (const at of [0, 3, n >> 1, n - 1]) {
      const values = numbers(n * 3);
      values[n + at] = NaN;
      using _device = device("cl");
      using x = Tensor.fromHost(values).reshape([3, n]);
      for (const [axis, fn] of [[1, "max"], [1, "min"]] as const) {
        using y = x[fn](axis) as Tensor;
        assertEquals([...y.toHostSync("float32")].map(Number.isNaN), [false, true, false]);
      }
      using y = x.transpose(0, 1).contiguous().max(0) as Tensor;
      assertEquals([...y.toHostSync("float32")].map(Number.isNaN), [false, true, false]);
    }
  }
});

/** Values of few steps, so that many are equal. */
const coarse = (x: Tensor): Tensor => x.cast("float32").mul(0.5).floor();

testOpenCL("the first of the best elements is found in vectors, in every type, NaN first", () => {
  const best: Partial<Record<DType, "argmax" | "argmin">> = {
    float32: "argmax",
    float16: "argmin",
    bfloat16: "argmax",
    int32: "argmin",
    bool: "argmax",
  };
  for (const n of [4, 37, 64, 129, 1000]) {
    for (const [dtype, fn] of Object.entries(best) as [DType, "argmax" | "argmin"][]) {
      agree([{ shape: [3, n], dtype }], (x) => coarse(x).cast(dtype)[fn](1));
      agree([{ shape: [n, 20], dtype }], (x) => coarse(x).cast(dtype)[fn](0));
    }
    agree([{ shape: [5, n], odd: true }], (x) => coarse(x).argmin(1));
    agree([{ shape: [n, 20], odd: true }], (x) => coarse(x).argmax(0));
    agree([{ shape: [2, n] }], (x) => x.mul(0).sub(Infinity).argmax(1));
  }
});

testOpenCL("any and all of rows and columns of every length have the reference's values", () => {
  fc.assert(
    fc.property(short, short, (rows, columns) => {
      if (rows === 0 || columns === 0) return;
      agree([{ shape: [rows, columns] }], (x) => x.gt(3.9).any(1));
      agree([{ shape: [rows, columns] }], (x) => x.gt(-3.9).all(0));
    }),
    run,
  );
});

testOpenCL("a token is drawn from computed logits in vectors, as their maximum is", () => {
  using _device = device("cl");
  if (manager.default("cl").deviceType !== "cpu") return; // a GPU's rows are walked by groups
  const logits = Tensor.randn([1, 128_256]).realize();
  const texts = noGrad(() => [
    logits.mul(2).argmax(1).explain(),
    logits.softmax(1).multinomial(1).explain(),
  ]);
  for (const text of texts) {
    assertStringIncludes(text, "argmax_float16(best0_0, z0_0)");
    assertStringIncludes(text, "_join");
  }
});

testOpenCL("reductions of several axes and of long rows have the reference's values", () => {
  agree([{ shape: [5, 3, 7, 20] }], (x) => x.sum([0, 2, 3]), 2e-5);
  agree(
    [{ shape: [5, 33, 3, 7] }],
    (x) => x.sub(x.mean([0, 2, 3], { keepDims: true })).square().sum([0, 2, 3]),
    2e-5,
  );
  agree([{ shape: [6, 5, 40] }], (x) => x.max(1));
  agree([{ shape: [70_001] }], (x) => x.abs().sum(), 2e-5);
  agree([{ shape: [3, 30_011] }], (x) => x.mul(x).sum(1), 2e-5);
  agree([{ shape: [3, 30_011] }], (x) => x.max(1));
});

testOpenCL("a softmax in the place of its input has the softmax's values", () => {
  const fn = (x: Tensor): Tensor => {
    const y = x.add(0).realize();
    y.assign(y.softmax(1));
    return y.realize();
  };
  for (const n of [10, 64, 100]) agree([{ shape: [20, n] }], fn);
});

testOpenCL("results beyond the caches are stored whole, also where lines are not", () => {
  using _device = device("cl");
  for (const shape of [[2 ** 23 + 5], [3, 2_900_001]]) {
    const n = shape.reduce((a, b) => a * b);
    using x = Tensor.arange(n).reshape(shape).realize();
    using y = x.mul(0.5).add(1).realize();
    const values = y.toHostSync("float32");
    let wrong = 0;
    for (let k = 0; k < n; k++) if (values[k] !== Math.fround(Math.fround(k) * 0.5 + 1)) wrong++;
    assertEquals(wrong, 0);
  }
});
