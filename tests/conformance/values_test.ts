// Suite: first; takes long.
/** Every operation against PyTorch: each type that it takes, views, empty tensors, scalars. */
import "../guarded.ts";
import {
  type BackendName,
  type DType,
  manager,
  realizeAll,
  Tensor,
  withDevice,
} from "../../mod.ts";
import { backendOf } from "../../backend/internal.ts";
import { withDeclarations } from "../backend/opencl/fixture.ts";
import { testOnBackends, testOnCPU } from "../opencl.ts";
import { difference } from "./comparison.ts";
import {
  assertNoProblems,
  type Case,
  decode,
  families,
  readCases,
  titleOf,
  type Value,
} from "./fixture.ts";
import { lay, type Layout, layouts } from "./layouts.ts";
import { apart, expectedType, operations, sampleFor, typesFor } from "./operations.ts";

const floats: readonly DType[] = ["float64", "float32", "float16", "bfloat16"];
/** Families whose cases name the types themselves. */
const typed: ReadonlySet<string> = new Set(["cast", "creation", "narrow"]);
const cases = families.flatMap((family) => readCases(family).map((c) => ({ ...c, family })))
  .filter((c) => !apart.has(titleOf(c)))
  .map((c) => ({ ...c, types: typesOf(c) }));

/** One layout for each case, by turns, where operations run one by one: nothing is fused with a view. */
const inTurn = Deno.env.get("NETCL_EAGER") === "1" &&
  Deno.env.get("NETCL_CONFORMANCE") !== "all";

/** A call in one type and layout, and what is wrong with it once it has been computed. */
interface Trial {
  readonly title: string;
  readonly outputs: readonly Tensor[];
  readonly problem: () => string | null;
}

function isExact(value: Value, dtype: DType): boolean {
  return value.data.every((v) => {
    const x = decode(v);
    if (dtype === "float16") return Object.is(Math.f16round(x), x);
    const bits = new Uint32Array(Float32Array.of(x).buffer)[0]!;
    return dtype !== "bfloat16" || Object.is(Math.fround(x), x) && (bits & 0xffff) === 0;
  });
}

function fitsHalf(v: number | string): boolean {
  const x = decode(v);
  return !Number.isFinite(x) || Math.abs(x) <= 65504;
}

/** The types in which a case is run: what is written in float64 holds in every floating type. */
function typesOf(c: Case & { family: string }): readonly (DType | null)[] {
  const inFloats = [...c.inputs, ...c.outputs].some((v) => v.dtype === "float64");
  if (!inFloats || typed.has(c.family)) return [null];
  const taken = operations[c.op]?.floats ?? floats;
  return taken.filter((dtype) =>
    c.inputs.every((v) => v.dtype !== "float64" || isExact(v, dtype)) &&
    // A half type cannot hold what overflows it.
    (dtype !== "float16" || c.outputs.every((v) => v.data.every(fitsHalf)))
  );
}

function tryOut(c: Case, dtype: DType | null, layout: Layout, backend: BackendName): Trial {
  const title = `${titleOf(c)} ${dtype ?? c.inputs[0]?.dtype ?? ""} ${layout}`;
  const operation = operations[c.op];
  const typeOf = (v: Value): DType => v.dtype === "float64" && dtype ? dtype : v.dtype;
  try {
    if (!operation) throw new Error("There is no row for it in operations.ts");
    const inputs = c.inputs.map((v) => lay(v, layout, { backend, dtype: typeOf(v) }).tensor);
    const made = withDevice(backend, () => operation.call(inputs, c.args));
    const outputs = made instanceof Tensor ? [made] : made;
    const problem = (): string | null => {
      if (outputs.length !== c.outputs.length) return `has ${outputs.length} results`;
      const found = outputs.map((output, k) => {
        const expected = c.outputs[k]!;
        const type = expectedType(operation, typeOf(expected));
        return difference(output, expected, type, operation.slack);
      });
      return found.find((text) => text !== null) ?? null;
    };
    return { title, outputs, problem };
  } catch (error) {
    return { title, outputs: [], problem: () => `throws ${error}` };
  }
}

/** Computes in one go what shares kernels, and says what is wrong. */
function problemsOf(trials: readonly Trial[]): string[] {
  withDeclarations(() => realizeAll(trials.flatMap((trial) => trial.outputs)));
  return trials.flatMap((trial) => {
    const text = trial.problem();
    return text === null ? [] : [`${trial.title} ${text}`];
  });
}

function supports(backend: BackendName, dtype: DType): boolean {
  return backendOf(manager.default(backend)).capabilities.dtypes.has(dtype);
}

for (const family of families) {
  for (const [turn, layout] of layouts.entries()) {
    // Views are rewritten before a backend sees them: one backend may answer for all of them.
    const test = layout === "plain" ? testOnBackends : testOnCPU;
    test(`${family}: the values are PyTorch's, ${layout} inputs`, (backend: BackendName) => {
      // Of these types each operation is another kernel.
      const some = family === "narrow" ? cases : sampleFor(backend, cases);
      const own = some.filter((c) => c.family === family);
      const due = inTurn ? own.filter((_, k) => k % layouts.length === turn) : own;
      const trials = due.flatMap((c, k) =>
        typesFor(backend, c.types, k)
          .filter((dtype) =>
            [dtype, ...c.inputs.map((v) => dtype ?? v.dtype)]
              .every((d) => d === null || supports(backend, d))
          )
          .map((dtype) => tryOut(c, dtype, layout, backend))
      );
      assertNoProblems(problemsOf(trials), trials.length);
    });
  }
}
