/** Mixtures of experts: feed-forward layers of which each token takes a few. */
import { Tensor } from "../../../class/tensor.ts";
import { type AnyModule, Module } from "../../../nn/module/module.ts";
import { PackedMatrix } from "../../weights/packed_matrix.ts";
import type { Projection, Weight } from "../../weights/projection.ts";
import type { ExpertsConfig } from "./architectures/config.ts";

/** The parts of a mixture. */
export interface ExpertsParts {
  /** (experts, width): scores of the experts. */
  readonly router: Projection;
  /** (experts * inner, width): those of all experts, one below the other. */
  readonly gate: Projection;
  readonly up: Projection;
  /** (width, experts * inner): those of all experts, side by side. */
  readonly down: Projection;
  /** An expert that all tokens take. */
  readonly shared:
    | { readonly gate: Projection; readonly up: Projection; readonly down: Projection }
    | null;
  /** (1, width): the share of that one is the sigmoid of its score; null for all of it. */
  readonly sharedRouter: Projection | null;
}

/** At most so many numbers stand between the products of all experts at once: 256 MiB of float32. */
const MOST_BETWEEN = 2 ** 26;

/**
 * A mixture of experts. A few tokens take a copy of the matrices that they need, packed as they are; many
 * tokens, a prompt's, take all, which is one product for each matrix, and leave out what they did not choose.
 */
export class Experts extends Module<[x: Tensor]> {
  /** The parts by their names, which are the same for all architectures. */
  readonly parts: ReadonlyMap<string, AnyModule>;
  readonly #config: ExpertsConfig;
  readonly #parts: ExpertsParts;
  readonly #activation: (x: Tensor) => Tensor;

  /** Puts a mixture together. */
  constructor(config: ExpertsConfig, parts: ExpertsParts, activation: (x: Tensor) => Tensor) {
    super();
    this.#config = config;
    this.#parts = parts;
    this.#activation = activation;
    const { shared, ...rest } = parts;
    const inside = Object.entries(shared ?? {}).map(([name, part]) => [`shared.${name}`, part]);
    const all = [...Object.entries(rest), ...inside] as [string, AnyModule | null][];
    this.parts = new Map(all.flatMap(([name, part]) => part ? [[name, part]] : []));
  }

  /** The names of the parts stand by themselves. */
  protected override stateName(property: string): string {
    return property === "parts" ? "" : super.stateName(property);
  }

  /** Maps the features of positions, (..., width). */
  forward(x: Tensor): Tensor {
    const { count, chosen } = this.#config, width = x.shape.at(-1)!;
    const rows = x.reshape([-1, width]), tokens = rows.shape[0]!;
    const { shares, ids } = this.#choice(rows);
    const mixed = tokens * chosen < count
      ? this.#few(rows, shares, ids)
      : this.#all(rows, shares, ids);
    const { shared } = this.#parts, all = shared ? mixed.add(this.#shared(rows)) : mixed;
    return all.reshape(x.shape);
  }

  /** The experts that each token takes, and their shares: (tokens, chosen). */
  #choice(x: Tensor): { readonly shares: Tensor; readonly ids: Tensor } {
    const { chosen, isNormalized } = this.#config;
    const shares = this.#parts.router.forward(x).cast("float32").softmax(-1);
    const { values, indices } = shares.topk(chosen, -1);
    const whole = isNormalized ? values.div(values.sum(-1, { keepDims: true })) : values;
    return { shares: whole, ids: indices };
  }

  #shared(x: Tensor): Tensor {
    const { shared, sharedRouter } = this.#parts, { gate, up, down } = shared!;
    const own = down.forward(this.#activation(gate.forward(x)).mul(up.forward(x)));
    return sharedRouter ? own.mul(sharedRouter.forward(x).sigmoid()) : own;
  }

  /** Products with the matrices that were chosen, those of all tokens side by side. */
  #few(x: Tensor, shares: Tensor, ids: Tensor): Tensor {
    const { gate, up, down } = this.#parts, { count, chosen } = this.#config;
    const tokens = x.shape[0]!, pairs = ids.reshape([-1]);
    const below = ({ weight }: Projection) => productOf(chosenRows(weight, count, pairs));
    const beside = ({ weight }: Projection) => productOf(chosenColumns(weight, count, pairs));
    const matrices = { gate: below(gate), up: below(up), down: beside(down) };
    if (tokens === 1) return this.#mixed(x, matrices, shares);
    // Each token has a share of its own experts alone.
    const places = x.indexLike([tokens]);
    const isOwn = places.unsqueeze(1).eq(places).unsqueeze(-1);
    const own = isOwn.where(shares.unsqueeze(0), 0).reshape([tokens, tokens * chosen]);
    return this.#mixed(x, matrices, own);
  }

  /** Products with all matrices, so many tokens at once. */
  #all(x: Tensor, shares: Tensor, ids: Tensor): Tensor {
    const { gate, up, down } = this.#parts, { count } = this.#config;
    const dense = ids.unsqueeze(-1).eq(ids.indexLike([count])).where(shares.unsqueeze(-1), 0).sum(
      1,
    );
    const rows = Math.max(1, Math.floor(MOST_BETWEEN / gate.weight.shape[0]!)),
      tokens = x.shape[0]!;
    const product = (part: Projection) => (rows: Tensor) => part.forward(rows);
    const matrices = { gate: product(gate), up: product(up), down: product(down) };
    const parts: Tensor[] = [];
    for (let at = 0; at < tokens; at += rows) {
      const end = Math.min(at + rows, tokens);
      parts.push(this.#mixed(x.slice([at, end]), matrices, dense.slice([at, end])));
    }
    return parts.length === 1 ? parts[0]! : Tensor.concat(parts, 0);
  }

  /** The sum of what experts give, each by its share: (tokens, experts). */
  #mixed(x: Tensor, { gate, up, down }: Matrices, shares: Tensor): Tensor {
    const [tokens, experts] = shares.shape as [number, number], share = shares.unsqueeze(-1);
    const between = this.#activation(gate(x)).mul(up(x)).reshape([tokens, experts, -1]);
    // What was not chosen may be infinite.
    const weighed = share.eq(0).where(0, between.mul(share.cast(between.dtype)));
    return down(weighed.reshape([tokens, -1]));
  }
}

/** Products with the matrices of experts: those of all of them are one. */
type Matrices = Readonly<Record<"gate" | "up" | "down", (x: Tensor) => Tensor>>;

function productOf(weight: Weight): (x: Tensor) => Tensor {
  return (x) => weight instanceof PackedMatrix ? weight.forward(x) : x.matmul(weight.transpose());
}

/** Of matrices one below the other, those of ids. */
function chosenRows(weight: Weight, count: number, ids: Tensor): Weight {
  if (weight instanceof PackedMatrix) return weight.chosen(1, count, ids);
  const [, columns] = weight.shape as [number, number];
  return weight.reshape([count, -1]).indexSelect(0, ids).reshape([-1, columns]);
}

/** Of matrices side by side, those of ids. */
function chosenColumns(weight: Weight, count: number, ids: Tensor): Weight {
  const [rows] = weight.shape as [number, number];
  if (weight instanceof PackedMatrix) return weight.chosen(rows, count, ids);
  return weight.reshape([rows, count, -1]).indexSelect(1, ids).reshape([rows, -1]);
}
