/**
 * Fourier transforms of few numbers in the registers of a work-item, as statements of OpenCL C.
 *
 * This folder (`lines/`) has the texts of transforms of lines: on GPUs a line a work-group or several, on
 * processors a line in each lane of vectors. It imports nothing but the type of numbers.
 */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";

/** A complex number: the names of its parts, or expressions without side effects. */
export interface Pair {
  readonly re: string;
  readonly im: string;
}

/** Primes whose transforms are written out. */
export const MAX_BUTTERFLY_PRIME = 13;

/** Statements that declare names of their own; those of several writers do not meet where prefixes differ. */
export class ButterflyWriter {
  readonly lines: string[] = [];
  readonly #prefix: string;
  readonly #isDouble: boolean;
  readonly #type: string;
  #count = 0;

  /** @param type The C type of a part: a number, or a vector of numbers. */
  constructor(prefix: string, dtype: RealType, type = "T") {
    this.#prefix = prefix;
    this.#isDouble = dtype === "float64";
    this.#type = type;
  }

  /** The forward transform: sums of x_j e^(-2 π i j k / n), in order of k. */
  transform(x: readonly Pair[]): Pair[] {
    const n = x.length;
    if (n === 1) return [...x];
    const first = n % 4 === 0 && n > 4 ? 4 : leastPrime(n);
    return first === n ? this.#prime(x) : this.#composed(x, first);
  }

  /** J. Cooley, J. Tukey (1965): `first` transforms of every `first`th number, turned, then across. */
  #composed(x: readonly Pair[], first: number): Pair[] {
    const n = x.length, rest = n / first;
    const parts = Array.from({ length: first }, (_, j) => {
      const own = this.transform(x.filter((_, k) => k % first === j));
      return own.map((value, k) => this.#turned(value, j * k, n));
    });
    const columns = Array.from(
      { length: rest },
      (_, k) => this.transform(parts.map((part) => part[k]!)),
    );
    return Array.from({ length: n }, (_, k) => columns[k % rest]![Math.floor(k / rest)]!);
  }

  /** Of a prime number of them: numbers j and n - j meet the same cosines, and opposite sines. */
  #prime(x: readonly Pair[]): Pair[] {
    const n = x.length, half = n >> 1;
    if (n === 2) return [this.#sum(x[0]!, x[1]!), this.#difference(x[0]!, x[1]!)];
    const sums: Pair[] = [], differences: Pair[] = [];
    for (let j = 1; j <= half; j++) {
      sums.push(this.#sum(x[j]!, x[n - j]!));
      differences.push(this.#difference(x[j]!, x[n - j]!));
    }
    const found: Pair[] = new Array(n);
    found[0] = sums.reduce((all, next) => this.#sum(all, next), x[0]!);
    for (let k = 1; k <= half; k++) {
      const angle = (j: number) => 2 * Math.PI * ((j + 1) * k % n) / n;
      const even = (part: keyof Pair) =>
        this.#name(
          [x[0]![part], ...sums.map((s, j) => `${this.#number(Math.cos(angle(j)))} * ${s[part]}`)]
            .join(" + "),
        );
      const odd = (part: keyof Pair) =>
        this.#name(
          differences.map((d, j) => `${this.#number(Math.sin(angle(j)))} * ${d[part]}`).join(" + "),
        );
      const middle = { re: even("re"), im: even("im") };
      const [re, im] = [odd("re"), odd("im")];
      // -i times the odd part, and its opposite.
      found[k] = {
        re: this.#name(`${middle.re} + ${im}`),
        im: this.#name(`${middle.im} - ${re}`),
      };
      found[n - k] = {
        re: this.#name(`${middle.re} - ${im}`),
        im: this.#name(`${middle.im} + ${re}`),
      };
    }
    return found;
  }

  /** x e^(-2 π i k / n). */
  #turned({ re, im }: Pair, k: number, n: number): Pair {
    const eighths = 8 * (k % n) / n;
    switch (eighths) {
      case 0:
        return { re, im };
      case 2:
        return { re: im, im: `(-${re})` };
      case 4:
        return { re: `(-${re})`, im: `(-${im})` };
      case 6:
        return { re: `(-${im})`, im: re };
    }
    const c = this.#number(Math.cos(Math.PI * eighths / 4));
    const s = this.#number(Math.sin(Math.PI * eighths / 4));
    return {
      re: this.#name(`${re} * ${c} + ${im} * ${s}`),
      im: this.#name(`${im} * ${c} - ${re} * ${s}`),
    };
  }

  #sum(a: Pair, b: Pair): Pair {
    return { re: this.#name(`${a.re} + ${b.re}`), im: this.#name(`${a.im} + ${b.im}`) };
  }

  #difference(a: Pair, b: Pair): Pair {
    return { re: this.#name(`${a.re} - ${b.re}`), im: this.#name(`${a.im} - ${b.im}`) };
  }

  #name(value: string): string {
    const name = `${this.#prefix}${this.#count++}`;
    this.lines.push(`const ${this.#type} ${name} = ${value};`);
    return name;
  }

  #number(value: number): string {
    const text = this.#isDouble ? `${value}` : `${Math.fround(value)}`;
    const whole = /[.e]/.test(text) ? text : `${text}.0`;
    return `(${whole}${this.#isDouble ? "" : "f"})`;
  }
}

function leastPrime(n: number): number {
  for (let p = 2; p * p <= n; p++) if (n % p === 0) return p;
  return n;
}
