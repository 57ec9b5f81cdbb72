/**
 * Every scalar function, in every type that it takes, is what the plain evaluator makes of it: on each
 * backend, whatever its writers have for it, vectors or scalar code. A new primitive is tested by having
 * its row in the table; that an operation of it is held against PyTorch is asked for here, too.
 */
import "../guarded.ts";
import { assertEquals } from "@std/assert";
import { type DType, manager, withDevice } from "../../mod.ts";
import { Node } from "../../backend/mod.ts";
import { backendOf } from "../../backend/internal.ts";
import type { Backend } from "../../backend/execution/backend.ts";
import { readNodeSync } from "../../backend/execution/reading.ts";
import { realize } from "../../backend/execution/realize.ts";
import { dtypes, fromBfloat16Bits } from "../../backend/graph/dtype.ts";
import { accepts, type PrimitiveName, primitives } from "../../backend/graph/primitives.ts";
import { scriptStrategy } from "../../backend/cpu/strategy/strategy.ts";
import { nodeOf } from "../../tensor/core/internals.ts";
import { encode } from "../../tensor/ops/creation/host_data.ts";
import { backendWith, reference } from "../backend/cpu/strategies.ts";
import { testOnBackends } from "../opencl.ts";
import { differenceOf } from "./comparison.ts";
import { allCases } from "./fixture.ts";
import { lay } from "./layouts.ts";
import { operations } from "./operations.ts";

const names = Object.keys(primitives) as PrimitiveName[];
const types = "float32 float64 float16 bfloat16 int32 int64 uint8 bool".split(" ") as DType[];

const reals = [0, -0, 1, -1, 2, 3, -7, 0.5, -2.5, 100, -0.0625, 1e4, NaN, Infinity, -Infinity, 88];
const wholes = [
  0,
  1,
  -1,
  2,
  3,
  -7,
  5,
  100,
  -100,
  12,
  255,
  65536,
  -65536,
  2 ** 31 - 1,
  -(2 ** 31),
  9,
] as const;
const bytes = wholes.map((value) => value & 255);

function samplesOf(dtype: DType): readonly number[] {
  if (dtype === "bool") return wholes.map((_, k) => k % 2);
  if (dtype === "uint8") return bytes;
  return dtype.startsWith("int") ? wholes : reals;
}

/** Every pair of samples: the first operand changes slowly, the second quickly. */
function operandsOf(name: PrimitiveName, dtype: DType): number[][] {
  const samples = samplesOf(dtype), n = samples.length;
  const all = Array.from({ length: n * n }, (_, k) => k);
  const quick = all.map((k) => samples[k % n]!), slow = all.map((k) => samples[Math.floor(k / n)]!);
  if (name === "where") return [all.map((k) => k % 3 === 0 ? 1 : 0), slow, quick];
  // A shift is by less than the width.
  return name.startsWith("shift")
    ? [slow, all.map((k) => dtype === "bool" ? 0 : k % 8)]
    : [slow, quick];
}

/** The result of a primitive on operands of a type, not computed yet. */
function apply(name: PrimitiveName, dtype: DType): Node {
  const { arity, isTest } = primitives[name];
  const operands = operandsOf(name, dtype).slice(0, arity).map((values, k) => {
    const type = name === "where" && k === 0 ? "bool" : dtype;
    return new Node({ kind: "data", bytes: encode(values, type) }, [], [values.length], type);
  });
  const op = { kind: "elementwise", fn: name } as const;
  return new Node(op, operands, operands[0]!.shape, isTest ? "bool" : dtype);
}

/** The elements of nodes as a backend computes them, all in one schedule. */
function numbersOf(backend: Backend, nodes: readonly Node[]): (number | bigint)[][] {
  for (const node of nodes) node.hold();
  realize(backend, nodes);
  return nodes.map((node) => {
    const bytes = new Uint8Array(node.size * dtypes[node.dtype].bytes);
    readNodeSync(backend, node, bytes);
    node.drop();
    const elements = dtypes[node.dtype].view(bytes.buffer, 0, node.size);
    const numbers = [...elements as Iterable<number | bigint>];
    return node.dtype === "bfloat16" ? numbers.map((n) => fromBfloat16Bits(Number(n))) : numbers;
  });
}

/** Differences from the plain evaluator, for each primitive and type. */
function differences(backend: Backend): string[] {
  // Where every kernel must be compiled, half types are left out: float32 computes them.
  const isLong = (dtype: DType): boolean => backend.name === "cl" && dtype.endsWith("float16");
  const supported = types.filter((dtype) =>
    backend.capabilities.dtypes.has(dtype) && !isLong(dtype)
  );
  const pairs = names.flatMap((name) =>
    supported.filter((dtype) => accepts(name, dtype)).map((dtype) => ({ name, dtype }))
  );
  const nodes = (): Node[] => pairs.map(({ name, dtype }) => apply(name, dtype));
  const expected = numbersOf(reference, nodes()), found = numbersOf(backend, nodes());
  return pairs.flatMap(({ name, dtype }, k) => {
    const result = primitives[name].isTest ? "bool" : dtype;
    const text = differenceOf(found[k]!, expected[k]!.map(String), result, SLACK);
    return text === null ? [] : [`${name} of ${dtype} ${text}`];
  });
}

/** Errors of a function in a half type's own precision, and of powers. */
const SLACK = 4;

testOnBackends("every primitive is the plain evaluator's, in each type", (backend) => {
  assertEquals(differences(backendOf(manager.default(backend))), []);
});

Deno.test("every primitive is the plain evaluator's as JavaScript", () => {
  assertEquals(differences(backendWith(scriptStrategy)), []);
});

/** Primitives that no node has: lowering puts them where a cast is fused. */
const ofCasts: readonly PrimitiveName[] = ["roundFloat16", "roundBfloat16"];

Deno.test("every primitive is part of an operation that has a row", () => {
  const found = new Set<string>(ofCasts), seen = new Set<Node>();
  const visit = (node: Node): void => {
    if (seen.has(node)) return;
    seen.add(node);
    if (node.op.kind === "elementwise") found.add(node.op.fn);
    node.inputs.forEach(visit);
  };
  withDevice("cpu", () => {
    for (const { op, inputs, args } of allCases()) {
      const tensors = inputs.map((value) =>
        lay(value, "plain", { backend: "cpu", dtype: value.dtype }).tensor
      );
      const made = operations[op]!.call(tensors, args);
      for (const result of Array.isArray(made) ? made : [made]) visit(nodeOf(result));
    }
  });
  assertEquals(names.filter((name) => !found.has(name)), []);
});
