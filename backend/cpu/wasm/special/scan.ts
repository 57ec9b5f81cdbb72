/**
 * Running sums, products and extremes along the rows of a matrix, in WebAssembly: four rows side by
 * side, one in each lane. Sums and products of floats are kept in doubles, as JavaScript keeps them.
 */
import type { ScanFn } from "../../../graph/op.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import type { PartialRunner } from "../../script/runner.ts";
import { floatBits, FunctionBuilder } from "../assembler.ts";
import {
  elementBytes,
  isWide,
  kindOf,
  LaneAccess,
  type LaneKind,
  type WideKind,
} from "../lanes.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { VectorMath } from "../math.ts";
import { f32x4, f64x2, i32, i32x4, i64x2 } from "../opcodes.ts";
import type { WasmRuntime } from "../runtime.ts";

type Scan = SpecialKernel & { readonly op: "scan" };

/** The arguments, in order. */
const scanArguments = ["source", "target", "rows", "length"] as const;

/** Rows side by side. */
const LANES = 4;
/** Addresses are 32-bit numbers of bytes. */
const MAX_ELEMENTS = 2 ** 28;
/** Nanoseconds of an element. */
const SCAN_COST = 0.7;

/** Join of values: an operation, and the bits of a lane that changes nothing. */
interface Join {
  readonly op: number;
  readonly identity: readonly number[];
  /** Floats are joined as doubles. */
  readonly isPromoted?: true;
}

const splat = (bits: number): readonly number[] => [bits, bits, bits, bits];
const doubles = (upper: number): readonly number[] => [0, upper, 0, upper];
/** The upper halves of the doubles 1 and infinity. */
const ONE = 0x3ff00000, INFINITE = 0x7ff00000, NEGATIVE = -0x80000000;

/** Joins by kind; JavaScript does the rest. */
const joins: Readonly<Record<LaneKind | WideKind, Readonly<Partial<Record<ScanFn, Join>>>>> = {
  float: {
    sum: { op: f64x2.add, identity: splat(0), isPromoted: true },
    prod: { op: f64x2.mul, identity: doubles(ONE), isPromoted: true },
    max: { op: f32x4.max, identity: splat(floatBits(-Infinity)) },
    min: { op: f32x4.min, identity: splat(floatBits(Infinity)) },
  },
  double: {
    sum: { op: f64x2.add, identity: splat(0) },
    prod: { op: f64x2.mul, identity: doubles(ONE) },
    max: { op: f64x2.max, identity: doubles(INFINITE | NEGATIVE) },
    min: { op: f64x2.min, identity: doubles(INFINITE) },
  },
  int: {
    sum: { op: i32x4.add, identity: splat(0) },
    prod: { op: i32x4.mul, identity: splat(1) },
    max: { op: i32x4.maxS, identity: splat(NEGATIVE) },
    min: { op: i32x4.minS, identity: splat(0x7fffffff) },
  },
  long: {
    sum: { op: i64x2.add, identity: splat(0) },
    prod: { op: i64x2.mul, identity: [1, 0, 1, 0] },
  },
  mask: {},
};

/** The runner of a scan over several rows, or null for another one. */
export function scanRunner(kernel: Scan, runtime: WasmRuntime): PartialRunner | null {
  const { inputs: [dtype], output, fn, rows, length } = kernel;
  const join = joins[kindOf(output.dtype)][fn];
  const fits = rows >= LANES && rows * length < MAX_ELEMENTS && !needsWideIndices(kernel);
  if (join === undefined || dtype !== output.dtype || !fits) return null;
  const kernelOf = runtime.named(`scan ${fn} ${dtype}`, () => makeScan(dtype, join, runtime));
  const cost = rows * length * SCAN_COST;
  return {
    source: `// WebAssembly, ${kernelOf.codeBytes} bytes: rows are scanned side by side`,
    run(reads, writes) {
      const { words, memory } = runtime;
      const places = [...reads, ...writes].map((block) => memory.addressOf(block));
      if (places.includes(null)) return false;
      words.set([...places as number[], rows, length]);
      runtime.run(kernelOf, Math.ceil(rows / LANES), 1, cost);
      return true;
    },
  };
}

/** The module that scans `begin` to `end` of the groups of four rows. */
function makeScan(
  dtype: Scan["output"]["dtype"],
  join: Join,
  { relaxed }: WasmRuntime,
): Uint8Array<ArrayBuffer> {
  const f = new FunctionBuilder(), math = new VectorMath(f, relaxed);
  const lanes = new LaneAccess(f, math), bytes = elementBytes(dtype);
  const { begin, end } = FunctionBuilder.parameters, args = new KernelArguments(f, scanArguments);
  const isPair = join.isPromoted || isWide(kindOf(dtype));
  f.loop(begin, end, 1, (group) => {
    const first = f.iWith(i32.mul, group, LANES), last = f.iWith(i32.add, args.get("rows"), -1);
    // The last group has the last row several times where there are no more.
    const rows = [0, 1, 2, 3].map((k) => f.smaller(f.iWith(i32.add, first, k), last));
    const rowBytes = f.iWith(i32.mul, args.get("length"), bytes);
    const starts = rows.map((row) => f.i(i32.mul, row, rowBytes));
    const [from, to] = (["source", "target"] as const).map((name) =>
      starts.map((start) => f.copy(f.i(i32.add, args.get(name), start)))
    );
    const total = isPair ? f.pair(f.vector(), f.vector()) : f.vector();
    const identity = f.lanes(join.identity);
    f.assign(total, isPair ? f.pair(identity, identity) : identity);
    f.loop(f.integer(0), args.get("length"), 1, () => {
      const value = lanes.loadEach(dtype, bytes, from!);
      const taken = join.isPromoted ? math.promoted(value) : value;
      f.assign(total, isPair ? math.wide(join.op, total, taken) : f.v(join.op, total, taken));
      const result = join.isPromoted ? math.demoted(total) : total;
      lanes.storeEach(dtype, bytes, to!, result);
      for (const pointer of [...from!, ...to!]) f.step(pointer, bytes);
    });
  });
  return f.finish();
}
