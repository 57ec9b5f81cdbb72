/** Sorts and scatters as GPUs compute them, run on whatever device there is. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Tensor, withDevice } from "../../../../mod.ts";
import { planKernel } from "../../../../backend/opencl/templates/generate.ts";
import { launchSteps } from "../../../../backend/opencl/templates/launch_steps.ts";
import { schedule } from "../../../../backend/schedule/schedule.ts";
import { nodeOf } from "../../../../tensor/core/internals.ts";
import { testOnCPU, testOpenCL } from "../../../opencl.ts";
import { gpu } from "../../schedule/nodes.ts";
import { testGPU, withDeviceType } from "../fixture.ts";

const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** Numbers that are equal now and then, negative ones and NaN among them. */
const values = (...shape: number[]): Tensor => {
  const of = (i: number): number => i % 97 === 5 ? NaN : ((i * 7919) % 1013 - 500) / 8;
  return Tensor.fromHost(Float32Array.from({ length: sizeOf(shape) }, (_, i) => of(i)), { shape });
};
const integers = (shape: readonly number[], bound: number): Tensor => {
  const of = (i: number): number => ((i * 7919) % 104729 + (i >> 3)) % bound;
  return Tensor.fromHost(Int32Array.from({ length: sizeOf(shape) }, (_, i) => of(i)), { shape });
};
/** Sums of these are exact in any order. */
const whole = (...shape: number[]): Tensor => {
  const numbers = Float32Array.from({ length: sizeOf(shape) }, (_, i) => (i * 31) % 17 - 8);
  return Tensor.fromHost(numbers, { shape });
};

/** The results of operations on a GPU's kernels are, bit by bit, those of the built-in backend. */
function sameAsBuiltIn(name: string, cases: () => Iterable<() => Tensor[]>): void {
  testOpenCL(name, () =>
    withDeviceType("gpu", async () => {
      for (const make of cases()) {
        const read = async (): Promise<unknown[]> => {
          const all = [];
          for (const tensor of make()) all.push(await tensor.toHost());
          return all;
        };
        const wanted = await withDevice("cpu", read);
        assertEquals(await read(), wanted, String(make));
      }
    }));
}

sameAsBuiltIn("a GPU sorts rows of any length, equal elements in their order", function* () {
  for (const n of [1, 65, 2048, 2049, 20_001]) {
    for (const descending of [false, true]) {
      yield () => {
        const { values: sorted, indices } = values(n).sort(0, { descending });
        return [sorted, indices];
      };
    }
  }
  for (const [rows, length] of [[3, 100], [5, 2500], [70, 33]] as const) {
    yield () => [integers([rows, length], 37).argsort(1)];
  }
  for (const dtype of ["float16", "int64", "uint8"] as const) {
    yield () => [integers([3000], 200).cast(dtype).argsort(0)];
  }
});

sameAsBuiltIn("a GPU selects the first places of rows, of equal elements the first", function* () {
  for (const [rows, length, k] of [[3, 300, 256], [65, 9000, 50], [2, 257, 1]] as const) {
    yield () => {
      const x = values(rows, length);
      const few = integers([rows, length], 3);
      return [x, few, Tensor.zeros([rows, length])].flatMap((each) =>
        [true, false].flatMap((largest) => {
          const { values, indices } = each.topk(k, 1, { largest });
          return [values, indices];
        })
      );
    };
  }
  for (const dtype of ["float16", "int64", "uint8"] as const) {
    yield () => [integers([10, 300], 200).cast(dtype).topk(9).indices];
  }
});

sameAsBuiltIn("a GPU scatters many sources into few targets, and into many", function* () {
  for (const [sources, targets] of [[3000, 1], [1500, 37], [5000, 20_000], [1025, 2]] as const) {
    const parts = () => [whole(targets), integers([sources], targets), whole(sources)] as const;
    yield () => {
      const [base, indices, source] = parts();
      return [base.scatterAdd(0, indices, source), base.scatter(0, indices, source)];
    };
    if (targets === 37) {
      for (const dtype of ["int32", "bfloat16", "uint8"] as const) {
        yield () => {
          const [base, indices, source] = parts();
          const positive = source.abs().le(4).cast(dtype);
          return [base.abs().cast(dtype).scatterAdd(0, indices, positive).cast("float32")];
        };
      }
    }
  }
  for (const columns of [1, 20]) {
    yield () => {
      const rows = integers([500], 90).unsqueeze(1).expand([500, columns]);
      const source = whole(500, columns);
      return [Tensor.ones([90, columns]).scatterAdd(0, rows, source)];
    };
  }
  for (const reduce of ["amax", "amin"] as const) {
    yield () => [
      Tensor.zeros([90]).scatterReduce(
        0,
        integers([500], 90),
        values(500),
        { reduce, includeSelf: false },
      ),
    ];
  }
  yield () => [integers([5000], 9).bincount()];
  yield () => [whole(5000).histogram(7).counts];
});

/** Scatters by the same indices: of rows of several lengths, added up and stored. */
function sameOrder(long: number): Tensor {
  const ids = integers([long], 9).unsqueeze(1);
  return Tensor.concat(
    [3, 40, 1].flatMap((columns) => {
      const base = whole(9, columns);
      const source = whole(long, columns);
      const rows = ids.expand([long, columns]), filled = Tensor.full([9, columns], -0.5);
      return [base.scatterAdd(0, rows, source), filled.scatter(0, rows, source)];
    }),
    1,
  );
}

sameAsBuiltIn("a GPU scatters rows, columns and lines of their own indices", function* () {
  const long = 20_000;
  for (const columns of [3, 40]) {
    yield () => {
      const base = whole(9, columns);
      const rows = integers([long], 9).unsqueeze(1).expand([long, columns]);
      const source = whole(long, columns);
      return [base.scatterAdd(0, rows, source), base.scatter(0, rows, source)];
    };
  }
  yield () => {
    const base = whole(3, 11, 2);
    const indices = integers([2, 3000, 2], 11);
    const source = whole(3, 3000, 2);
    const counts = [base, source].map((x) => x.cast("int32")) as [Tensor, Tensor];
    return [
      base.scatterAdd(1, indices, source),
      base.scatter(1, indices, source),
      counts[0].scatterAdd(1, indices, counts[1]),
    ];
  };
  yield () => [sameOrder(20_000)];
  // Thirds: sums in another order than along the line would be rounded otherwise.
  yield () => {
    const base = whole(5, 300).mul(1 / 3);
    const indices = integers([5, 700], 300);
    const source = whole(5, 700).mul(1 / 3);
    return [
      base.scatterAdd(1, indices, source),
      base.scatter(1, indices, source),
      base.scatterReduce(1, indices, source, { reduce: "amax" }),
    ];
  };
});

testGPU("a GPU's scatter names an index out of range", async () => {
  const indices = Tensor.fromHost(
    Int32Array.from({ length: 3000 }, (_, i) => i === 7 ? 12 : i % 9),
  );
  const out = Tensor.zeros([9]).scatterAdd(0, indices, Tensor.ones([3000]));
  await assertRejects(() => out.toHost(), RangeError, "12");
});

testOnCPU("on a GPU no work-item walks a million elements alone", () => {
  const n = 1 << 20, alone = ["line scatter", "row scan", "merge argsort"];
  const x = Tensor.zeros([n]), ids = Tensor.zeros([n], { dtype: "int32" });
  const wanted = {
    cumsum: x.cumsum(0),
    argsort: x.argsort(0),
    "scatterAdd into few": Tensor.zeros([37]).scatterAdd(0, ids, x),
    "scatterAdd into many": x.scatterAdd(0, ids, x),
    "scatter of columns": Tensor.zeros([65, 384]).scatterAdd(
      0,
      Tensor.zeros([16384, 1], { dtype: "int32" }).expand([16384, 384]),
      Tensor.zeros([16384, 384]),
    ),
    indexPut: x.indexPut([ids], x, { accumulate: true }),
    "scatterAdd along rows": x.reshape([1, n]).expand([3, n]).scatterAdd(
      1,
      Tensor.zeros([3, n], { dtype: "int32" }).add(ids),
      Tensor.zeros([3, n]),
    ),
  };
  for (const [name, tensor] of Object.entries(wanted)) {
    for (const { kernel } of schedule([nodeOf(tensor)], { device: gpu }).kernels) {
      if (kernel.kind !== "special") continue;
      const template = planKernel(kernel, gpu.target).name;
      assertEquals(alone.includes(template), false, `${name}: ${template}`);
    }
  }
});

testOnCPU("few whole numbers are counted in local memory on a GPU", () => {
  const ids = Tensor.zeros([3000], { dtype: "int32" }).realize();
  const kernels = (dtype: "int32" | "float32") => {
    const base = Tensor.zeros([37], { dtype }), ones = Tensor.ones([3000], { dtype }).realize();
    return schedule([nodeOf(base.scatterAdd(0, ids, ones))], { device: gpu }).kernels;
  };
  const templatesOf = (dtype: "int32" | "float32") =>
    kernels(dtype).map(({ kernel }) =>
      kernel.kind === "special" ? planKernel(kernel, gpu.target).name : kernel.kind
    );
  assertEquals(templatesOf("int32"), ["counted scatter"]);
  assertEquals(templatesOf("float32"), ["sorted scatter"]);
});

testOnCPU("scatters into one number everywhere read no base on a GPU", () => {
  const ids = Tensor.zeros([3000, 1], { dtype: "int32" }).realize();
  const source = Tensor.zeros([3000, 40]).realize(), rows = ids.expand([3000, 40]);
  const count = (base: Tensor) =>
    schedule([nodeOf(base.scatterAdd(0, rows, source))], { device: gpu }).kernels.length;
  assertEquals([Tensor.zeros([9, 40]), Tensor.zeros([9, 40]).realize()].map(count), [1, 1]);
  assertEquals(count(Tensor.zeros([9, 40]).realize().add(1)), 2);
});

testOnCPU("scatters by the same indices are sorted once on a GPU", () => {
  const { kernels } = schedule([nodeOf(sameOrder(20_000))], { device: gpu });
  const scatters = kernels.map(({ kernel }) => kernel).filter(({ kind }) => kind === "special");
  const launches = scatters.map((kernel) =>
    kernel.kind === "special" ? launchSteps(kernel, gpu.target).length : 0
  );
  const [first, ...others] = launches.toSorted((a, b) => b - a);
  assertEquals(scatters.length, 6);
  assert(first! > 3 && others.every((count) => count <= 3), `launches: ${launches}`);
});

testGPU("a GPU's running sums are rounded once, as those that add up in doubles", async () => {
  const x = Float32Array.from({ length: 30_011 }, (_, i) => Math.abs(Math.sin(i * 0.37)));
  const found = await Tensor.fromHost(x).cumsum(0).toHost();
  let sum = 0, worst = 0;
  x.forEach((v, k) => worst = Math.max(worst, Math.abs(Number(found[k]) - (sum += v))));
  // A float near 19,000 is exact to 9.8e-4.
  assert(worst < 1.1e-3, `the worst is ${worst} off`);
});
