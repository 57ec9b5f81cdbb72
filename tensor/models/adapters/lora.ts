/**
 * Fine-tuning by a few numbers beside frozen weights. This folder (`adapters/`) imports layers of `nn/`,
 * `weights/` and readers of files.
 */
import { host } from "../../core/rules/host.ts";
import { saveFile } from "../../../backend/internal.ts";
import { requireState } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import { stateOf } from "../../core/internals.ts";
import { Tensor } from "../../class/tensor.ts";
import { realizeAll } from "../../execution/realization.ts";
import { readingFile, shown } from "../../io/core/file_format_error.ts";
import { loadSafetensors, saveSafetensors } from "../../io/safetensors.ts";
import { dropout } from "../../nn/layers/dropout.ts";
import { Linear } from "../../nn/layers/linear.ts";
import { kaimingUniform } from "../../nn/module/init.ts";
import { type AnyModule, Module } from "../../nn/module/module.ts";
import { parameter, withRole } from "../../nn/module/parameter.ts";
import { PackedMatrix } from "../weights/packed_matrix.ts";
import { Projection } from "../weights/projection.ts";
import { configIn, escaped, type PeftConfig, rounded } from "./peft_config.ts";

/** Options of adapters. */
export interface LoraOptions {
  /** Rank: numbers that a feature is written through. */
  rank: number;
  /** The product is multiplied by `alpha / rank`; default the rank. */
  alpha?: number;
  /** The last words of the names of the layers that get one, such as "q_proj". */
  targets: string[];
  /** Probability to drop an input while the model learns; default 0. */
  dropout?: number;
}

const rules: Rules<LoraOptions> = {
  rank: takes.count,
  alpha: takes.positive,
  targets: takes.list,
  dropout: takes.belowOne,
};

/** A layer that can have an adapter. */
type Target = Linear | Projection;

/** Names in files of PEFT begin so. */
const PREFIX = "base_model.model.";
const WEIGHTS = "adapter_model.safetensors", CONFIG = "adapter_config.json";

/** One layer's adapter. */
interface Adapter {
  /** The layer's name in the model. */
  readonly name: string;
  readonly layer: Target;
  /** (rank, inputs). */
  readonly a: Tensor;
  /** (outputs, rank); zeros at first. */
  readonly b: Tensor;
  /** Factor of their product. */
  readonly scale: number;
}

/**
 * Adapters of a model: what `lora` made, to train, to save, to switch off, or to merge.
 */
export class Adapters implements Disposable {
  /** False to compute without them, as the model was. */
  isActive = true;
  /** Options they have. */
  readonly options: Readonly<Required<LoraOptions>>;
  readonly #adapters: readonly Adapter[];
  readonly #hooks: Disposable[];

  /** Puts adapters beside layers; `lora` makes them. */
  constructor(adapters: readonly Adapter[], options: Readonly<Required<LoraOptions>>) {
    this.#adapters = adapters;
    this.options = options;
    this.#hooks = adapters.map((adapter) =>
      (adapter.layer as Module).registerForwardHook((layer, [x]: [Tensor], output) =>
        this.isActive
          ? output.add(this.#change(adapter, x, layer.training).cast(output.dtype))
          : output
      )
    );
  }

  /** Term added by a layer's adapter. */
  #change({ a, b, scale }: Adapter, x: Tensor, isTraining: boolean): Tensor {
    const { dropout: share } = this.options;
    const kept = isTraining && share > 0 ? dropout(x, share) : x;
    return kept.cast(a.dtype).matmul(a.transpose()).matmul(b.transpose()).mul(scale);
  }

  /** Learned parameters: two matrices a layer. */
  parameters(): Tensor[] {
    return this.#adapters.flatMap(({ a, b }) => [a, b]);
  }

  #named(): [string, Tensor][] {
    return this.#adapters.flatMap(({ name, a, b }): [string, Tensor][] => [
      [`${PREFIX}${name}.lora_A.weight`, a],
      [`${PREFIX}${name}.lora_B.weight`, b],
    ]);
  }

  /** The values under the names that PEFT gives them. */
  stateDict(): Record<string, Tensor> {
    return Object.fromEntries(
      this.#named().map(([name, tensor]) => [name, tensor.realize().detach()]),
    );
  }

  /**
   * Gives the adapters other values, at once: other adapters of the same model and rank.
   *
   * @param state Values under the names of `stateDict`.
   * @throws {RangeError} When names are missing or not known; nothing is changed then.
   * @throws {ShapeError} When a shape differs; nothing is changed then.
   */
  loadStateDict(state: Readonly<Record<string, Tensor>>): void {
    requireState("load adapters", state);
    const own = new Map(this.#named());
    const missing = [...own.keys()].filter((name) => !Object.hasOwn(state, name));
    const unknown = Object.keys(state).filter((name) => !own.has(name));
    if (missing.length + unknown.length > 0) {
      throw new RangeError(
        `Cannot load adapters: ${missing.length} of ${own.size} tensors are missing` +
          `${missing.length ? `, such as ${missing[0]}` : ""}; ${unknown.length} are not known` +
          `${unknown.length ? `, such as ${unknown[0]}` : ""}`,
      );
    }
    for (const [name, tensor] of own) {
      if (`${tensor.shape}` === `${state[name]!.shape}`) continue;
      throw shapeError("loadStateDict")`
        Cannot load adapters: ${name} is ${tensor.shape} and got ${state[name]!.shape}`;
    }
    noGrad(() => own.forEach((tensor, name) => tensor.assign(state[name]!.to(tensor.device))));
    realizeAll([...own.values()]);
    for (const tensor of own.values()) stateOf(tensor).dropFormer();
  }

  /**
   * Saves them as PEFT does: adapter_model.safetensors and adapter_config.json.
   *
   * @param folder Where to; it is made.
   */
  async save(folder: string): Promise<void> {
    requireValue("save adapters", "folder", folder, takes.path);
    await host.mkdir(folder);
    const { rank, alpha, targets, dropout } = this.options;
    const patterns = (of: (adapter: Adapter) => number, plain: number) =>
      Object.fromEntries(
        this.#adapters.flatMap((one) => of(one) === plain ? [] : [[escaped(one.name), of(one)]]),
      );
    const config = {
      peft_type: "LORA",
      task_type: "CAUSAL_LM",
      base_model_name_or_path: null,
      bias: "none",
      fan_in_fan_out: false,
      inference_mode: true,
      r: rank,
      lora_alpha: alpha,
      lora_dropout: dropout,
      target_modules: targets,
      rank_pattern: patterns(({ a }) => a.shape[0]!, rank),
      alpha_pattern: patterns(({ a, scale }) => rounded(scale * a.shape[0]!), alpha),
    };
    async function* text() {
      yield await Promise.resolve(new TextEncoder().encode(JSON.stringify(config, null, 2)));
    }
    await saveSafetensors(`${folder}/${WEIGHTS}`, this.stateDict(), { metadata: { format: "pt" } });
    await saveFile(`${folder}/${CONFIG}`, text());
  }

  /** Adds them to the weights, for good; packed ones become numbers. The adapters are gone then. */
  merge(): void {
    noGrad(() => {
      for (const { layer, a, b, scale } of this.#adapters) {
        const change = b.matmul(a).mul(scale), { weight } = layer;
        if (weight instanceof PackedMatrix) {
          layer.weight = withRole(weight.decode().add(change), "parameter");
          weight.dispose();
        } else weight.assign(weight.add(change.cast(weight.dtype)));
      }
      realizeAll(
        this.#adapters.flatMap(({ layer: { weight } }) =>
          weight instanceof PackedMatrix ? [] : [weight]
        ),
      );
    });
    this.dispose();
  }

  /** Takes them away; the model is as it was. */
  dispose(): void {
    for (const hook of this.#hooks.splice(0)) hook[Symbol.dispose]();
    for (const tensor of this.parameters()) tensor.dispose();
  }

  /** {@linkcode Adapters.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** All modules below one, with their names. */
function* named(module: AnyModule, prefix = ""): Generator<[string, AnyModule]> {
  for (const [name, child] of module.children()) {
    yield [prefix + name, child];
    yield* named(child, `${prefix}${name}.`);
  }
}

/** All layers of a model that can have an adapter, by their names. */
function layersOf(model: AnyModule): Map<string, Target> {
  const isTarget = (entry: [string, AnyModule]): entry is [string, Target & AnyModule] =>
    entry[1] instanceof Linear || entry[1] instanceof Projection;
  return new Map([...named(model)].filter(isTarget));
}

/** True where a name ends with the words of a target. */
const fits = (name: string, target: string) => name === target || name.endsWith(`.${target}`);

function targetsIn(model: AnyModule, targets: readonly string[]): [string, Target][] {
  const layers = [...layersOf(model)];
  const lost = targets.find((target) => !layers.some(([name]) => fits(name, target)));
  if (lost === undefined && targets.length > 0) {
    return layers.filter(([name]) => targets.some((target) => fits(name, target)));
  }
  throw lostError(layers.map(([name]) => name), lost ?? "nothing");
}

function lostError(layers: readonly string[], lost: string): RangeError {
  const known = [...new Set(layers.map((name) => name.split(".").at(-1)))].join(", ");
  return new RangeError(
    `Cannot make adapters for ${shown(lost)}: the model has layers named ${known || "so, none"}`,
  );
}

/** Plan of an adapter. */
interface Plan {
  readonly name: string;
  readonly layer: Target;
  readonly rank: number;
  readonly scale: number;
}

/** Freezes a model, and puts adapters beside layers. */
function adapt(
  model: AnyModule,
  plans: readonly Plan[],
  options: Readonly<Required<LoraOptions>>,
): Adapters {
  const part = plans.find(({ layer }) => layer instanceof Projection && layer.isPart);
  if (part) {
    throw new TypeError(
      `Cannot make an adapter for ${
        shown(part.name)
      }: ranks hold the layer together; load the model ` +
        "without { parallel }",
    );
  }
  model.requireGrad(false);
  const adapters = plans.map(({ name, layer, rank, scale }): Adapter => {
    const { weight } = layer, [outputs, inputs] = weight.shape as [number, number];
    const device = weight instanceof PackedMatrix ? weight.blocks.device : weight.device;
    return {
      name,
      layer,
      scale,
      a: parameter(kaimingUniform([rank, inputs], { slope: Math.sqrt(5), device })),
      b: parameter(Tensor.zeros([outputs, rank], { device })),
    };
  });
  return new Adapters(adapters, options);
}

/**
 * Freezes a model and puts small matrices beside some of its layers, which learn instead: a layer's output
 * gets `alpha / rank * B A x` added (E. Hu et al., LoRA, 2021). Nothing changes at first. Weights may be packed.
 *
 * @param model Any module with `Linear` layers, or the `model` of a `LanguageModel`.
 * @param options The rank, which layers.
 * @throws {RangeError} When no layer has the name of a target.
 * @throws {TypeError} For a layer of which other ranks hold parts.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { lora } from "@netcl/netcl/models";
 * import { assertEquals } from "@std/assert";
 *
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * using adapters = lora(model, { rank: 2, targets: ["0", "2"] });
 * assertEquals(adapters.parameters().map(({ shape }) => shape), [[2, 4], [8, 2], [2, 8], [2, 2]]);
 * model.forward(Tensor.ones([1, 4])).sum().backward();
 * assertEquals(model.parameters().every(({ grad }) => grad === null), true);
 * ```
 */
export function lora(model: AnyModule, options: LoraOptions): Adapters {
  requireValue("make adapters", "model", model, {
    takes: "a module",
    accepts: (value) => value instanceof Module,
  });
  checkOptions("make adapters", options, rules, ["rank", "targets"]);
  const { rank, alpha = rank, targets, dropout = 0 } = options;
  const plans = targetsIn(model, targets).map(([name, layer]): Plan => ({
    name,
    layer,
    rank,
    scale: alpha / rank,
  }));
  return adapt(model, plans, { rank, alpha, targets: [...targets], dropout });
}

/**
 * Loads adapters that PEFT, or `Adapters.save`, has saved: those that the file has, each of its own rank.
 *
 * @param model The model that they were made for.
 * @param folder With adapter_model.safetensors and adapter_config.json.
 * @throws {FileFormatError} When a file is damaged, or asks for what LoRA alone does not do.
 * @throws {RangeError} When the model does not have the layers.
 */
export async function loadAdapters(model: AnyModule, folder: string): Promise<Adapters> {
  requireValue("load adapters", "folder", folder, takes.path);
  const config = await readingFile(
    `${folder}/${CONFIG}`,
    async () => configIn(await host.readTextFile(`${folder}/${CONFIG}`)),
  );
  const state = await loadSafetensors(`${folder}/${WEIGHTS}`);
  const adapters = adaptAs(model, state, config);
  try {
    adapters.loadStateDict(state);
    return adapters;
  } catch (error) {
    adapters.dispose();
    throw error;
  } finally {
    for (const tensor of Object.values(state)) tensor.dispose();
  }
}

/** Adapters for the layers that a file has some for. */
function adaptAs(
  model: AnyModule,
  state: Readonly<Record<string, Tensor>>,
  { rank: usual, alpha, dropout, alphas, isRooted }: PeftConfig,
): Adapters {
  const layers = layersOf(model);
  const plans = Object.entries(state).flatMap(([key, tensor]): Plan[] => {
    const name = /^base_model\.model\.(.*)\.lora_A\.weight$/.exec(key)?.[1];
    if (name === undefined) return [];
    const layer = layers.get(name), rank = tensor.shape[0] ?? 0;
    if (!layer) throw lostError([...layers.keys()], name);
    const own = alphas.find(([pattern]) => pattern.test(name))?.[1] ?? alpha;
    return [{ name, layer, rank, scale: own / (isRooted ? Math.sqrt(rank) : rank) }];
  });
  const targets = plans.map(({ name }) => name);
  return adapt(model, plans, { rank: usual, alpha, targets, dropout });
}
