/** Memo of results by what kernels do: layers and later plans have the same ones. */
import type { CustomKernelCall, Launchable } from "../kernel/kernel.ts";

/** A kernel that netcl planned; what a user wrote is known by itself. */
type Planned = Exclude<Launchable, CustomKernelCall>;

/**
 * Memo of the last kernels. It keeps two generations: what is used moves to the younger one, and
 * when that is full the older one is forgotten.
 */
export class KernelMemo<T> {
  readonly #maxKernels: number;
  #younger = new Map<string, T>();
  #older = new Map<string, T>();

  /** @param maxKernels Of a generation. */
  constructor(maxKernels = 1024) {
    this.#maxKernels = maxKernels;
  }

  /** The value made of an equal kernel, or a new one. */
  get(kernel: Planned, make: () => T): T {
    const key = kernelKey(kernel);
    if (key === null) return make();
    const known = this.#younger.get(key);
    if (known !== undefined) return known;
    const value = this.#older.get(key) ?? make();
    if (this.#younger.size === this.#maxKernels) {
      this.#older = this.#younger;
      this.#younger = new Map();
    }
    this.#younger.set(key, value);
    return value;
  }

  /** Forgets everything. */
  clear(): void {
    this.#younger.clear();
    this.#older.clear();
  }
}

const keys = new WeakMap<Planned, string | null>();

/**
 * A text that only kernels have which do the same over the same sizes.
 *
 * @returns Null for a kernel of random numbers: their place in a sequence is a plan's own.
 */
export function kernelKey(kernel: Planned): string | null {
  let key = keys.get(kernel);
  if (key === undefined) {
    key = drawsRandom(kernel) ? null : JSON.stringify(kernel) + oddNumbers(kernel);
    keys.set(kernel, key);
  }
  return key;
}

function drawsRandom(kernel: Planned): boolean {
  switch (kernel.kind) {
    case "loop":
      return kernel.exprs.some(({ op }) => op === "random");
    case "horizontal":
      return kernel.members.some(drawsRandom);
    case "attention":
      return kernel.dropout !== null;
    case "special":
      return false;
  }
}

/** The numbers that JSON cannot tell apart, NaN, the infinities and -0, with their places. */
function oddNumbers(kernel: Planned): string {
  if (kernel.kind === "horizontal") return kernel.members.map(oddNumbers).join("|");
  // All others of a loop kernel are whole numbers that say where elements are.
  const numbers = kernel.kind === "loop"
    ? kernel.exprs.map((e) => e.op === "constant" ? e.value : null)
    : Object.values(kernel);
  let text = "";
  for (let k = 0; k < numbers.length; k++) {
    const value = numbers[k];
    if (typeof value !== "number") continue;
    if (!Number.isFinite(value) || Object.is(value, -0)) {
      text += `${k}:${Object.is(value, -0) ? "-0" : value}`;
    }
  }
  return text;
}
