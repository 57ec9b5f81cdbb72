/** Attention to the keys that are filled, in WebAssembly: a task is a row of queries. */
import { exp, tanh } from "../../../codegen/functions/exponentials.ts";
import { log } from "../../../codegen/functions/logarithms.ts";
import { ZERO_BYTE } from "../../../graph/attention.ts";
import type { DType } from "../../../graph/dtype.ts";
import {
  type AttentionKernel,
  type HeadMatrix,
  headsOf,
  startOfHead,
} from "../../../kernel/attention.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import { arrayOf, type HostBlock, type PartialRunner } from "../../script/runner.ts";
import { type ElementBytes, elementBytes, LaneAccess } from "../lanes.ts";
import { floatBits, FunctionBuilder, type Local } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { f32x4, i32, i32x4, v128 } from "../opcodes.ts";
import type { WasmKernel, WasmRuntime } from "../runtime.ts";

/** Words of a task: addresses, and the number of keys that it sees. */
const taskFields = [
  "query",
  "key",
  "value",
  "output",
  "keyScale",
  "valueScale",
  "logs",
  "count",
] as const;
/** Arguments: tasks, room of a thread for weights, and bytes between rows. */
const runArguments = [
  "tasks",
  "weights",
  "weightBytes",
  "keyStep",
  "valueStep",
  "keyScaleStep",
  "valueScaleStep",
] as const;

/** Lanes of a vector, and keys whose products are added up together. */
const LANES = 4;
/** Vectors of values that are summed in registers at once. */
const MAX_SUMS = 8;
/** Multiplications of a core in a nanosecond. */
const SPEED = 6;

/** All that a module depends on. */
interface Form {
  readonly query: DType;
  readonly key: DType;
  readonly value: DType;
  readonly output: DType;
  readonly features: number;
  readonly valueFeatures: number;
  readonly scale: number;
  readonly cap: number | null;
  readonly hasScales: boolean;
  readonly hasLogs: boolean;
}

/** The runner; null where features are not side by side in whole vectors. */
export function filledAttentionRunner(
  kernel: AttentionKernel,
  runtime: WasmRuntime,
  host: GemmHost,
): PartialRunner | null {
  if (!fits(kernel)) return null;
  const form = formOf(kernel), name = `filled attention ${JSON.stringify(form)}`;
  const compiled = runtime.named(name, () => new FilledText(form, runtime.relaxed).write());
  return {
    source: "// WebAssembly SIMD: attention to the keys that are filled",
    run: (inputs, outputs) => new FilledRun(kernel, runtime, inputs, outputs).run(compiled, host),
  };
}

function fits({ query, key, value, features, valueFeatures, stored }: AttentionKernel): boolean {
  const isWhole = features % LANES === 0 && valueFeatures % LANES === 0;
  return isWhole && stored.includes(0) && [query, key, value].every(({ column }) => column === 1);
}

function formOf(kernel: AttentionKernel): Form {
  const { query, key, value, features, valueFeatures, scale, filled, stored, outputs } = kernel;
  return {
    query: query.dtype,
    key: key.dtype,
    value: value.dtype,
    output: outputs[stored.indexOf(0)]!.dtype,
    features,
    valueFeatures,
    scale,
    cap: filled!.cap,
    hasScales: filled!.scales !== null,
    hasLogs: stored.includes(1),
  };
}

/** One run: its tasks, and where they lie. */
class FilledRun {
  readonly #kernel: AttentionKernel;
  readonly #runtime: WasmRuntime;
  readonly #inputs: readonly HostBlock[];
  readonly #outputs: readonly HostBlock[];

  constructor(
    kernel: AttentionKernel,
    runtime: WasmRuntime,
    inputs: readonly HostBlock[],
    outputs: readonly HostBlock[],
  ) {
    this.#kernel = kernel;
    this.#runtime = runtime;
    this.#inputs = inputs;
    this.#outputs = outputs;
  }

  /** False, and nothing is done, where a block lies outside of the memory that WebAssembly sees. */
  run(compiled: WasmKernel, host: GemmHost): boolean {
    const { memory, words, threads } = this.#runtime, { queries, keys } = this.#kernel;
    const places = [...this.#inputs, ...this.#outputs].map((block) => memory.addressOf(block));
    if (places.includes(null)) return false;
    const tasks = headsOf(this.#kernel) * queries, taskWords = tasks * taskFields.length;
    // Weights are stored by whole vectors.
    const room = Math.ceil(keys / LANES) * LANES;
    return host.withScratch("float32", taskWords + room * threads.size, (scratch) => {
      const own = memory.addressOf(scratch);
      if (own === null) return false;
      const list = new Int32Array(memory.memory.buffer, own, taskWords);
      const seen = this.#list(list, places as number[]);
      const { key, value, filled, features, valueFeatures } = this.#kernel;
      const step = (at: HeadMatrix | undefined) => at ? at.row * elementBytes(at.dtype) : 0;
      words.set([
        own,
        own + 4 * taskWords,
        4 * room,
        step(key),
        step(value),
        step(filled!.scales?.key),
        step(filled!.scales?.value),
      ]);
      this.#runtime.run(compiled, tasks, 1, seen * (features + valueFeatures) / SPEED);
      return true;
    });
  }

  /** Writes the tasks; gives back how many keys they see together. */
  #list(list: Int32Array, places: readonly number[]): number {
    const { query, key, value, filled, queries, isCausal, stored } = this.#kernel;
    const { window, at, scales } = filled!, form = formOf(this.#kernel);
    const lengths = arrayOf(this.#inputs[at.input]!, "int32");
    const [output, logs] = [0, 1].map((k) => places[this.#inputs.length + stored.indexOf(k)]);
    let next = 0, seen = 0;
    for (let head = 0; head < headsOf(this.#kernel); head++) {
      const length = Number(lengths[startOfHead(this.#kernel, at, head)]);
      for (let row = 0; row < queries; row++) {
        const end = isCausal ? length - queries + 1 + row : length;
        const first = window === null ? 0 : Math.max(0, end - window);
        const place = (matrix: HeadMatrix | undefined, from: number): number => {
          if (!matrix) return 0;
          const start = startOfHead(this.#kernel, matrix, head) + from * matrix.row;
          return places[matrix.input]! + start * elementBytes(matrix.dtype);
        };
        const count = Math.max(0, end - first);
        const stored = this.#place(head, row) * form.valueFeatures * elementBytes(form.output);
        list[next++] = place(query, row);
        list[next++] = place(key, first);
        list[next++] = place(value, first);
        list[next++] = output! + stored;
        list[next++] = place(scales?.key, first);
        list[next++] = place(scales?.value, first);
        list[next++] = (logs ?? 0) + 4 * (head * queries + row);
        list[next++] = count;
        seen += count;
      }
    }
    return seen;
  }

  /** The number of a row among those of the result. */
  #place(head: number, row: number): number {
    const { isInterleaved, lead, queries } = this.#kernel, heads = lead.at(-1) ?? 1;
    return isInterleaved
      ? (Math.floor(head / heads) * queries + row) * heads + head % heads
      : head * queries + row;
  }
}

/** Writes the module of a form. */
class FilledText {
  readonly #f = new FunctionBuilder();
  readonly #form: Form;
  readonly #math: VectorMath;
  readonly #lanes: LaneAccess;

  constructor(form: Form, relaxed: boolean) {
    this.#form = form;
    this.#math = new VectorMath(this.#f, relaxed);
    this.#lanes = new LaneAccess(this.#f, this.#math);
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { begin, end, thread } = FunctionBuilder.parameters;
    const own = f.i(i32.mul, thread, this.#argument("weightBytes"));
    const weights = f.i(i32.add, this.#argument("weights"), own);
    f.loop(begin, end, 1, (task) => {
      const entry = f.i(
        i32.add,
        this.#argument("tasks"),
        f.iWith(i32.mul, task, 4 * taskFields.length),
      );
      const field = (name: typeof taskFields[number]): Local =>
        f.loadNumber(i32.load, entry, 4 * taskFields.indexOf(name));
      const count = field("count"), top = this.#scores(field, count, weights);
      const sum = this.#weights(field, count, weights, top);
      this.#gather(field, count, weights, sum);
    });
    return f.finish();
  }

  #argument(name: typeof runArguments[number]): Local {
    const f = this.#f, { args } = FunctionBuilder.parameters;
    return f.once(name, () => f.loadNumber(i32.load, args, 4 * runArguments.indexOf(name)));
  }

  /** Stores the scores of the keys; gives back the largest in all lanes. */
  #scores(
    field: (name: typeof taskFields[number]) => Local,
    count: Local,
    weights: Local,
  ): Local {
    const f = this.#f, m = this.#math, { query, key, features, scale, cap, hasScales } = this.#form;
    const from = field("query"), keys = field("key"), scales = field("keyScale");
    const vectors = Array.from(
      { length: features / LANES },
      (_, k) => this.#load(query, from, k),
    );
    const last = f.iWith(i32.add, count, -1), all = f.v(i32x4.splat, count), top = f.vector();
    f.assign(top, f.splat(floatBits(-Infinity)));
    f.loop(f.integer(0), count, LANES, (j) => {
      // The last vector has the last key several times where there are no more.
      const rows = [0, 1, 2, 3].map((k) => f.smaller(f.iWith(i32.add, j, k), last));
      const at = (base: Local, step: Local): Local[] =>
        rows.map((row) => f.i(i32.add, base, f.i(i32.mul, row, step)));
      const sums = at(keys, this.#argument("keyStep")).map((row) =>
        vectors.map((x, k) => [x, this.#load(key, row, k)] as const).reduce<Local | null>(
          (sum, [x, y]) => sum === null ? f.v(f32x4.mul, x, y) : m.madd(x, y, sum),
          null,
        )!
      );
      const [a, b, c, d] = f.transpose(sums) as [Local, Local, Local, Local];
      const products = m.add(m.add(a, b), m.add(c, d));
      const whole = hasScales
        ? m.mul(
          products,
          this.#lanes.loadEach("float32", 4, at(scales, this.#argument("keyScaleStep"))),
        )
        : products;
      const scaled = m.mul(whole, m.float(scale));
      const capped = cap === null
        ? scaled
        : m.mul(m.float(cap), tanh(m, m.mul(scaled, m.float(1 / cap))));
      const places = f.v(i32x4.add, f.v(i32x4.splat, j), f.lanes([0, 1, 2, 3]));
      const score = m.select(f.v(i32x4.ltS, places, all), capped, m.float(-Infinity));
      f.store(v128.store, this.#word(weights, j), score);
      f.assign(top, f.v(f32x4.max, top, score));
    });
    return this.#across(top, (x, y) => f.v(f32x4.max, x, y));
  }

  /** Makes weights of the scores, with the scales of the values; gives back their sum in all lanes. */
  #weights(
    field: (name: typeof taskFields[number]) => Local,
    count: Local,
    weights: Local,
    top: Local,
  ): Local {
    const f = this.#f, m = this.#math, { hasScales, hasLogs } = this.#form;
    const total = f.vector(), scales = field("valueScale"), last = f.iWith(i32.add, count, -1);
    f.assign(total, m.float(0));
    f.loop(f.integer(0), count, LANES, (j) => {
      const word = this.#word(weights, j);
      const weight = exp(m, m.sub(f.load(v128.load, word), top));
      f.assign(total, m.add(total, weight));
      if (!hasScales) return f.store(v128.store, word, weight);
      const rows = [0, 1, 2, 3].map((k) => {
        const row = f.smaller(f.iWith(i32.add, j, k), last);
        return f.i(i32.add, scales, f.i(i32.mul, row, this.#argument("valueScaleStep")));
      });
      f.store(v128.store, word, m.mul(weight, this.#lanes.loadEach("float32", 4, rows)));
    });
    const sum = this.#across(total, (x, y) => m.add(x, y));
    if (hasLogs) {
      const none = m.eq(sum, m.float(0));
      const value = m.select(none, m.float(Infinity), m.add(top, log(m, sum)));
      f.store(v128.store32Lane, field("logs"), value, 0, 0);
    }
    return sum;
  }

  /** Stores the mean of the values by their weights. */
  #gather(
    field: (name: typeof taskFields[number]) => Local,
    count: Local,
    weights: Local,
    sum: Local,
  ): void {
    const f = this.#f, m = this.#math, { value, output, valueFeatures } = this.#form;
    // Who sees no key gets zeros.
    const share = m.select(m.eq(sum, m.float(0)), m.float(0), m.div(m.float(1), sum));
    const values = field("value"), to = field("output"), bytes = elementBytes(output);
    for (let first = 0; first < valueFeatures / LANES; first += MAX_SUMS) {
      const vectors = Math.min(MAX_SUMS, valueFeatures / LANES - first);
      const sums = Array.from({ length: vectors }, () => f.vector());
      for (const own of sums) f.assign(own, m.float(0));
      const row = f.copy(values);
      f.loop(f.integer(0), count, 1, (j) => {
        const weight = f.load(v128.loadSplat, this.#word(weights, j));
        sums.forEach((own, k) =>
          f.assign(own, m.madd(this.#load(value, row, first + k), weight, own))
        );
        f.assign(row, f.i(i32.add, row, this.#argument("valueStep")));
      });
      sums.forEach((own, k) => {
        const offset = (first + k) * LANES * bytes;
        this.#lanes.storeFour(output, bytes as ElementBytes, to, offset, m.mul(own, share));
      });
    }
  }

  /** A vector of a row as floats; bytes stand for their distance from that of 0. */
  #load(dtype: DType, row: Local, vector: number): Local {
    const f = this.#f, bytes = elementBytes(dtype);
    const loaded = this.#lanes.loadFour(dtype, bytes, row, vector * LANES * bytes);
    if (dtype !== "uint8") return loaded;
    return f.v(f32x4.convert, f.v(i32x4.sub, loaded, f.splat(ZERO_BYTE)));
  }

  #word(base: Local, index: Local): Local {
    return this.#f.i(i32.add, base, this.#f.iWith(i32.shl, index, 2));
  }

  /** Joins all lanes; each has the result. */
  #across(x: Local, join: (x: Local, y: Local) => Local): Local {
    const f = this.#f, pairs = join(x, f.shuffle32(x, x, [2, 3, 0, 1]));
    return join(pairs, f.shuffle32(pairs, pairs, [1, 0, 3, 2]));
  }
}
