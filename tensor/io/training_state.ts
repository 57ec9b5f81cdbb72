/** All that a training run is made of in one file, so that it goes on as if it had not stopped. */
import { checkOptions, requireValue, shown, takes } from "../core/rules/options.ts";
import { loadSafetensors, readSafetensorsMetadata, saveSafetensors } from "./safetensors.ts";
import { type LoadOptions, loadRules } from "./core/load_options.ts";
import { FileFormatError } from "./core/file_format_error.ts";
import { isRecord, parseJson } from "./core/json.ts";
import { GradScaler } from "../amp/grad_scaler.ts";
import { Module } from "../nn/module/module.ts";
import { AveragedModel } from "../optim/averaged_model.ts";
import { Optimizer } from "../optim/optimizer/optimizer.ts";
import {
  isRandomState,
  type RandomState,
  randomState,
  setRandomState,
} from "../core/random_state.ts";
import { isTensor } from "../core/internals.ts";
import { isPlain } from "../core/nested.ts";
import type { Tensor } from "../core/mod.ts";

/** Parts to save and put back: a module, an optimizer, a schedule, a scaler, a loader. */
export interface Stateful {
  /** Its state: tensors by name, or plain values for JSON. */
  stateDict(): object;
  /** Goes on from what `stateDict` gave. */
  // deno-lint-ignore no-explicit-any -- each takes what its own stateDict gives
  loadStateDict(state: any): unknown;
}

/** Input of {@linkcode saveCheckpoint}, by the caller's names: parts, and values for JSON. */
export type CheckpointParts = Readonly<Record<string, Stateful | JSONValue>>;

/** Values that JSON can hold. */
export type JSONValue =
  | null
  | boolean
  | number
  | string
  | readonly JSONValue[]
  | { readonly [name: string]: JSONValue };

/** The plain values of a checkpoint, in its file's metadata. */
interface Plain {
  readonly random: RandomState;
  /** The states of parts that are no tensors. */
  readonly states: Readonly<Record<string, object>>;
  /** Learning rates of optimizers, whose tensors hold them in float32. */
  readonly rates: Readonly<Record<string, readonly number[]>>;
  readonly values: Readonly<Record<string, JSONValue>>;
  /** The names of the parts that are tensors. */
  readonly tensors: readonly string[];
}

const FIELD = "netcl.checkpoint";

/**
 * Saves a training run: every part with a `stateDict` (model, optimizer, schedule, gradient scaler,
 * loader, averages), the random state, and plain values such as the epoch. The run that
 * {@linkcode loadCheckpoint} makes of it equals the one that saved it and went on, bit for bit: from the
 * first save on, values wait for the device's own kernels. To have the same bits before it as well, in
 * every start, call `setDeterministic(true)` first or set NETCL_DETERMINISTIC=1. The file is a
 * safetensors file, complete or not there; values are those of the moment of the call.
 *
 * @param path The file.
 * @param parts What to save, by name: names hold no dot.
 * @throws {TypeError} When a part is neither state nor a value that JSON holds.
 *
 * @example A run that is interrupted and goes on
 * ```ts
 * import { loadCheckpoint, nn, optim, saveCheckpoint, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const make = () => {
 *   const model = new nn.Linear(2, 1), optimizer = new optim.Adam(model.parameters());
 *   return { model, optimizer, scheduler: new optim.ExponentialLR(optimizer, { gamma: 0.9 }) };
 * };
 * const step = ({ model, optimizer, scheduler }: ReturnType<typeof make>) => {
 *   optimizer.zeroGrad();
 *   model.forward(Tensor.randn([4, 2])).square().mean().backward();
 *   optimizer.step(), scheduler.step();
 * };
 * const run = make(), path = await Deno.makeTempFile({ suffix: ".safetensors" });
 * step(run);
 * await saveCheckpoint(path, { ...run, epoch: 1 });
 * step(run);
 *
 * const resumed = make(), { epoch } = await loadCheckpoint(path, resumed);
 * step(resumed);
 * assertEquals(epoch, 1);
 * assertEquals(await resumed.model.weight.toArray(), await run.model.weight.toArray());
 * await Deno.remove(path);
 * ```
 */
export async function saveCheckpoint(path: string | URL, parts: CheckpointParts): Promise<void> {
  requireValue("save a checkpoint", "parts", parts, takes.object("an object of parts by name"));
  const states: Record<string, object> = {}, values: Record<string, JSONValue> = {};
  const rates: Record<string, readonly number[]> = {}, names: string[] = [];
  const tensors: Record<string, Tensor> = {}, copies: Tensor[] = [];
  for (const [name, part] of Object.entries(parts)) {
    if (name.includes(".")) {
      throw new TypeError(`Cannot save a checkpoint with a part "${name}": names hold no dot`);
    }
    if (!isStateful(part)) {
      values[name] = checkedValue(name, part);
      continue;
    }
    const state = checkedState(name, part.stateDict());
    if (part instanceof Optimizer) rates[name] = part.groups.map(({ lr }) => lr);
    if (!isTensors(state)) {
      states[name] = state;
      continue;
    }
    names.push(name);
    for (const [key, tensor] of Object.entries(state)) tensors[`${name}.${key}`] = tensor;
    if (isCopying(part.stateDict)) copies.push(...Object.values(state));
  }
  const plain: Plain = { random: randomState(), states, rates, values, tensors: names };
  try {
    await saveSafetensors(path, tensors, { metadata: { [FIELD]: JSON.stringify(plain) } });
  } finally {
    for (const tensor of copies) tensor.dispose();
  }
}

/**
 * Goes on from a file of {@linkcode saveCheckpoint}: every part that is named gets its state, and the
 * random state is that of the save.
 *
 * @param path The file.
 * @param parts Who gets the states; parts of the file that are not named here are left out.
 * @param options Where the tensors are on their way.
 * @returns The plain values that were saved.
 * @throws {FileFormatError} For a file that is damaged or no checkpoint.
 * @throws {RangeError} When the file has no part of that name, or not the state that a part needs.
 * @throws {ShapeError} When a tensor has another shape than its part's.
 */
export async function loadCheckpoint(
  path: string | URL,
  parts: Readonly<Record<string, Stateful>>,
  options: LoadOptions = {},
): Promise<Record<string, JSONValue>> {
  const action = "load a checkpoint";
  requireValue(action, "parts", parts, takes.object("an object of parts by name"));
  checkOptions(action, options, loadRules);
  const text = (await readSafetensorsMetadata(path))[FIELD];
  if (text === undefined) {
    throw new FileFormatError(`${path} is no checkpoint: saveCheckpoint writes those`);
  }
  const { random, states, rates, values, tensors: names } = parsePlain(text, path);
  for (const [name, part] of Object.entries(parts)) {
    if (!isStateful(part)) {
      throw new TypeError(
        `Cannot ${action} into "${name}", which is ${
          shown(part)
        }: pass what has loadStateDict(); ` +
          `plain values are returned`,
      );
    }
    if (names.includes(name) || Object.hasOwn(states, name)) continue;
    const known = [...names, ...Object.keys(states)].join(", ");
    throw new RangeError(`Cannot ${action} with a part "${name}": ${path} has ${known || "none"}`);
  }
  const tensors = await loadSafetensors(path, options), ours = new Set(Object.values(tensors));
  try {
    for (const [name, part] of Object.entries(parts)) {
      const state = states[name] ?? partOf(tensors, `${name}.`);
      if (isTensors(state) && !isCopying(part.loadStateDict)) {
        for (const tensor of Object.values(state)) ours.delete(tensor);
      }
      part.loadStateDict(state);
    }
    for (const [name, part] of Object.entries(parts)) {
      if (part instanceof Optimizer) {
        part.groups.forEach((group, k) => group.lr = rates[name]?.[k] ?? group.lr);
      }
    }
  } finally {
    for (const tensor of ours) tensor.dispose();
  }
  // Last: what was loaded may have drawn random numbers.
  setRandomState(random);
  return values;
}

/** @throws {FileFormatError} When the text is not what a checkpoint holds. */
function parsePlain(text: string, path: string | URL): Plain {
  let plain: unknown;
  try {
    plain = parseJson(text, FIELD);
  } catch {
    plain = null;
  }
  const isWhole = isRecord(plain) && isRandomState(plain.random) && isRecord(plain.states) &&
    isRecord(plain.rates) && isRecord(plain.values) && Array.isArray(plain.tensors) &&
    Object.values(plain.rates).every((rates) =>
      Array.isArray(rates) && rates.every(Number.isFinite)
    );
  if (isWhole) return plain as unknown as Plain;
  throw new FileFormatError(
    `${path} is damaged: its field ${FIELD} is ${shown(text.slice(0, 80))}`,
  );
}

function partOf(tensors: Readonly<Record<string, Tensor>>, prefix: string): Record<string, Tensor> {
  return Object.fromEntries(
    Object.entries(tensors).filter(([name]) => name.startsWith(prefix))
      .map(([name, tensor]) => [name.slice(prefix.length), tensor]),
  );
}

function isStateful(part: unknown): part is Stateful {
  const { stateDict, loadStateDict } = (part ?? {}) as Partial<Stateful>;
  return typeof stateDict === "function" && typeof loadStateDict === "function";
}

function isTensors(state: object): state is Record<string, Tensor> {
  return Object.values(state).every((value) => isTensor(value));
}

/** Methods that give copies, or take them: tensors on their way are nobody's but ours. */
const copying: ReadonlySet<unknown> = new Set(
  [Module, Optimizer, AveragedModel, GradScaler].flatMap(({ prototype }) => [
    prototype.stateDict,
    prototype.loadStateDict,
  ]),
);

function isCopying(method: unknown): boolean {
  return copying.has(method);
}

/** A part of a value that a checkpoint would lose: the names on the way to it, and what it is. */
type Lost = readonly [path: readonly string[], part: unknown];

function checkedValue(name: string, value: JSONValue): JSONValue {
  const lost = lostIn(value);
  if (lost === null) return value;
  const [path, part] = lost;
  throw new TypeError(
    `Cannot save a checkpoint with "${[name, ...path].join(".")}", which is ${shown(part)}: ` +
      `pass what has stateDict() and loadStateDict(), or a value that JSON holds`,
  );
}

/** A state is tensors by name, or all of it is for JSON. */
function checkedState(name: string, state: unknown): object {
  const hasTensors = isObject(state) && Object.values(state).some(isTensor);
  const lost = hasTensors ? nonTensorIn(state) : lostInState(state);
  if (lost === null) return state as object;
  const [path, part] = lost, where = path.length > 0 ? `${path.join(".")}, which is ` : "";
  throw new TypeError(
    `Cannot save a checkpoint with "${name}": its stateDict() gives ${where}${shown(part)}; ` +
      `have it give tensors by name, or an object that JSON holds`,
  );
}

function lostInState(state: unknown): Lost | null {
  return isObject(state) ? lostIn(state) : [[], state];
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function nonTensorIn(state: object): Lost | null {
  const other = Object.entries(state).find(([, value]) => !isTensor(value));
  return other ? [[other[0]], other[1]] : null;
}

/** JSON would drop a function in silence, write NaN as null and a Map as nothing; a ring has no end. */
function lostIn(
  value: unknown,
  path: readonly string[] = [],
  around: readonly object[] = [],
): Lost | null {
  if (!isObject(value)) {
    const isKept = value === null || typeof value === "string" || typeof value === "boolean";
    return isKept || Number.isFinite(value) ? null : [path, value];
  }
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  const isData = Array.isArray(value) || isPlain(value) ||
    (entries.length > 0 && !ArrayBuffer.isView(value) && !("toJSON" in value));
  if (!isData || around.includes(value)) return [path, value];
  for (const [key, part] of entries) {
    const lost = lostIn(part, [...path, String(key)], [...around, value]);
    if (lost !== null) return lost;
  }
  return null;
}
