/**
 * Copies of a module's tensors on other devices of this process. They follow the originals: what was
 * assigned since is copied once, by way of host memory that all devices share.
 */
import {
  backendOf,
  completedSync,
  type DeviceHandle,
  type Node,
  type NodeStorage,
} from "../../backend/internal.ts";
import { realizeAll } from "../execution/realization.ts";
import { noGrad } from "../core/modes/grad_mode.ts";
import { isHooked } from "../autograd/gradient_hooks.ts";
import { nodeOf, stateOf } from "../core/internals.ts";
import { type AnyModule, tensorMembers } from "../nn/module/module.ts";
import { roleOf, withRole } from "../nn/module/parameter.ts";
import type { Tensor } from "../core/mod.ts";
import { bytesOf, taperedGroups } from "./exchange/bucket.ts";
import { FlatLayout } from "./exchange/flat_layout.ts";
import { Packer } from "./exchange/packer.ts";
import { leaveReads, Passage } from "./exchange/passage.ts";
import { giveStored, readSideBySide } from "./exchange/state_broadcast.ts";

/** The tensors of a module on one other device, by their originals. */
export interface Replica {
  readonly device: DeviceHandle;
  readonly copies: ReadonlyMap<Tensor, Tensor>;
}

/** Puts a tensor in the place of another one. */
interface Place {
  readonly original: Tensor;
  readonly replace: (tensor: Tensor) => void;
}

/** The value of a tensor: a replay of a compiled function changes what a node has stored. */
interface Value {
  readonly node: Node;
  readonly storage: NodeStorage | null;
  readonly version: number;
}

function valueOf(tensor: Tensor): Value {
  const node = nodeOf(tensor), { storage } = node;
  return { node, storage, version: storage?.version ?? 0 };
}

/** Originals that travel together. */
interface StateBucket {
  readonly tensors: readonly Tensor[];
  /** Of bytes. */
  readonly layout: FlatLayout;
  readonly packer: Packer;
  readonly passage: Passage;
}

/** The copies of one module on all devices but its own. */
export class Replicas implements Disposable {
  readonly all: readonly Replica[];
  readonly #places: readonly Place[];
  readonly #originals: readonly Tensor[];
  /** The values that the copies have. */
  readonly #sent = new Map<Tensor, Value>();
  #buckets: StateBucket[] = [];
  /** Those that are read, and were not sent yet. */
  #read: StateBucket[] = [];

  /**
   * Makes the copies.
   *
   * @param module On a device of its own.
   * @param devices The others.
   */
  constructor(module: AnyModule, devices: readonly DeviceHandle[]) {
    this.#places = tensorMembers(module)
      .map(({ value, replace }) => ({ original: value, replace }));
    this.#originals = [...new Set(this.#places.map(({ original }) => original))];
    this.all = devices.map((device) => ({
      device,
      copies: new Map(this.#originals.map((tensor) => [tensor, copyOn(device, tensor)])),
    }));
    for (const tensor of this.#originals) this.#sent.set(tensor, valueOf(tensor.realize()));
  }

  /** Begins to read what has changed, behind the work that its device was given so far; see `send`. */
  read(): void {
    this.send();
    const changed = this.#originals.filter((tensor) => !this.#isSent(tensor));
    if (changed.length === 0) return;
    const buckets = this.#bucketsFor(changed);
    realizeAll(changed);
    for (const { tensors, packer, passage } of buckets) {
      readSideBySide(tensors, { packer, bucket: passage.bucket, sign: passage.nextSign() });
    }
    for (const tensor of changed) this.#sent.set(tensor, valueOf(tensor));
    this.#read = buckets;
  }

  /**
   * Copies to the other devices what `read` has begun with. They wait for the values they use, each for its
   * bucket; the host does where a device cannot, so the first one is given its work before.
   */
  send(): void {
    const buckets = this.#read;
    this.#read = [];
    for (const part of buckets) this.#send(part);
  }

  #isSent(tensor: Tensor): boolean {
    const sent = this.#sent.get(tensor)!, now = valueOf(tensor);
    return sent.node === now.node && sent.storage === now.storage && sent.version === now.version;
  }

  /** As a rule the same tensors change in every step. */
  #bucketsFor(tensors: readonly Tensor[]): StateBucket[] {
    const known = this.#buckets.flatMap((bucket) => bucket.tensors);
    const isSame = known.length === tensors.length && known.every((t, k) => t === tensors[k]);
    if (isSame) return this.#buckets;
    this.#dropBuckets();
    // Those that a forward pass uses first come first, and few at a time.
    const groups = taperedGroups(tensors.toReversed(), bytesOf).toReversed();
    return this.#buckets = groups.map((reversed) => {
      const tensors = reversed.toReversed();
      const { device } = tensors[0]!, layout = new FlatLayout(tensors.map(bytesOf));
      const packer = new Packer(device, layout, tensors.map(({ dtype }) => dtype), null);
      const others = this.all.map(({ device }) => backendOf(device));
      const passage = new Passage(backendOf(device), others, layout.size);
      return { tensors, layout, packer, passage };
    });
  }

  #send({ tensors, layout, passage }: StateBucket): void {
    const what = "copy parameters to other devices";
    const gates = this.all.map(({ device }) => passage.gate(backendOf(device)));
    const read = leaveReads(what, [passage], gates);
    if (gates.includes(undefined)) completedSync(what, read);
    this.all.forEach(({ device, copies }, r) => {
      const backend = backendOf(device), whole = passage.upload(backend, gates[r]);
      giveStored(tensors.map((tensor) => copies.get(tensor)!), layout.divide(backend, whole, 1));
    });
  }

  /**
   * Runs `fn` while the module holds the copies of one device. They have the hooks of the parameters, which
   * get what each device found, as those of PyTorch get what each rank found.
   */
  with<T>({ copies }: Replica, fn: () => T): T {
    for (const original of this.#originals) {
      stateOf(copies.get(original)!).hooks = stateOf(original).hooks;
    }
    return this.#with((original) => copies.get(original)!, fn);
  }

  /**
   * The same where one `backward` goes through all devices: it goes on from copies to parameters with hooks,
   * which are called with the sum of all parts.
   */
  within<T>({ device, copies }: Replica, fn: () => T): T {
    const own = this.#originals.filter((original) => isHooked(stateOf(original)));
    const parts = new Map(
      own.map((original) => [original, withRoleOf(original, original.to(device))]),
    );
    try {
      return this.#with((original) => parts.get(original) ?? copies.get(original)!, fn);
    } finally {
      for (const part of parts.values()) part.dispose();
    }
  }

  #with<T>(copyOf: (original: Tensor) => Tensor, fn: () => T): T {
    for (const { original, replace } of this.#places) replace(copyOf(original));
    try {
      return fn();
    } finally {
      for (const { original, replace } of this.#places) replace(original);
    }
  }

  #dropBuckets(): void {
    for (const { passage, packer } of this.#buckets.splice(0)) {
      passage[Symbol.dispose]();
      packer[Symbol.dispose]();
    }
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.#dropBuckets();
    for (const { copies } of this.all) for (const copy of copies.values()) copy.dispose();
  }
}

/** A tensor of its own on another device, with the same part in the module. */
function copyOn(device: DeviceHandle, tensor: Tensor): Tensor {
  const copy = noGrad(() => tensor.detach().to(device));
  copy.requiresGrad = tensor.requiresGrad;
  return withRoleOf(tensor, copy);
}

function withRoleOf(tensor: Tensor, copy: Tensor): Tensor {
  const role = roleOf(tensor);
  return role ? withRole(copy, role) : copy;
}
