/** Modules in lists and under names, for models that say themselves how they are run. */
import { type AnyModule, Module } from "./module.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";
import { requireValue, shown, takes } from "../../core/rules/options.ts";

function requireModule(what: string, value: unknown): void {
  if (value instanceof Module) return;
  throw new TypeError(`Cannot make ${what} with ${shown(value)}: pass modules`);
}

const manyModules: Rule = {
  takes: "an array of modules",
  accepts: (value) => typeof Object(value)[Symbol.iterator] === "function",
};

/** Throws when a container is run. */
function refuse(container: string, remedy: string): never {
  throw new TypeError(`Cannot run a ${container}: it only holds modules; ${remedy}`);
}

/**
 * A list of modules, named by their positions as in PyTorch: "0.weight". It is not run itself.
 *
 * @typeParam M What it holds.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const blocks = new nn.ModuleList([new nn.Linear(4, 4), new nn.Linear(4, 4)]);
 * let x = Tensor.ones([1, 4]);
 * for (const block of blocks) x = block.forward(x).relu();
 * assertEquals(Object.keys(blocks.stateDict())[2], "1.weight");
 * ```
 */
export class ModuleList<M extends AnyModule = Module> extends Module<never[], never>
  implements Iterable<M> {
  private readonly list: M[] = [];

  /**
   * Makes the list.
   *
   * @param modules What it holds.
   * @throws {TypeError} When one is no module.
   */
  constructor(modules: Iterable<M> = []) {
    super();
    requireValue("make a ModuleList", "modules", modules, manyModules);
    for (const module of modules) this.append(module);
  }

  /** Number of modules. */
  get length(): number {
    return this.list.length;
  }

  /**
   * The module at a position; negative ones count from the last.
   *
   * @throws {RangeError} When there is none.
   */
  at(position: number): M {
    const module = Number.isInteger(position) && this.list.at(position);
    if (module) return module;
    throw new RangeError(
      `Cannot take module ${shown(position)} of a ModuleList: it has ${this.length}`,
    );
  }

  /**
   * Adds a module at the end.
   *
   * @throws {TypeError} When it is none.
   */
  append(module: M): this {
    requireModule("a ModuleList", module);
    this.list.push(module);
    return this;
  }

  /** The modules in order. */
  [Symbol.iterator](): IterableIterator<M> {
    return this.list.values();
  }

  /** The modules are named by their positions. */
  protected override stateName(property: string): string {
    return property === "list" ? "" : super.stateName(property);
  }

  /**
   * A list cannot be run.
   *
   * @throws {TypeError} Always: what holds the list says how its modules are run.
   */
  forward(): never {
    return refuse("ModuleList", "run them one by one, or make a Sequential");
  }
}

/**
 * Modules under names, which stand as they are in `stateDict`. It is not run itself.
 *
 * @typeParam M What it holds.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const heads = new nn.ModuleDict({ color: new nn.Linear(4, 3), size: new nn.Linear(4, 1) });
 * assertEquals(heads.get("size").forward(Tensor.ones([2, 4])).shape, [2, 1]);
 * assertEquals(Object.keys(heads.stateDict())[0], "color.weight");
 * ```
 */
export class ModuleDict<M extends AnyModule = Module> extends Module<never[], never>
  implements Iterable<[string, M]> {
  private readonly byName: Map<string, M> = new Map();

  /**
   * Makes the dictionary.
   *
   * @param modules What it holds, by name.
   * @throws {TypeError} When one is no module, or a name has a dot.
   */
  constructor(modules: Readonly<Record<string, M>> | ReadonlyMap<string, M> = {}) {
    super();
    requireValue("make a ModuleDict", "modules", modules, takes.object("modules by name"));
    const entries = modules instanceof Map ? modules : Object.entries(modules);
    for (const [name, module] of entries) this.set(name, module);
  }

  /** Number of modules. */
  get size(): number {
    return this.byName.size;
  }

  /** True when there is a module of that name. */
  has(name: string): boolean {
    return this.byName.has(name);
  }

  /**
   * The module of that name.
   *
   * @throws {RangeError} When there is none.
   */
  get(name: string): M {
    const module = this.byName.get(name);
    if (module) return module;
    throw new RangeError(
      `Cannot take module ${shown(name)} of a ModuleDict: it has ${
        [...this.byName.keys()].join(", ")
      }`,
    );
  }

  /**
   * Adds a module, or replaces that of the same name.
   *
   * @throws {TypeError} When it is none, or the name has a dot.
   */
  set(name: string, module: M): this {
    requireModule("a ModuleDict", module);
    if (typeof name !== "string" || name === "" || name.includes(".")) {
      throw new TypeError(
        `Cannot hold a module under the name ${shown(name)}: pass a text without dots, which ` +
          `join the names of a state`,
      );
    }
    this.byName.set(name, module);
    return this;
  }

  /** The names and modules, in the order in which they were added. */
  [Symbol.iterator](): IterableIterator<[string, M]> {
    return this.byName.entries();
  }

  /** The modules stand under their own names. */
  protected override stateName(property: string): string {
    return property === "byName" ? "" : super.stateName(property);
  }

  /**
   * A dictionary cannot be run.
   *
   * @throws {TypeError} Always: what holds the dictionary says how its modules are run.
   */
  forward(): never {
    return refuse("ModuleDict", "run them by name");
  }
}
