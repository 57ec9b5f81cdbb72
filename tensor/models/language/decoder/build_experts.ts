/** Reads the weights of mixtures of experts. */
import { FileFormatError, shown } from "../../../io/core/file_format_error.ts";
import { Tensor } from "../../../class/tensor.ts";
import { withRole } from "../../../nn/module/parameter.ts";
import { Projection } from "../../weights/projection.ts";
import type { WeightChange, WeightReader } from "../../weights/weight_reader.ts";
import type { ExpertNames, ExpertPart } from "./architectures/architecture.ts";
import type { DecoderConfig, ExpertsConfig } from "./architectures/config.ts";
import { Experts } from "./experts.ts";

/** The file of a mixture, and where it stands there. */
export interface ExpertsSource {
  readonly reader: WeightReader;
  /** Names of parts. */
  readonly names: ExpertNames["parts"];
  /** In front of them, with a point. */
  readonly prefix: string;
}

/** The first or the second of two matrices that are one tensor, expert by expert. */
type Half = 0 | 1;

/** Reads one layer's mixture. */
class ExpertsReader {
  readonly #source: ExpertsSource;
  readonly #config: ExpertsConfig;
  readonly #decoder: DecoderConfig;

  constructor(source: ExpertsSource, config: ExpertsConfig, decoder: DecoderConfig) {
    this.#source = source;
    this.#config = config;
    this.#decoder = decoder;
  }

  async read(): Promise<Experts> {
    const { names } = this.#source, { width } = this.#decoder, inner = this.#config.innerWidth;
    const router = await this.#projection("router", [this.#config.count, width]);
    const gate = await this.#half("gate", 0), up = await this.#half("up", 1);
    const down = await this.#stack("down", "beside", [width, inner]);
    const shared = this.#has(names.sharedDown) ? await this.#shared() : null;
    const sharedRouter = shared && this.#has(names.sharedRouter)
      ? await this.#projection("sharedRouter", null)
      : null;
    const parts = { router, gate, up, down, shared, sharedRouter };
    return new Experts(this.#config, parts, this.#decoder.activation);
  }

  #has(name: string | undefined): name is string {
    return name !== undefined && this.#source.reader.has(this.#full(name));
  }

  #full(name: string, expert?: number): string {
    return `${this.#source.prefix}${name.replace("*", `${expert}`)}.weight`;
  }

  async #shared() {
    const { sharedGateUp } = this.#source.names;
    const part = (own: "sharedGate" | "sharedUp", half: Half) =>
      sharedGateUp ? this.#cut(sharedGateUp, 1, half) : this.#projection(own, null);
    const gate = await part("sharedGate", 0), up = await part("sharedUp", 1);
    return { gate, up, down: await this.#projection("sharedDown", null) };
  }

  /** A matrix of its own. */
  async #projection(part: ExpertPart, due: readonly number[] | null): Promise<Projection> {
    const name = this.#full(this.#source.names[part]!), { reader } = this.#source;
    // A vector is the matrix of one row.
    const shape = reader.shape(name), rows = shape.length === 1 ? [1, ...shape] : shape;
    requireShape(name, rows, due ?? [null, null]);
    if (shape.length === 2) return new Projection(await reader.matrix(name));
    return new Projection(withRole((await reader.numbers(name)).reshape([...rows]), "parameter"));
  }

  /** The gate, or what it lets through, of all experts. */
  #half(part: "gate" | "up", half: Half): Promise<Projection> {
    const { names } = this.#source, { count, innerWidth } = this.#config;
    if (names.gateUp) return this.#cut(names.gateUp, count, half);
    return this.#stack(part, "below", [innerWidth, this.#decoder.width]);
  }

  /** Of a tensor that has gates, and behind them what they let through, of each expert: one of both. */
  async #cut(part: string, count: number, half: Half): Promise<Projection> {
    const { reader } = this.#source, name = this.#full(part);
    const change: WeightChange = { experts: "below" };
    const [all] = reader.shape(name, change) as [number], own = all / count / 2;
    requireShape(name, reader.shape(name, change), [2 * Math.floor(own) * count, null]);
    const rows = Array.from({ length: count }, (_, k) => {
      const begin = (2 * k + half) * own;
      return [begin, begin + own] as const;
    });
    return new Projection(await reader.matrix(name, { ...change, part: { rows, columns: null } }));
  }

  /** The matrices of all experts as one. */
  async #stack(
    part: "gate" | "up" | "down",
    experts: "below" | "beside",
    due: readonly (number | null)[],
  ): Promise<Projection> {
    const { reader, names } = this.#source, { count } = this.#config, own = names[part]!;
    if (!own.includes("*")) {
      const name = this.#full(own), [rows, columns] = due;
      const times = (n: number | null | undefined) => n ? n * count : null;
      const all = experts === "below" ? [times(rows), columns!] : [rows!, times(columns)];
      requireShape(name, reader.shape(name, { experts }), all);
      return new Projection(await reader.matrix(name, { experts }));
    }
    const each: Tensor[] = [];
    for (let k = 0; k < count; k++) {
      requireShape(this.#full(own, k), reader.shape(this.#full(own, k)), due);
      each.push(await reader.numbers(this.#full(own, k)));
    }
    const all = Tensor.concat(each, experts === "below" ? 0 : 1).realize();
    for (const tensor of each) tensor.dispose();
    return new Projection(withRole(all, "parameter"));
  }
}

/** Throws where a tensor is not of the shape that the configuration says; null for any length. */
export function requireShape(
  name: string,
  shape: readonly number[],
  due: readonly (number | null)[],
): void {
  if (shape.length === due.length && due.every((n, k) => n === null || n === shape[k])) return;
  throw new FileFormatError(
    `The file's tensor ${shown(name)} is of shape ${shown(shape)}: by its configuration the ` +
      `model has ${shown(due.map((n) => n ?? "any"))}`,
  );
}

/**
 * Reads the mixture of experts of a layer.
 *
 * @throws {FileFormatError} When the file lacks a tensor, or one has another shape.
 */
export function readExperts(source: ExpertsSource, decoder: DecoderConfig): Promise<Experts> {
  return new ExpertsReader(source, decoder.experts!, decoder).read();
}
